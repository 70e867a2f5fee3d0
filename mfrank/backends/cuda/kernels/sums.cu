// Sums over factors and entries.
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

// values[r] = sum of c s^2 - 2 d s over the row's entries, in float64. One warp per row.
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

// sums[p] = the sum of values[e] table[indices[e]] over the entries [begins[p], ends[p]) of part p
// of a row. One warp per part.
extern "C" __global__ void __launch_bounds__(128)
sum_parts(const Int* begins, const Int* ends, Int n_parts, const int* indices, const T* values,
          const T* table, Int k, T* sums) {
    const Int p = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (p >= n_parts) return;
    for (Int j = threadIdx.x % WARP; j < k; j += WARP) {
        T sum = 0;
        for (Int e = begins[p]; e < ends[p]; ++e) sum += values[e] * table[Int(indices[e]) * k + j];
        sums[p * k + j] = sum;
    }
}

// to[r] = the sum of the parts first_parts[r] up to first_parts[r + 1]. One thread per number.
extern "C" __global__ void __launch_bounds__(128)
add_row_parts(const Int* first_parts, const T* sums, Int n_rows, Int k, T* to) {
    const Int at = Int(blockIdx.x) * blockDim.x + threadIdx.x, r = at / k, j = at % k;
    if (r >= n_rows) return;
    T sum = 0;
    for (Int p = first_parts[r]; p < first_parts[r + 1]; ++p) sum += sums[p * k + j];
    to[at] = sum;
}
