// The plan of a step, made by every thread block for itself from integers and in a fixed order, so that all blocks agree bit for bit:
// loads, depths, blocks of rows that share an expert, and the list of what is read. reference.py is its definition; budget.cu has a later form
// of it, in fewer instructions, which waits for a device to be taken over here.
//
// It knows nothing of the weights: a tile is whatever the kernel reads or skips together. Args is the kernel's own; of it are used rows,
// top_k, experts, tiles, floor, picks, weights, valid, importance [tiles, experts], price and told.
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>

namespace budget {

constexpr int WARPS = 16, THREADS = WARPS * 32;
constexpr int TOP_K = 8;         // picks of a row at most
constexpr int MOST = 512;        // experts, picks and blocks of rows at most
constexpr int IMPORTANCE = 12;   // tiles whose importance is fetched before the step is known

// Up to ROWS rows of one expert. base: its first tile in the pack; first: its first item of the list; row: its first place.
struct __align__(16) Expert { uint32_t base; uint16_t first, row; uint8_t depth, count; };

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

// The lists of a plan, which lie one behind the other.
__device__ __forceinline__ Plan lists(char *shared, int items) {
    Plan p;
    p.expert = (Expert *)shared;
    p.weight = (float *)(p.expert + MOST);
    p.row = (uint16_t *)(p.weight + MOST);
    p.place = p.row + MOST;
    p.block = p.place + MOST;
    p.list = p.block + MOST;
    p.items = items;
    return p;
}

constexpr int LISTS = MOST * ((int)sizeof(Expert) + 4 + 2 * 3);          // bytes, and two for each item behind them
constexpr int SCRATCH = MOST * 4 + WARPS * 8 + MOST * 4 + WARPS * MOST;  // bytes that are free again once the plan is made

// The importances of a thread's expert, asked for before the step is known.
template <class Args>
__device__ __forceinline__ void fetch_importance(const Args &a, float (&early)[IMPORTANCE]) {
#pragma unroll
    for (int k = 0; k < IMPORTANCE; k++) early[k] = k < a.tiles && threadIdx.x < a.experts ? a.importance[k * a.experts + threadIdx.x] : -1.f;
}

template <int ROWS, class Args>
__device__ __forceinline__ Plan plan(const Args &a, char *shared, char *scratch, const float (&early)[IMPORTANCE]) {
    const int t = threadIdx.x, warp = t >> 5, lane = t & 31, picks = a.rows * a.top_k;
    Plan p = lists(shared, 0);
    int *load = (int *)scratch;                              // [MOST]
    uint64_t *totals = (uint64_t *)(load + MOST);            // [WARPS]
    uint32_t *first = (uint32_t *)(totals + WARPS);          // [MOST]: block in the upper half, place in the lower
    uint8_t *in_warp = (uint8_t *)(first + MOST);            // [WARPS][MOST]

    int e = -1, row = 0;
    float weight = 0.f;
    const float price = *a.price;  // asked for early: it comes from afar
    if (t < picks) {
        e = a.picks[t];
        weight = a.weights[t];
        row = t / a.top_k;
        if (row >= *a.valid || e >= a.experts) e = -1;
    }
    if (t < MOST) load[t] = 0, p.place[t] = MOST;
    for (int i = t; i < WARPS * MOST / 16; i += THREADS) ((uint4 *)in_warp)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    const uint32_t same = __match_any_sync(0xFFFFFFFFu, e >= 0 ? e : -1 - lane);
    const int rank = __popc(same & ((1u << lane) - 1));
    if (e >= 0) {
        if (rank == 0) in_warp[warp * MOST + e] = __popc(same);
        atomicAdd(&load[e], max(1, __float2int_rn(weight * weight * 1048576.f)));
    }
    __syncthreads();
    int count = 0, depth = 0;
    if (t < a.experts) {
        for (int w = 0; w * 32 < picks; w++) {
            const int n = in_warp[w * MOST + t];
            in_warp[w * MOST + t] = count;
            count += n;
        }
        if (count) {
            const float l = (float)load[t];
#pragma unroll
            for (int k = 0; k < IMPORTANCE; k++) depth += l * early[k] > price;
            for (int k = IMPORTANCE; k < a.tiles; k++) depth += l * a.importance[k * a.experts + t] > price;
            depth = max(depth, a.floor);
        }
        if (a.told && blockIdx.x == 0) a.told[t] = load[t], a.told[a.experts + t] = depth;
    }
    const int blocks = (count + ROWS - 1) / ROWS;
    uint64_t sum = (uint64_t)blocks | (uint64_t)count << 16 | (uint64_t)(depth * blocks) << 32;
    const uint64_t own = sum;
#pragma unroll
    for (int i = 1; i < 32; i <<= 1) {
        const uint64_t below = __shfl_up_sync(0xFFFFFFFFu, sum, i);
        if (lane >= i) sum += below;
    }
    if (lane == 31) totals[warp] = sum;
    __syncthreads();
    uint64_t before = 0, all = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        const uint64_t n = totals[w];
        before += w < warp ? n : 0;
        all += n;
    }
    const uint64_t begin = before + sum - own;
    const uint32_t v0 = begin & 0xFFFF, row0 = begin >> 16 & 0xFFFF, item0 = begin >> 32;
    if (t < MOST) first[t] = v0 << 16 | row0;
    for (int b = 0; b < blocks; b++) {
        p.expert[v0 + b] = Expert{(uint32_t)(t * a.tiles), (uint16_t)(item0 + b * depth), (uint16_t)(row0 + ROWS * b), (uint8_t)depth,
                                  (uint8_t)min(ROWS, count - ROWS * b)};
        for (int k = 0; k < depth; k++) p.list[item0 + b * depth + k] = (uint16_t)(v0 + b << 6 | k);
    }
    __syncthreads();
    if (e >= 0) {
        const int within = in_warp[warp * MOST + e] + rank, place = (first[e] & 0xFFFF) + within;
        p.row[place] = row;
        p.weight[place] = weight;
        p.place[t] = place;
        p.block[t] = (first[e] >> 16) + within / ROWS;
    }
    p.items = (int)(all >> 32);
    __syncthreads();
    return p;
}

}  // namespace budget
