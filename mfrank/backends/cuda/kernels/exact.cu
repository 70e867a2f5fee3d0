// Exact solutions of rows, one block per row: n x n for n entries, or K x K.
#include "block.cuh"
#include "fixed.cuh"
#include "gather.cuh"
#include "row.cuh"
#include "tile.cuh"
#include "cholesky.cuh"

// Entries as rows, with their factors times roots[j] as terms.
struct EntryRows {
    static constexpr bool TERMS_ADJOIN = true;
    const F* fixed;
    Int k;
    const int* columns;
    Int n;
    const T* roots;
    __device__ T at(int row, Int j) const {
        return row < n ? roots[j] * T(fixed[Int(columns[row]) * k + j]) : T(0);
    }
};

// Factors as rows, with entries (times their curvature if WEIGHTED) as terms.
template <bool WEIGHTED>
struct FactorRows {
    static constexpr bool TERMS_ADJOIN = false;
    const F* fixed;
    Int k, left;  // `left` is the number of factors from `fixed` on.
    const int* columns;
    const T* curvature;
    __device__ T at(int row, Int e) const {
        if (row >= left) return 0;
        const T factor = fixed[Int(columns[e]) * k + row];
        return WEIGHTED ? curvature[e] * factor : factor;
    }
};

// Writes a tile of A = I + diag(scale) sum diag(scale), and adds its part of |A|_F^2 to `squares`.
__device__ void put_tile(T (&sum)[4][4], T* a, Int size, Int i, Int j, const T* scale,
                         double& squares) {
    for_each_element(sum, [&](int r, int c, T s) {
        const T value = scale[i + r] * scale[j + c] * s + T(i + r == j + c ? 1 : 0);
        a[(i + r) * size + j + c] = value;
        if (i + r >= j + c) squares += (i + r > j + c ? 2.0 : 1.0) * double(value) * double(value);
    });
}

// Arrays of a block, in shared memory; the matrix is in the global `workspace` if that is not null.
struct Memory {
    __device__ Memory(Int k, Int size, T* workspace) {
        Int bytes = 0;
        stage = shared_array<T>(bytes, STAGE);
        scratch = shared_array<double>(bytes, THREADS / WARP);
        inverse = shared_array<T>(bytes, k);
        roots = shared_array<T>(bytes, k);
        scale = shared_array<T>(bytes, size);
        t = shared_array<T>(bytes, size);
        target = shared_array<T>(bytes, size);
        sums = shared_array<T>(bytes, Columns(k).groups * k);
        work = workspace ? shared_array<T>(bytes, TILE * (TILE + 1)) : nullptr;
        matrix = workspace ? workspace + Int(blockIdx.x) * size * size
                           : shared_array<T>(bytes, size * size);
    }
    double* scratch;
    T *stage, *inverse, *roots, *scale, *t, *target, *sums, *work, *matrix;
};

__device__ void put_out(bool solved, double gain, double* gains, unsigned char* status) {
    if (threadIdx.x > 0) return;
    *gains = gain;
    *status = solved && isfinite(gain) ? SOLVED : IMPRECISE;
}

// n <= K entries with c >= 0. With B = diag(sqrt c) F D^-1/2 (Woodbury):
//
//     (I + B B') t = d / sqrt c - B D^-1/2 right,    x = D^-1 (right + F' (sqrt c t))
//
// Entries without curvature have rows of zeros in B; their pull is part of `right`, which out
// contains on entry if `has_right`, else `right` is 0. r = rows[b].
extern "C" __global__ void __launch_bounds__(THREADS)
solve_dual(const int* rows, const Int* indptr, Int first, const int* indices, const T* curvature,
           const T* pull, const double* weight, const double* ridge, const double* eigenvalues,
           const F* fixed, Int k, Int untouched, Int size, Int has_right, T* workspace, T* out,
           double* gain, unsigned char* status) {
    const Int r = rows[blockIdx.x];
    const Entries row(indptr, first, indices, curvature, pull, r);
    const Memory memory(k, size, workspace);
    T* const x = out + r * k;
    invert_diagonal(weight[r], ridge[r], eigenvalues, k, memory.inverse);
    for (Int e = threadIdx.x; e < size; e += THREADS) {
        const T root = e < row.n ? sqrt(row.curvature[e]) : T(0);
        memory.scale[e] = root;
        memory.t[e] = memory.target[e] = root > 0 ? row.pull[e] / root : T(0);
    }
    for (Int j = threadIdx.x; j < Columns(k).groups * k; j += THREADS) memory.sums[j] = 0;
    __syncthreads();
    for (Int j = threadIdx.x; j < k; j += THREADS) memory.roots[j] = sqrt(memory.inverse[j]);
    double squares = 0;
    for (Int i = 0; i < size; i += TILE)
        for (Int j = 0; j <= i; j += TILE) {
            T sum[4][4] = {};
            multiply(sum, EntryRows{fixed, k, row.columns + i, row.n - i, memory.roots},
                     EntryRows{fixed, k, row.columns + j, row.n - j, memory.roots}, k, memory.stage,
                     i == j);
            put_tile(sum, memory.matrix, size, i, j, memory.scale, squares);
        }
    squares = block_sum(squares, memory.scratch);
    if (has_right) {
        for (Int e = threadIdx.x / WARP; e < row.n; e += THREADS / WARP) {
            T sum = 0;
            for (Int j = threadIdx.x % WARP; j < k; j += WARP)
                sum += T(fixed[Int(row.columns[e]) * k + j]) * (memory.inverse[j] * x[j]);
            sum = warp_sum(sum);
            if (threadIdx.x % WARP == 0) memory.t[e] -= memory.scale[e] * sum;
        }
    }
    factor(memory.matrix, size, memory.stage, memory.work);
    solve_lower(memory.matrix, size, memory.t, memory.stage);
    solve_upper(memory.matrix, size, memory.t, memory.stage);
    double value = 0;  // 2 x'b - x'A x
    for (Int e = threadIdx.x; e < row.n; e += THREADS) {
        const double fitted = double(memory.target[e]) - double(memory.t[e]);  // sqrt(c) f . x
        value += fitted * fitted;
    }
    __syncthreads();
    for (Int e = threadIdx.x; e < size; e += THREADS) memory.t[e] *= memory.scale[e];
    __syncthreads();
    add_rows(
        fixed, k, row.n, [&](Int e) { return memory.t[e]; },
        [&](Int e) { return Int(row.columns[e]); }, memory.sums);
    __syncthreads();
    for (Int j = threadIdx.x; j < k; j += THREADS) {
        const T total = (has_right ? x[j] : T(0)) + over_groups(memory.sums, k, j);
        x[j] = memory.inverse[j] * total;
        value += double(x[j]) * double(total);
    }
    const bool sound = is_sound(weight[r], ridge[r], eigenvalues, k, untouched) &&
                       squares <= MOST_GROWTH * MOST_GROWTH;
    put_out(sound, block_sum(value, memory.scratch), gain + r, status + r);
}

