// The fixed side's factors as kernels read them: F is T or, compiled with -DHALF, IEEE's binary16, of
// which there are half as many bytes and more to read. Sums of them are in T either way.

#ifdef HALF
#ifdef __CUDACC__
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));  // cuda_fp16.h need not be found
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
