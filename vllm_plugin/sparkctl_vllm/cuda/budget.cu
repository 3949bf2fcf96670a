// One mixture-of-experts layer of a decode step, read by budget: plan, gate/up with clamped SwiGLU, down, in one launch.
//
// Every block makes the plan itself (integers and a fixed order, so all blocks agree bit for bit), reads its share of the gate/up units,
// meets the others at one barrier, and reads its share of the down tiles. Two addends at most meet in an output (float32 onto zero), so the
// result does not depend on the order of arrival: the same step gives the same bits.
//
// Weights are MXFP4 in the order that tensor cores hold them (tiles.py: `fragments`): a lane's 16 bytes are its own A fragments of
// mma.m16n8k16, tokens are the N = 8 side. A code becomes float16 times 2^-14 with at most three instructions for two numbers; the scale of
// a group of 32 is applied to the float32 sum of the group. h is kept in float16 times a power of two that the caller chooses so that the
// clamp cannot overflow it; x is scaled by a power of two of its own in each row and each warp's slice, so no bf16 range is lost.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

namespace {

constexpr int WARPS = 20, THREADS = WARPS * 32;
constexpr int WIDTH = 5;               // times 16 outputs that a thread block takes at once
constexpr int TOP_K = 8;               // picks of a row at most
constexpr int MOST = 512;              // experts, picks and blocks of rows at most
constexpr int IMPORTANCE = 12;         // tiles whose importance is fetched before the step is known
#ifndef RING
#define RING 2                         // gate/up units, and down tiles, on their way to a warp; a power of two
#endif
#ifndef SLOTS
#define SLOTS 4                        // partial sums of units that wait for their reducing warp
#endif
#ifndef LAG
#define LAG 2                          // units until that warp takes them, less than SLOTS
#endif
#ifndef PREFETCH
#define PREFETCH 2                     // down tiles of a warp asked into L2 before the barrier, behind those on their way
#endif
constexpr uint32_t MASK = 0x8E008E00u; // sign, and exponent with mantissa, of e2m1 in two float16

struct Args {
    const uint8_t *pack;       // [experts, tiles, 102 * hidden]
    const float *importance;   // [tiles, experts]
    const float *price;        // one number
    const __nv_bfloat16 *x;    // [rows, hidden]
    const int *picks;          // [rows, top_k]
    const float *weights;      // [rows, top_k]
    const int *valid;          // one number: rows that are no padding
    __half *h;                 // [rows * top_k, 64 * tiles]
    float *sums;               // [thread blocks, rows * top_k + 8 * WARPS, 16 * WIDTH]; null: in shared memory
    float *out;                // [rows, hidden]
    unsigned long long *meet;  // counts arrivals for ever
    int *told;                 // [2, experts]: loads and depths, for whoever wants to know; may be null
    int rows, top_k, experts, tiles, floor, splits;
    float limit, prescale;
};

// Up to eight rows of one expert. base: its first tile in the pack; first: its first item of the list; row: its first place;
// behind: bits of the warps that begin within it, behind another warp of this thread block.
struct __align__(16) Expert { uint32_t base; uint16_t first, row; uint8_t depth, count; uint32_t behind; };

// Copies that are waited for by group, in order. Loads into registers would be waited for by one of six scoreboards, which the steps in
// flight would have to share: then the next one is waited for together with the last. A lane reads the codes that it copied itself; scales
// cross lanes, hence the warp barriers around them.
__device__ __forceinline__ void copy16(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ uint4 take16(uint32_t from) {
    uint4 r;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(from) : "memory");
    return r;
}
__device__ __forceinline__ uint32_t take4(uint32_t from) {
    uint32_t r;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(from) : "memory");
    return r;
}
__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT>
__device__ __forceinline__ void await_group() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }
__device__ __forceinline__ void into_l2(const void *p, int bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes));
}
__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(uint64_t *b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count));
}
__device__ __forceinline__ void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint64_t *b, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(shared_address(b)),
        "r"(parity)
        : "memory");
}
// d = a * b + d over 16 of k.
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Eight codes to the four registers of an A fragment, times 2^-14. tiles.py: `words` is the inverse.
__device__ __forceinline__ void fragment(uint32_t w, uint32_t (&a)[4]) {
    a[0] = w & MASK;
    a[1] = (w << 3) & MASK;
    a[2] = ((w << 6) ^ (w << 1)) & MASK;
    a[3] = ((w << 9) ^ (w << 2)) & MASK;
}
__device__ __forceinline__ float power(uint32_t word) { return __uint_as_float(word & 0x7F800000u); }

