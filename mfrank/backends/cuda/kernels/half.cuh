// IEEE's binary16, converted without cuda_fp16.h.

struct Half {
    unsigned short bits;
};

#ifdef __CUDACC__
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// Rounds to nearest, ties to even.
__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

constexpr Half NAN_HALF = {0x7fff};
