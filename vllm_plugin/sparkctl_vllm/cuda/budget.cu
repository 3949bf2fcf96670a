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

constexpr int WARPS = 16, THREADS = WARPS * 32;
constexpr int SLOTS = 8, LAG = 2;      // partial sums wait for their reducing warp in a ring
#ifndef RING
#define RING 2                         // gate/up units on their way to a warp
#endif
#ifndef AHEAD
#define AHEAD (RING * 4)               // down steps on their way to a warp
#endif
#ifndef HELD
#define HELD 2                         // steps whose h is on its way, a divisor of AHEAD
#endif
#ifndef PREFETCH
#define PREFETCH 16                    // down steps asked into L2 before the barrier, at most 32
#endif
constexpr int IMPORTANCE = 12;         // tiles whose importance is fetched before the step is known
constexpr int STEP = 32 * 20;          // shared bytes of one m16 x k64 block on its way to a warp: 16 of codes and 4 of scales a lane
constexpr int WAY = (RING * 5 > AHEAD ? RING * 5 : AHEAD) * STEP;  // of a warp; 5 blocks at most are a unit's slice
#ifdef TRACE
__device__ unsigned long long trace[8 * 256];
#define MARK(i) do { if (threadIdx.x == 0) { unsigned long long now; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); trace[blockIdx.x * 8 + i] = now; } } while (0)
#else
#define MARK(i)
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
    float *out;                // [rows, hidden]
    unsigned long long *meet;  // counts arrivals for ever
    int *told;                 // [2, experts]: loads and depths, for whoever wants to know; may be null
    int rows, top_k, experts, tiles, floor, splits, most;
    float limit, prescale;
};

struct __align__(8) Expert { uint32_t base; uint16_t row; uint8_t depth, count; };  // base: its first tile in the pack

// Copies that are waited for by group, in order. Loads into registers would be waited for by one of six scoreboards, which the steps in
// flight would have to share: then the next one is waited for together with the last. A lane reads only what it copied itself.
struct Way {
    uint32_t codes, scales;  // shared addresses of this lane's 16 and 4 bytes of the first step
    __device__ __forceinline__ explicit Way(char *memory) {
        const uint32_t warp = (uint32_t)__cvta_generic_to_shared(memory) + threadIdx.x / 32 * WAY, lane = threadIdx.x & 31;
        codes = warp + lane * 16, scales = warp + 512 + lane * 4;
    }
    __device__ __forceinline__ void copy(int step, const void *from, const void *scales_from) const {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(codes + step * STEP), "l"(from) : "memory");
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(scales + step * STEP), "l"(scales_from) : "memory");
    }
    __device__ __forceinline__ void take(int step, uint4 &c, uint32_t &s) const {
        asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(c.x), "=r"(c.y), "=r"(c.z), "=r"(c.w) : "r"(codes + step * STEP) : "memory");
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(s) : "r"(scales + step * STEP) : "memory");
    }
};
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
};