// One block of m16 x k64: adds what it gives to c. Scale bytes: group 0 row g, row g+8, group 1 row g, row g+8.
__device__ __forceinline__ void block(float (&c)[4], const uint4 &codes, uint32_t scales, const uint4 &b0, const uint4 &b1) {
    uint32_t a[4];
#pragma unroll
    for (int group = 0; group < 2; group++) {
        const uint4 &x = group ? b1 : b0;
        float d[4] = {0.f, 0.f, 0.f, 0.f};
        fragment(group ? codes.z : codes.x, a);
        mma(d, a, x.x, x.y);
        fragment(group ? codes.w : codes.y, a);
        mma(d, a, x.z, x.w);
        const float low = power(group ? scales << 7 : scales << 23), high = power(group ? scales >> 1 : scales << 15);
        c[0] += low * d[0]; c[1] += low * d[1]; c[2] += high * d[2]; c[3] += high * d[3];
    }
}

// What a block knows of the step. Lists are in shared memory.
struct Plan {
    Expert *expert;    // blocks of up to 8 rows of one expert, in the order of the experts
    uint16_t *list;    // (block << 6) | tile, one an item
    uint16_t *row;     // row of x of each place, places of one expert side by side
    float *weight;     // and its router weight
    uint16_t *place;   // place of each pick, MOST for none, 2 * MOST added where several warps of the block share its expert
    uint16_t *block;   // and its block of rows
    int items, blocks;
};

struct Counts { uint64_t v; };  // blocks in bits 0-15, places in 16-31, items in 32-63

template <int HIDDEN>
struct Shape {
    static constexpr int KB = HIDDEN / (WARPS * 64);             // k64 blocks of a warp's slice
    static constexpr size_t UP_SCALES = 64 * (size_t)HIDDEN;     // gate and up codes come first
    static constexpr size_t DOWN = 68 * (size_t)HIDDEN;
    static constexpr size_t DOWN_SCALES = 100 * (size_t)HIDDEN;
    static constexpr size_t TILE = 102 * (size_t)HIDDEN;
    static constexpr int UNIT = KB * 544;                        // shared bytes of a warp's slice of a unit on its way
    static constexpr int SLICE = RING * 544 * (KB > WIDTH ? KB : WIDTH);  // of all that is on its way to a warp
    static constexpr int GROUPS = HIDDEN / (16 * WIDTH);
};

template <int HIDDEN>
__device__ __forceinline__ Plan plan(const Args &a, char *shared, char *scratch, const float (&early)[IMPORTANCE]) {
    const int t = threadIdx.x, warp = t >> 5, lane = t & 31, picks = a.rows * a.top_k;
    Plan p;
    p.expert = (Expert *)shared;
    p.weight = (float *)(p.expert + MOST);
    p.row = (uint16_t *)(p.weight + MOST);
    p.place = p.row + MOST;
    p.block = p.place + MOST;
    p.list = p.block + MOST;
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
    // While those are on their way: the output begins at 0, and x, which may come from far, is asked for.
    if (a.splits > 1)
        for (int i = blockIdx.x * THREADS + t; i < a.rows * HIDDEN / 4; i += gridDim.x * THREADS) ((float4 *)a.out)[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int i = blockIdx.x + t * gridDim.x; i < a.rows * HIDDEN * 2 / 512; i += THREADS * gridDim.x) into_l2((const char *)a.x + (size_t)i * 512, 512);
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
    const int blocks = (count + 7) >> 3;
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
        p.expert[v0 + b] = Expert{(uint32_t)(t * a.tiles), (uint16_t)(item0 + b * depth), (uint16_t)(row0 + 8 * b), (uint8_t)depth,
                                  (uint8_t)min(8, count - 8 * b), 0};
        for (int k = 0; k < depth; k++) p.list[item0 + b * depth + k] = (uint16_t)(v0 + b << 6 | k);
    }
    __syncthreads();
    if (e >= 0) {
        const int within = in_warp[warp * MOST + e] + rank, place = (first[e] & 0xFFFF) + within;
        p.row[place] = row;
        p.weight[place] = weight;
        p.place[t] = place;
        p.block[t] = (first[e] >> 16) + within / 8;
    }
    p.items = (int)(all >> 32), p.blocks = (int)(all & 0xFFFF);
    __syncthreads();
    return p;
}

