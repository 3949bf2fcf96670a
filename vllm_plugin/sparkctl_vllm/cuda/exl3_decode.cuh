// The trellis of an EXL3 tile, decoded in registers: a lane's words to states, states to codebook words or float16 numbers.
//
// A lane holds 32 positions that follow each other in a tile's ring: K words of 32 bits, most significant bit first, and before them the
// last word of the lane behind it (exl3/trellis.py tells the format). Everything here is integer arithmetic that a CPU does alike:
// tests/vllm_plugin/test_exl3_decode.py compiles this file with g++ and holds it against exl3/trellis.py and exl3/codebook.py.
#pragma once
#include <stdint.h>

#ifdef __CUDACC__
#define EVERYWHERE __host__ __device__ __forceinline__
#else
#define EVERYWHERE inline
#endif

namespace exl3 {

constexpr int POSITIONS = 32;               // of a lane
constexpr uint32_t MUL1 = 0x83DCD12Du;      // the marker of the codebook, and what a state is multiplied with
constexpr int SLOPE = 1774, OFFSET = 905216;  // a number is (1774 * sum of four bytes - 905216) * 2^-18, rounded to float16
constexpr int CENTRE = 510;                 // about the mean sum: taken off first, so that sums stay small

EVERYWHERE uint32_t funnel(uint32_t low, uint32_t high, int shift) {
#ifdef __CUDA_ARCH__
    return __funnelshift_r(low, high, shift);
#else
    return shift ? low >> shift | high << (32 - shift) : low;
#endif
}
// The low 16 bits, by the pipe of multiplications: half of the masks there leave neither pipe waiting for the other.
EVERYWHERE uint32_t low16(uint32_t word, bool multiplied) {
#ifdef __CUDA_ARCH__
    if (multiplied) return __dp2a_lo(word, 1u, 0u);
#endif
    return word & 0xFFFFu;
}
EVERYWHERE uint32_t middle16(uint32_t word) {
#ifdef __CUDA_ARCH__
    return __byte_perm(word, 0, 0x4421);
#else
    return word >> 8 & 0xFFFFu;
#endif
}

// 32 bits of the stream that end `end` bits into the lane's words; w[0] is the word before them.
template <int K>
EVERYWHERE uint32_t window(const uint32_t (&w)[K + 1], int end) {
    const int word = (end + 31) / 32, shift = 32 * word - end;
    return shift ? funnel(w[word], w[word - 1], shift) : w[word];
}

// The state of position P: the 16 bits that end at (P + 1) K. K = 2 and 4 take three states of one bit phase from one window.
template <int K, int P>
EVERYWHERE uint32_t state(const uint32_t (&w)[K + 1]) {
    constexpr int END = (P + 1) * K;
    if constexpr (K == 3) {
        constexpr int WORD = (END + 31) / 32, SHIFT = 32 * WORD - END;
        if constexpr (SHIFT == 16) return w[WORD] >> 16;
        else if constexpr (SHIFT < 16) return low16(SHIFT ? w[WORD] >> SHIFT : w[WORD], P & 1);
        else return low16(funnel(w[WORD], w[WORD - 1], SHIFT), P & 1);
    } else {
        constexpr int PHASE = END % 8, GROUP = END / 8 / 3 * 24 + 16 + PHASE, LAST = POSITIONS * K;
        // Of phase 0, words as they lie serve three states of each four.
        constexpr int ALIGNED = END % 32 == 8 ? END : (END + 31) / 32 * 32;
        constexpr int STOP = PHASE == 0 ? ALIGNED : GROUP < LAST ? GROUP : LAST - 8 + PHASE;
        constexpr int BACK = STOP - END;
        const uint32_t word = window<K>(w, STOP);
        if constexpr (BACK == 16) return word >> 16;
        else if constexpr (BACK == 8) return middle16(word);
        else return low16(word, false);
    }
}

// Four bytes whose sum tells the number.
template <int K, int P>
EVERYWHERE uint32_t coded(const uint32_t (&w)[K + 1]) { return state<K, P>(w) * MUL1; }

EVERYWHERE int bytes(uint32_t word) { return (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24); }

// Where a lane's positions lie: lane g of a tile's eight holds columns g and g + 8, all 16 rows. Two rows each of four products.
EVERYWHERE constexpr int position(int row, bool upper) { return row % 8 / 2 * 8 + row % 2 + row / 8 * 2 + (upper ? 4 : 0); }

}  // namespace exl3
