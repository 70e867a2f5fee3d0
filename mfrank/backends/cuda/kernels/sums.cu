// Sums over factors and entries, in float64.
#include "block.cuh"
#include "row.cuh"

// Sets values of a row's first n_null columns to 0 if they are at most `relative` times the row's
// length. One warp per row.
extern "C" __global__ void __launch_bounds__(128)
drop_noise(T* factors, Int n_rows, Int k, Int n_null, double relative) {
    const Int r = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (r >= n_rows) return;
    T* const row = factors + r * k;
    double square = 0;
    for (Int j = threadIdx.x % WARP; j < k; j += WARP) square += double(row[j]) * double(row[j]);
    const double noise = relative * sqrt(warp_sum(square));
    for (Int j = threadIdx.x % WARP; j < n_null; j += WARP)
        if (row[j] <= noise && row[j] >= -noise) row[j] = 0;
}

// values[r] = sum of c s^2 - 2 d s over the row's entries. One warp per row.
extern "C" __global__ void __launch_bounds__(128)
row_values(const Int* indptr, Int first, const int* indices, const T* curvature, const T* pull,
           Int n_rows, const T* row_factors, const T* fixed, Int k, double* values) {
    const Int r = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (r >= n_rows) return;
    const Entries row(indptr, first, indices, curvature, pull, r);
    double value = 0;
    for (Int e = 0; e < row.n; ++e) {
        double score = 0;
        for (Int j = threadIdx.x % WARP; j < k; j += WARP)
            score += double(row_factors[r * k + j]) * double(fixed[Int(row.columns[e]) * k + j]);
        score = warp_sum(score);
        value += double(row.curvature[e]) * score * score - 2 * double(row.pull[e]) * score;
    }
    if (threadIdx.x % WARP == 0) values[r] = value;
}
