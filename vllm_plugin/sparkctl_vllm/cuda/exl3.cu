// One mixture-of-experts layer of a decode step over EXL3 experts, read by depth: plan, gate/up with clamped SwiGLU, down, in one launch.
//
// Depth is in whole blocks of 128 neurons, the least that Hadamard matrices on both sides leave exact. Every thread block makes the plan
// itself (plan.cuh). Gate/up: half of the warps read gate, half up, each a slice of the inputs, which it turns (scales and Hadamard matrix) into
// its own shared memory; one warp in turn sums a block of 128 outputs, turns it back, applies SwiGLU and turns it for down. Down: each warp reads
// a stretch of the list [expert][128 outputs][inputs] by itself. Stretches are equal to a step of 64 inputs, wherever that breaks an expert: the
// parts are added in the order of the list, so the same step gives the same bits.
//
// No thread block waits for all others: what one hands to another is its own flag (handover.cuh). Before a launch it is MISSING throughout, and
// who needs it asks until it is there. Two buffers take turns, one in use while the other is made MISSING again. All thread blocks must be
// resident at once.
//
// Code that runs once a launch comes from afar each time, so there is little of it: both phases are one loop, and what is turned is turned by
// loops over lanes' distances.
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
    const int *depths;                                        // [experts], at least 1 of each that is picked; null: planned
    const __nv_bfloat16 *x;                                   // [rows, hidden]
    const int *picks;                                         // [rows, top_k]
    const float *weights;                                     // [rows, top_k]
    const int *valid;                                         // one number: rows that are no padding
    float *space;                                             // [2, size]: what is handed on, see Space
    float *out;                                               // [rows, hidden]
    unsigned long long *meet;                                 // thread blocks that ever began
    int *told;                                                // [2, experts]: loads and depths; may be null
    int rows, top_k, experts, tiles, floor, bits_gate, bits_up, bits_down, size;
    float limit;
};

// Where in a buffer the thread blocks find what others hand on, in floats.
struct Space {
    int parts;  // [thread blocks, ROWS, 2, 128]: of gate and up, where a stretch begins within a block of outputs; before it h [places, 128 tiles]
    int sums;   // [places, hidden]: of down, before its output Hadamard matrix
    int heads;  // [thread blocks, ROWS, 128]: of down, where a stretch begins within a block of outputs
    int size;
    EVERYWHERE Space(int places, int tiles, int hidden, int blocks) {
        parts = places * tiles * BLOCK;
        sums = parts + blocks * (ROWS * 2 * BLOCK);
        heads = sums + places * hidden;
        size = heads + blocks * (ROWS * BLOCK);
    }
};

template <int HIDDEN>
struct Shape {
    static constexpr int SLICE = HIDDEN / SLICES;             // inputs of gate or up that a warp multiplies
    static constexpr int STEPS = SLICE / STEP;                // of a block of 128 neurons for one warp
    static constexpr int TURNS = SLICE / BLOCK;
    static constexpr int GROUPS = HIDDEN / BLOCK;             // blocks of outputs of down
    static constexpr int DOWN = GROUPS * 2;                   // steps of a block of 128 neurons in down
    static constexpr int REGION = SLICE * 2 * ROWS;           // bytes of activations of a warp, for down too
    static_assert(SLICE % BLOCK == 0, "a warp turns whole blocks");
    static_assert(REGION >= ROWS * LINE * 4, "a warp's last sums of down lie where its activations were");
};

// Shared memory: activations of each warp (before: the plan's scratch), partial sums, the plan's lists.
extern __shared__ __align__(128) char memory[];
template <int HIDDEN> __device__ __forceinline__ char *region() { return memory + (threadIdx.x >> 5) * Shape<HIDDEN>::REGION; }
// Of gate and up: those of a unit and a warp. Of down: of the warps that begin within a block of outputs, in the place of the unit after the last.
template <int HIDDEN> __device__ __forceinline__ float *slot(uint32_t unit, int warp) {
    return (float *)(memory + WARPS * Shape<HIDDEN>::REGION) + ((unit & 1) * WARPS + warp) * (ROWS * LINE);
}
template <int HIDDEN> __device__ __forceinline__ char *lists() { return (char *)slot<HIDDEN>(0, 2 * WARPS); }

