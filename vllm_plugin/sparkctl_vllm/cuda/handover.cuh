// How the warps of a thread block and the thread blocks of a launch hand numbers on: mbarriers in shared memory, and in global memory values
// that are their own flags.
#pragma once
#include <stdint.h>

namespace budget {

constexpr uint32_t MISSING = 0xFFFFFFFFu;  // two float16 or a float32 that nobody stores: a NaN is stored as 0x7FFF, or 0x7FFFFFFF

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(uint64_t *b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count));
}
__device__ __forceinline__ void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t b, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(b),
        "r"(parity)
        : "memory");
}

// Numbers for another thread block: relaxed, since each tells by itself whether it is there. The first may also be in shared memory.
__device__ __forceinline__ void give(float *to, float f) { asm volatile("st.relaxed.gpu.f32 [%0], %1;" ::"l"(to), "f"(f) : "memory"); }
__device__ __forceinline__ void give(float *to, float4 f) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(f.x), "f"(f.y), "f"(f.z), "f"(f.w) : "memory");
}
__device__ __forceinline__ float4 ask(const float *from) {
    float4 f;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(f.x), "=f"(f.y), "=f"(f.z), "=f"(f.w) : "l"(from) : "memory");
    return f;
}
__device__ __forceinline__ bool missing(const float4 &f) {
    return __float_as_uint(f.x) == MISSING || __float_as_uint(f.y) == MISSING || __float_as_uint(f.z) == MISSING || __float_as_uint(f.w) == MISSING;
}

}  // namespace budget
