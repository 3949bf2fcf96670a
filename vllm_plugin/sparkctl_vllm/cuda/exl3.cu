// One mixture-of-experts layer of a decode step over EXL3 experts, read by depth: plan, gate/up with clamped SwiGLU, down, in one launch.
//
// Depth is in whole blocks of 128 neurons, the least that Hadamard matrices on both sides leave exact. Every thread block makes the plan
// itself (plan.cuh). Gate/up: half of the warps read gate, half up, each a slice of the inputs, which it turns (scales and Hadamard matrix) into
// its own shared memory; one warp in turn sums a block of 128 outputs, turns it back, applies SwiGLU and turns it for down. Down: each warp reads
// a stretch of the list [expert][128 outputs][inputs] by itself. Stretches are equal to half a step, wherever that breaks an expert: the parts
// are laid down apart and added in the order of the list, so the same step gives the same bits.
//
// Two ways to decode (exl3_tile.cuh): fast, and with weights exact to float16's last bit.
#include <cuda_bf16.h>

#include "exl3_tile.cuh"
#include "handover.cuh"
#include "plan.cuh"

namespace {

using namespace exl3;
using namespace budget;

#ifndef EXL3_ROWS
#define EXL3_ROWS 4                    // rows of one expert that are multiplied at once, at most 4
#endif
constexpr int ROWS = EXL3_ROWS;
constexpr int SLICES = WARPS / 2;      // warps that share the inputs of gate, or of up
constexpr int LINE = BLOCK + 8;        // floats from one row of partial sums to the next: no two lanes meet in a bank
constexpr float ROOT = 0.08838834764831845f;  // 1 / sqrt(128)
constexpr int LARGEST = 127 * 256 + 127;      // of an activation in two bytes

struct Args {
    const uint8_t *gate, *up, *down;                          // exl3/kernel_pack.py
    const __half *gate_in, *up_in, *gate_out, *up_out;        // [experts, hidden] and [experts, 128 tiles]: suh and svh
    const __half *down_in, *down_out;                         // [experts, 128 tiles] and [experts, hidden]
    const float *importance, *price;                          // [tiles, experts], one number
    const __nv_bfloat16 *x;                                   // [rows, hidden]
    const int *picks;                                         // [rows, top_k]
    const float *weights;                                     // [rows, top_k]
    const int *valid;                                         // one number: rows that are no padding
    float *h;                                                 // [rows * top_k, 128 tiles]: what down multiplies
    float *parts;                                             // [thread blocks, 2, ROWS, 2, 128]: of gate and up, where a stretch ends within one
    float *sums;                                              // [rows * top_k, hidden]: of down, before its output Hadamard matrix
    float *heads;                                             // [warps of the grid, ROWS, 128]: of down, where a stretch begins within a block
    float *out;                                               // [rows, hidden]
    unsigned long long *meet;                                 // counts arrivals for ever
    int *joined;                                              // [thread blocks]: parts that lie ready; 0 before and after
    int *told;                                                // [2, experts]: loads and depths; may be null
    int rows, top_k, experts, tiles, floor, bits_gate, bits_up, bits_down;
    float limit;
};

template <int HIDDEN>
struct Shape {
    static constexpr int SLICE = HIDDEN / SLICES;             // inputs of gate or up that a warp multiplies
    static constexpr int STEPS = SLICE / STEP;
    static constexpr int HALVES = 2 * STEPS;                  // pieces of a block of 128 neurons for one warp
    static constexpr int TURNS = SLICE / BLOCK;
    static constexpr int GROUPS = HIDDEN / BLOCK;             // blocks of outputs of down
    static constexpr int DOWN = GROUPS * 4;                   // pieces of a block of 128 neurons in down
    static constexpr int REGION = SLICE * 2 * ROWS;           // bytes of activations of a warp, for down too
    static_assert(SLICE % BLOCK == 0, "a warp turns whole blocks");
};

// Shared memory: activations of each warp (before: the plan's scratch), partial sums of gate and up, the plan's lists.
extern __shared__ __align__(128) char memory[];
template <int HIDDEN> __device__ __forceinline__ char *region() { return memory + (threadIdx.x >> 5) * Shape<HIDDEN>::REGION; }
template <int HIDDEN> __device__ __forceinline__ float *slots() { return (float *)(memory + WARPS * Shape<HIDDEN>::REGION); }
template <int HIDDEN> __device__ __forceinline__ char *lists() { return (char *)(slots<HIDDEN>() + 2 * WARPS * ROWS * LINE); }

// Four of 128 numbers a lane, 4 lane + 0..3, times the Hadamard matrix without its factor.
__device__ __forceinline__ void turn(float (&f)[4]) {
    const float a = f[0] + f[1], b = f[0] - f[1], c = f[2] + f[3], d = f[2] - f[3];
    f[0] = a + c, f[1] = b + d, f[2] = a - c, f[3] = b - d;
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 1; i < 32; i <<= 1)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float other = __shfl_xor_sync(0xFFFFFFFFu, f[k], i);
            f[k] = other + (lane & i ? -f[k] : f[k]);
        }
}
__device__ __forceinline__ float4 four_halves(const __half *from) {
    const uint2 r = *(const uint2 *)from;
    const float2 a = __half22float2(*(const __half2 *)&r.x), b = __half22float2(*(const __half2 *)&r.y);
    return make_float4(a.x, a.y, b.x, b.y);
}