// A warp's slice of x for one block of rows, as B fragments, scaled to float16; post undoes the scale of rows 2q and 2q+1.
template <int KB>
__device__ __forceinline__ void hold_x(const Args &a, const Plan &p, int v, int hidden, uint4 (&b)[KB][2], float (&post)[2]) {
    const int lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3, warp = threadIdx.x >> 5;
    const Expert expert = p.expert[v];
    const bool live = g < expert.count;
    const __nv_bfloat16 *x = a.x + (size_t)(live ? p.row[expert.row + g] : 0) * hidden + warp * 64 * KB + 8 * q;
    __nv_bfloat162 most = __float2bfloat162_rn(0.f);
#pragma unroll
    for (int i = 0; i < KB; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            b[i][j] = live ? *(const uint4 *)(x + i * 64 + j * 32) : make_uint4(0, 0, 0, 0);
            const __nv_bfloat162 *two = (const __nv_bfloat162 *)&b[i][j];
#pragma unroll
            for (int n = 0; n < 4; n++) most = __hmax2(most, __habs2(two[n]));
        }
    int top = __float_as_int(fmaxf(__low2float(most), __high2float(most))) >> 23;
    top = max(top, __shfl_xor_sync(0xFFFFFFFFu, top, 1));
    top = max(top, __shfl_xor_sync(0xFFFFFFFFu, top, 2));
    const bool tiny = top < 14;  // below 2^-113: as good as nothing
    const float scale = tiny ? 0.f : __int_as_float((268 - top) << 23);
#pragma unroll
    for (int i = 0; i < KB; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t *word = (uint32_t *)&b[i][j];
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const __half2 two = __floats2half2_rn(__uint_as_float(word[n] << 16) * scale, __uint_as_float(word[n] & 0xFFFF0000u) * scale);
                word[n] = *(const uint32_t *)&two;
            }
        }
    const float undo = tiny ? 0.f : __int_as_float(top << 23);
    post[0] = __shfl_sync(0xFFFFFFFFu, undo, 8 * q);
    post[1] = __shfl_sync(0xFFFFFFFFu, undo, 8 * q + 4);
}

// Walks along the tiles of the list: the tiles of an expert lie side by side, so only another expert needs a look-up.
template <int HIDDEN>
struct Walk {
    const uint8_t *tile;
    int v, left;
    __device__ __forceinline__ void start(const Args &a, const Plan &p, int i) {
        const int item = p.list[i];
        v = item >> 6;
        const Expert e = p.expert[v];
        tile = a.pack + (size_t)(e.base + (item & 63)) * Shape<HIDDEN>::TILE;
        left = e.depth - (item & 63);
    }
    __device__ __forceinline__ void next(const Args &a, const Plan &p) {
        tile += Shape<HIDDEN>::TILE;
        if (--left == 0) {
            const Expert e = p.expert[++v];
            tile = a.pack + (size_t)e.base * Shape<HIDDEN>::TILE;
            left = e.depth;
        }
    }
};

// Sums the warps' partial sums of one unit in their order, applies SwiGLU and the router's weight, stores h.
__device__ __forceinline__ void reduce(const Args &a, const Plan &p, int u, const float4 *slot) {
    const int lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3, item = p.list[u >> 3];
    float4 s = slot[lane];
#pragma unroll 4  // all at once would take 76 registers
    for (int w = 1; w < WARPS; w++) {
        const float4 n = slot[w * 32 + lane];
        s.x += n.x; s.y += n.y; s.z += n.z; s.w += n.w;
    }
    const Expert expert = p.expert[item >> 6];
    const float gate[2] = {s.x, s.y}, up[2] = {s.z, s.w};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int n = 2 * q + i;
        if (n < expert.count) {
            const float low = fminf(gate[i], a.limit), wide = fminf(fmaxf(up[i], -a.limit), a.limit);
            const float h = low / (1.f + __expf(-low)) * wide * p.weight[expert.row + n] * a.prescale;
            a.h[(size_t)(expert.row + n) * (a.tiles * 64) + (item & 63) * 64 + (u & 7) * 8 + g] = __float2half_rn(h);
        }
    }
}

