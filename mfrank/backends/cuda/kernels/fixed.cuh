// The fixed factors as kernels read them: F is T or, compiled with -DHALF, IEEE binary16, which has
// at most half the bytes. Sums are in T either way.

#ifdef HALF
#include "half.cuh"

struct F {
    unsigned short bits;
    __device__ operator T() const { return T(half_to_float(bits)); }
};
#else
typedef T F;
#endif