// Writes turned numbers of one row into a warp's region as activations; returns the factor of its sums. Numbers of `blocks` blocks count.
template <bool EXACT, int TURNS>
__device__ __forceinline__ float keep(const float (&f)[TURNS][4], int blocks, int row, char *region) {
    const int lane = threadIdx.x & 31;
    float most = 0.f;
#pragma unroll
    for (int b = 0; b < TURNS; b++)
        if (b < blocks)
#pragma unroll
            for (int k = 0; k < 4; k++) most = fmaxf(most, fabsf(f[b][k]));
#pragma unroll
    for (int i = 1; i < 32; i <<= 1) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, i));
    const bool tiny = most < 1e-30f;  // as good as nothing
    const int top = __float_as_int(most) >> 23;
    const float scale = tiny ? 0.f : EXACT ? __int_as_float((267 - top) << 23) : LARGEST / most;
    char *to = region + (lane >> 4) * (ROWS * 128) + (EXACT ? row * 128 + (lane & 15) * 8 : row * 128 + (lane & 15) * 4);
#pragma unroll
    for (int b = 0; b < TURNS; b++, to += 2 * ROWS * 128) {
        if (b >= blocks) continue;
        if constexpr (EXACT) {
            const __half2 low = __floats2half2_rn(f[b][0] * scale, f[b][1] * scale), high = __floats2half2_rn(f[b][2] * scale, f[b][3] * scale);
            *(uint2 *)to = make_uint2(*(const uint32_t *)&low, *(const uint32_t *)&high);
        } else {
            int n[4];
#pragma unroll
            for (int k = 0; k < 4; k++) n[k] = __float2int_rn(f[b][k] * scale);
            const uint32_t low = __byte_perm(__byte_perm(n[0], n[1], 0x0040), __byte_perm(n[2], n[3], 0x0040), 0x5410);
#pragma unroll
            for (int k = 0; k < 4; k++) n[k] += 128;
            const uint32_t high = __byte_perm(__byte_perm(n[0], n[1], 0x0051), __byte_perm(n[2], n[3], 0x0051), 0x5410);
            *(uint32_t *)to = high;
            *(uint32_t *)(to + 64) = low;
        }
    }
    return tiny ? 0.f : ROOT * (EXACT ? __int_as_float((top - 13) << 23) : most / LARGEST / 262144.f);
}

// This lane's activations of a step. Fast: the 16 bytes of its column; exact: the 32 bytes of its token.
template <bool EXACT>
__device__ __forceinline__ const uint4 *activations(const char *region, uint32_t step) {
    const int lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
    return (const uint4 *)(region + step * (ROWS * 128) + (EXACT ? (g >> 1) % ROWS * 128 + q * 32 : g % (2 * ROWS) * 64 + q * 16));
}
// The same as B registers.
__device__ __forceinline__ void take(uint32_t (&b)[16], const uint4 *x) { expand(b, *x); }
__device__ __forceinline__ void take(uint32_t (&b)[8], const uint4 *x) {
    const uint4 low = x[0], high = x[1];
    b[0] = low.x, b[1] = low.y, b[2] = low.z, b[3] = low.w, b[4] = high.x, b[5] = high.y, b[6] = high.z, b[7] = high.w;
}