__device__ Plan plan(const Args &a, char *&shared, char *scratch, const float (&early)[IMPORTANCE]) {
    const int t = threadIdx.x, warp = t >> 5, lane = t & 31, picks = a.rows * a.top_k;
    Plan p;
    p.expert = (Expert *)shared;
    p.list = (uint16_t *)(p.expert + THREADS);
    p.row = p.list + ((a.most + 7) & ~7);
    p.weight = (float *)(p.row + THREADS);
    shared = (char *)(p.weight + THREADS);
    int *load = (int *)scratch;                               // [THREADS]
    uint8_t *in_warp = (uint8_t *)(load + THREADS);           // [WARPS][THREADS]
    uint16_t *first = (uint16_t *)(in_warp + WARPS * THREADS);// [THREADS]
    uint64_t *totals = (uint64_t *)(first + THREADS);         // [WARPS]

    int e = -1, row = 0;
    float weight = 0.f;
    if (t < picks) {
        e = a.picks[t];
        weight = a.weights[t];
        row = t / a.top_k;
        if (row >= *a.valid || e >= a.experts) e = -1;
    }
    load[t] = 0;
    for (int i = 0; i < WARPS * THREADS / 16 / THREADS; i++) ((uint4 *)in_warp)[i * THREADS + t] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    const uint32_t same = __match_any_sync(0xFFFFFFFFu, e >= 0 ? e : -1 - lane);
    const int rank = __popc(same & ((1u << lane) - 1));
    if (e >= 0) {
        if (rank == 0) in_warp[warp * THREADS + e] = __popc(same);
        atomicAdd(&load[e], max(1, __float2int_rn(weight * weight * 1048576.f)));
    }
    __syncthreads();
    int count = 0, depth = 0;
    if (t < a.experts) {
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const int n = in_warp[w * THREADS + t];
            in_warp[w * THREADS + t] = count;
            count += n;
        }
        if (count) {
            const float l = (float)load[t], price = *a.price;
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
    first[t] = (uint16_t)(begin >> 16);
    for (int b = 0; b < blocks; b++) {
        const int v = (int)(begin & 0xFFFF) + b;
        p.expert[v] = Expert{(uint32_t)(t * a.tiles), (uint16_t)((begin >> 16 & 0xFFFF) + 8 * b), (uint8_t)depth, (uint8_t)min(8, count - 8 * b)};
        uint16_t *item = p.list + (begin >> 32) + b * depth;
        for (int k = 0; k < depth; k++) item[k] = (uint16_t)(v << 6 | k);
    }
    __syncthreads();
    if (e >= 0) {
        const int place = first[e] + in_warp[warp * THREADS + e] + rank;
        p.row[place] = row;
        p.weight[place] = weight;
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
#pragma unroll 3  // all at once would take 60 registers beside the weights in flight
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

struct Stream { int begin, end, m; bool live; };

// Which down tiles of which 16 outputs a warp sums.
__device__ __forceinline__ Stream stream_of(const Args &a, const Plan &p, int width, int hidden) {
    const int warp = threadIdx.x >> 5, groups = (hidden / 16 + width - 1) / width, lanes = WARPS / width;
    const int group = blockIdx.x % groups, split = blockIdx.x / groups;
    const int way = warp / width, ways = lanes * a.splits, s = split * lanes + way;
    Stream r;
    r.m = group * width + warp % width;
    r.live = split < a.splits && way < lanes && r.m < hidden / 16;
    r.begin = (int)((uint32_t)p.items * s / ways);
    r.end = r.live ? (int)((uint32_t)p.items * (s + 1) / ways) : r.begin;
    return r;
}

template <int HIDDEN, int WIDTH>
__global__ void __launch_bounds__(THREADS, 1) budget_layer(const __grid_constant__ Args a) {
    using S = Shape<HIDDEN>;
    constexpr int KB = S::KB;
    extern __shared__ __align__(128) char memory[];
    __shared__ uint64_t full[SLOTS], empty[SLOTS];
    const int t = threadIdx.x, warp = t >> 5, lane = t & 31, g = lane >> 2, q = lane & 3;
    float early[IMPORTANCE];
    MARK(0);
#pragma unroll
    for (int k = 0; k < IMPORTANCE; k++) early[k] = k < a.tiles && t < a.experts ? a.importance[k * a.experts + t] : -1.f;
    if (t < SLOTS) barrier_init(&full[t], WARPS), barrier_init(&empty[t], 1);
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    MARK(1);
    for (int i = blockIdx.x * THREADS + t; i < a.rows * HIDDEN / 4; i += gridDim.x * THREADS)
        ((float4 *)a.out)[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (t < a.rows * HIDDEN * 2 / 512 / gridDim.x + 1) {  // x may come from far
        const int line = blockIdx.x + t * gridDim.x;
        if (line < a.rows * HIDDEN * 2 / 512) into_l2((const char *)a.x + (size_t)line * 512, 512);
    }
    // Sums live where the plan's scratch was.
    char *free_memory = memory;
    const size_t work = max((size_t)SLOTS * WARPS * 512, (size_t)WARPS * a.rows * 64);
    char *way_memory = memory + work, *lists = way_memory + WARPS * WAY;
    const Plan p = plan(a, lists, free_memory, early);
    float4 *slots = (float4 *)memory;
    float *sums = (float *)memory;
    MARK(2);

    const Way way(way_memory);
    const int units = p.items * 8;
    const int begin = (int)(units * blockIdx.x / gridDim.x), n = (int)(units * (blockIdx.x + 1) / gridDim.x) - begin;
    {
        uint4 b[KB][2];
        float post[2];
        Walk<HIDDEN> walk;
        int sub = begin & 7, v = 0, left = 0;  // left: units until other rows of x are needed
        const uint32_t codes_at = warp * (KB * 512) + lane * 16, scales_at = S::UP_SCALES + warp * (KB * 32) + g * 4;
        auto send = [&](int step, int k) {
            way.copy(step, walk.tile + (sub * (WARPS * KB * 512) + codes_at) + k * 512, walk.tile + (sub * (WARPS * KB * 32) + scales_at) + k * 32);
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
                for (int k = 0; k < KB; k++) send(i * KB + k, k);
            }
            close_group();
        }
        for (int i0 = 0; i0 < n; i0 += RING) {
#pragma unroll
            for (int half = 0; half < RING; half++) {
                const int i = i0 + half;
                if (i < n) {
                    if (left == 0) {
                        v++;
                        hold_x<KB>(a, p, v, HIDDEN, b, post);
                        left = p.expert[v].depth * 8 - (i ? 0 : (p.list[begin >> 3] & 63) * 8 + (begin & 7));
                    }
                    left--;
                    const bool more = i + RING < n;
                    if (more) advance();
                    float c[4] = {0.f, 0.f, 0.f, 0.f};
                    await_group<RING - 1>();
#pragma unroll
                    for (int k = 0; k < KB; k++) {
                        uint4 codes;
                        uint32_t scales;
                        way.take(half * KB + k, codes, scales);
                        block(c, codes, scales, b[k][0], b[k][1]);
                        if (more) send(half * KB + k, k);
                    }
                    close_group();
                    if (i >= SLOTS) barrier_wait(&empty[i % SLOTS], (i / SLOTS - 1) & 1);
                    slots[(i % SLOTS * WARPS + warp) * 32 + lane] = make_float4(c[0] * post[0], c[1] * post[1], c[2] * post[0], c[3] * post[1]);
                    __syncwarp();
                    if (lane == 0) barrier_arrive(&full[i % SLOTS]);
                    const int done = i - LAG;
                    if (done >= 0 && done % WARPS == warp) {
                        barrier_wait(&full[done % SLOTS], done / SLOTS & 1);
                        reduce(a, p, begin + done, slots + done % SLOTS * WARPS * 32);
                        __syncwarp();
                        if (lane == 0) barrier_arrive(&empty[done % SLOTS]);
                    }
                }
            }
        }
        {
            const Stream s = stream_of(a, p, WIDTH, HIDDEN);
            const int ahead = s.begin + AHEAD + lane;
            if (lane < PREFETCH && ahead < s.end) {
                Walk<HIDDEN> walk;
                walk.start(a, p, ahead);
                into_l2(walk.tile + S::DOWN + s.m * 512, 512);
            }
        }
        for (int done = max(0, n - LAG); done < n; done++)
            if (done % WARPS == warp) {
                barrier_wait(&full[done % SLOTS], done / SLOTS & 1);
                reduce(a, p, begin + done, slots + done % SLOTS * WARPS * 32);
            }
    }
    // The first down tiles are on their way while the others are waited for.
    const Stream s = stream_of(a, p, WIDTH, HIDDEN);
    await_group<0>();
    Walk<HIDDEN> walk;
    if (s.begin < s.end) walk.start(a, p, s.begin);
    const Walk<HIDDEN> from = walk;
    const uint32_t codes_at = S::DOWN + s.m * 512 + lane * 16, scales_at = S::DOWN_SCALES + s.m * 32 + g * 4;
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        if (s.begin + j < s.end) {
            if (j) walk.next(a, p);
            way.copy(j, walk.tile + codes_at, walk.tile + scales_at);
        }
        close_group();
    }
    __syncthreads();
    MARK(3);
    unsigned long long until = 0;
    if (t == 0) {
        __threadfence();
        until = (atomicAdd(a.meet, 1ull) / gridDim.x + 1) * gridDim.x;
    }
    for (int i = t; i < WARPS * a.rows * 4; i += THREADS) ((float4 *)sums)[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (t == 0) {
        unsigned long long now;
        do asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(a.meet) : "memory");
        while (now < until);
    }
    __syncthreads();

    MARK(4);
    float *mine = sums + warp * a.rows * 16;
    float c[4] = {0.f, 0.f, 0.f, 0.f};
    // Lanes of missing rows read those of the last one: what they add lands in columns that nobody takes.
    uint4 h[HELD][2];
    const __half *h_at;
    int h_v = from.v, h_left = from.left, v = from.v, left = from.left;
    auto aim_h = [&](int k) {
        const Expert e = p.expert[h_v];
        h_at = a.h + ((e.row + min(g, e.count - 1)) * a.tiles + k) * 64 + 8 * q;
        h_left = e.depth - k;
    };
    auto fetch_h = [&](int j) {
        h[j][0] = *(const uint4 *)h_at;
        h[j][1] = *(const uint4 *)(h_at + 32);
        h_at += 64;
        if (--h_left == 0 && h_v + 1 < p.blocks) h_v++, aim_h(0);
    };
    if (s.begin < s.end) {
        aim_h(p.expert[v].depth - left);
#pragma unroll
        for (int j = 0; j < HELD; j++) fetch_h(j);
    }
    for (int i0 = s.begin; i0 < s.end; i0 += AHEAD) {
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int i = i0 + j;
            if (i < s.end) {
                uint4 codes;
                uint32_t scales;
                await_group<AHEAD - 1>();
                way.take(j, codes, scales);
                block(c, codes, scales, h[j % HELD][0], h[j % HELD][1]);
                if (i + HELD < s.end) fetch_h(j % HELD);
                if (i + AHEAD < s.end) {
                    walk.next(a, p);
                    way.copy(j, walk.tile + codes_at, walk.tile + scales_at);
                }
                close_group();
                if (--left == 0 || i + 1 == s.end) {
                    const Expert e = p.expert[v++];
#pragma unroll
                    for (int k = 0; k < 2; k++)
                        if (2 * q + k < e.count) {
                            float *sum = mine + p.row[e.row + 2 * q + k] * 16 + g;
                            sum[0] += c[k];
                            sum[8] += c[2 + k];
                        }
                    __syncwarp();
                    c[0] = c[1] = c[2] = c[3] = 0.f;
                    left = i + 1 == s.end ? 0 : p.expert[v].depth;
                }
            }
        }
    }
    __syncthreads();
    MARK(5);
    constexpr int LANES = WARPS / WIDTH;
    const int groups = (HIDDEN / 16 + WIDTH - 1) / WIDTH, first = blockIdx.x % groups * WIDTH;
    if (blockIdx.x / groups < a.splits)
        for (int i = t; i < a.rows * WIDTH * 4; i += THREADS) {
            const int row = i / (WIDTH * 4), m = i % (WIDTH * 4) / 4, part = i % 4;
            if (first + m >= HIDDEN / 16) continue;
            float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
            for (int l = 0; l < LANES; l++) {
                const float4 one = ((float4 *)sums)[((l * WIDTH + m) * a.rows + row) * 4 + part];
                sum.x += one.x; sum.y += one.y; sum.z += one.z; sum.w += one.w;
            }
            const float undo = 16384.f / a.prescale;
            float *to = a.out + (size_t)row * HIDDEN + (first + m) * 16 + part * 4;
            asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(sum.x * undo), "f"(sum.y * undo), "f"(sum.z * undo),
                         "f"(sum.w * undo)
                         : "memory");
        }
    MARK(6);
}

