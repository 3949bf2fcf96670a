// The ruler of benchmarks/budget_kernel.py: reads memory and does nothing else, 16 bytes a thread, eight in flight.
#include <cuda_runtime.h>
#include <stdint.h>

__global__ void __launch_bounds__(512) read_all(const uint4 *from, size_t count, uint32_t *never) {
    uint32_t seen = 0;
    const size_t stride = (size_t)gridDim.x * 512;
    size_t i = (size_t)blockIdx.x * 512 + threadIdx.x;
    for (; i + 7 * stride < count; i += 8 * stride) {
        uint4 r[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(r[j].x), "=r"(r[j].y), "=r"(r[j].z), "=r"(r[j].w)
                         : "l"(from + i + j * stride));
#pragma unroll
        for (int j = 0; j < 8; j++) seen |= r[j].x ^ r[j].y ^ r[j].z ^ r[j].w;
    }
    if (seen == 0x12345677u && count == 1) *never = seen;
}

extern "C" int read_memory(const void *from, size_t bytes, void *never, int blocks, void *stream) {
    read_all<<<blocks, 512, 0, (cudaStream_t)stream>>>((const uint4 *)from, bytes / 16, (uint32_t *)never);
    return cudaGetLastError();
}
