// Right-hand sides of rows, and solutions of rows whose matrix is diagonal.
#include "block.cuh"
#include "fixed.cuh"
#include "gather.cuh"
#include "row.cuh"

// to[r] = weight v + ridge prior + sum_e d_e f_e, with `flat_only` over entries without curvature. r = rows[b].
extern "C" __global__ void __launch_bounds__(256)
add_pulls(const int* rows, const Int* indptr, Int first, const int* indices, const T* curvature,
          const T* pull, const double* weight, const double* ridge, const double* vector,
          const T* priors, const F* fixed, Int k, Int flat_only, T* to) {
    const Int r = rows[blockIdx.x];
    const Entries row(indptr, first, indices, curvature, pull, r);
    Int bytes = 0;
    T* const sums = shared_array<T>(bytes, Columns(k).groups * k);
    for (Int j = threadIdx.x; j < Columns(k).groups * k; j += blockDim.x) sums[j] = 0;
    __syncthreads();
    add_rows(
        fixed, k, row.n,
        [&](Int e) { return flat_only && row.curvature[e] != 0 ? T(0) : row.pull[e]; },
        [&](Int e) { return Int(row.columns[e]); }, sums);
    __syncthreads();
    const Background background(weight[r], ridge[r], vector, priors, k, r);
    for (Int j = threadIdx.x; j < k; j += blockDim.x)
        to[r * k + j] = background.at(j) + over_groups(sums, k, j);
}

// to[p] = sum of d_e f_e over the entries [begins[p], ends[p]) of part p of a long row.
extern "C" __global__ void __launch_bounds__(256)
sum_pulls(const Int* begins, const Int* ends, const int* indices, const T* pull, const F* fixed,
          Int k, T* to) {
    const Int p = blockIdx.x, begin = begins[p];
    Int bytes = 0;
    T* const sums = shared_array<T>(bytes, Columns(k).groups * k);
    for (Int j = threadIdx.x; j < Columns(k).groups * k; j += blockDim.x) sums[j] = 0;
    __syncthreads();
    add_rows(
        fixed, k, ends[p] - begin, [&](Int e) { return pull[begin + e]; },
        [&](Int e) { return Int(indices[begin + e]); }, sums);
    __syncthreads();
    for (Int j = threadIdx.x; j < k; j += blockDim.x) to[p * k + j] = over_groups(sums, k, j);
}

// to[r] = weight v + ridge prior + the sums of the parts first_parts[b] up to first_parts[b + 1],
// r = rows[b].
extern "C" __global__ void __launch_bounds__(256)
add_sums(const int* rows, const Int* first_parts, const T* sums, const double* weight,
         const double* ridge, const double* vector, const T* priors, Int k, T* to) {
    const Int b = blockIdx.x, r = rows[b];
    const Background background(weight[r], ridge[r], vector, priors, k, r);
    for (Int j = threadIdx.x; j < k; j += blockDim.x) {
        T sum = background.at(j);
        for (Int p = first_parts[b]; p < first_parts[b + 1]; ++p) sum += sums[p * k + j];
        to[r * k + j] = sum;
    }
}

// out[r] := D^-1 out[r], the solution of a row without curvature.
extern "C" __global__ void __launch_bounds__(128)
solve_diagonal(const int* rows, const Int* indptr, const double* weight, const double* ridge,
               const double* eigenvalues, Int k, Int untouched, T* out, double* gain,
               unsigned char* status) {
    const Int r = rows[blockIdx.x];
    const double w = weight[r], rho = ridge[r];
    Int bytes = 0;
    double* const scratch = shared_array<double>(bytes, blockDim.x / WARP);
    const T floor = diagonal_floor(w, rho, eigenvalues, k);
    double sum = 0;
    for (Int j = threadIdx.x; j < k; j += blockDim.x) {
        const T diagonal = diagonal_at(w, rho, eigenvalues, j), right = out[r * k + j];
        const T x = diagonal > floor ? right / diagonal : T(0);
        sum += double(x) * double(right);
        out[r * k + j] = x;
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x > 0) return;
    const bool sound = indptr[r + 1] == indptr[r] || is_sound(w, rho, eigenvalues, k, untouched);
    gain[r] = sum;
    status[r] = sound && isfinite(sum) ? SOLVED : IMPRECISE;
}
