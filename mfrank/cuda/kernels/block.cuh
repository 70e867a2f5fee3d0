// What the kernels have in common: types, and sums over the threads of a block.
//
// Compiled with -DREAL=float or double, the type of the factors. Sums run in an order of their own,
// whatever the grid: the same numbers give the same bits.

typedef REAL T;
typedef long long Int;

constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int WARP = 32;

// Shared memory, of the size that the launch gives; kernels cut it up.
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

// The sum over all threads, to each of them; `scratch` holds a number for each warp.
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
