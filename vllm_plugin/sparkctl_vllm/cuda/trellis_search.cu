// Tail-biting search of EXL3 tiles: numbers in, the walk of 256 states whose codebook numbers lie closest out.
//
// A state is 16 bits: the 16 - K bits that it shares with the state before (overlap) and K new ones. One block of 1024 threads walks one tile:
// of each step a thread holds 64 states' codebook numbers in registers, all tiles long, and the costs of all overlaps lie in shared memory.
// The edge that was chosen rides in the low K bits of its cost (float32, never negative, so its bits compare as an integer), so a minimum
// finds both. Every thread keeps the edges of its overlaps of a step in one word; a second kernel follows them back, one thread a tile.
// The ring is closed in two passes: a stretch around its seam finds the overlap there, then a pass that begins and ends on it is held to it.

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 1024;
constexpr int kStates = 1 << 16;
constexpr int kRing = 256;
constexpr int kEach = kStates / kThreads;  // states of a thread
constexpr float kFar = 1e30f;

template <int K>
struct Sizes {
    static constexpr int kEdges = 1 << K;
    static constexpr int kOverlapBits = 16 - K;
    static constexpr int kOverlaps = 1 << kOverlapBits;
    static constexpr int kMine = kEach / kEdges;                            // overlaps that a thread ends on
    static constexpr int kGroups = kMine > kEdges ? kMine / kEdges : 1;     // of these, kMine / kGroups share their predecessors
    static constexpr int kStride = kOverlaps / kEdges;                      // between the predecessors of one overlap
};

__device__ __forceinline__ int least(int a, int b) { return a < b ? a : b; }

// Costs of all overlaps after `steps` positions from `begin` on, and the edges that led there.
template <int K>
__global__ void __launch_bounds__(kThreads, 1)
    forward(const float* numbers, const __half* table, const int* starts, uint32_t* back, int* ends, int begin, int steps) {
    using S = Sizes<K>;
    extern __shared__ float cost[];
    __shared__ __half2 goal[kRing];
    __shared__ unsigned long long best;
    const int thread = threadIdx.x, first = thread * S::kMine;
    __half2 value[S::kEdges][S::kMine / 2];
#pragma unroll
    for (int edge = 0; edge < S::kEdges; edge++)
#pragma unroll
        for (int pair = 0; pair < S::kMine / 2; pair++)
            value[edge][pair] = reinterpret_cast<const __half2*>(table)[(edge * S::kOverlaps + first) / 2 + pair];
    if (thread < steps)
        goal[thread] = __float2half2_rn(numbers[static_cast<size_t>(blockIdx.x) * kRing + (begin + thread) % kRing]);
    if (thread == 0) best = ~0ULL;
    const int start = starts ? starts[blockIdx.x] : -1;
#pragma unroll
    for (int mine = 0; mine < S::kMine; mine++) cost[first + mine] = start < 0 || start == first + mine ? 0.f : kFar;
    __syncthreads();
    uint32_t* word = back + (static_cast<size_t>(blockIdx.x) * steps) * kThreads + thread;
    for (int step = 0; step < steps; step++, word += kThreads) {
        const __half2 wanted = goal[step];
        float before[S::kEdges][S::kGroups];
#pragma unroll
        for (int edge = 0; edge < S::kEdges; edge++)
#pragma unroll
            for (int group = 0; group < S::kGroups; group++)
                before[edge][group] = cost[edge * S::kStride + (first >> K) + group];
        __syncthreads();
        uint32_t edges = 0;
        float after[S::kMine];
#pragma unroll
        for (int pair = 0; pair < S::kMine / 2; pair++) {
            const int group = S::kGroups == 1 ? 0 : pair * 2 / S::kEdges;
            int total[2][S::kEdges];
#pragma unroll
            for (int edge = 0; edge < S::kEdges; edge++) {
                const float2 off = __half22float2(__hsub2(value[edge][pair], wanted));
                total[0][edge] = __float_as_int(fmaf(off.x, off.x, before[edge][group])) & ~(S::kEdges - 1) | edge;
                total[1][edge] = __float_as_int(fmaf(off.y, off.y, before[edge][group])) & ~(S::kEdges - 1) | edge;
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int found = total[half][0];
#pragma unroll
                for (int edge = 1; edge + 1 < S::kEdges; edge += 2)
                    found = __vimin3_s32(found, total[half][edge], total[half][edge + 1]);
                found = least(found, total[half][S::kEdges - 1]);
                edges |= static_cast<uint32_t>(found & (S::kEdges - 1)) << (K * (2 * pair + half));
                after[2 * pair + half] = __int_as_float(found);
            }
        }
        *word = edges;
#pragma unroll
        for (int mine = 0; mine < S::kMine; mine += 4)
            *reinterpret_cast<float4*>(cost + first + mine) = make_float4(after[mine], after[mine + 1], after[mine + 2], after[mine + 3]);
        __syncthreads();
    }
    if (ends == nullptr) return;
    unsigned long long mine = ~0ULL;
#pragma unroll
    for (int at = 0; at < S::kMine; at++) {
        const unsigned long long one = static_cast<unsigned long long>(__float_as_uint(cost[first + at])) << 32 | (first + at);
        mine = one < mine ? one : mine;
    }
    atomicMin(&best, mine);
    __syncthreads();
    if (thread == 0) ends[blockIdx.x] = static_cast<int>(best & 0xffffffffu);
}