// A tile of sum_e c_e f_e f_e' over the entries [begins[p], ends[p]) of part p, unscaled. The lower
// triangle's tiles of a part are stored consecutively, row by row.
extern "C" __global__ void __launch_bounds__(THREADS)
sum_part(const Int* begins, const Int* ends, const int* indices, const T* curvature, const F* fixed,
         Int k, T* to) {
    Int bytes = 0;
    T* const stage = shared_array<T>(bytes, STAGE);
    int i = 0;
    while ((i + 1) * (i + 2) / 2 <= int(blockIdx.y)) ++i;
    const int j = int(blockIdx.y) - i * (i + 1) / 2;
    const Int begin = begins[blockIdx.x], n = ends[blockIdx.x] - begin;
    T sum[4][4] = {};
    multiply(sum,
             FactorRows<true>{fixed + i * TILE, k, k - i * TILE, indices + begin, curvature + begin},
             FactorRows<false>{fixed + j * TILE, k, k - j * TILE, indices + begin, nullptr}, n,
             stage);
    T* const tile = to + (Int(blockIdx.x) * gridDim.y + blockIdx.y) * TILE * TILE;
    for_each_element(sum, [&](int r, int c, T s) { tile[r * TILE + c] = s; });
}

// The K x K system, scaled by D^-1/2 on both sides; out contains the right-hand side on entry. If
// `parts` is not null, the sum over entries is that of parts[first_parts[b]:first_parts[b + 1]].
extern "C" __global__ void __launch_bounds__(THREADS)
solve_primal(const int* rows, const Int* indptr, Int first, const int* indices, const T* curvature,
             const T* pull, const double* weight, const double* ridge, const double* eigenvalues,
             const F* fixed, Int k, Int untouched, Int size, const Int* first_parts,
             const T* parts,
             T* workspace, T* out, double* gain, unsigned char* status) {
    const Int r = rows[blockIdx.x];
    const Entries row(indptr, first, indices, curvature, pull, r);
    const Memory memory(k, size, workspace);
    T* const x = out + r * k;
    invert_diagonal(weight[r], ridge[r], eigenvalues, k, memory.inverse);
    __syncthreads();
    for (Int j = threadIdx.x; j < size; j += THREADS) {
        memory.scale[j] = j < k ? sqrt(memory.inverse[j]) : T(0);
        memory.t[j] = j < k ? memory.scale[j] * x[j] : T(0);
    }
    const Int n_tiles = size / TILE * (size / TILE + 1) / 2;
    Int tile = 0;
    double squares = 0;
    for (Int i = 0; i < size; i += TILE)
        for (Int j = 0; j <= i; j += TILE, ++tile) {
            T sum[4][4] = {};
            if (parts) {
                __syncthreads();
                for (Int p = first_parts[blockIdx.x]; p < first_parts[blockIdx.x + 1]; ++p) {
                    const T* const part = parts + (p * n_tiles + tile) * TILE * TILE;
                    for_each_element(sum, [&](int a, int b, T& s) { s += part[a * TILE + b]; });
                }
            } else {
                multiply(sum, FactorRows<true>{fixed + i, k, k - i, row.columns, row.curvature},
                         FactorRows<false>{fixed + j, k, k - j, row.columns, nullptr}, row.n,
                         memory.stage);
            }
            put_tile(sum, memory.matrix, size, i, j, memory.scale, squares);
        }
    squares = block_sum(squares, memory.scratch);
    factor(memory.matrix, size, memory.stage, memory.work);
    solve_lower(memory.matrix, size, memory.t, memory.stage);
    solve_upper(memory.matrix, size, memory.t, memory.stage);
    double value = 0;
    for (Int j = threadIdx.x; j < k; j += THREADS) {
        const T solution = memory.scale[j] * memory.t[j];
        value += double(solution) * double(x[j]);
        x[j] = solution;
    }
    const bool sound = is_sound(weight[r], ridge[r], eigenvalues, k, untouched) &&
                       squares <= MOST_GROWTH * MOST_GROWTH;
    put_out(sound, block_sum(value, memory.scratch), gain + r, status + r);
}
