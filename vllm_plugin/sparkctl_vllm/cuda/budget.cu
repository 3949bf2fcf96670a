// One mixture-of-experts layer of a decode step, read by budget: plan, gate/up with clamped SwiGLU, down, in one launch.
//
// Every block makes the plan itself (integers and a fixed order, so all blocks agree bit for bit), reads its share of the gate/up units, and
// goes on to its share of the down tiles without waiting for the others: h is its own flag. Before a launch it is MISSING throughout, a NaN
// that nobody stores, and a warp asks for the h of the tile it has in hand until it is there; two buffers take turns, one in use while the
// other is made MISSING again. All blocks must be resident at once. Two addends at most meet in an output (float32 onto zero), so the result
// does not depend on the order of arrival: the same step gives the same bits.
//
// Weights are MXFP4 in the order that tensor cores hold them (tiles.py: `fragments`): a lane's 16 bytes are its own A fragments of
// mma.m16n8k16, tokens are the N = 8 side. A code becomes float16 times 2^-14 with at most three instructions for two numbers; the scale of
// a group of 32 is applied to the float32 sum of the group. h is kept in float16 times a power of two that the caller chooses so that the
// clamp cannot overflow it; x is scaled by a power of two of its own in each row and each warp's slice, so no bf16 range is lost.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "handover.cuh"
#include "plan.cuh"

namespace {

using namespace budget;

#ifndef RING
#define RING 2                         // pieces of weights on their way to a warp
#endif
#ifndef STAGED
#define STAGED 8                       // rows of the next expert that wait in shared memory
#endif
#ifndef SLOTS
#define SLOTS 4                        // partial sums of units that wait for their reducing warp
#endif
#ifndef LAG
#define LAG 1                          // units until that warp takes them, less than SLOTS
#endif
constexpr uint32_t MASK = 0x8E008E00u; // sign, and exponent with mantissa, of e2m1 in two float16

struct Args {
    const uint8_t *pack;       // [experts, tiles, 102 * hidden]
    const float *importance;   // [tiles, experts]
    const float *price;        // one number
    const int *depths;         // [experts], at least 1 of each that is picked; null: planned from importance and price
    const __nv_bfloat16 *x;    // [rows, hidden]
    const int *picks;          // [rows, top_k]
    const float *weights;      // [rows, top_k]
    const int *valid;          // one number: rows that are no padding
    __half *h;                 // [2, rows * top_k, 64 * tiles]: of this launch, and MISSING throughout for the next one
    float *sums;               // [thread blocks, rows * top_k + 8 * WARPS, 16 * WIDTH]; null: in shared memory
    float *out;                // [rows, hidden]
    unsigned long long *meet;  // [1 + groups]: thread blocks that ever began; the launch for which a group's outputs are zeroed
    int *told;                 // [2, experts]: loads and depths, for whoever wants to know; may be null
    int rows, top_k, experts, tiles, floor, splits;
    float limit, prescale;
    int front;  // bytes of shared memory for partial sums and rows of x, thereafter for the sums of outputs
};

// Weights and x come by bulk copies into shared memory, one piece for a warp: an instruction of one lane in the place of a copy and its
// address in each, and DRAM reads a piece of 2.7 KB at a stretch. Not more than two pieces a warp: with three, or with tiles asked into L2
// beforehand, DRAM serves all of them more slowly.
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
__device__ __forceinline__ void put4(uint32_t to, uint32_t r) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(r) : "memory"); }
__device__ __forceinline__ void barrier_expect(uint32_t b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy(uint32_t to, const void *from, int bytes, uint32_t b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(b)
                 : "memory");
}
// Sixteen bytes of h, which arrive whole or not at all.
__device__ __forceinline__ void give_h(__half *to, uint4 r) {
    asm volatile(
        "{\n.reg .b128 all;\n.reg .b64 low, high;\nmov.b64 low, {%1,%2};\nmov.b64 high, {%3,%4};\nmov.b128 all, {low, high};\n"
        "st.relaxed.gpu.global.b128 [%0], all;\n}" ::"l"(to), "r"(r.x), "r"(r.y), "r"(r.z), "r"(r.w) : "memory");
}
__device__ __forceinline__ uint4 ask_h(const __half *from) {
    uint4 r;
    asm volatile(
        "{\n.reg .b128 all;\n.reg .b64 low, high;\nld.relaxed.gpu.global.b128 all, [%4];\nmov.b128 {low, high}, all;\n"
        "mov.b64 {%0,%1}, low;\nmov.b64 {%2,%3}, high;\n}" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(from) : "memory");
    return r;
}
// The transposed 8x8 matrix of float16, lane (g, q) holding row g, columns 2q and 2q+1.
__device__ __forceinline__ uint32_t transposed(uint32_t two) {
    uint32_t r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(two));
    return r;
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