// The sums of a warp over pieces `from` to `to` (two a step, of either half of the outputs) as numbers, then zeroed: give(n, number) for
// outputs n of row q. What is linear in the activations alone is counted here, from the region.
template <bool EXACT, class C, class Give>
__device__ __forceinline__ void settle(C (&c)[2][MS][4], const char *region, uint32_t from, uint32_t to, float factor, Give give) {
    const int lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
    int high = 0, low = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (!EXACT && (half == 0 || (from | to) & 1)) {
            int all = 0;
#pragma unroll 2
            for (uint32_t step = (from + 1 - half) / 2; 2 * step + half < to; step++) all = added(*activations<EXACT>(region, step), all);
            all += __shfl_xor_sync(0xFFFFFFFFu, all, 1);
            all += __shfl_xor_sync(0xFFFFFFFFu, all, 2);
            high = __shfl_sync(0xFFFFFFFFu, all, 8 * q), low = __shfl_sync(0xFFFFFFFFu, all, 8 * q + 4);
        }
        // High and low byte as one number, less its last four bits, which float32 has no room for.
        const int centre = CENTRE * 16 * high + CENTRE * low / 16;
        const float rest = (float)(CENTRE * SLOPE - OFFSET) * factor * (float)(256 * high + low), slope = SLOPE * 16.f * factor;
#pragma unroll
        for (int m = 0; m < MS; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float number;
                if constexpr (EXACT) number = c[half][m][2 * r] * factor;
                else number = fmaf(slope, (float)((c[half][m][2 * r] << 4) + (c[half][m][2 * r + 1] >> 4) - centre), rest);
                give(half * 64 + m * 16 + r * 8 + g, number);
                c[half][m][2 * r] = c[half][m][2 * r + 1] = 0;
            }
    }
}

// Turned gate and up of 128 neurons of one place, back to numbers, to h, and turned for down.
__device__ __forceinline__ void finish(const Args &a, const Plan &p, const float4 (&scales)[3], int tile, int place, float (&gate)[4], float (&up)[4]) {
    const int lane = threadIdx.x & 31;
    turn(gate);
    turn(up);
    const float weight = p.weight[place];
    float h[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float low = fminf(gate[k] * ROOT * (&scales[0].x)[k], a.limit);
        const float wide = fminf(fmaxf(up[k] * ROOT * (&scales[1].x)[k], -a.limit), a.limit);
        h[k] = __fdividef(low, 1.f + __expf(-low)) * wide * weight * (&scales[2].x)[k];
    }
    turn(h);
    *(float4 *)(a.h + ((size_t)place * a.tiles + tile) * BLOCK + 4 * lane) = make_float4(h[0], h[1], h[2], h[3]);
}

__device__ __forceinline__ uint32_t share(uint32_t total, uint32_t i, uint32_t ways) { return total * i / ways; }