template <int HIDDEN, int WIDTH>
int launch(const Args &a, int blocks, int shared, int early, cudaStream_t stream) {
    cudaError_t bad = cudaFuncSetAttribute(budget_layer<HIDDEN, WIDTH>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (bad != cudaSuccess) return bad;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(blocks), c.blockDim = dim3(THREADS), c.dynamicSmemBytes = shared, c.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    c.attrs = &attribute, c.numAttrs = early ? 1 : 0;
    return cudaLaunchKernelEx(&c, budget_layer<HIDDEN, WIDTH>, a);
}

}  // namespace

#ifdef TRACE
extern "C" int budget_trace(void *to) { return cudaMemcpyFromSymbol(to, trace, sizeof(trace)); }
#endif

// Bytes of dynamic shared memory for a step.
extern "C" int budget_shared(int rows, int top_k, int tiles) {
    const int slots = SLOTS * WARPS * 512, sums = WARPS * rows * 64, most = rows * top_k * tiles;
    return (slots > sums ? slots : sums) + WARPS * WAY + THREADS * (int)sizeof(Expert) + ((most + 7) & ~7) * 2 + THREADS * 6;
}

// 0, or a CUDA error code; -1 for a hidden size that is not compiled. width: 16-output groups a block takes, 5 or 16.
extern "C" int budget_read(const void *pack, const void *importance, const void *price, const void *x, const void *picks, const void *weights,
                           const void *valid, void *h, void *out, void *meet, void *told, int rows, int top_k, int experts, int tiles,
                           int floor, int hidden, float limit, float prescale, int blocks, int splits, int width, int early, void *stream) {
    Args a = {(const uint8_t *)pack, (const float *)importance, (const float *)price, (const __nv_bfloat16 *)x, (const int *)picks,
              (const float *)weights, (const int *)valid, (__half *)h, (float *)out, (unsigned long long *)meet, (int *)told,
              rows, top_k, experts, tiles, floor, splits, rows * top_k * tiles, limit, prescale};
    const int shared = budget_shared(rows, top_k, tiles);
    cudaStream_t s = (cudaStream_t)stream;
#define CASE(H, W) if (hidden == H && width == W) return launch<H, W>(a, blocks, shared, early, s);
    CASE(1024, 5) CASE(1024, 16) CASE(4096, 5) CASE(4096, 16) CASE(5120, 5) CASE(5120, 16)
#undef CASE
    return -1;
}