template <int HIDDEN>
struct Shape {
    static constexpr int WIDTH = HIDDEN / 1024;                  // times 16 outputs that a thread block takes at once
    static constexpr int KB = HIDDEN / (WARPS * 64);             // k64 blocks of a warp's slice
    static constexpr size_t DOWN = 68 * (size_t)HIDDEN;
    static constexpr size_t TILE = 102 * (size_t)HIDDEN;
    static constexpr int UNIT = KB * 544;                        // bytes of a piece: codes, then scales
    static constexpr int SLICE = RING * UNIT;                    // of all that is on its way to a warp
    static constexpr int GROUPS = HIDDEN / (16 * WIDTH);         // pieces of a tile's down weights
    static_assert(HIDDEN % 1024 == 0 && KB == WIDTH, "gate/up and down come in pieces of one size");
};

// Asks for a warp's slice of x for one block of rows, while the rows before are still computed with.
template <int KB>
__device__ __forceinline__ void stage_x(const Args &a, const Plan &p, int v, int hidden, uint32_t staged, uint32_t ready) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const Expert expert = p.expert[v];
    const int rows = min((int)expert.count, STAGED);
    if (lane == 0) barrier_expect(ready, rows * (KB * 128));
    __syncwarp();
    if (lane < rows) copy(staged + lane * (KB * 128 + 16), a.x + (size_t)p.row[expert.row + lane] * hidden + warp * 64 * KB, KB * 128, ready);
}