// Sums the warps' parts of item i. Where this thread block has only a part of it, that is laid down, and who comes last sums all of them.
template <int HIDDEN>
__device__ __noinline__ void reduce(const Args &a, const Plan &p, uint32_t i, uint32_t set) {
    constexpr int HALVES = Shape<HIDDEN>::HALVES;
    const int lane = threadIdx.x & 31, tile = p.list[i] & 63;
    const Expert e = p.expert[p.list[i] >> 6];
    const uint32_t grid = gridDim.x, total = p.items * HALVES, start = i * HALVES, stop = start + HALVES;
    const uint32_t begin = share(total, blockIdx.x, grid), end = share(total, blockIdx.x + 1, grid);
    const bool whole = begin <= start && end >= stop;
    const size_t at = ((size_t)e.base + tile) * BLOCK + 4 * lane;
    const float4 scales[3] = {four_halves(a.gate_out + at), four_halves(a.up_out + at), four_halves(a.down_in + at)};
    for (int row = 0; row < e.count; row++) {
        float sum[2][4] = {};
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float4 one = *(const float4 *)(slots<HIDDEN>() + ((set * WARPS + w) * ROWS + row) * LINE + 4 * lane);
            float (&s)[4] = sum[w / SLICES];
            s[0] += one.x, s[1] += one.y, s[2] += one.z, s[3] += one.w;
        }
        if (whole) finish(a, p, scales, tile, e.row + row, sum[0], sum[1]);
        else {
            float *to = a.parts + (((size_t)blockIdx.x * 2 + (begin / HALVES != i)) * ROWS + row) * (2 * BLOCK) + 4 * lane;
            *(float4 *)to = make_float4(sum[0][0], sum[0][1], sum[0][2], sum[0][3]);
            *(float4 *)(to + BLOCK) = make_float4(sum[1][0], sum[1][1], sum[1][2], sum[1][3]);
        }
    }
    if (whole) return;
    uint32_t first = start * grid / total, last = first, others = 0;
    while (share(total, first, grid) > start) first--;
    while (share(total, first + 1, grid) <= start) first++;
    for (last = first; share(total, last, grid) < stop && last < grid; last++) others += share(total, last, grid) < share(total, last + 1, grid);
    __threadfence();
    __syncwarp();
    int before = 0;
    if (lane == 0) before = atomicAdd(&a.joined[first], 1);
    before = __shfl_sync(0xFFFFFFFFu, before, 0);
    if (before + 1 != (int)others) return;
    __threadfence();
    if (lane == 0) a.joined[first] = 0;
    for (int row = 0; row < e.count; row++) {
        float sum[2][4] = {};
        for (uint32_t b = first; b < last; b += 4) {
            float4 one[4][2];
#pragma unroll
            for (int j = 0; j < 4; j++) {  // asked for together
                const uint32_t from = share(total, b + j, grid);
                const float *part = a.parts + (((size_t)(b + j) * 2 + (from / HALVES != i)) * ROWS + row) * (2 * BLOCK) + 4 * lane;
                const bool there = b + j < last && from != share(total, b + j + 1, grid);
                one[j][0] = there ? __ldcg((const float4 *)part) : make_float4(0.f, 0.f, 0.f, 0.f);
                one[j][1] = there ? __ldcg((const float4 *)(part + BLOCK)) : make_float4(0.f, 0.f, 0.f, 0.f);
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    sum[k][0] += one[j][k].x, sum[k][1] += one[j][k].y, sum[k][2] += one[j][k].z, sum[k][3] += one[j][k].w;
                }
        }
        finish(a, p, scales, tile, e.row + row, sum[0], sum[1]);
    }
}

// A warp's slice of x for the rows of one expert, scaled and turned. Lane r keeps the factor of row r.
template <int HIDDEN, bool EXACT>
__device__ __forceinline__ float hold_x(const Args &a, const Plan &p, const Expert &e, const __half *scales, char *region) {
    using S = Shape<HIDDEN>;
    const int lane = threadIdx.x & 31, slice = (threadIdx.x >> 5) % SLICES;
    const size_t offset = slice * S::SLICE + 4 * lane;
    const __half *in = scales + (size_t)(e.base / a.tiles) * HIDDEN + offset;
    uint2 factor[S::TURNS];
#pragma unroll
    for (int b = 0; b < S::TURNS; b++) factor[b] = *(const uint2 *)(in + b * BLOCK);
    float post = 0.f;
    for (int row = 0; row < e.count; row++) {
        const __nv_bfloat16 *x = a.x + (size_t)p.row[e.row + row] * HIDDEN + offset;
        uint2 word[S::TURNS];
        float f[S::TURNS][4];
#pragma unroll
        for (int b = 0; b < S::TURNS; b++) word[b] = *(const uint2 *)(x + b * BLOCK);
#pragma unroll
        for (int b = 0; b < S::TURNS; b++) {
            const float2 low = __half22float2(*(const __half2 *)&factor[b].x), high = __half22float2(*(const __half2 *)&factor[b].y);
            f[b][0] = __uint_as_float(word[b].x << 16) * low.x, f[b][1] = __uint_as_float(word[b].x & 0xFFFF0000u) * low.y;
            f[b][2] = __uint_as_float(word[b].y << 16) * high.x, f[b][3] = __uint_as_float(word[b].y & 0xFFFF0000u) * high.y;
            turn(f[b]);
        }
        const float found = keep<EXACT>(f, S::TURNS, row, region);
        if (lane == row) post = found;
    }
    return post;
}

