// The plan of a step, made by every thread block for itself from integers and in a fixed order, so that all blocks agree bit for bit:
// loads, depths, blocks of rows that share an expert, and the list of what is read. reference.py is its definition.
//
// It knows nothing of the weights: a tile is whatever a kernel reads or skips together. Args is the kernel's own; of it are used rows,
// top_k, experts, tiles, floor, x, picks, weights, valid, importance [tiles, experts], price, depths, meet and told. ROWS is how many rows of one
// expert the kernel multiplies at once, UNITS in how many pieces it shares a tile out among thread blocks. Where depths are given, neither
// importance nor price is looked at.
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>

namespace budget {

constexpr int WARPS = 16, THREADS = WARPS * 32;
constexpr int TOP_K = 8;               // picks of a row at most
constexpr int MOST = 512;              // experts, picks and blocks of rows at most
constexpr int IMPORTANCE = 12;         // tiles whose importance is fetched before the step is known

// Up to ROWS rows of one expert. base: its first tile in the pack; first: its first item of the list; row: its first place;
// behind: what the kernel itself notes of it, 0 at first.
struct __align__(16) Expert { uint32_t base; uint16_t first, row; uint8_t depth, count; uint32_t behind; };

// What a block knows of the step. Lists are in shared memory.
struct Plan {
    Expert *expert;    // blocks of up to ROWS rows of one expert, in the order of the experts
    uint16_t *list;    // (block << 6) | tile, one an item
    uint16_t *row;     // row of x of each place, places of one expert side by side
    float *weight;     // and its router weight
    uint16_t *place;   // place of each pick, MOST for none
    uint16_t *block;   // and its block of rows
    int items;
};

constexpr int LISTS = MOST * ((int)sizeof(Expert) + 4 + 2 * 3);  // bytes of what comes before the list, which has two for each item

// Where the plan lies: lists behind, and scratch that is used again once it is made.
struct Scratch {
    int *load;         // [MOST]
    uint64_t *totals;  // [WARPS]
    uint32_t *first;   // [MOST]: block in the upper half, place in the lower
    uint8_t *in_warp;  // [WARPS][MOST]
    uint32_t *start;   // one number: where this thread block begins, as in the list
};
// What a thread keeps of the plan while it is made: its pick, and the expert of its own number.
struct Own { int e, rank; float weight; int block, item, blocks, depth; };

// The importances of a thread's expert, asked for before the step is known.
template <class Args>
__device__ __forceinline__ void fetch_importance(const Args &a, float (&early)[IMPORTANCE]) {
    const int t = threadIdx.x;
#pragma unroll
    for (int k = 0; k < IMPORTANCE; k++) early[k] = !a.depths && k < a.tiles && t < a.experts ? a.importance[k * a.experts + t] : -1.f;
}

__device__ __forceinline__ void near(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
__device__ __forceinline__ void into_l2(const void *p, int bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes));
}
// What the kernel before does not write comes nearer while it ends; what it writes is written there.
template <int HIDDEN, class Args>
__device__ __forceinline__ void come_nearer(const Args &a) {
    const int t = threadIdx.x, picks = a.rows * a.top_k;
    if (t < 16 && t * 32 < picks) near(a.picks + t * 32), near(a.weights + t * 32);
    if (t == 16) near(a.valid), near(a.meet);
    if (t == 17 && !a.depths) near(a.price);
#pragma unroll 1
    for (int i = blockIdx.x + t * gridDim.x; i < a.rows * HIDDEN * 2 / 512; i += THREADS * gridDim.x) into_l2((const char *)a.x + (size_t)i * 512, 512);
}

