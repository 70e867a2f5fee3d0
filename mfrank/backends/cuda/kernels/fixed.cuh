// The fixed factors as kernels read them: F is T or, compiled with -DHALF, IEEE binary16, which has
// at most half the bytes. Sums are in T either way.

#ifdef HALF
#ifdef __CUDACC__
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));  // needs no cuda_fp16.h
    return value;
}
#endif

struct F {
    unsigned short bits;
    __device__ operator T() const { return T(half_to_float(bits)); }
};
#else
typedef T F;
#endif