// Which part of the down weights a warp sums, in blocks of 16 outputs by one tile, tile by tile: those of WIDTH * 16 outputs are divided
// evenly among the warps of `splits` thread blocks. head: where this thread block begins.
struct Stream { int begin, end, head, tail; };

__device__ __forceinline__ Stream stream_of(const Args &a, const Plan &p, uint32_t split) {
    const uint32_t total = p.items * WIDTH, ways = WARPS * a.splits, s = split * WARPS + (threadIdx.x >> 5);
    Stream r;
    r.head = total * (split * WARPS) / ways;
    r.tail = total * (split * WARPS + WARPS) / ways;
    r.begin = total * s / ways;
    r.end = split < a.splits ? total * (s + 1) / ways : r.begin;
    return r;
}

// Sums what the warps of this thread block found for each row and adds it to the output, picks in their order, parts in theirs.
template <int HIDDEN>
__device__ __forceinline__ void gather(const Args &a, const Plan &p, const float *parts, const float *broken, int group) {
    constexpr int QUADS = WIDTH * 4;
    const float undo = 16384.f / a.prescale;
    for (int i = threadIdx.x; i < a.rows * QUADS; i += THREADS) {
        const int row = i / QUADS, quad = i % QUADS;
        float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
        auto add = [&](const float *from) {
            const float4 one = *(const float4 *)from;
            sum.x += one.x; sum.y += one.y; sum.z += one.z; sum.w += one.w;
        };
#pragma unroll
        for (int k = 0; k < TOP_K; k++) {
            const int pick = row * a.top_k + k, place = k < a.top_k ? p.place[pick] : MOST;
            if (place == MOST) continue;
            add(parts + ((place & (MOST - 1)) * QUADS + quad) * 4);
            if (place >= 2 * MOST) {
                const Expert e = p.expert[p.block[pick]];
                for (uint32_t left = e.behind; left; left &= left - 1)
                    add(broken + (((__ffs(left) - 1) * 8 + (place & (MOST - 1)) - e.row) * QUADS + quad) * 4);
            }
        }
        float *to = a.out + (size_t)row * HIDDEN + group * WIDTH * 16 + quad * 4;
        sum.x *= undo, sum.y *= undo, sum.z *= undo, sum.w *= undo;
        if (a.splits == 1) *(float4 *)to = sum;
        else asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(sum.x), "f"(sum.y), "f"(sum.z), "f"(sum.w) : "memory");
    }
}

