// How far momentum moved a table, in half of its bytes (mfrank.backends.dense): the displacements of
// a float table are the upper halves of floats, those of a double table are floats.
#include "block.cuh"

template <class Wide>
struct Halves;

template <>
struct Halves<double> {
    typedef float Half;
    static __device__ Half rounded(double value) { return Half(value); }
    static __device__ double widened(Half half) { return half; }
};

template <>
struct Halves<float> {
    typedef unsigned short Half;
    union Bits {
        float value;
        unsigned bits;
    };
    // To the nearest, ties to even.
    static __device__ Half rounded(float value) {
        Bits wide;
        wide.value = value;
        return Half((wide.bits + 0x7fffu + (wide.bits >> 16 & 1u)) >> 16);
    }
    static __device__ float widened(Half half) {
        Bits wide;
        wide.bits = unsigned(half) << 16;
        return wide.value;
    }
};

typedef Halves<T> OfTable;
typedef OfTable::Half D;

// to := the displacements, exactly.
extern "C" __global__ void __launch_bounds__(256) widen(const D* displacements, Int n, T* to) {
    const Int i = Int(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) to[i] = OfTable::widened(displacements[i]);
}

// displacements := weight (solved - last), rounded; solved += displacements.
extern "C" __global__ void __launch_bounds__(256)
displace(const T* last, Int n, double weight, T* solved, D* displacements) {
    const Int i = Int(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const D half = OfTable::rounded((solved[i] - last[i]) * T(weight));
    displacements[i] = half;
    solved[i] += OfTable::widened(half);
}