// A thread block's stretch of gate and up: this warp's slice of one of both. What can be told from `done` is not kept: registers are scarce.
template <int HIDDEN, bool EXACT, int K>
__device__ __forceinline__ void read_gate_up(const Args &a, const Plan &p, uint64_t *full, uint64_t *empty, float *factors) {
    using S = Shape<HIDDEN>;
    constexpr int BYTES = piece_bytes(K), HALVES = S::HALVES;
    constexpr size_t TILE = (size_t)HIDDEN * BLOCK * K / 8;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t begin = share(p.items * HALVES, blockIdx.x, gridDim.x), end = share(p.items * HALVES, blockIdx.x + 1, gridDim.x);
    if (begin == end) return;
    uint32_t done = begin & ~1u;
    auto find = [&](uint32_t at) {
        const int item = p.list[at / HALVES];
        return (warp < SLICES ? a.gate : a.up) + (size_t)(p.expert[item >> 6].base + (item & 63)) * TILE + (size_t)(warp % SLICES) * (HALVES * BYTES);
    };
    const uint8_t *from = find(done) + done % HALVES * BYTES;
    typename Sum<EXACT>::Type c[2][MS][4] = {};
    uint4 words[HELD][K];
    fetch_first<K>(words, from, begin, end);
    for (; done < end; done += 2) {
        const uint32_t i = done / HALVES, within = done % HALVES;
        if (done <= begin || (within == 0 && p.list[i] >> 6 != p.list[i - 1] >> 6)) {
            __syncwarp();
            const float factor = hold_x<HIDDEN, EXACT>(a, p, p.expert[p.list[i] >> 6], warp < SLICES ? a.gate_in : a.up_in, region<HIDDEN>());
            if (lane < ROWS) factors[lane] = factor;
            __syncwarp();
        }
        const bool complete = within == HALVES - 2, closing = complete || done + 2 >= end;
        {
            uint32_t b[EXACT ? 8 : 16];
            take(b, activations<EXACT>(region<HIDDEN>(), within / 2));
            const uint8_t *after = complete && !(done + 2 >= end) ? find(done + 2) : from + 2 * BYTES;
            multiply_step<K>(c, words, b, from, after, done, begin, end);
            from = after;
        }
        if (closing) {
            const uint32_t unit = i - begin / HALVES;
            if (unit > 1) barrier_wait(shared_address(empty + (unit & 1)), (unit / 2 - 1) & 1);
            float *to = slots<HIDDEN>() + ((unit & 1) * WARPS * ROWS + warp * ROWS + (lane & 3)) * LINE;
            const bool live = (lane & 3) < p.expert[p.list[i] >> 6].count;
            settle<EXACT>(c, region<HIDDEN>(), i == begin / HALVES ? begin % HALVES : 0, min(HALVES, (int)(end - i * HALVES)), factors[(lane & 3) % ROWS],
                          [&](int n, float number) { if (live) to[n] = number; });
            __syncwarp();
            if (lane == 0) barrier_arrive(full + (unit & 1));
            // One warp sums the unit before: by now all have laid down their parts of it.
            if (unit && (unit - 1) % WARPS == warp) {
                barrier_wait(shared_address(full + (unit - 1 & 1)), (unit - 1) / 2 & 1);
                reduce<HIDDEN>(a, p, i - 1, unit - 1 & 1);
                __syncwarp();
                if (lane == 0) barrier_arrive(empty + (unit - 1 & 1));
            }
        }
    }
    const uint32_t unit = (end - 1) / HALVES - begin / HALVES;
    if (unit % WARPS == warp) {
        barrier_wait(shared_address(full + (unit & 1)), unit / 2 & 1);
        reduce<HIDDEN>(a, p, (end - 1) / HALVES, unit & 1);
    }
}

__device__ __forceinline__ void arrive(const Args &a) {
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(a.meet) : "memory");
}
__device__ __forceinline__ void await_all(const Args &a, unsigned long long until) {
    if (threadIdx.x == 0) {
        unsigned long long now;
        do asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(a.meet) : "memory");
        while (now < until);
    }
    __syncthreads();
}