// What needs nothing of the step: done before the kernel before has ended.
__device__ __forceinline__ void laid_out(Plan &p, Scratch &s, char *shared, char *scratch) {
    const int t = threadIdx.x;
    p.expert = (Expert *)shared;
    p.weight = (float *)(p.expert + MOST);
    p.row = (uint16_t *)(p.weight + MOST);
    p.place = p.row + MOST;
    p.block = p.place + MOST;
    p.list = p.block + MOST;
    s.load = (int *)scratch;
    s.totals = (uint64_t *)(s.load + MOST);
    s.first = (uint32_t *)(s.totals + WARPS);
    s.in_warp = (uint8_t *)(s.first + MOST);
    s.start = (uint32_t *)(s.in_warp + WARPS * MOST);
    if (t < MOST) s.load[t] = 0, p.place[t] = MOST;
#pragma unroll 1
    for (int i = t; i < WARPS * MOST / 16; i += THREADS) ((uint4 *)s.in_warp)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

// Loads, depths, the blocks of rows, and where this thread block begins. What each thread has goes on to `listed` and `placed`.
template <int ROWS, int UNITS, class Args>
__device__ __forceinline__ Own planned(const Args &a, Plan &p, const Scratch &s, const float (&early)[IMPORTANCE]) {
    const int t = threadIdx.x, warp = t >> 5, lane = t & 31, picks = a.rows * a.top_k;
    Own own = {-1, 0, 0.f, 0, 0, 0, 0};
    const float price = a.depths ? 0.f : *a.price;  // asked for early: it comes from afar, and so do depths
    const int given = a.depths && t < a.experts ? a.depths[t] : 0;
    if (warp * 32 < picks) {
        if (t < picks) {
            own.e = a.picks[t];
            own.weight = a.weights[t];
            if (t / a.top_k >= *a.valid || own.e >= a.experts) own.e = -1;
        }
        const int e = own.e;
        const uint32_t same = __match_any_sync(0xFFFFFFFFu, e >= 0 ? e : -1 - lane);
        own.rank = __popc(same & ((1u << lane) - 1));
        if (e >= 0) {
            if (own.rank == 0) s.in_warp[warp * MOST + e] = __popc(same);
            atomicAdd(&s.load[e], max(1, __float2int_rn(own.weight * own.weight * 1048576.f)));
        }
    }
    __syncthreads();
    int count = 0;
    if (t < a.experts) {
#pragma unroll 2
        for (int w = 0; w * 32 < picks; w++) {
            const int n = s.in_warp[w * MOST + t];
            s.in_warp[w * MOST + t] = count;
            count += n;
        }
        if (count) {
            const float l = (float)s.load[t];
#pragma unroll
            for (int k = 0; k < IMPORTANCE; k++) own.depth += l * early[k] > price;
#pragma unroll 1
            for (int k = IMPORTANCE; k < (a.depths ? 0 : a.tiles); k++) own.depth += l * a.importance[k * a.experts + t] > price;
            own.depth = a.depths ? min(max(given, 1), a.tiles) : max(own.depth, a.floor);
        }
        if (a.told && blockIdx.x == 0) a.told[t] = s.load[t], a.told[a.experts + t] = own.depth;
    }
    own.blocks = (uint32_t)(count + ROWS - 1) / ROWS;
    uint64_t sum = (uint64_t)own.blocks | (uint64_t)count << 16 | (uint64_t)(own.depth * own.blocks) << 32, below = sum;
    const bool any = __any_sync(0xFFFFFFFFu, count);  // a warp whose experts nobody picked is done
    if (any) {
#pragma unroll
        for (int i = 1; i < 32; i <<= 1) {
            const uint64_t more = __shfl_up_sync(0xFFFFFFFFu, sum, i);
            if (lane >= i) sum += more;
        }
        below = sum - below;
    }
    if (lane == 31) s.totals[warp] = sum;
    __syncthreads();
    const uint64_t total = lane < WARPS ? s.totals[lane] : 0, ahead = lane < warp ? total : 0;
    p.items = (int)__reduce_add_sync(0xFFFFFFFFu, (uint32_t)(total >> 32));
    if (any) {
        below += __reduce_add_sync(0xFFFFFFFFu, (uint32_t)ahead) | (uint64_t)__reduce_add_sync(0xFFFFFFFFu, (uint32_t)(ahead >> 32)) << 32;
        own.block = below & 0xFFFF, own.item = (int)(below >> 32);
        const int row = (int)(below >> 16 & 0xFFFF), mine = (int)((uint32_t)p.items * UNITS * blockIdx.x / gridDim.x / UNITS);
        if (count) s.first[t] = (uint32_t)own.block << 16 | row;
#pragma unroll 1
        for (int b = 0; b < own.blocks; b++) {
            const int item = own.item + b * own.depth;
            p.expert[own.block + b] = Expert{(uint32_t)(t * a.tiles), (uint16_t)item, (uint16_t)(row + ROWS * b), (uint8_t)own.depth,
                                             (uint8_t)min(ROWS, count - ROWS * b), 0};
            if (mine >= item && mine < item + own.depth) *s.start = own.block + b << 6 | mine - item;
        }
    }
    __syncthreads();
    return own;
}

// The list of what is read: needed only when the first weights are on their way.
__device__ __forceinline__ void listed(const Plan &p, const Own &own) {
#pragma unroll 1
    for (int b = 0; b < own.blocks; b++)
#pragma unroll 1
        for (int k = 0; k < own.depth; k++) p.list[own.item + b * own.depth + k] = (uint16_t)(own.block + b << 6 | k);
}

// Which row lies at which place: first asked for when weights are on their way.
template <int ROWS, class Args>
__device__ __forceinline__ void placed(const Args &a, const Plan &p, const Scratch &s, const Own &own) {
    const int t = threadIdx.x;
    if (own.e < 0) return;
    const int within = s.in_warp[(t >> 5) * MOST + own.e] + own.rank, place = (s.first[own.e] & 0xFFFF) + within;
    p.row[place] = t / a.top_k;
    p.weight[place] = own.weight;
    p.place[t] = place;
    p.block[t] = (s.first[own.e] >> 16) + within / ROWS;
}

}  // namespace budget
