// Exact solutions of rows with few entries, TILE (8, 16 or 32) at most, by one warp each.
#include "block.cuh"
#include "fixed.cuh"
#include "quads.cuh"
#include "row.cuh"

constexpr int SIZE = TILE;
constexpr int WIDTH = 64 * 32 / SIZE;  // Columns that are staged at a time.
constexpr int LINE = WIDTH + 4;        // Stride of the stage: 8 rows' quads lie in different banks.
constexpr int TRIANGLE = SIZE * (SIZE + 1) / 2;
constexpr int SPARE = TRIANGLE > WIDTH ? TRIANGLE : WIDTH;

// A lane sums DOWN x ACROSS elements of the SIZE x SIZE matrix.
constexpr int DOWN = SIZE / 8, ACROSS = SIZE / 4;

// What a warp has in shared memory. The right-hand side of the columns at hand takes the place of
// the matrix, which is not needed at the same time.
struct alignas(16) Work {
    T stage[SIZE * LINE];
    T roots[WIDTH];
    T coefficients[SIZE];
    T spare[SPARE];
};

// A row's entries, one per lane, and B = F D^-1/2 of some columns at a time.
struct ShortRow {
    Work& work;
    const F* fixed;
    const double* eigenvalues;
    const Background& background;
    Int k;
    T floor, flat;  // `flat` is this lane's pull if its entry has no curvature, else 0.
    Int column;     // of this lane's entry, or -1
    int n;
    bool in_quads;

    // Stages columns [begin, begin + WIDTH) of B, with zeros beyond the entries and factors.
    __device__ void stage(Int begin) const {
        const int lane = threadIdx.x % WARP;
        for (int j = lane; j < WIDTH; j += WARP) {
            const T diagonal =
                begin + j < k ? diagonal_at(background.weight, background.ridge, eigenvalues, begin + j)
                              : T(0);
            work.roots[j] = diagonal > floor ? sqrt(1 / diagonal) : T(0);
        }
        __syncwarp();
        constexpr int QUADS = WIDTH / 4, EACH = 8;  // loads under way at a time
#pragma unroll
        for (int some = 0; some < SIZE * QUADS / WARP; some += EACH) {
            Quad loaded[EACH];
#pragma unroll
            for (int s = 0; s < EACH; ++s) {
                const int at = (some + s) * WARP + lane, j = at % QUADS * 4;
                const Int from = __shfl_sync(ALL_LANES, column, at / QUADS);
                loaded[s] = load_quad(fixed + from * k + begin + j,
                                      from >= 0 ? k - begin - j : Int(0), in_quads);
            }
#pragma unroll
            for (int s = 0; s < EACH; ++s) {
                const int at = (some + s) * WARP + lane, j = at % QUADS * 4;
                const Quad root = *reinterpret_cast<const Quad*>(work.roots + j);
                for (int q = 0; q < 4; ++q) loaded[s].v[q] *= root.v[q];
                *reinterpret_cast<Quad*>(work.stage + at / QUADS * LINE + j) = loaded[s];
            }
        }
        __syncwarp();
    }

    // Adds the staged columns' part of B B' to the lane's elements.
    __device__ void add_products(T (&sum)[DOWN][ACROSS], Int begin) const {
        const int y = threadIdx.x % WARP / 4, x = threadIdx.x % 4;
        const int n_columns = k - begin < WIDTH ? int(k - begin) : WIDTH;
        for (int j = 0; j < n_columns; j += 4) {
            Quad left[DOWN];
#pragma unroll
            for (int a = 0; a < DOWN; ++a)
                left[a] = *reinterpret_cast<const Quad*>(work.stage + (y + 8 * a) * LINE + j);
#pragma unroll
            for (int b = 0; b < ACROSS; ++b) {
                const Quad right =
                    *reinterpret_cast<const Quad*>(work.stage + (x + 4 * b) * LINE + j);
#pragma unroll
                for (int a = 0; a < DOWN; ++a)
#pragma unroll
                    for (int q = 0; q < 4; ++q) sum[a][b] += left[a].v[q] * right.v[q];
            }
        }
    }

    // D^-1/2 (w v + ridge prior + sum_e d_e f_e), over entries without curvature, at staged column j.
    __device__ T right(Int begin, int j) const {
        T sum = begin + j < k ? work.roots[j] * background.at(begin + j) : T(0);
        for (int e = 0; e < n; ++e)
            sum += __shfl_sync(ALL_LANES, flat, e) * work.stage[e * LINE + j];
        return sum;
    }

    // The staged columns' part of B `right`, for the lane's entry.
    __device__ T right_at_entry(Int begin) const {
        const int lane = threadIdx.x % WARP;
        for (int j = lane; j < WIDTH; j += WARP) work.spare[j] = right(begin, j);
        __syncwarp();
        T sum = 0;
        for (int j = 0; lane < SIZE && j < WIDTH; ++j)
            sum += work.stage[lane * LINE + j] * work.spare[j];
        return sum;
    }
};