// Of N times 128 numbers a lane has four each, 4 lane + 0..3: times the Hadamard matrix without its factor.
template <int N>
__device__ __forceinline__ void turn(float (&f)[N][4]) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float a = f[n][0] + f[n][1], b = f[n][0] - f[n][1], c = f[n][2] + f[n][3], d = f[n][2] - f[n][3];
        f[n][0] = a + c, f[n][1] = b + d, f[n][2] = a - c, f[n][3] = b - d;
    }
#pragma unroll 1
    for (int i = 1; i < 32; i <<= 1) {
        const float sign = lane & i ? -1.f : 1.f;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) f[n][k] = fmaf(f[n][k], sign, __shfl_xor_sync(0xFFFFFFFFu, f[n][k], i));
    }
}
__device__ __forceinline__ float4 as_floats(uint2 r) {
    const float2 a = __half22float2(*(const __half2 *)&r.x), b = __half22float2(*(const __half2 *)&r.y);
    return make_float4(a.x, a.y, b.x, b.y);
}
__device__ __forceinline__ float4 four_halves(const __half *from) { return as_floats(*(const uint2 *)from); }


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
            int n[4];  // rounded by the sum with a large number, whose last bits they are
#pragma unroll
            for (int k = 0; k < 4; k++) n[k] = __float_as_int(fmaf(f[b][k], scale, 12582912.f));
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


// The sums of a warp over a stretch of inputs as numbers: n of row q goes to to[n]. all: what this lane saw of its column's activations, for
// what is linear in those alone.
template <bool EXACT, class C>
__device__ __forceinline__ void settle(const C (&c)[2][MS][4], int all, float factor, float *to, bool live) {
    const int lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
    if (!EXACT) all += __shfl_xor_sync(0xFFFFFFFFu, all, 1), all += __shfl_xor_sync(0xFFFFFFFFu, all, 2);
    const int high = __shfl_sync(0xFFFFFFFFu, all, 8 * q), low = __shfl_sync(0xFFFFFFFFu, all, 8 * q + 4);
    // High and low byte as one number, less its last four bits, which float32 has no room for.
    const int centre = CENTRE * 16 * high + CENTRE * low / 16;
    const float rest = (float)(CENTRE * SLOPE - OFFSET) * factor * (float)(256 * high + low), slope = SLOPE * 16.f * factor;
    if (!live) return;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int m = 0; m < MS; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float number;
                if constexpr (EXACT) number = c[half][m][2 * r] * factor;
                else number = fmaf(slope, (float)((c[half][m][2 * r] << 4) + (c[half][m][2 * r + 1] >> 4) - centre), rest);
                give(to + half * 64 + m * 16 + r * 8 + g, number);
            }
}

__device__ __forceinline__ uint32_t share(uint32_t total, uint32_t i, uint32_t ways) { return total * i / ways; }
// The first of `ways` whose stretch begins at `at` or behind it.
__device__ __forceinline__ uint32_t first_from(uint32_t total, uint32_t at, uint32_t ways) { return (at * ways + total - 1) / total; }

// Where a step of the list lies: in which block of rows, which of its units (tiles of gate and up, blocks of outputs of down), which step.
struct Unit { uint32_t v, index, step, length; };
template <int HIDDEN>
__device__ __forceinline__ Unit unit_at(const Plan &p, bool down, uint32_t at) {
    const uint32_t each = down ? Shape<HIDDEN>::DOWN : Shape<HIDDEN>::STEPS;
    Unit u;
    u.v = p.list[at / each] >> 6;
    const Expert e = p.expert[u.v];
    u.length = down ? 2 * e.depth : Shape<HIDDEN>::STEPS;
    const uint32_t within = at - e.first * each;
    u.index = within / u.length, u.step = within % u.length;
    return u;
}

// suh of an expert, from where this warp's slice of the inputs of gate or up begins.
template <int HIDDEN>
__device__ __forceinline__ const __half *scales_of(const Args &a, const Expert &e) {
    const int warp = threadIdx.x >> 5;
    return (warp < SLICES ? a.gate_in : a.up_in) + (size_t)(e.base / a.tiles) * HIDDEN + warp % SLICES * Shape<HIDDEN>::SLICE;
}

