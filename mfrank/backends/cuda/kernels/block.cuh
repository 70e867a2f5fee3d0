// Types, and sums over the threads of a block, that all kernels use.
//
// Compiled with -DREAL=float or double, the type of the factors. Sums have a fixed order that does
// not depend on the grid, so the same numbers give the same bits.

typedef REAL T;
typedef long long Int;

constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int WARP = 32;

#define INFINITE (1.0 / 0.0)

// Dynamic shared memory; kernels divide it into arrays.
#ifndef __CUDACC__
extern unsigned char shared_bytes[];
#else
extern __shared__ __align__(16) unsigned char shared_bytes[];
#endif

template <class V>
__device__ V* shared_array(Int& bytes, Int count) {
    V* const array = reinterpret_cast<V*>(shared_bytes + bytes);
    bytes += (count * Int(sizeof(V)) + 15) / 16 * 16;
    return array;
}

template <class V>
__device__ V warp_sum(V value) {
    for (int lane = WARP / 2; lane > 0; lane /= 2) value += __shfl_xor_sync(ALL_LANES, value, lane);
    return value;
}

// Returns the sum over all threads to each of them; `scratch` holds one number per warp.
template <class V>
__device__ V block_sum(V value, V* scratch) {
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
    __syncthreads();
    V sum = 0;
    for (int w = 0; w < int(blockDim.x) / WARP; ++w) sum += scratch[w];
    return sum;
}
