// Rows solved exactly, a block each, by a matrix of as many rows as they have entries or factors.
#include "block.cuh"
#include "fixed.cuh"
#include "gather.cuh"
#include "row.cuh"
#include "tile.cuh"
#include "cholesky.cuh"

// Entries as rows, their factors times roots[j] as terms.
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

// Factors as rows, entries (times their curvature) as terms.
template <bool WEIGHTED>
struct FactorRows {
    static constexpr bool TERMS_ADJOIN = false;
    const F* fixed;
    Int k, left;  // `left` factors from `fixed` on.
    const int* columns;
    const T* curvature;
    __device__ T at(int row, Int e) const {
        if (row >= left) return 0;
        const T factor = fixed[Int(columns[e]) * k + row];
        return WEIGHTED ? curvature[e] * factor : factor;
    }
};

// Puts a tile of I + diag(scale) sum diag(scale); adds to the squares of the whole, symmetric
// matrix.
__device__ void put_tile(T (&sum)[4][4], T* a, Int size, Int i, Int j, const T* scale,
                         double& squares) {
    for_each_element(sum, [&](int r, int c, T s) {
        const T value = scale[i + r] * scale[j + c] * s + T(i + r == j + c ? 1 : 0);
        a[(i + r) * size + j + c] = value;
        if (i + r >= j + c) squares += (i + r > j + c ? 2.0 : 1.0) * double(value) * double(value);
    });
}

// Shared memory of a block: the matrix, where no room is given for it in global memory.
struct Room {
    __device__ Room(Int k, Int size, T* workspace) {
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
// An entry without curvature has a row of zeros in B; what it pulls is in `right`, which out holds
// on entry where `has_right`; else it is 0. r = rows[b].
extern "C" __global__ void __launch_bounds__(THREADS)
solve_dual(const int* rows, const Int* indptr, Int first, const int* indices, const T* curvature,
           const T* pull, const double* weight, const double* ridge, const double* eigenvalues,
           const F* fixed, Int k, Int untouched, Int size, Int has_right, T* workspace, T* out,
           double* gain, unsigned char* status) {
    const Int r = rows[blockIdx.x];
    const Entries row(indptr, first, indices, curvature, pull, r);
    const Room room(k, size, workspace);
    T* const x = out + r * k;
    invert_diagonal(weight[r], ridge[r], eigenvalues, k, room.inverse);
    for (Int e = threadIdx.x; e < size; e += THREADS) {
        const T root = e < row.n ? sqrt(row.curvature[e]) : T(0);
        room.scale[e] = root;
        room.t[e] = room.target[e] = root > 0 ? row.pull[e] / root : T(0);
    }
    for (Int j = threadIdx.x; j < Columns(k).groups * k; j += THREADS) room.sums[j] = 0;
    __syncthreads();
    for (Int j = threadIdx.x; j < k; j += THREADS) room.roots[j] = sqrt(room.inverse[j]);
    double squares = 0;
    for (Int i = 0; i < size; i += TILE)
        for (Int j = 0; j <= i; j += TILE) {
            T sum[4][4] = {};
            multiply(sum, EntryRows{fixed, k, row.columns + i, row.n - i, room.roots},
                     EntryRows{fixed, k, row.columns + j, row.n - j, room.roots}, k, room.stage,
                     i == j);
            put_tile(sum, room.matrix, size, i, j, room.scale, squares);
        }
    squares = block_sum(squares, room.scratch);
    if (has_right) {
        for (Int e = threadIdx.x / WARP; e < row.n; e += THREADS / WARP) {
            T sum = 0;
            for (Int j = threadIdx.x % WARP; j < k; j += WARP)
                sum += T(fixed[Int(row.columns[e]) * k + j]) * (room.inverse[j] * x[j]);
            sum = warp_sum(sum);
            if (threadIdx.x % WARP == 0) room.t[e] -= room.scale[e] * sum;
        }
    }
    factor(room.matrix, size, room.stage, room.work);
    solve_lower(room.matrix, size, room.t, room.stage);
    solve_upper(room.matrix, size, room.t, room.stage);
    double value = 0;  // 2 x'b - x'A x
    for (Int e = threadIdx.x; e < row.n; e += THREADS) {
        const double fitted = double(room.target[e]) - double(room.t[e]);  // sqrt(c) f . x
        value += fitted * fitted;
    }
    __syncthreads();
    for (Int e = threadIdx.x; e < size; e += THREADS) room.t[e] *= room.scale[e];
    __syncthreads();
    add_rows(
        fixed, k, row.n, [&](Int e) { return room.t[e]; },
        [&](Int e) { return Int(row.columns[e]); }, room.sums);
    __syncthreads();
    for (Int j = threadIdx.x; j < k; j += THREADS) {
        const T total = (has_right ? x[j] : T(0)) + over_groups(room.sums, k, j);
        x[j] = room.inverse[j] * total;
        value += double(x[j]) * double(total);
    }
    const bool sound = is_sound(weight[r], ridge[r], eigenvalues, k, untouched) &&
                       squares <= MOST_GROWTH * MOST_GROWTH;
    put_out(sound, block_sum(value, room.scratch), gain + r, status + r);
}

// A tile of sum_e c_e f_e f_e' over the entries [begins[p], ends[p]) of part p, unscaled; the tiles
// of a part lie one behind the other, those of the lower triangle row by row.
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

// The K x K system, scaled by D^-1/2 on both sides; `right` is what out holds on entry. Where there
// are `parts`, the entries' sums are those of the parts from first_parts[b] up to first_parts[b + 1].
extern "C" __global__ void __launch_bounds__(THREADS)
solve_primal(const int* rows, const Int* indptr, Int first, const int* indices, const T* curvature,
             const T* pull, const double* weight, const double* ridge, const double* eigenvalues,
             const F* fixed, Int k, Int untouched, Int size, const Int* first_parts,
             const T* parts,
             T* workspace, T* out, double* gain, unsigned char* status) {
    const Int r = rows[blockIdx.x];
    const Entries row(indptr, first, indices, curvature, pull, r);
    const Room room(k, size, workspace);
    T* const x = out + r * k;
    invert_diagonal(weight[r], ridge[r], eigenvalues, k, room.inverse);
    __syncthreads();
    for (Int j = threadIdx.x; j < size; j += THREADS) {
        room.scale[j] = j < k ? sqrt(room.inverse[j]) : T(0);
        room.t[j] = j < k ? room.scale[j] * x[j] : T(0);
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
                         room.stage);
            }
            put_tile(sum, room.matrix, size, i, j, room.scale, squares);
        }
    squares = block_sum(squares, room.scratch);
    factor(room.matrix, size, room.stage, room.work);
    solve_lower(room.matrix, size, room.t, room.stage);
    solve_upper(room.matrix, size, room.t, room.stage);
    double value = 0;
    for (Int j = threadIdx.x; j < k; j += THREADS) {
        const T solution = room.scale[j] * room.t[j];
        value += double(solution) * double(x[j]);
        x[j] = solution;
    }
    const bool sound = is_sound(weight[r], ridge[r], eigenvalues, k, untouched) &&
                       squares <= MOST_GROWTH * MOST_GROWTH;
    put_out(sound, block_sum(value, room.scratch), gain + r, status + r);
}