// Activations of the rows of one expert, turned, into the warp's region: a slice of x, or h as far as it is read. Lane r keeps row r's factor.
template <int HIDDEN, bool EXACT>
__device__ __forceinline__ float hold(const Args &a, const Plan &p, const Expert &e, bool down, const float *space) {
    constexpr int TURNS = Shape<HIDDEN>::TURNS;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, blocks = down ? e.depth : TURNS;
    const int offset = warp % SLICES * Shape<HIDDEN>::SLICE + 4 * lane;
    uint2 in[TURNS];
#pragma unroll
    for (int b = 0; b < TURNS; b++)
        in[b] = down ? make_uint2(0, 0) : *(const uint2 *)(scales_of<HIDDEN>(a, e) + 4 * lane + b * BLOCK);
    float factor = 0.f;
#pragma unroll 1
    for (int row = 0; row < e.count; row++) {
        float f[TURNS][4];
        if (down) {
            const float *h = space + (e.row + row) * (a.tiles * BLOCK) + 4 * lane;
            bool again;
            do {
                again = false;
#pragma unroll
                for (int b = 0; b < TURNS; b++) {
                    const float4 one = b < blocks ? ask(h + b * BLOCK) : make_float4(0.f, 0.f, 0.f, 0.f);
                    f[b][0] = one.x, f[b][1] = one.y, f[b][2] = one.z, f[b][3] = one.w;
                    again |= missing(one);
                }
            } while (__any_sync(0xFFFFFFFFu, again));
        } else {
            const __nv_bfloat16 *x = a.x + (size_t)p.row[e.row + row] * HIDDEN + offset;
            uint2 word[TURNS];
#pragma unroll
            for (int b = 0; b < TURNS; b++) word[b] = *(const uint2 *)(x + b * BLOCK);
#pragma unroll
            for (int b = 0; b < TURNS; b++) {
                const float4 scale = as_floats(in[b]);
                f[b][0] = __uint_as_float(word[b].x << 16) * scale.x, f[b][1] = __uint_as_float(word[b].x & 0xFFFF0000u) * scale.y;
                f[b][2] = __uint_as_float(word[b].y << 16) * scale.z, f[b][3] = __uint_as_float(word[b].y & 0xFFFF0000u) * scale.w;
            }
            turn(f);
        }
        const float found = keep<EXACT>(f, blocks, row, region<HIDDEN>());
        if (lane == row) factor = found;
    }
    return factor;
}

// Sums the warps' parts of one item of gate and up, `begin` to `end` being the thread block's stretch. Where the item begins in another one,
// the sum is handed to that; where it ends in others, theirs are added. Then back to numbers, to h, and turned for down.
template <int HIDDEN>
__device__ __forceinline__ void reduce(const Args &a, const Plan &p, float *space, uint32_t i, uint32_t unit, uint32_t begin, uint32_t end) {
    constexpr int STEPS = Shape<HIDDEN>::STEPS;
    const Space at(a.rows * a.top_k, a.tiles, HIDDEN, gridDim.x);
    const int lane = threadIdx.x & 31, tile = p.list[i] & 63;
    const Expert e = p.expert[p.list[i] >> 6];
    const uint32_t start = i * STEPS, stop = start + STEPS;
    const uint32_t others = stop > end ? first_from(p.items * STEPS, stop, gridDim.x) : 0;
    const size_t column = ((size_t)e.base + tile) * BLOCK + 4 * lane;
    const float4 scales[3] = {four_halves(a.gate_out + column), four_halves(a.up_out + column), four_halves(a.down_in + column)};
#pragma unroll 1
    for (int row = 0; row < e.count; row++) {
        float sum[2][4] = {};
#pragma unroll
        for (int matrix = 0; matrix < 2; matrix++)
#pragma unroll 4
            for (int w = 0; w < SLICES; w++) {
                const float4 one = *(const float4 *)(slot<HIDDEN>(unit, matrix * SLICES + w) + row * LINE + 4 * lane);
                sum[matrix][0] += one.x, sum[matrix][1] += one.y, sum[matrix][2] += one.z, sum[matrix][3] += one.w;
            }
        float *parts = space + at.parts + row * (2 * BLOCK) + 4 * lane;
        if (start < begin) {
            give(parts + blockIdx.x * (ROWS * 2 * BLOCK), make_float4(sum[0][0], sum[0][1], sum[0][2], sum[0][3]));
            give(parts + blockIdx.x * (ROWS * 2 * BLOCK) + BLOCK, make_float4(sum[1][0], sum[1][1], sum[1][2], sum[1][3]));
            continue;
        }
#pragma unroll 1
        for (uint32_t b = blockIdx.x + 1; b < others; b += 2) {
            float4 one[2][2];
            bool again;
            do {  // asked for together
                again = false;
#pragma unroll
                for (int j = 0; j < 2; j++)
#pragma unroll
                    for (int matrix = 0; matrix < 2; matrix++) {
                        one[j][matrix] = b + j < others ? ask(parts + (b + j) * (ROWS * 2 * BLOCK) + matrix * BLOCK) : make_float4(0.f, 0.f, 0.f, 0.f);
                        again |= missing(one[j][matrix]);
                    }
            } while (__any_sync(0xFFFFFFFFu, again));
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int matrix = 0; matrix < 2; matrix++) {
                    sum[matrix][0] += one[j][matrix].x, sum[matrix][1] += one[j][matrix].y;
                    sum[matrix][2] += one[j][matrix].z, sum[matrix][3] += one[j][matrix].w;
                }
        }
        turn(sum);
        const float weight = p.weight[e.row + row];
        float h[1][4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float low = fminf(sum[0][k] * ROOT * (&scales[0].x)[k], a.limit);
            const float wide = fminf(fmaxf(sum[1][k] * ROOT * (&scales[1].x)[k], -a.limit), a.limit);
            h[0][k] = __fdividef(low, 1.f + __expf(-low)) * wide * weight * (&scales[2].x)[k];
        }
        turn(h);
        give(space + ((e.row + row) * a.tiles + tile) * BLOCK + 4 * lane, make_float4(h[0][0], h[0][1], h[0][2], h[0][3]));
    }
}