// t := A^-1 t by Cholesky, for A in `lower`, the lower triangle row by row; lane i has t_i.
__device__ void solve_triangle(T* lower, T& t) {
    const int lane = threadIdx.x % WARP, mine = lane < SIZE ? lane : SIZE - 1;
    T* const row = lower + mine * (mine + 1) / 2;
    T a[SIZE];
#pragma unroll
    for (int j = 0; j < SIZE; ++j) a[j] = j <= mine ? row[j] : T(0);
    T inverse = 0;  // of the lane's pivot
#pragma unroll
    for (int j = 0; j < SIZE; ++j) {
        const T root = 1 / sqrt(__shfl_sync(ALL_LANES, a[j], j));
        const T below = a[j] * root, known = __shfl_sync(ALL_LANES, t, j) * root;
        if (lane == j) t = known, inverse = root;
        else if (lane > j) t -= below * known;
#pragma unroll
        for (int c = j + 1; c < SIZE; ++c) a[c] -= below * __shfl_sync(ALL_LANES, below, c);
        a[j] = below;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < SIZE; ++j)
        if (lane < SIZE && j < mine) row[j] = a[j];
    __syncwarp();
#pragma unroll
    for (int i = SIZE - 1; i >= 0; --i) {
        const T known = __shfl_sync(ALL_LANES, t * inverse, i);
        if (lane == i) t = known;
        else if (lane < i) t -= lower[i * (i + 1) / 2 + lane] * known;
    }
}

// Rows with c >= 0, by Woodbury's identity as in `solve_dual` (exact.cu). A warp solves rows[b].
// `has_right`: v or a prior is not 0, or some entry has a pull but no curvature.
extern "C" __global__ void __launch_bounds__(128)
solve_short(const int* rows, Int n_rows, const Int* indptr, Int first, const int* indices,
            const T* curvature, const T* pull, const double* weight, const double* ridge,
            const double* eigenvalues, const double* vector, const T* priors, const F* fixed, Int k,
            Int untouched, Int has_right, T* out, double* gain, unsigned char* status) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const Int b = Int(blockIdx.x) * (blockDim.x / WARP) + warp;
    if (b >= n_rows) return;
    const Int r = rows[b];
    const Entries entries(indptr, first, indices, curvature, pull, r);
    Work& work = reinterpret_cast<Work*>(shared_bytes)[warp];
    const bool there = lane < entries.n;
    const T c = there ? entries.curvature[lane] : T(0), d = there ? entries.pull[lane] : T(0);
    const T scale = sqrt(c), target = c > 0 ? d / scale : T(0);
    const Background background(weight[r], ridge[r], vector, priors, k, r);
    const ShortRow row{work, fixed, eigenvalues, background, k,
                       diagonal_floor(weight[r], ridge[r], eigenvalues, k), c == 0 ? d : T(0),
                       there ? Int(entries.columns[lane]) : Int(-1), int(entries.n),
                       is_in_quads(fixed, k)};
    T sum[DOWN][ACROSS] = {}, t = target;
    for (Int begin = 0; begin < k; begin += WIDTH) {
        row.stage(begin);
        row.add_products(sum, begin);
        if (has_right) t -= scale * row.right_at_entry(begin);
        __syncwarp();
    }
    if (lane < SIZE) work.coefficients[lane] = scale;
    __syncwarp();
    double squares = 0;  // |A|_F^2 of A = I + diag(scale) B B' diag(scale)
#pragma unroll
    for (int a = 0; a < DOWN; ++a)
#pragma unroll
        for (int x = 0; x < ACROSS; ++x) {
            const int i = lane / 4 + 8 * a, j = lane % 4 + 4 * x;
            const T value = work.coefficients[i] * work.coefficients[j] * sum[a][x] + T(i == j);
            if (i >= j) work.spare[i * (i + 1) / 2 + j] = value;
            squares += double(value) * double(value);
        }
    squares = warp_sum(squares);
    __syncwarp();
    solve_triangle(work.spare, t);
    double value = (double(target) - double(t)) * (double(target) - double(t));
    if (lane >= SIZE) value = 0;
    __syncwarp();
    if (lane < SIZE) work.coefficients[lane] = scale * t;
    __syncwarp();
    for (Int begin = 0; begin < k; begin += WIDTH) {
        if (k > WIDTH) row.stage(begin);
        for (int j = lane; j < WIDTH; j += WARP) {
            T total = has_right ? row.right(begin, j) : T(0);
            for (int e = 0; e < row.n; ++e) total += work.coefficients[e] * work.stage[e * LINE + j];
            if (begin + j >= k) continue;
            out[r * k + begin + j] = work.roots[j] * total;
            value += double(total) * double(total);
        }
        __syncwarp();
    }
    value = warp_sum(value);
    if (lane > 0) return;
    const bool sound = is_sound(weight[r], ridge[r], eigenvalues, k, untouched) &&
                       squares <= MOST_GROWTH * MOST_GROWTH;
    gain[r] = value;
    status[r] = sound && isfinite(value) ? SOLVED : IMPRECISE;
}
