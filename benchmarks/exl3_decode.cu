// The second ruler of benchmarks/exl3_kernel.py: decodes EXL3 pieces and multiplies them, with the kernel's own functions and nothing around
// them: no plan, no sums across warps, activations that stay in shared memory.
#include <cuda_runtime.h>

#include "exl3_tile.cuh"

using namespace exl3;

template <int K, bool EXACT>
__global__ void __launch_bounds__(512, 1) decode_all(const uint8_t *from, size_t steps, int *never) {
    __shared__ uint4 x[16][64];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    x[warp][lane] = x[warp][lane + 32] = make_uint4(lane, warp, 3, 4);
    __syncthreads();
    using C = typename Sum<EXACT>::Type;
    C c[2][MS][4] = {};
    const size_t stride = (size_t)gridDim.x * 16;
    size_t i = (size_t)blockIdx.x * 16 + warp;
    constexpr size_t BYTES = 2 * piece_bytes(K);
    uint4 words[K];
    fetch<K>(words, from + i * BYTES);
    for (; i < steps; i += stride) {
        uint32_t b[EXACT ? 8 : 16];
        if constexpr (EXACT) {
            const uint4 one = x[warp][lane], two = x[warp][32 + lane];
            b[0] = one.x, b[1] = one.y, b[2] = one.z, b[3] = one.w, b[4] = two.x, b[5] = two.y, b[6] = two.z, b[7] = two.w;
        } else expand(b, x[warp][lane]);
        multiply_step<K>(c, words, b, from + i * BYTES, from + (i + stride < steps ? i + stride : i) * BYTES);
    }
    C all = 0;
#pragma unroll
    for (int m = 0; m < 2 * MS; m++)
#pragma unroll
        for (int k = 0; k < 4; k++) all += c[m / MS][m % MS][k];
    if (all == (C)1234567) *never = 1;
}

extern "C" int decode_memory(const void *from, size_t bytes, int bits, int exact, void *never, int blocks, void *stream) {
    const size_t steps = bytes / (2 * piece_bytes(bits));
#define CASE(K, E) if (bits == K && exact == E) { decode_all<K, E><<<blocks, 512, 0, (cudaStream_t)stream>>>((const uint8_t *)from, steps, (int *)never); return cudaGetLastError(); }
    CASE(2, 0) CASE(3, 0) CASE(4, 0) CASE(2, 1) CASE(3, 1) CASE(4, 1)
#undef CASE
    return -1;
}