// A unit of down that is broken among the warps of this thread block: where its sum goes, where it stops in the list, its rows or none.
struct __align__(16) Open { int to, pitch; uint32_t stop; int count; };

// Barriers of the partial sums of gate and up, the factors of each warp's activations, and of each warp the unit in which the thread block
// begins (the first warp's), and that in which the warp ends.
struct Shared {
    uint64_t full[2], empty[2];
    float factors[WARPS][ROWS];
    Open open[WARPS][2];
};

// A warp's stretch of gate or up, or of down. Returns how many units of partial sums the thread block has used.
template <int HIDDEN, bool EXACT, int K>
__device__ __forceinline__ uint32_t read(const Args &a, const Plan &p, Shared &s, float *space, bool down, uint32_t unit) {
    using S = Shape<HIDDEN>;
    constexpr int BYTES = 2 * piece_bytes(K);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, q = lane & 3;
    const uint32_t total = p.items * (down ? S::DOWN : S::STEPS), ways = gridDim.x * (down ? WARPS : 1), self = down ? blockIdx.x * WARPS + warp : blockIdx.x;
    const uint32_t begin = share(total, self, ways), end = share(total, self + 1, ways);
    const Space at(a.rows * a.top_k, a.tiles, HIDDEN, gridDim.x);
    if (down && lane < 2) s.open[warp][lane].count = 0;
    __syncwarp();
    auto await_empty = [&] {
        if (unit > 1) barrier_wait(shared_address(s.empty + (unit & 1)), (unit / 2 - 1) & 1);
    };
    if (begin == end) {  // who begins within a unit owes a part of it, if only zeros
        const float4 zeros = make_float4(0.f, 0.f, 0.f, 0.f);
        if (down) {
            await_empty();
#pragma unroll 1
            for (int row = 0; row < ROWS; row++) *(float4 *)(slot<HIDDEN>(unit, warp) + row * LINE + 4 * lane) = zeros;
            if (warp == 0 && begin < total) {
                const Unit u = unit_at<HIDDEN>(p, down, begin);
                if (lane == 0 && u.step) s.open[0][0] = Open{at.heads + (int)blockIdx.x * (ROWS * BLOCK), BLOCK, begin + u.length - u.step, p.expert[u.v].count};
            }
        } else if (warp < 2 * ROWS) give(space + at.parts + (blockIdx.x * (2 * ROWS) + warp) * BLOCK + 4 * lane, zeros);
        return unit;
    }
    const uint32_t per_unit = down ? 2 * a.tiles : HIDDEN / STEP, per_expert = down ? S::GROUPS : a.tiles;
    const uint8_t *origin = down ? a.down : (warp < SLICES ? a.gate : a.up) + warp % SLICES * (S::STEPS * BYTES);
    auto address = [&](uint32_t base, uint32_t index, uint32_t step) {
        return origin + ((size_t)(base / a.tiles * per_expert + index) * per_unit + step) * BYTES;
    };
    const Unit first = unit_at<HIDDEN>(p, down, begin);
    uint32_t v = first.v, index = first.index, step = first.step, done = begin;
    Expert e = p.expert[v];
    const uint8_t *from = address(e.base, index, step);
    uint4 words[K];
    fetch<K>(words, from);
    bool fresh = true;
#pragma unroll 1
    for (;;) {
        const bool last = done >= end;
        uint32_t ready = unit - 1;
        if (!last) {
            if (fresh) {
                __syncwarp();
                const float factor = hold<HIDDEN, EXACT>(a, p, e, down, space);
                if (lane < ROWS) s.factors[warp][lane] = factor;
                __syncwarp();
                // The next expert's scales come from DRAM: nearer, while this one is multiplied.
                if (!down && (e.first + e.depth) * S::STEPS < end && lane < S::SLICE / 64) near(scales_of<HIDDEN>(a, p.expert[v + 1]) + lane * 64);
            }
            const uint32_t length = down ? 2 * e.depth : S::STEPS, stop = min(length, step + end - done), behind = done + stop - step;
            fresh = ++index == (down ? S::GROUPS : e.depth);
            // Where nothing follows, what is there is read again: that comes out of the L2, and takes no branch between the products.
            const uint8_t *beyond = behind >= end ? from : fresh ? address(p.expert[v + 1].base, 0, 0) : address(e.base, index, 0);
            const char *x = region<HIDDEN>();
            typename Sum<EXACT>::Type c[2][MS][4] = {};
            int all = 0;
            const bool head = down && step;
#pragma unroll 1
            for (; step < stop; step++) {
                uint32_t b[EXACT ? 8 : 16];
                const uint4 *at = activations<EXACT>(x, step);
                take(b, at);
                if (!EXACT) all = added(*at, all);
                const uint8_t *after = step + 1 < stop ? from + BYTES : beyond;
                multiply_step<K>(c, words, b, from, after);
                from = after;
            }
            float *to = slot<HIDDEN>(unit, warp);
            int pitch = LINE;
            if (!down || head) await_empty();
            if (down) {
                const int sum = at.sums + e.row * HIDDEN + (index - 1) * BLOCK;
                const bool tail = !head && stop < length;
                if (tail) to = (float *)region<HIDDEN>();
                else if (!head) to = space + sum, pitch = HIDDEN;
                if (lane == 0 && (tail || (head && warp == 0)))
                    s.open[warp][tail] = Open{tail ? sum : at.heads + (int)blockIdx.x * (ROWS * BLOCK), tail ? HIDDEN : BLOCK, behind + length - stop, e.count};
            }
            __syncwarp();
            settle<EXACT>(c, all, s.factors[warp][q % ROWS], to + q * pitch, q < e.count);
            __syncwarp();
            done = behind, step = 0;
            if (fresh) index = 0, e = p.expert[++v];
            if (down) continue;
            if (lane == 0) barrier_arrive(s.full + (unit & 1));
            ready = unit++ - 1;
        } else if (down) break;
        // One warp sums the unit before the last: by now most have laid down their parts of it. The last one is summed in a round of its own.
        if (ready < unit && ready % WARPS == warp) {
            barrier_wait(shared_address(s.full + (ready & 1)), ready / 2 & 1);
            reduce<HIDDEN>(a, p, space, begin / S::STEPS + ready, ready, begin, end);
            __syncwarp();
            if (lane == 0) barrier_arrive(s.empty + (ready & 1));
        }
        if (last) break;
    }
    return unit;
}