// A warp's slice of x for one block of rows, as B fragments, scaled to float16; post undoes the scale of rows 2q and 2q+1. Row by row where it
// lies, all lanes at one row: most experts have one or two.
template <int KB>
__device__ __forceinline__ void hold_x(const Args &a, const Plan &p, int v, int hidden, uint32_t staged, uint4 (&b)[KB][2], float (&post)[2]) {
    int thread;  // found again: seldom needed, so not worth registers all along
    asm volatile("mov.u32 %0, %tid.x;" : "=r"(thread));
    const int lane = thread & 31, g = lane >> 2, q = lane & 3, warp = thread >> 5;
    const bool one = a.rows == 1;  // a single row stands in all columns, for all experts
    const Expert expert = p.expert[v];
    const int count = one ? 1 : expert.count;
#pragma unroll
    for (int i = 0; i < KB; i++) b[i][0] = b[i][1] = make_uint4(0, 0, 0, 0);
    post[0] = post[1] = 0.f;
#pragma unroll 1
    for (int r = 0; r < count; r++) {
        const uint32_t row = staged + min(r, STAGED - 1) * (KB * 128 + 16);
        uint32_t word[KB];
        __nv_bfloat162 most = __float2bfloat162_rn(0.f);
#pragma unroll
        for (int i = 0; i < KB; i++) {
            if (STAGED == 8 || r < STAGED) word[i] = take4(row + i * 128 + lane * 4);
            else word[i] = ((const uint32_t *)(a.x + (size_t)p.row[expert.row + r] * hidden + warp * 64 * KB))[i * 32 + lane];
            most = __hmax2(most, __habs2(*(const __nv_bfloat162 *)&word[i]));
        }
        const int top = __reduce_max_sync(0xFFFFFFFFu, __float_as_int(fmaxf(__low2float(most), __high2float(most))) >> 23);
        const bool tiny = top < 14;  // below 2^-113: as good as nothing
        const float scale = tiny ? 0.f : __int_as_float((268 - top) << 23), undo = tiny ? 0.f : __int_as_float(top << 23);
        if (one || r == 2 * q) post[0] = undo;
        if (one || r == 2 * q + 1) post[1] = undo;
#pragma unroll
        for (int i = 0; i < KB; i++) {
            const __half2 two = __floats2half2_rn(__uint_as_float(word[i] << 16) * scale, __uint_as_float(word[i] & 0xFFFF0000u) * scale);
            put4(row + i * 128 + lane * 4, *(const uint32_t *)&two);
        }
        if (r == count - 1 || STAGED < 8) {
            __syncwarp();
            if (one || (STAGED == 8 ? g <= r : g == r))
#pragma unroll
                for (int i = 0; i < KB; i++)
#pragma unroll
                    for (int j = 0; j < 2; j++) b[i][j] = take16(staged + (one ? 0 : STAGED == 8 ? g : min(r, STAGED - 1)) * (KB * 128 + 16) + q * 16 + (i * 2 + j) * 64);
            __syncwarp();
        }
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // copies of other rows come here next
}

// Walks along the tiles of the list: the tiles of an expert lie side by side, so only another expert needs a look-up.
template <int HIDDEN>
struct Walk {
    const uint8_t *tile;
    int v, left;
    __device__ __forceinline__ void start(const Args &a, const Plan &p, int item) {
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

// Sums the warps' partial sums of one unit in their order, applies SwiGLU and the router's weight, gives h: 8 neurons of a row at once.
__device__ __forceinline__ void reduce(const Args &a, const Plan &p, __half *h, int u, const float4 *slot) {
    const int lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3, item = p.list[u >> 3];
    float4 s = slot[lane];
#pragma unroll 5
    for (int w = 1; w < WARPS; w++) {
        const float4 n = slot[w * 32 + lane];
        s.x += n.x; s.y += n.y; s.z += n.z; s.w += n.w;
    }
    const Expert expert = p.expert[item >> 6];
    const float gate[2] = {s.x, s.y}, up[2] = {s.z, s.w};
    float own[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int n = min(2 * q + i, expert.count - 1);
        const float low = fminf(gate[i], a.limit), wide = fminf(fmaxf(up[i], -a.limit), a.limit);
        own[i] = __fdividef(low, 1.f + __expf(-low)) * wide * p.weight[expert.row + n] * a.prescale;
    }
    const __half2 two = __floats2half2_rn(own[0], own[1]);
    uint4 all;  // neurons 0 to 7 of row g, in the lanes of q = 0
    all.x = transposed(*(const uint32_t *)&two);
    all.y = __shfl_down_sync(0xFFFFFFFFu, all.x, 1);
    all.z = __shfl_down_sync(0xFFFFFFFFu, all.x, 2);
    all.w = __shfl_down_sync(0xFFFFFFFFu, all.x, 3);
    if (q == 0 && g < expert.count) give_h(h + (size_t)(expert.row + g) * (a.tiles * 64) + (item & 63) * 64 + (u & 7) * 8, all);
}

// Which part of the down weights a warp sums, in blocks of 16 outputs by one tile, tile by tile: those of WIDTH * 16 outputs are divided
// evenly among the warps of `splits` thread blocks. head: where this thread block begins.
struct Stream { int begin, end, head, tail; };

template <int WIDTH>
__device__ __forceinline__ Stream stream_of(const Args &a, const Plan &p, uint32_t split) {
    static_assert(WARPS == 16, "shifts in the place of divisions");
    int thread, items = p.items;  // found again where it is needed: not worth registers all along
    asm volatile("mov.u32 %0, %tid.x;" : "=r"(thread), "+r"(items));
    const uint32_t ways = 3 + a.splits, s = split * WARPS + (thread >> 5);  // log2 of the warps that share
    const bool few = items <= RING << ways;  // whole tiles, all asked for at once
    const uint32_t whole = few ? WIDTH : 1, total = items * (few ? 1 : WIDTH);
    Stream r;
    r.head = (total * (split * WARPS) >> ways) * whole;
    r.tail = split < a.splits ? (total * (split * WARPS + WARPS) >> ways) * whole : r.head;
    r.begin = (total * s >> ways) * whole;
    r.end = split < a.splits ? (total * (s + 1) >> ways) * whole : r.begin;
    return r;
}

// Sums what this thread block found for each row and adds it to the output, picks in their order.
template <int HIDDEN>
__device__ __forceinline__ void gather(const uint16_t *places, const float *parts, float *out, int rows, int top_k, int splits, float undo) {
    constexpr int WIDTH = Shape<HIDDEN>::WIDTH, QUADS = WIDTH * 4;
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * QUADS; i += THREADS) {
        const int row = i / QUADS, quad = i % QUADS;
        int place[TOP_K];
#pragma unroll
        for (int k = 0; k < TOP_K; k++) place[k] = k < top_k ? places[row * top_k + k] : MOST;
        float4 one[TOP_K];
#pragma unroll
        for (int k = 0; k < TOP_K; k++) {
            one[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            if (place[k] != MOST) one[k] = *(const float4 *)(parts + (place[k] * QUADS + quad) * 4);
        }
#pragma unroll
        for (int k = 1; k < TOP_K; k++) one[0].x += one[k].x, one[0].y += one[k].y, one[0].z += one[k].z, one[0].w += one[k].w;
        float *to = out + (size_t)row * HIDDEN + quad * 4;
        const float4 sum = make_float4(one[0].x * undo, one[0].y * undo, one[0].z * undo, one[0].w * undo);
        if (splits == 1) *(float4 *)to = sum;
        else asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(sum.x), "f"(sum.y), "f"(sum.z), "f"(sum.w) : "memory");
    }
}

template <int HIDDEN>
__global__ void __launch_bounds__(THREADS, 1) budget_layer(const __grid_constant__ Args a) {
    using S = Shape<HIDDEN>;
    constexpr int KB = S::KB, WIDTH = S::WIDTH;
    extern __shared__ __align__(128) char memory[];
    __shared__ uint64_t full[SLOTS], empty[SLOTS], arrivals[WARPS][RING + 1];
    __shared__ uint8_t pieces[WARPS], offsets[WARPS];
    __shared__ unsigned long long launched;  // launches of this stream, this one counted
    __shared__ int through[2];               // warps that are through with gate/up, and with down
    const int t = threadIdx.x, warp = t >> 5, lane = t & 31, g = lane >> 2, q = lane & 3;
    if (lane == 0) {  // one lane of each warp: the lanes of one would take turns
        if (warp < SLOTS) barrier_init(&full[warp], WARPS), barrier_init(&empty[warp], 1);
#pragma unroll
        for (int i = 0; i <= RING; i++) barrier_init(&arrivals[warp][i], 1);
    }
    if (t < 2) through[t] = 0;
    __syncwarp();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    float early[IMPORTANCE];
    fetch_importance(a, early);
    // Shared memory: partial sums of units (before: scratch of the plan; after: sums of the outputs, where they fit), what is on its way,
    // lists.
    const int front = a.front, picks = a.rows * a.top_k;
    Plan p;
    Scratch scratch;
    laid_out(p, scratch, memory + front + WARPS * S::SLICE, memory);
    come_nearer<HIDDEN>(a);
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    // Every launch adds the number of blocks to the count of arrivals, so what is read before one's own arrival tells the launches.
    unsigned long long met0 = 0;
    if (t == THREADS - 32) asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(met0) : "l"(a.meet) : "memory");
    float4 *slots = (float4 *)memory;
    const uint32_t way = shared_address(memory + front + warp * S::UNIT);
    const uint32_t staged = shared_address(memory + SLOTS * WARPS * 512 + warp * (STAGED * (KB * 128 + 16)));
    const uint32_t arrival = shared_address(arrivals[warp]), rows_ready = arrival + RING * 8;
    const bool one_row = a.rows == 1;
    if (one_row && lane == 0) {  // which row it is, is known before the plan
        barrier_expect(rows_ready, KB * 128);
        copy(staged, a.x + warp * 64 * KB, KB * 128, rows_ready);
    }
    const Own own = planned<8, 8>(a, p, scratch, early);

    uint32_t turned = 0;  // which of its two phases the arrival of x is in
    auto await_x = [&] {
        barrier_wait(rows_ready, turned);
        turned ^= 1;
    };
    // A warp's pieces of gate/up and then of down come through the same slots: piece k through slot k % RING.
    auto slot_of = [&](uint32_t k) { return way + k % RING * (S::UNIT * WARPS); };
    auto await = [&](uint32_t k) { barrier_wait(arrival + k % RING * 8, k / RING & 1); };
    const uint32_t split = a.splits > 1 ? blockIdx.x / S::GROUPS : 0;
    const int units = p.items * 8;
    const int begin = (int)((uint32_t)units * blockIdx.x / gridDim.x), n = (int)((uint32_t)units * (blockIdx.x + 1) / gridDim.x) - begin;
    Walk<HIDDEN> walk = {nullptr, 0, 0};
    int sub = begin & 7;
    auto advance = [&] {
        if (++sub == 8) sub = 0, walk.next(a, p);
    };
    auto send = [&](uint32_t k) {
        if (lane == 0) {
            const uint32_t bar = arrival + k % RING * 8;
            barrier_expect(bar, S::UNIT);
            copy(slot_of(k), walk.tile + (sub * WARPS + warp) * S::UNIT, S::UNIT, bar);
        }
    };
    // The i-th tile of down's, of those that a warp sums.
    auto send_down = [&](const Stream &s, int tiles, int group, int i, uint32_t k) {
        if (lane == 0) {
            const uint32_t to = slot_of(k), bar = arrival + k % RING * 8;
            const int low = i ? 0 : s.begin % WIDTH, high = i == tiles - 1 ? s.end - (s.begin / WIDTH + i) * WIDTH : WIDTH;
            const uint8_t *from = walk.tile + S::DOWN + group * S::UNIT + low * 512;
            barrier_expect(bar, S::UNIT - low * 512 - (WIDTH - high) * 512);
            if (high == WIDTH) copy(to + low * 512, from, S::UNIT - low * 512, bar);
            else {
                copy(to + low * 512, from, (high - low) * 512, bar);
                copy(to + WIDTH * 512, from + (WIDTH - low) * 512, WIDTH * 32, bar);
            }
        }
    };
    // With two splits each thread block has one group of outputs or none; with one split it takes every gridDim.x-th.
    const int group0 = a.splits > 1 ? blockIdx.x % S::GROUPS : blockIdx.x;
    int v = 0;
    if (n) {
        walk.start(a, p, *scratch.start);
        v = walk.v - 1;
    }
    if (n) send(0);
    // While they come: the places, and zeros for who adds to the outputs.
    listed(p, own);
    placed<8>(a, p, scratch, own);
    if (t == THREADS - 32) launched = met0 / gridDim.x + 1;
    if (a.splits > 1 && split == 0)
#pragma unroll 1
        for (int i = t; i < a.rows * (WIDTH * 4); i += THREADS)
            *(float4 *)(a.out + (size_t)(i / (WIDTH * 4)) * HIDDEN + (blockIdx.x * (WIDTH * 4) + i % (WIDTH * 4)) * 4) = make_float4(0.f, 0.f, 0.f, 0.f);
    __syncthreads();
    if (n && !one_row) stage_x<KB>(a, p, v + 1, HIDDEN, staged, rows_ready);
#pragma unroll 1
    for (int i = 1; i < RING; i++)
        if (i < n) advance(), send(i);
    const int size = picks * a.tiles * 64;
    __half *const h_now = a.h + (launched & 1) * size;
    // While x comes: an h that is missing, for the next launch, and where the sums of this thread block's places will lie. A warp that begins
    // within an expert, behind another warp of this thread block, keeps its part apart.
    {
        uint4 *missing = (uint4 *)(a.h + (~launched & 1) * size);
#pragma unroll 1
        for (int i = blockIdx.x * THREADS + t; i < size / 8; i += gridDim.x * THREADS) missing[i] = make_uint4(MISSING, MISSING, MISSING, MISSING);
        const Stream s = stream_of<S::WIDTH>(a, p, split);
        const int first = s.end > s.begin ? p.list[s.begin / WIDTH] : 0;
        const bool behind = s.end > s.begin && s.begin != s.head && (s.begin % WIDTH || first & 63);
        if (lane == 0) {
            pieces[warp] = behind ? p.expert[first >> 6].count : 0;
            if (behind) atomicOr(&p.expert[first >> 6].behind, 1u << warp);
        }
        if (t < picks && p.place[t] < MOST) {
            const Expert e = p.expert[p.block[t]];
            const bool touched = e.first * WIDTH < s.tail && (e.first + e.depth) * WIDTH > s.head;
            p.place[t] = touched ? p.place[t] - p.expert[p.list[s.head / WIDTH] >> 6].row : MOST;
        }
    }
    if (n) {
        uint4 b[KB][2];
        float post[2];
        int turn = -warp;  // units until this warp reduces one, negative
        int left = 0;      // units until other rows of x are needed
        for (int i = 0; i < n + LAG; i++) {
            if (i < n) {
                if (left == 0) {
                    const Expert e = p.expert[++v];
                    left = (e.first + e.depth) * 8 - (begin + i);
                    if (i == 0 || !one_row) {
                        await_x();
                        hold_x<KB>(a, p, v, HIDDEN, staged, b, post);
                        __syncwarp();
                        if (i + left < n && !one_row) stage_x<KB>(a, p, v + 1, HIDDEN, staged, rows_ready);
                    }
                }
                left--;
                float c[4] = {0.f, 0.f, 0.f, 0.f};
                uint4 codes[KB];
                uint32_t scales[KB];
                await(i);
#pragma unroll
                for (int k = 0; k < KB; k++) {
                    codes[k] = take16(slot_of(i) + k * 512 + lane * 16);
                    scales[k] = take4(slot_of(i) + KB * 512 + (g * KB + k) * 4);
                }
#pragma unroll
                for (int k = 0; k < KB; k++) block(c, codes[k], scales[k], b[k][0], b[k][1]);
                __syncwarp();  // sent for only now: earlier, too much would be on its way
                if (i + RING < n) {
                    advance();
                    send(i + RING);
                }
                if (i >= SLOTS) barrier_wait(shared_address(empty) + 8 * (i % SLOTS), (i / SLOTS - 1) & 1);
                slots[(i % SLOTS * WARPS + warp) * 32 + lane] = make_float4(c[0] * post[0], c[1] * post[1], c[2] * post[0], c[3] * post[1]);
                __syncwarp();
                if (lane == 0) barrier_arrive(&full[i % SLOTS]);
            }
            const int done = i - LAG;
            if (done >= 0 && turn++ == 0) {
                turn = 1 - WARPS;
                barrier_wait(shared_address(full) + 8 * (done % SLOTS), done / SLOTS & 1);
                reduce(a, p, h_now, begin + done, slots + done % SLOTS * WARPS * 32);
                __syncwarp();
                if (lane == 0) barrier_arrive(&empty[done % SLOTS]);
            }
        }
    } else if (one_row) await_x();
    // A warp waits only for the h of the tile that it has in hand: no thread block waits for the last of the others.
    const Stream s = stream_of<S::WIDTH>(a, p, split);
    const int tiles = s.end > s.begin ? (s.end + WIDTH - 1) / WIDTH - s.begin / WIDTH : 0, skip = s.begin % WIDTH;
    const int last = s.end - (s.begin / WIDTH + tiles - 1) * WIDTH;  // blocks of the last tile
    bool met = false;
    float *parts = nullptr, *broken = nullptr;
    bool behind = false;
    int place0 = 0, k0 = n;
    for (int group = group0; !met || group < S::GROUPS; group += a.splits > 1 ? S::GROUPS : gridDim.x) {
        const int mine = group < S::GROUPS ? tiles : 0, first = mine ? p.list[s.begin / WIDTH] : 0, from_v = first >> 6;
        int v = from_v, left = mine ? p.expert[v].depth - (first & 63) : 0;
        if (mine) {
            walk.start(a, p, first);
#pragma unroll 1
            for (int i = 0; i < RING && i < mine; i++) {
                if (i) walk.next(a, p);
                send_down(s, tiles, group, i, k0 + i);
            }
        }
        // Lanes of missing rows read those of the last one: what they add lands in columns that nobody takes.
        uint4 h[2][2];
        const __half *h_at = nullptr;
        int h_v = v, h_left = left;
        auto fetch_h = [&](int i, uint4 (&to)[2]) {  // of the next tile that is not asked for yet
            if (i >= mine) return;
            if (i == 0 || h_left == 0) {
                if (i) h_left = p.expert[++h_v].depth;
                const Expert e = p.expert[h_v];
                h_at = h_now + ((e.row + min(g, e.count - 1)) * a.tiles + e.depth - h_left) * 64 + 8 * q;
            }
            to[0] = ask_h(h_at), to[1] = ask_h(h_at + 32);
            h_left--, h_at += 64;
        };
        fetch_h(0, h[0]);
        if (!met) {
            met = true;
            // Nobody adds before down is done, so who wrote zeros tells it only now: a fence between x and the first unit is waited for by all
            // warps, and here the first to come waits for the others anyway.
            if (lane == 0 && atomicAdd(&through[0], 1) == 0) {
                asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(a.meet) : "memory");
                if (a.splits > 1 && split == 0)
                    asm volatile("fence.acq_rel.gpu;\nst.relaxed.gpu.global.u64 [%0], %1;" ::"l"(a.meet + 1 + blockIdx.x), "l"(launched) : "memory");
            }
            __syncthreads();  // no warp needs the sums of units any more
            int apart = lane < WARPS ? pieces[lane] : 0;
            const int piece = apart;
#pragma unroll
            for (int i = 1; i < 32; i <<= 1) {
                const int below = __shfl_up_sync(0xFFFFFFFFu, apart, i);
                if (lane >= i) apart += below;
            }
            if (warp == 0 && lane < WARPS) offsets[lane] = apart - piece;
            int places = 0;
            if (s.head < s.tail) {
                place0 = p.expert[p.list[s.head / WIDTH] >> 6].row;
                const Expert e = p.expert[p.list[(s.tail - 1) / WIDTH] >> 6];
                places = e.row + e.count - place0;
            }
            const bool fits = (places + __shfl_sync(0xFFFFFFFFu, apart, 31)) * (WIDTH * 64) <= front;
            parts = fits ? (float *)memory : a.sums + (size_t)blockIdx.x * ((picks + 8 * WARPS) * WIDTH * 16);
            broken = parts + places * (WIDTH * 16) + __shfl_sync(0xFFFFFFFFu, apart - piece, warp) * (WIDTH * 16);
            behind = pieces[warp] != 0;
        }
        float c[WIDTH][4];
#pragma unroll
        for (int m = 0; m < WIDTH; m++) c[m][0] = c[m][1] = c[m][2] = c[m][3] = 0.f;
        auto tile = [&](int i, uint4 (&h)[2], uint4 (&next)[2]) {
            const uint32_t at = slot_of(k0 + i);
            const bool done = --left == 0 || i == mine - 1;
            if (__any_sync(0xFFFFFFFFu, h[0].x == MISSING || h[1].x == MISSING)) {
                const Expert e = p.expert[v];
                const __half *again = h_now + ((e.row + min(g, e.count - 1)) * a.tiles + e.depth - left - 1) * 64 + 8 * q;
                do h[0] = ask_h(again), h[1] = ask_h(again + 32);
                while (__any_sync(0xFFFFFFFFu, h[0].x == MISSING || h[1].x == MISSING));
            }
            fetch_h(i + 1, next);
            await(k0 + i);
            const int low = i ? 0 : skip, high = i == mine - 1 ? last : WIDTH;
            if (high - low != WIDTH) {  // what belongs to other warps weighs nothing
                if (lane < WIDTH * 8 && (lane >> 3 < low || lane >> 3 >= high)) put4(at + WIDTH * 512 + lane * 4, 0);
                if (WIDTH > 4 && (lane >> 3) + 4 < WIDTH && ((lane >> 3) + 4 < low || (lane >> 3) + 4 >= high)) put4(at + WIDTH * 512 + 128 + lane * 4, 0);
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                __syncwarp();
            }
#pragma unroll
            for (int m = 0; m < WIDTH; m++) block(c[m], take16(at + m * 512 + lane * 16), take4(at + WIDTH * 512 + m * 32 + g * 4), h[0], h[1]);
            __syncwarp();
            if (i + RING < mine) {
                walk.next(a, p);
                send_down(s, tiles, group, i + RING, k0 + i + RING);
            }
            if (done) {
                const Expert e = p.expert[v];
                float *to = behind && v == from_v ? broken : parts + (e.row - place0) * (WIDTH * 16);
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
        };
        for (int i = 0; i < mine; i += 2) {
            tile(i, h[0], h[1]);
            if (i + 1 < mine) tile(i + 1, h[1], h[0]);
        }
        k0 += mine;
        if (split == 1 && lane == 0 && atomicAdd(&through[1], 1) == 0) {  // the first to come sees to it that zeros lie where this thread block adds
            unsigned long long zeroed;
            do asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(zeroed) : "l"(a.meet + 1 + group) : "memory");
            while (zeroed != launched);
        }
        __syncthreads();
        if (mine && behind) {
            const Expert e = p.expert[from_v];
            if ((e.behind & ((1u << warp) - 1)) == 0)  // the first of those that share this expert adds the others' parts
                for (int i = lane; i < e.count * (WIDTH * 4); i += 32) {
                    float4 *to = (float4 *)(parts + (e.row - place0) * (WIDTH * 16)) + i;
                    float4 sum = *to;
                    for (uint32_t more = e.behind; more; more &= more - 1) {
                        const float *from = broken + (offsets[__ffs(more) - 1] - offsets[warp]) * (WIDTH * 16);
                        const float4 one = ((const float4 *)from)[i];
                        sum.x += one.x; sum.y += one.y; sum.z += one.z; sum.w += one.w;
                    }
                    *to = sum;
                }
        }
        __syncthreads();
        if (split < a.splits && group < S::GROUPS) gather<HIDDEN>(p.place, parts, a.out + group * WIDTH * 16, a.rows, a.top_k, a.splits, 16384.f / a.prescale);
        __syncthreads();  // before the sums are overwritten
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

// Bytes of shared memory behind what lies in front, and of that: what a step may need, as far as `most` bytes in all go.
template <int HIDDEN>
int behind_front(int places, int tiles) {
    return WARPS * Shape<HIDDEN>::SLICE + LISTS + ((places * tiles + 7) & ~7) * 2;
}
template <int HIDDEN>
int front_bytes(int places, int tiles, int most) {
    const int least = SLOTS * WARPS * 512 + WARPS * STAGED * (Shape<HIDDEN>::KB * 128 + 16), outputs = (places + 8 * WARPS) * Shape<HIDDEN>::WIDTH * 64;
    const int room = (most - behind_front<HIDDEN>(places, tiles)) & ~127;
    return least > room || outputs < least ? least : outputs < room ? outputs : room;
}

}  // namespace

// Hidden sizes that were checked on a device; the source takes any multiple of 1024 whose slice of x fits the registers.
#define EVERY(CASE) CASE(5120)

// Bytes of dynamic shared memory for a step, of at most `most` where that is enough, or -1 for a hidden size that is not compiled.
extern "C" int budget_shared(int rows, int top_k, int tiles, int hidden, int most) {
#define CASE(H) if (hidden == H) return front_bytes<H>(rows * top_k, tiles, most) + behind_front<H>(rows * top_k, tiles);
    EVERY(CASE)
#undef CASE
    return -1;
}

// Floats of global memory a thread block that the sums of outputs take when they do not fit into shared memory.
extern "C" int budget_sums(int rows, int top_k, int hidden) { return (rows * top_k + 8 * WARPS) * (hidden / 64); }

// 0, or a CUDA error code; -1 for a hidden size that is not compiled. splits: thread blocks that share the same outputs, 1 or 2 (two addends
// onto zero give the same bits in either order); early: the launch may overlap the end of the kernel before; shared: from budget_shared.
extern "C" int budget_read(const void *pack, const void *importance, const void *price, const void *depths, const void *x, const void *picks,
                           const void *weights, const void *valid, void *h, void *sums, void *out, void *meet, void *told, int rows, int top_k,
                           int experts, int tiles, int floor, int hidden, float limit, float prescale, int blocks, int early, int shared,
                           void *stream) {
#define CASE(H) if (hidden == H) {                                                                                                      \
        const Args a = {(const uint8_t *)pack, (const float *)importance, (const float *)price, (const int *)depths,                    \
                        (const __nv_bfloat16 *)x, (const int *)picks, (const float *)weights, (const int *)valid, (__half *)h,          \
                        (float *)sums, (float *)out, (unsigned long long *)meet, (int *)told, rows, top_k, experts, tiles, floor,       \
                        blocks >= 2 * Shape<H>::GROUPS ? 2 : 1, limit, prescale, shared - behind_front<H>(rows * top_k, tiles)};        \
        return launch<H>(a, blocks, shared, early, (cudaStream_t)stream);                                                               \
    }
    EVERY(CASE)
#undef CASE
    return -1;
}