template <int HIDDEN>
__global__ void __launch_bounds__(THREADS, 1) budget_layer(const __grid_constant__ Args a) {
    using S = Shape<HIDDEN>;
    constexpr int KB = S::KB;
    extern __shared__ __align__(128) char memory[];
    __shared__ uint64_t full[SLOTS], empty[SLOTS];
    const int t = threadIdx.x, warp = t >> 5, lane = t & 31, g = lane >> 2, q = lane & 3;
    float early[IMPORTANCE];
#pragma unroll
    for (int k = 0; k < IMPORTANCE; k++) early[k] = k < a.tiles && t < a.experts ? a.importance[k * a.experts + t] : -1.f;
    if (t < SLOTS) barrier_init(&full[t], WARPS), barrier_init(&empty[t], 1);
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    // Shared memory: partial sums of units (before: scratch of the plan; after: sums of the outputs, where they fit), what is on its way,
    // lists.
    const int front = max(SLOTS * WARPS * 512, a.sums ? 0 : (a.rows * a.top_k + 8 * WARPS) * WIDTH * 64);
    const Plan p = plan<HIDDEN>(a, memory + front + WARPS * S::SLICE, memory, early);
    float4 *slots = (float4 *)memory;
    const uint32_t way = shared_address(memory + front + warp * S::SLICE);

    const int units = p.items * 8;
    const int begin = (int)(units * blockIdx.x / gridDim.x), n = (int)(units * (blockIdx.x + 1) / gridDim.x) - begin;
    {
        uint4 b[KB][2];
        float post[2];
        Walk<HIDDEN> walk = {nullptr, 0, 0};
        int turn = -warp;                      // units until this warp reduces one, negative
        int sub = begin & 7, v = 0, left = 0;  // left: units until other rows of x are needed
        const uint32_t codes_at = warp * (KB * 512) + lane * 16, scales_at = S::UP_SCALES + warp * (KB * 32) + lane * 16;
        auto send = [&](int step, int k) {
            copy16(way + step * S::UNIT + k * 512 + lane * 16, walk.tile + (sub * (WARPS * KB * 512) + codes_at) + k * 512);
        };
        auto send_scales = [&](int step) {
            if (lane < KB * 2) copy16(way + step * S::UNIT + KB * 512 + lane * 16, walk.tile + (sub * (WARPS * KB * 32) + scales_at));
        };
        auto advance = [&] {
            if (++sub == 8) sub = 0, walk.next(a, p);
        };
        if (n) {
            walk.start(a, p, begin >> 3);
            v = walk.v - 1;
        }
#pragma unroll
        for (int i = 0; i < RING; i++) {
            if (i < n) {
                if (i) advance();
#pragma unroll
                for (int k = 0; k < KB; k++) send(i, k);
                send_scales(i);
            }
            close_group();
        }
        for (int i = 0; i < n; i++) {
            const int half = i & (RING - 1);
            if (left == 0) {
                v++;
                hold_x<KB>(a, p, v, HIDDEN, b, post);
                left = p.expert[v].depth * 8 - (i ? 0 : (p.list[begin >> 3] & 63) * 8 + (begin & 7));
            }
            left--;
            // Behind the end the last unit is copied again, from the L2: cheaper than a branch around every copy.
            if (i + RING < n) advance();
            float c[4] = {0.f, 0.f, 0.f, 0.f};
            await_group<RING - 1>();
            __syncwarp();
            uint32_t scales[KB];
            if (KB == 4) *(uint4 *)scales = take16(way + half * S::UNIT + KB * 512 + g * 16);
            else
#pragma unroll
                for (int k = 0; k < KB; k++) scales[k] = take4(way + half * S::UNIT + KB * 512 + (g * KB + k) * 4);
            __syncwarp();
#pragma unroll
            for (int k = 0; k < KB; k++) {
                block(c, take16(way + half * S::UNIT + k * 512 + lane * 16), scales[k], b[k][0], b[k][1]);
                send(half, k);
            }
            send_scales(half);
            close_group();
            if (i >= SLOTS) barrier_wait(&empty[i % SLOTS], (i / SLOTS - 1) & 1);
            slots[(i % SLOTS * WARPS + warp) * 32 + lane] = make_float4(c[0] * post[0], c[1] * post[1], c[2] * post[0], c[3] * post[1]);
            __syncwarp();
            if (lane == 0) barrier_arrive(&full[i % SLOTS]);
            const int done = i - LAG;
            if (done >= 0 && turn++ == 0) {
                turn = 1 - WARPS;
                barrier_wait(&full[done % SLOTS], done / SLOTS & 1);
                reduce(a, p, begin + done, slots + done % SLOTS * WARPS * 32);
                __syncwarp();
                if (lane == 0) barrier_arrive(&empty[done % SLOTS]);
            }
        }
        for (int done = max(0, n - LAG); done < n; done++)
            if (turn++ == 0) {
                turn = 1 - WARPS;
                barrier_wait(&full[done % SLOTS], done / SLOTS & 1);
                reduce(a, p, begin + done, slots + done % SLOTS * WARPS * 32);
            }
    }
    // The first down tiles are on their way while the others are waited for.
    await_group<0>();
    const uint32_t split = a.splits > 1 ? blockIdx.x / S::GROUPS : 0;
    const Stream s = stream_of(a, p, split);
    const int tiles = s.end > s.begin ? (s.end + WIDTH - 1) / WIDTH - s.begin / WIDTH : 0, skip = s.begin % WIDTH;
    const int last = s.end - (s.begin / WIDTH + tiles - 1) * WIDTH;  // blocks of the last tile
    // A warp that begins within an expert, behind another warp of this thread block, keeps its part apart.
    const bool behind = tiles > 0 && s.begin != s.head && (skip || p.list[s.begin / WIDTH] & 63);
    float *parts = a.sums ? a.sums + (size_t)blockIdx.x * ((a.rows * a.top_k + 8 * WARPS) * WIDTH * 16) : (float *)memory;
    float *broken = parts + a.rows * a.top_k * WIDTH * 16;
    bool met = false;
    // With two splits each thread block has one group of outputs or none; with one split it takes every gridDim.x-th.
    for (int group = a.splits > 1 ? blockIdx.x % S::GROUPS : blockIdx.x; !met || group < S::GROUPS; group += a.splits > 1 ? S::GROUPS : gridDim.x) {
        const int mine = group < S::GROUPS ? tiles : 0;
        Walk<HIDDEN> walk = {nullptr, 0, 0};
        if (mine) walk.start(a, p, s.begin / WIDTH);
        const int from_v = walk.v;
        int v = walk.v, left = walk.left;
        const uint32_t codes_at = S::DOWN + group * (WIDTH * 512) + lane * 16, scales_at = S::DOWN_SCALES + group * (WIDTH * 32) + lane * 16;
        auto send = [&](int step, int i) {
            const uint32_t to = way + step * (WIDTH * 544) + lane * 16;
            const int low = i ? 0 : skip, high = i == tiles - 1 ? last : WIDTH;
            if (high - low == WIDTH) {
#pragma unroll
                for (int m = 0; m < WIDTH; m++) copy16(to + m * 512, walk.tile + codes_at + m * 512);
            } else
                for (int m = low; m < high; m++) copy16(to + m * 512, walk.tile + codes_at + m * 512);
            if (lane < WIDTH * 2) copy16(to + WIDTH * 512, walk.tile + scales_at);
        };
#pragma unroll
        for (int i = 0; i < RING; i++) {
            if (i < mine) {
                if (i) walk.next(a, p);
                send(i, i);
            }
            close_group();
        }
        if (!met) {
            if (PREFETCH && lane < PREFETCH && RING + lane < mine) {
                Walk<HIDDEN> far;
                far.start(a, p, s.begin / WIDTH + RING + lane);
                into_l2(far.tile + S::DOWN + group * (WIDTH * 512), WIDTH * 512);
            }
            if (behind && lane == 0) atomicOr(&p.expert[from_v].behind, 1u << warp);
            __syncthreads();
            if (t == 0) {
                __threadfence();
                const unsigned long long until = (atomicAdd(a.meet, 1ull) / gridDim.x + 1) * gridDim.x;
                unsigned long long now;
                do asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(a.meet) : "memory");
                while (now < until);
            }
            met = true;
            __syncthreads();
            // Picks whose expert this thread block does not touch leave the sum; those in several parts are marked.
            if (t < a.rows * a.top_k && p.place[t] < MOST) {
                const Expert e = p.expert[p.block[t]];
                const bool touched = e.first * WIDTH < s.tail && (e.first + e.depth) * WIDTH > s.head;
                p.place[t] = !touched ? MOST : e.behind ? p.place[t] | 2 * MOST : p.place[t];
            }
        }
        float c[WIDTH][4];
#pragma unroll
        for (int m = 0; m < WIDTH; m++) c[m][0] = c[m][1] = c[m][2] = c[m][3] = 0.f;
        // Lanes of missing rows read those of the last one: what they add lands in columns that nobody takes.
        uint4 h[2];
        const __half *h_at = nullptr;
        auto aim_h = [&](int block, int k) {
            const Expert e = p.expert[block];
            h_at = a.h + ((e.row + min(g, e.count - 1)) * a.tiles + k) * 64 + 8 * q;
        };
        auto fetch_h = [&] { h[0] = *(const uint4 *)h_at, h[1] = *(const uint4 *)(h_at + 32); };
        if (mine) {
            aim_h(v, p.expert[v].depth - left);
            fetch_h();
        }
        for (int i = 0; i < mine; i++) {
            const int half = i & (RING - 1);
            const uint4 h0 = h[0], h1 = h[1];
            const uint32_t at = way + half * (WIDTH * 544);
            const bool done = --left == 0 || i == mine - 1;
            await_group<RING - 1>();
            __syncwarp();
            if (i + 1 < mine) {
                if (left) h_at += 64;
                else aim_h(v + 1, 0);
                fetch_h();
            }
            const int low = i ? 0 : skip, high = i == mine - 1 ? last : WIDTH;
            auto part = [&](int m) { block(c[m], take16(at + m * 512 + lane * 16), take4(at + WIDTH * 512 + m * 32 + g * 4), h0, h1); };
            if (high - low == WIDTH) {
#pragma unroll
                for (int m = 0; m < WIDTH; m++) part(m);
            } else {
#pragma unroll
                for (int m = 0; m < WIDTH; m++)
                    if (m >= low && m < high) part(m);
            }
            __syncwarp();
            if (i + RING < mine) {
                walk.next(a, p);
                send(half, i + RING);
            }
            close_group();
            if (done) {
                const Expert e = p.expert[v];
                float *to = behind && v == from_v ? broken + warp * (8 * WIDTH * 16) : parts + e.row * (WIDTH * 16);
#pragma unroll
                for (int k = 0; k < 2; k++)
                    if (2 * q + k < e.count)
#pragma unroll
                        for (int m = 0; m < WIDTH; m++) {
                            float *sum = to + (2 * q + k) * (WIDTH * 16) + m * 16 + g;
                            sum[0] = c[m][k];
                            sum[8] = c[m][2 + k];
                        }
#pragma unroll
                for (int m = 0; m < WIDTH; m++) c[m][0] = c[m][1] = c[m][2] = c[m][3] = 0.f;
                v++;
                left = i == mine - 1 ? 0 : p.expert[v].depth;
            }
        }
        await_group<0>();
        __syncthreads();
        if (split < a.splits && group < S::GROUPS) gather<HIDDEN>(a, p, parts, broken, group);
        if (a.splits == 1) __syncthreads();  // before the sums are overwritten
    }
}