// Of down: where a unit is broken among warps of this thread block, its first part and those behind it as one, `unit` telling their slots.
template <int HIDDEN>
__device__ __forceinline__ void join(const Plan &p, const Shared &s, float *space, uint32_t unit) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll 1
    for (int tail = 0; tail < 2; tail++) {
        const Open open = s.open[warp][tail];
        if (open.count == 0) continue;
        const int last = min(WARPS, (int)(first_from(p.items * Shape<HIDDEN>::DOWN, open.stop, gridDim.x * WARPS) - blockIdx.x * WARPS));
        const float *own = (tail ? (const float *)region<HIDDEN>() : slot<HIDDEN>(unit, warp)) + 4 * lane;
#pragma unroll 1
        for (int row = 0; row < open.count; row++) {
            float4 sum = *(const float4 *)(own + row * LINE);
#pragma unroll 4
            for (int w = warp + 1; w < last; w++) {
                const float4 one = *(const float4 *)(slot<HIDDEN>(unit, w) + row * LINE + 4 * lane);
                sum.x += one.x, sum.y += one.y, sum.z += one.z, sum.w += one.w;
            }
            give(space + open.to + row * open.pitch + 4 * lane, sum);
        }
    }
}

// The output: of each row 128 numbers a warp, picks in their order, the parts of each in the order of the list.
template <int HIDDEN>
__device__ __forceinline__ void gather(const Args &a, const Plan &p, const float *space) {
    using S = Shape<HIDDEN>;
    const Space places(a.rows * a.top_k, a.tiles, HIDDEN, gridDim.x);
    const int lane = threadIdx.x & 31;
    const uint32_t total = p.items * S::DOWN;
#pragma unroll 1
    for (int task = blockIdx.x + (threadIdx.x >> 5) * gridDim.x; task < a.rows * S::GROUPS; task += gridDim.x * WARPS) {
        const int row = task / S::GROUPS, group = task % S::GROUPS;
        // Lane k finds where pick k's sum lies, and its parts from thread blocks that begin within it.
        int at = -1, next = 0, more = 0, scale_at = -1;
        const int place = lane < a.top_k ? p.place[row * a.top_k + lane] : MOST;
        if (place != MOST) {
            const Expert e = p.expert[p.block[row * a.top_k + lane]];
            const uint32_t start = e.first * S::DOWN + group * 2 * e.depth, first = first_from(total, start + 1, gridDim.x);
            at = places.sums + place * HIDDEN + group * BLOCK;
            next = places.heads + (first * ROWS + place - e.row) * BLOCK;
            more = first_from(total, start + 2 * e.depth, gridDim.x) - first;
            scale_at = e.base / a.tiles * HIDDEN + group * BLOCK;
        }
        uint2 scale[TOP_K];
        float f[TOP_K][4] = {};
#pragma unroll
        for (int k = 0; k < TOP_K; k++) {
            const int from = __shfl_sync(0xFFFFFFFFu, scale_at, k);
            scale[k] = from < 0 ? make_uint2(0, 0) : *(const uint2 *)(a.down_out + from + 4 * lane);
        }
        const int rounds = __reduce_max_sync(0xFFFFFFFFu, more);
#pragma unroll 1
        for (int round = 0; round <= rounds; round++) {
            float4 one[TOP_K];
            bool again;
            do {
                again = false;
#pragma unroll
                for (int k = 0; k < TOP_K; k++) {
                    const int from = __shfl_sync(0xFFFFFFFFu, at, k);
                    one[k] = from < 0 ? make_float4(0.f, 0.f, 0.f, 0.f) : ask(space + from + 4 * lane);
                }
#pragma unroll
                for (int k = 0; k < TOP_K; k++) again |= missing(one[k]);
            } while (__any_sync(0xFFFFFFFFu, again));
#pragma unroll
            for (int k = 0; k < TOP_K; k++) f[k][0] += one[k].x, f[k][1] += one[k].y, f[k][2] += one[k].z, f[k][3] += one[k].w;
            at = round < more ? next + round * (ROWS * BLOCK) : -1;
        }
        turn(f);
        float y[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
        for (int k = 0; k < TOP_K; k++) {
            const float4 factor = as_floats(scale[k]);
            y[0] = fmaf(f[k][0], factor.x, y[0]), y[1] = fmaf(f[k][1], factor.y, y[1]);
            y[2] = fmaf(f[k][2], factor.z, y[2]), y[3] = fmaf(f[k][3], factor.w, y[3]);
        }
        *(float4 *)(a.out + (size_t)row * HIDDEN + group * BLOCK + 4 * lane) = make_float4(y[0] * ROOT, y[1] * ROOT, y[2] * ROOT, y[3] * ROOT);
    }
}

template <int HIDDEN, bool EXACT>
__global__ void __launch_bounds__(THREADS, 1) exl3_layer(const __grid_constant__ Args a) {
    using S = Shape<HIDDEN>;
    __shared__ Shared s;
    __shared__ unsigned long long launched;  // launches of this stream, this one counted
    const int t = threadIdx.x, warp = t >> 5, lane = t & 31;
    if (lane == 0 && warp < 2) barrier_init(s.full + warp, WARPS), barrier_init(s.empty + warp, 1);
    __syncwarp();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    float early[IMPORTANCE];
    fetch_importance(a, early);
    Plan p;
    Scratch scratch;
    laid_out(p, scratch, lists<HIDDEN>(), memory);
    come_nearer<HIDDEN>(a);
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    // Every launch adds the number of blocks to the count of arrivals, so what is read before one's own arrival tells the launches.
    unsigned long long met0 = 0;
    if (t == THREADS - 32) asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(met0) : "l"(a.meet) : "memory");
    const Own own = planned<ROWS, S::STEPS>(a, p, scratch, early);
    const uint32_t begin = share(p.items * S::STEPS, blockIdx.x, gridDim.x);
    const int bits = warp < SLICES ? a.bits_gate : a.bits_up;
    if (begin < share(p.items * S::STEPS, blockIdx.x + 1, gridDim.x)) {  // the first step and its scales come nearer while the places are found
        const int item = *scratch.start;
        const Expert e = p.expert[item >> 6];
        const uint8_t *step = (warp < SLICES ? a.gate : a.up) + ((size_t)(e.base + (item & 63)) * (HIDDEN / STEP) + warp % SLICES * S::STEPS + begin % S::STEPS) * (1024 * bits);
        if (lane < 8 * bits) near(step + lane * 128);
        if (lane < S::SLICE / 64) near(scales_of<HIDDEN>(a, e) + lane * 64);
    }
    listed(p, own);
    placed<ROWS>(a, p, scratch, own);
    if (t == THREADS - 32) launched = met0 / gridDim.x + 1;
    __syncthreads();
    float *const space = a.space + (launched & 1) * a.size;
    {
        uint4 *next = (uint4 *)(a.space + (~launched & 1) * a.size);
#pragma unroll 1
        for (int i = blockIdx.x * THREADS + t; i < a.size / 4; i += gridDim.x * THREADS) next[i] = make_uint4(MISSING, MISSING, MISSING, MISSING);
    }
    if (t == THREADS - 32) asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(a.meet) : "memory");
    uint32_t unit = 0;