// Follow the edges from the last position back: `kept` receives the states [tiles, steps], or `starts` the overlap behind position `seam - 1`.
template <int K>
__global__ void backward(const uint32_t* back, const int* ends, int* kept, int* starts, int tiles, int steps, int seam) {
    using S = Sizes<K>;
    const int tile = blockIdx.x * blockDim.x + threadIdx.x;
    if (tile >= tiles) return;
    int overlap = ends[tile];
    for (int step = steps - 1; step >= 0; step--) {
        if (starts != nullptr && step == seam - 1) {
            starts[tile] = overlap;
            return;
        }
        const uint32_t edges = back[(static_cast<size_t>(tile) * steps + step) * kThreads + overlap / S::kMine];
        const int state = static_cast<int>(edges >> (K * (overlap % S::kMine)) & (S::kEdges - 1)) << S::kOverlapBits | overlap;
        if (kept != nullptr) kept[static_cast<size_t>(tile) * steps + step] = state;
        overlap = state >> K;
    }
}

template <int K>
int search(const float* numbers, const __half* table, uint32_t* back, int* starts, int* ends, int* states, int tiles, int seam,
           cudaStream_t stream) {
    const int shared = Sizes<K>::kOverlaps * static_cast<int>(sizeof(float)), blocks = (tiles + 31) / 32;
    cudaFuncSetAttribute(forward<K>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    forward<K><<<tiles, kThreads, shared, stream>>>(numbers, table, nullptr, back, ends, kRing - seam, 2 * seam);
    backward<K><<<blocks, 32, 0, stream>>>(back, ends, nullptr, starts, tiles, 2 * seam, seam);
    forward<K><<<tiles, kThreads, shared, stream>>>(numbers, table, starts, back, nullptr, 0, kRing);
    backward<K><<<blocks, 32, 0, stream>>>(back, starts, states, nullptr, tiles, kRing, 0);
    return static_cast<int>(cudaGetLastError());
}

}  // namespace

// Bytes of `back` that one tile takes.
extern "C" int64_t trellis_scratch() { return static_cast<int64_t>(kRing) * kThreads * sizeof(uint32_t); }

// Bytes of shared memory that a block asks for at K bits, beside 1040 of its own.
extern "C" int trellis_shared(int bits) { return (kStates >> bits) * static_cast<int>(sizeof(float)); }

// numbers float32 [tiles, 256], table float16 [65536], back as `trellis_scratch` says for each tile, starts and ends int32 [tiles]: room;
// states int32 [tiles, 256] comes out. K is 2, 3 or 4. Returns 0, or CUDA's error, or -1 for another K.
extern "C" int trellis_search(const float* numbers, const void* table, void* back, int* starts, int* ends, int* states, int tiles, int bits,
                              int seam, void* stream) {
    const auto* half_table = static_cast<const __half*>(table);
    auto* words = static_cast<uint32_t*>(back);
    auto* on = static_cast<cudaStream_t>(stream);
    switch (bits) {
        case 2: return search<2>(numbers, half_table, words, starts, ends, states, tiles, seam, on);
        case 3: return search<3>(numbers, half_table, words, starts, ends, states, tiles, seam, on);
        case 4: return search<4>(numbers, half_table, words, starts, ends, states, tiles, seam, on);
        default: return -1;
    }
}
