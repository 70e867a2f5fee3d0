// Conjugate gradients, preconditioned with the row's diagonal D (row.cuh); one block per row.
#include "block.cuh"
#include "fixed.cuh"
#include "gather.cuh"
#include "row.cuh"

// Products with the matrix of a row.
struct System {
    const Entries& row;
    const F* fixed;
    const T* diagonal;
    Int k;
    T *projections, *sums;  // one per thread; one per group and column

    // y := (D + sum_e c_e f_e f_e') x, with as many entries at a time as there are threads.
    __device__ void apply(const T* x, T* y) const {
        const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        for (Int j = threadIdx.x; j < Columns(k).groups * k; j += blockDim.x) sums[j] = 0;
        for (Int begin = 0; begin < row.n; begin += blockDim.x) {
            const Int n = row.n - begin < Int(blockDim.x) ? row.n - begin : Int(blockDim.x);
            const int* const columns = row.columns + begin;
            __syncthreads();
            for (Int e = warp; e < n; e += blockDim.x / WARP) {
                const F* const factors = fixed + Int(columns[e]) * k;
                T sum = 0;
                for (Int j = lane; j < k; j += WARP) sum += T(factors[j]) * x[j];
                sum = warp_sum(sum);
                if (lane == 0) projections[e] = row.curvature[begin + e] * sum;
            }
            __syncthreads();
            add_rows(
                fixed, k, n, [&](Int e) { return projections[e]; },
                [&](Int e) { return Int(columns[e]); }, sums);
        }
        __syncthreads();
        for (Int j = threadIdx.x; j < k; j += blockDim.x)
            y[j] = diagonal[j] * x[j] + over_groups(sums, k, j);
        __syncthreads();
    }
};

// Iterates on r = rows[b] from starts[b]; out contains the right-hand side on entry. The status is
// UNFINISHED if the row must reach the tolerance but has not after steps[b] steps, which cost as
// much as an exact solution.
extern "C" __global__ void __launch_bounds__(128)
iterate(const int* rows, const Int* indptr, Int first, const int* indices, const T* curvature,
        const T* pull, const double* weight, const double* ridge, const double* eigenvalues,
        const F* fixed, Int k, const T* starts, const int* steps, double tolerance, Int to_tolerance,
        T* out, double* gain, unsigned char* status) {
    const Int r = rows[blockIdx.x];
    const Entries row(indptr, first, indices, curvature, pull, r);
    Int bytes = 0;
    double* const scratch = shared_array<double>(bytes, blockDim.x / WARP);
    T* const diagonal = shared_array<T>(bytes, k);
    T* const inverse = shared_array<T>(bytes, k);
    T* const x = shared_array<T>(bytes, k);
    T* const residual = shared_array<T>(bytes, k);
    T* const direction = shared_array<T>(bytes, k);
    T* const image = shared_array<T>(bytes, k);
    T* const projections = shared_array<T>(bytes, blockDim.x);
    T* const sums = shared_array<T>(bytes, Columns(k).groups * k);
    const System system{row, fixed, diagonal, k, projections, sums};
    invert_diagonal(weight[r], ridge[r], eigenvalues, k, inverse);
    for (Int j = threadIdx.x; j < k; j += blockDim.x) {
        diagonal[j] = diagonal_at(weight[r], ridge[r], eigenvalues, j);
        x[j] = inverse[j] > 0 ? starts[blockIdx.x * k + j] : T(0);
    }
    __syncthreads();
    system.apply(x, image);
    double size = 0, left = 0;
    for (Int j = threadIdx.x; j < k; j += blockDim.x) {
        const T right = out[r * k + j];
        residual[j] = right - image[j];
        direction[j] = inverse[j] * residual[j];
        size += double(right) * double(inverse[j]) * double(right);
        left += double(residual[j]) * double(direction[j]);
    }
    size = block_sum(size, scratch);
    left = block_sum(left, scratch);
    // Steps cannot reduce the rounding errors that remain from a distant start, and many steps
    // amplify them.
    if (!to_tolerance && left > size) size = left;
    const double enough = tolerance * tolerance * size;
    bool done = !(left > enough);
    for (int step = 0; !done && step < steps[blockIdx.x]; ++step) {
        __syncthreads();
        system.apply(direction, image);
        double bend = 0;
        for (Int j = threadIdx.x; j < k; j += blockDim.x)
            bend += double(direction[j]) * double(image[j]);
        bend = block_sum(bend, scratch);
        if (!(bend > 0)) break;
        const T length = T(left / bend);
        double next = 0;
        for (Int j = threadIdx.x; j < k; j += blockDim.x) {
            x[j] += length * direction[j];
            residual[j] -= length * image[j];
            next += double(residual[j]) * double(inverse[j]) * double(residual[j]);
        }
        next = block_sum(next, scratch);
        const T momentum = T(next / left);
        for (Int j = threadIdx.x; j < k; j += blockDim.x)
            direction[j] = inverse[j] * residual[j] + momentum * direction[j];
        left = next;
        done = !(left > enough);
    }
    double value = 0;  // 2 x'b - x'A x
    for (Int j = threadIdx.x; j < k; j += blockDim.x) {
        value += double(x[j]) * (double(out[r * k + j]) + double(residual[j]));
        out[r * k + j] = x[j];
    }
    value = block_sum(value, scratch);
    if (threadIdx.x > 0) return;
    gain[r] = value;
    status[r] = !isfinite(value) ? IMPRECISE : done || !to_tolerance ? SOLVED : UNFINISHED;
}