// A warp's stretch of down.
template <int HIDDEN, bool EXACT, int K>
__device__ __forceinline__ void read_down(const Args &a, const Plan &p, unsigned long long until, float *factors) {
    using S = Shape<HIDDEN>;
    constexpr int BYTES = piece_bytes(K);
    const int lane = threadIdx.x & 31, q = lane & 3;
    const uint32_t ways = gridDim.x * WARPS, self = blockIdx.x * WARPS + (threadIdx.x >> 5), total = p.items * S::DOWN;
    const uint32_t begin = share(total, self, ways), end = share(total, self + 1, ways);
    const uint8_t *from = nullptr;
    uint32_t v = 0, group = 0, piece = 0, done = begin & ~1u;
    Expert e = {};
    auto find = [&] { return a.down + (((size_t)(e.base / a.tiles) * S::GROUPS + group) * (4 * a.tiles) + piece) * BYTES; };
    uint4 words[HELD][K];
    if (begin < end) {
        v = p.list[begin / S::DOWN] >> 6;
        e = p.expert[v];
        const uint32_t within = done - e.first * S::DOWN;
        group = within / (4 * e.depth), piece = within % (4 * e.depth);
        from = find();
        fetch_first<K>(words, from, begin, end);
    }
    await_all(a, until);
    if (begin == end) return;
    typename Sum<EXACT>::Type c[2][MS][4] = {};
    for (; done < end; done += 2) {
        if (done <= begin || (group == 0 && piece == 0)) {
            __syncwarp();
            float factor = 0.f;
            for (int row = 0; row < e.count; row++) {
                const float *h = a.h + (size_t)(e.row + row) * a.tiles * BLOCK + 4 * lane;
                float f[S::TURNS][4];
#pragma unroll
                for (int b = 0; b < S::TURNS; b++) {
                    const float4 one = b < e.depth ? __ldcg((const float4 *)(h + b * BLOCK)) : make_float4(0.f, 0.f, 0.f, 0.f);
                    f[b][0] = one.x, f[b][1] = one.y, f[b][2] = one.z, f[b][3] = one.w;
                }
                const float found = keep<EXACT>(f, e.depth, row, region<HIDDEN>());
                if (lane == row) factor = found;
            }
            if (lane < ROWS) factors[lane] = factor;
            __syncwarp();
        }
        const bool complete = piece + 2 == 4u * e.depth, closing = complete || done + 2 >= end;
        const uint32_t start = done - piece;  // of these outputs
        const int count = e.count;
        float *sums = a.sums + (size_t)(e.row + q) * HIDDEN + group * BLOCK;
        {
            uint32_t b[EXACT ? 8 : 16];
            take(b, activations<EXACT>(region<HIDDEN>(), piece / 2));
            const uint8_t *after = from + 2 * BYTES;
            piece += 2;
            if (complete && done + 2 < end) {
                piece = 0;
                if (++group == S::GROUPS) group = 0, e = p.expert[++v];
                after = find();
            }
            multiply_step<K>(c, words, b, from, after, done, begin, end);
            from = after;
        }
        if (closing) {
            float *to = begin > start ? a.heads + ((size_t)self * ROWS + q) * BLOCK : sums;
            settle<EXACT>(c, region<HIDDEN>(), max(begin, start) - start, min(end, done + 2) - start, factors[q % ROWS],
                          [&](int n, float number) { if (q < count) to[n] = number; });
        }
    }
}

