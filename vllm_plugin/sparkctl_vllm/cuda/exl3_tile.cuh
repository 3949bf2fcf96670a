// Products of EXL3 tiles with activations, on tensor cores: 64 inputs by 64 outputs by a warp at a time.
//
// Tokens are the N side, two columns a token. FAST: the four bytes of a coded state are themselves a register of A in m16n8k32 (u8), where
// they meet one activation four times over, so that the tensor core adds them; activations are 16-bit integers, high and low byte in
// the two columns. What is linear in the sum of bytes comes behind the sum over inputs, so a weight is not rounded to float16.
// EXACT: weights are the codebook's float16 numbers to the last bit, in m16n8k16 with float32 sums; activations are float16.
#pragma once
#include <cuda_fp16.h>

#include "exl3_decode.cuh"

namespace exl3 {

constexpr int STEP = 64;           // inputs of a step: four tiles, one a lane of a quad
constexpr int MS = 4;              // m16 blocks of a piece: 64 outputs
constexpr int BLOCK = 128;         // outputs that a warp sums, two pieces; and what a Hadamard matrix mixes
EVERYWHERE constexpr int piece_bytes(int bits) { return STEP * MS * 16 * bits / 8; }

template <bool EXACT> struct Sum { using Type = int; };
template <> struct Sum<true> { using Type = float; };

#ifdef __CUDACC__
__device__ __forceinline__ uint4 load16(const void *from) {
    uint4 r;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(from));
    return r;
}
// A lane's words of a piece: K for each m16 block, [K][32 lanes][4 words] in memory.
template <int K>
__device__ __forceinline__ void fetch(uint4 (&words)[K], const uint8_t *piece) {
#pragma unroll
    for (int i = 0; i < K; i++) words[i] = load16(piece + i * 512 + (threadIdx.x & 31) * 16);
}

__device__ __forceinline__ void product(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void product(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Two coded states to their float16 numbers, one rounding each: 0x6400 + t is 1024 + t.
__device__ __forceinline__ uint32_t numbers(uint32_t low, uint32_t high) {
    const uint32_t a = __dp4a(low, 0x01010101u, 0x6400u), b = __dp4a(high, 0x01010101u, 0x6400u);
    const uint32_t both = __byte_perm(a, b, 0x5410);
    const __half2 made = __hfma2(*(const __half2 *)&both, __half2half2(__ushort_as_half(0x1EEE)), __half2half2(__ushort_as_half(0xC931)));
    return *(const uint32_t *)&made;
}

// Eight positions that follow each other, four rows of both columns. b: fast, an activation of each row four times over; exact, two each.
template <int K, int P>
__device__ __forceinline__ void multiply(int (&c)[4], const uint32_t (&w)[K + 1], const uint32_t (&b)[16]) {
    constexpr int R = P / 4;  // rows R, R + 1, R + 8, R + 9
    product(c, coded<K, P>(w), coded<K, P + 4>(w), coded<K, P + 1>(w), coded<K, P + 5>(w), b[R], b[R + 1]);
    product(c, coded<K, P + 2>(w), coded<K, P + 6>(w), coded<K, P + 3>(w), coded<K, P + 7>(w), b[R + 8], b[R + 9]);
}
template <int K, int P>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&w)[K + 1], const uint32_t (&b)[8]) {
    constexpr int R = P / 8;  // pairs of rows 2 R and 2 R + 8
    product(c, numbers(coded<K, P>(w), coded<K, P + 1>(w)), numbers(coded<K, P + 4>(w), coded<K, P + 5>(w)),
            numbers(coded<K, P + 2>(w), coded<K, P + 3>(w)), numbers(coded<K, P + 6>(w), coded<K, P + 7>(w)), b[R], b[R + 4]);
}

// A lane's words of block m of a piece, behind the last one of the lane before it.
template <int K>
__device__ __forceinline__ void words_of(uint32_t (&w)[K + 1], const uint4 (&words)[K], int m) {
#pragma unroll
    for (int i = 0; i < K; i++) {
        const uint4 &four = words[(m * K + i) / 4];
        const int at = (m * K + i) % 4;
        w[i + 1] = at == 0 ? four.x : at == 1 ? four.y : at == 2 ? four.z : four.w;
    }
    w[0] = __shfl_sync(0xFFFFFFFFu, w[K], (threadIdx.x + 28) & 31);  // the ring: of the lane four behind, around the warp
}
// The numbers of positions P on, two by two.
template <int K, int P>
__device__ __forceinline__ void pairs(uint32_t (&made)[POSITIONS / 2], const uint32_t (&w)[K + 1]) {
    made[P / 2] = numbers(coded<K, P>(w), coded<K, P + 1>(w));
    if constexpr (P + 2 < POSITIONS) pairs<K, P + 2>(made, w);
}

// A piece: adds what 64 inputs give to 64 outputs. Words that are used up make room for those of the piece `next`, so that as many bytes as
// a piece has are on their way all the time. Two pieces in registers left the loop too few of them and were up to 6 % slower on an H200.
template <int K, class C, int N>
__device__ __forceinline__ void multiply_piece(C (&c)[MS][4], uint4 (&words)[K], const uint32_t (&b)[N], const uint8_t *next) {
#pragma unroll
    for (int m = 0; m < MS; m++) {
        uint32_t w[K + 1];
        words_of<K>(w, words, m);
        multiply<K, 0>(c[m], w, b);
        multiply<K, 8>(c[m], w, b);
        multiply<K, 16>(c[m], w, b);
        multiply<K, 24>(c[m], w, b);
#pragma unroll
        for (int i = m * K / 4; i < (m + 1) * K / 4; i++) words[i] = load16(next + i * 512 + (threadIdx.x & 31) * 16);
    }
}

// A step: both halves of 128 outputs, of which the first one's words are there; `after` is the next step.
template <int K, class C, int N>
__device__ __forceinline__ void multiply_step(C (&c)[2][MS][4], uint4 (&words)[K], const uint32_t (&b)[N], const uint8_t *from, const uint8_t *after) {
    multiply_piece<K>(c[0], words, b, from + piece_bytes(K));
    multiply_piece<K>(c[1], words, b, after);
}

// The activations of a step as B registers, each four times over, from the 16 bytes of this lane's column.
__device__ __forceinline__ void expand(uint32_t (&b)[16], const uint4 &x) {
    const uint32_t four[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 16; i++) b[i] = __byte_perm(four[i / 4], 0, 0x1111 * (i % 4));
}
__device__ __forceinline__ int added(const uint4 &x, int sum) {
    return __dp4a((int)x.x, 0x01010101, __dp4a((int)x.y, 0x01010101, __dp4a((int)x.z, 0x01010101, __dp4a((int)x.w, 0x01010101, sum))));
}
#endif

}  // namespace exl3