#pragma unroll 1
    for (int down = 0; down < 2; down++) {
        const int rate = down ? a.bits_down : bits;
        if (rate == 2) unit = read<HIDDEN, EXACT, 2>(a, p, s, space, down, unit);
        else if (rate == 3) unit = read<HIDDEN, EXACT, 3>(a, p, s, space, down, unit);
        else unit = read<HIDDEN, EXACT, 4>(a, p, s, space, down, unit);
    }
    __syncthreads();
    join<HIDDEN>(p, s, space, unit);
    gather<HIDDEN>(a, p, space);
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

// Floats of a step in each of the two buffers of what thread blocks hand on, all MISSING before the first launch.
extern "C" int exl3_space(int rows, int top_k, int tiles, int hidden, int blocks) { return Space(rows * top_k, tiles, hidden, blocks).size; }

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
                         const void *up_out, const void *down_in, const void *down_out, const void *importance, const void *price, const void *depths, const void *x,
                         const void *picks, const void *weights, const void *valid, void *space, void *out, void *meet, void *told, int rows, int top_k, int experts, int tiles, int floor, int hidden, int bits_gate,
                         int bits_up, int bits_down, float limit, int exact, int blocks, int early, void *stream) {
    for (int bits : {bits_gate, bits_up, bits_down})
        if (bits < 2 || bits > 4) return -1;
    const Args a = {(const uint8_t *)gate, (const uint8_t *)up, (const uint8_t *)down, (const __half *)gate_in, (const __half *)up_in,
                    (const __half *)gate_out, (const __half *)up_out, (const __half *)down_in, (const __half *)down_out,
                    (const float *)importance, (const float *)price, (const int *)depths, (const __nv_bfloat16 *)x, (const int *)picks, (const float *)weights,
                    (const int *)valid, (float *)space, (float *)out, (unsigned long long *)meet, (int *)told,
                    rows, top_k, experts, tiles, floor, bits_gate, bits_up, bits_down, Space(rows * top_k, tiles, hidden, blocks).size, limit};
#define CASE(H) if (hidden == H) return exact ? launch<H, true>(a, blocks, early, (cudaStream_t)stream) : launch<H, false>(a, blocks, early, (cudaStream_t)stream);
    EVERY(CASE)
#undef CASE
    return -1;
}