template <int HIDDEN>
int launch(const Args &a, int blocks, int shared, int early, cudaStream_t stream) {
    cudaError_t bad = cudaFuncSetAttribute(budget_layer<HIDDEN>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (bad != cudaSuccess) return bad;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(blocks), c.blockDim = dim3(THREADS), c.dynamicSmemBytes = shared, c.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    c.attrs = &attribute, c.numAttrs = early ? 1 : 0;
    return cudaLaunchKernelEx(&c, budget_layer<HIDDEN>, a);
}

template <int HIDDEN>
int shared_bytes(int places, int tiles, bool sums) {
    const int slots = SLOTS * WARPS * 512, outputs = sums ? (places + 8 * WARPS) * WIDTH * 64 : 0;
    return (slots > outputs ? slots : outputs) + WARPS * Shape<HIDDEN>::SLICE + MOST * ((int)sizeof(Expert) + 4 + 2 * 3) + ((places * tiles + 7) & ~7) * 2;
}

}  // namespace

#define EVERY(CASE) CASE(1280) CASE(2560) CASE(5120)

// Bytes of dynamic shared memory for a step, with or without the sums of outputs, or -1 for a hidden size that is not compiled.
extern "C" int budget_shared(int rows, int top_k, int tiles, int hidden, int sums) {
#define CASE(H) if (hidden == H) return shared_bytes<H>(rows * top_k, tiles, sums);
    EVERY(CASE)
#undef CASE
    return -1;
}