// The output: of each row 128 numbers a warp, picks in their order, the parts of each in the order of the list.
template <int HIDDEN>
__device__ __forceinline__ void gather(const Args &a, const Plan &p) {
    using S = Shape<HIDDEN>;
    const int lane = threadIdx.x & 31;
    const uint32_t ways = gridDim.x * WARPS, total = p.items * S::DOWN;
    for (int task = blockIdx.x + (threadIdx.x >> 5) * gridDim.x; task < a.rows * S::GROUPS; task += ways) {
        const int row = task / S::GROUPS, group = task % S::GROUPS;
        float4 one[TOP_K], scale[TOP_K];
        uint32_t next[TOP_K];  // warp whose stretch may begin within this pick's part of the list, while it is below the next one
        uint32_t stop[TOP_K];
        bool more = false;
#pragma unroll
        for (int k = 0; k < TOP_K; k++) {
            one[k] = scale[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            next[k] = stop[k] = 0;
            const int place = k < a.top_k ? p.place[row * a.top_k + k] : MOST;
            if (place == MOST) continue;
            const Expert e = p.expert[p.block[row * a.top_k + k]];
            one[k] = __ldcg((const float4 *)(a.sums + (size_t)place * HIDDEN + group * BLOCK + 4 * lane));
            scale[k] = four_halves(a.down_out + (size_t)(e.base / a.tiles) * HIDDEN + group * BLOCK + 4 * lane);
            const uint32_t start = e.first * S::DOWN + group * 4 * e.depth;
            next[k] = start * ways / total;
            while (share(total, next[k], ways) <= start) next[k]++;
            stop[k] = start + 4 * e.depth;
            more |= next[k] < ways && share(total, next[k], ways) < stop[k];
        }
        while (more) {  // one part of each pick at a time, all of them asked for together
            more = false;
#pragma unroll
            for (int k = 0; k < TOP_K; k++) {
                if (next[k] >= ways || stop[k] == 0) continue;
                const uint32_t begin = share(total, next[k], ways), end = share(total, next[k] + 1, ways);
                if (begin >= stop[k]) continue;
                more |= end < stop[k];
                const int index = row * a.top_k + k, within = p.place[index] - p.expert[p.block[index]].row;
                const float4 part = begin == end ? make_float4(0.f, 0.f, 0.f, 0.f)
                                                 : __ldcg((const float4 *)(a.heads + ((size_t)next[k] * ROWS + within) * BLOCK + 4 * lane));
                one[k].x += part.x, one[k].y += part.y, one[k].z += part.z, one[k].w += part.w;
                next[k]++;
            }
        }
        float y[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
        for (int k = 0; k < TOP_K; k++) {
            if (stop[k] == 0) continue;
            float f[4] = {one[k].x, one[k].y, one[k].z, one[k].w};
            turn(f);
            y[0] = fmaf(f[0], scale[k].x, y[0]), y[1] = fmaf(f[1], scale[k].y, y[1]);
            y[2] = fmaf(f[2], scale[k].z, y[2]), y[3] = fmaf(f[3], scale[k].w, y[3]);
        }
        *(float4 *)(a.out + (size_t)row * HIDDEN + group * BLOCK + 4 * lane) = make_float4(y[0] * ROOT, y[1] * ROOT, y[2] * ROOT, y[3] * ROOT);
    }
}

template <int HIDDEN, bool EXACT>
__global__ void __launch_bounds__(THREADS, 1) exl3_layer(const __grid_constant__ Args a) {
    __shared__ uint64_t full[2], empty[2];
    __shared__ float factors[WARPS][ROWS];
    const int warp = threadIdx.x >> 5;
    if (threadIdx.x == 0) {
        for (int set = 0; set < 2; set++) barrier_init(full + set, WARPS), barrier_init(empty + set, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    float early[IMPORTANCE];
    fetch_importance(a, early);
    Plan p;
    Scratch scratch;
    laid_out(p, scratch, lists<HIDDEN>(), memory);
    come_nearer<HIDDEN>(a);
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    // Every launch adds twice the number of blocks: what is complete when all have arrived, found before this block does.
    unsigned long long met = 0;
    if (threadIdx.x == 0) {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(met) : "l"(a.meet) : "memory");
        met -= met % (2 * gridDim.x);
    }
    const Own own = planned<ROWS, Shape<HIDDEN>::HALVES>(a, p, scratch, early);
    listed(p, own);
    placed<ROWS>(a, p, scratch, own);
    __syncthreads();
    const int bits = warp < SLICES ? a.bits_gate : a.bits_up;
    if (bits == 2) read_gate_up<HIDDEN, EXACT, 2>(a, p, full, empty, factors[warp]);
    else if (bits == 3) read_gate_up<HIDDEN, EXACT, 3>(a, p, full, empty, factors[warp]);
    else read_gate_up<HIDDEN, EXACT, 4>(a, p, full, empty, factors[warp]);
    arrive(a);
    met += gridDim.x;
    if (a.bits_down == 2) read_down<HIDDEN, EXACT, 2>(a, p, met, factors[warp]);
    else if (a.bits_down == 3) read_down<HIDDEN, EXACT, 3>(a, p, met, factors[warp]);
    else read_down<HIDDEN, EXACT, 4>(a, p, met, factors[warp]);
    arrive(a);
    await_all(a, met + gridDim.x);
    gather<HIDDEN>(a, p);
}

// The numbers of pieces as the exact products see them, in the order of a lane's positions: [pieces][4 blocks][32 lanes][32].
template <int K>
__global__ void decode(const uint8_t *pieces, __half2 *out) {
    const int lane = threadIdx.x & 31;
    uint4 words[K];
    fetch<K>(words, pieces + (size_t)blockIdx.x * piece_bytes(K));
    for (int m = 0; m < MS; m++) {
        uint32_t w[K + 1], made[POSITIONS / 2];
        words_of<K>(w, words, m);
        pairs<K, 0>(made, w);
        for (int i = 0; i < POSITIONS / 2; i++) ((uint32_t *)out)[((size_t)(blockIdx.x * MS + m) * 32 + lane) * (POSITIONS / 2) + i] = made[i];
    }
}

template <int HIDDEN>
int shared_bytes(int places, int tiles) {
    return WARPS * Shape<HIDDEN>::REGION + 2 * WARPS * ROWS * LINE * 4 + LISTS + ((places * tiles + 7) & ~7) * 2;
}

template <int HIDDEN, bool EXACT>
int launch(const Args &a, int blocks, int early, cudaStream_t stream) {
    const int shared = shared_bytes<HIDDEN>(a.rows * a.top_k, a.tiles);
    cudaError_t bad = cudaFuncSetAttribute(exl3_layer<HIDDEN, EXACT>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (bad != cudaSuccess) return bad;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(blocks), c.blockDim = dim3(THREADS), c.dynamicSmemBytes = shared, c.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    c.attrs = &attribute, c.numAttrs = early ? 1 : 0;
    return cudaLaunchKernelEx(&c, exl3_layer<HIDDEN, EXACT>, a);
}

}  // namespace

// Hidden sizes that were checked on a device; the source takes any multiple of 1024.
#define EVERY(CASE) CASE(5120)

// Bytes of dynamic shared memory of a step, or -1 for a hidden size that is not compiled.
extern "C" int exl3_shared(int rows, int top_k, int tiles, int hidden) {
#define CASE(H) if (hidden == H) return shared_bytes<H>(rows * top_k, tiles);
    EVERY(CASE)
#undef CASE
    return -1;
}

// Rows of one expert that are multiplied at once: experts with more are read again for the others.
extern "C" int exl3_rows() { return ROWS; }

// Decodes pieces to float16, for whoever wants to see that they are the codebook's to the last bit.
extern "C" int exl3_decode(const void *pieces, int count, int bits, void *out, void *stream) {
    if (bits == 2) decode<2><<<count, 32, 0, (cudaStream_t)stream>>>((const uint8_t *)pieces, (__half2 *)out);
    else if (bits == 3) decode<3><<<count, 32, 0, (cudaStream_t)stream>>>((const uint8_t *)pieces, (__half2 *)out);
    else if (bits == 4) decode<4><<<count, 32, 0, (cudaStream_t)stream>>>((const uint8_t *)pieces, (__half2 *)out);
    else return -1;
    return cudaGetLastError();
}

// 0, or a CUDA error code; -1 for a hidden size or rate that is not compiled. exact: weights to float16's last bit; early: the launch may
// overlap the end of the kernel before.
extern "C" int exl3_read(const void *gate, const void *up, const void *down, const void *gate_in, const void *up_in, const void *gate_out,
                         const void *up_out, const void *down_in, const void *down_out, const void *importance, const void *price, const void *x,
                         const void *picks, const void *weights, const void *valid, void *h, void *parts, void *sums, void *heads, void *out,
                         void *meet, void *joined, void *told, int rows, int top_k, int experts, int tiles, int floor, int hidden, int bits_gate,
                         int bits_up, int bits_down, float limit, int exact, int blocks, int early, void *stream) {
    for (int bits : {bits_gate, bits_up, bits_down})
        if (bits < 2 || bits > 4) return -1;
    const Args a = {(const uint8_t *)gate, (const uint8_t *)up, (const uint8_t *)down, (const __half *)gate_in, (const __half *)up_in,
                    (const __half *)gate_out, (const __half *)up_out, (const __half *)down_in, (const __half *)down_out,
                    (const float *)importance, (const float *)price, (const __nv_bfloat16 *)x, (const int *)picks, (const float *)weights,
                    (const int *)valid, (float *)h, (float *)parts, (float *)sums, (float *)heads, (float *)out, (unsigned long long *)meet,
                    (int *)joined, (int *)told, rows, top_k, experts, tiles, floor, bits_gate, bits_up, bits_down, limit};
#define CASE(H) if (hidden == H) return exact ? launch<H, true>(a, blocks, early, (cudaStream_t)stream) : launch<H, false>(a, blocks, early, (cudaStream_t)stream);
    EVERY(CASE)
#undef CASE
    return -1;
}