// Floats of global memory that the sums of outputs take where they do not fit into shared memory.
extern "C" int budget_sums(int rows, int top_k) { return (rows * top_k + 8 * WARPS) * 16 * WIDTH; }

// 0, or a CUDA error code; -1 for a hidden size that is not compiled. splits: thread blocks that share the same outputs, 1 or 2 (two addends
// onto zero give the same bits in either order); early: the launch may overlap the end of the kernel before.
extern "C" int budget_read(const void *pack, const void *importance, const void *price, const void *x, const void *picks, const void *weights,
                           const void *valid, void *h, void *sums, void *out, void *meet, void *told, int rows, int top_k, int experts,
                           int tiles, int floor, int hidden, float limit, float prescale, int blocks, int early, void *stream) {
#define CASE(H) if (hidden == H) {                                                                                                      \
        const Args a = {(const uint8_t *)pack, (const float *)importance, (const float *)price, (const __nv_bfloat16 *)x,               \
                        (const int *)picks, (const float *)weights, (const int *)valid, (__half *)h, (float *)sums, (float *)out,       \
                        (unsigned long long *)meet, (int *)told, rows, top_k, experts, tiles, floor,                                    \
                        blocks >= 2 * Shape<H>::GROUPS ? 2 : 1, limit, prescale};                                                       \
        return launch<H>(a, blocks, shared_bytes<H>(rows * top_k, tiles, !sums), early, (cudaStream_t)stream);                          \
    }
    EVERY(CASE)
#undef CASE
    return -1;
}
