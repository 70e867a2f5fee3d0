// Half-steps of alternating least squares: the arguments and the table of their kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tasks/csr.h"

namespace mfrank {

// A coefficient of observed cells, offset[user] + slope |r|; signed ones count of_dislikes times for
// dislikes, r < 0.
struct CellTerm {
    const double* offset;
    double slope, of_dislikes;
    double at(int64_t user, double magnitude) const { return offset[user] + slope * magnitude; }
    double signed_at(int64_t user, double value) const {
        return value > 0 ? at(user, value) : of_dislikes * at(user, -value);
    }
};

// Observed cells by rows. Offsets are per user; users are the rows or the columns.
template <class T>
struct Cells {
    Csr<T> rows;
    bool users_are_rows;
    CellTerm curvature, pull, constant;
    bool users_are_alike;  // No offset depends on the user.

    int64_t user(int64_t row, int64_t entry) const {
        return users_are_rows ? row : rows.indices[entry];
    }
    double value(int64_t entry) const { return rows.data ? rows.data[entry] : 1.0; }
};

enum class Solver { automatic, cholesky, conjugate_gradients };

struct SolveOptions {
    Solver solver;
    int steps;
    double tolerance;   // Conjugate gradients stop at this ratio of residual to right-hand side.
    bool to_tolerance;  // True: the user set `tolerance`, so `steps` is no limit, and a row that
                        // does not converge is solved exactly. False: it is the rounding error.
    int n_threads;
};

// The half-step of RowProblem (mfrank/backends/row_problem.py) in the basis where the matrix that
// all rows share is diag(eigenvalues).
template <class T>
struct HalfStep {
    Cells<T> cells;
    const double *weight, *ridge;  // one per row
    const T* fixed;                // (n_columns, K)
    int64_t k;
    const double* eigenvalues;     // (K), ascending; exactly 0 where they count as zero
    const double* vector;          // (K)
    const T* prior;                // (n_rows, K): where ridges pull to; null: to 0
    const T* start;                // (n_rows, K), where iterations start; may be `out`
    const T* turn;                 // (K, K): iterations start at `start turn`; null: at `start`
    T* out;                        // (n_rows, K), written
    double* gain;                  // (n_rows), written: 2 x'b - x'A x of each row's system A x = b
    SolveOptions options;
};

// Ranges of columns: rows with very many entries are summed range by range.
constexpr int64_t LEAST_RANGES = 16, WIDEST_RANGE = int64_t{1} << 20;

inline int64_t n_column_ranges(int64_t n_columns) {
    return std::max(LEAST_RANGES, (n_columns + WIDEST_RANGE - 1) / WIDEST_RANGE);
}

// The first column of a range; the number of columns for the one after the last.
inline int64_t column_range_begin(int64_t range, int64_t n_columns) {
    const int64_t n = n_column_ranges(n_columns);
    return range * (n_columns / n) + std::min(range, n_columns % n);
}

// What the entries of every row add to its system: sum_e d_e f_e and, if any entry of the half-step
// has curvature, sum_e c_e f_e f_e', in the layout of the kernels.
template <class T>
struct SumTask {
    Cells<T> cells;
    const T* fixed;  // (n_columns, K)
    int64_t k;
    bool curved;
    T* sums;         // (n_rows, sums_size(K, curved)), written
    int n_threads;
};

// out = factors basis; rounding errors in its first n_null columns are set to 0.
template <class T>
struct RotateTask {
    const T *factors, *basis;  // (R, K), (K, K)
    const int64_t* rows;       // (n_rows), which rows of the factors; null for all, in order
    int64_t n_rows, k, n_null;
    T* out;                    // (n_rows, K), written; may be `factors`
    int n_threads;
};

// A number of half the bytes: bfloat16 (the upper half of a float, of its range), and float.
template <class T>
using Half = std::conditional_t<std::is_same_v<T, float>, uint16_t, float>;

// d = weight (solved - (before basis - displacements turn)), rounded to a Half, goes to
// `displacements`, and solved + d to `solved`.
template <class T>
struct ExtrapolateTask {
    T* solved;               // (n_rows, K)
    Half<T>* displacements;  // (n_rows, K)
    const T* before;         // (n_rows, K)
    const T *basis, *turn;   // (K, K)
    int64_t n_rows, k;
    T weight;
    int n_threads;
};

template <class T>
struct GramTask {
    const T* factors;       // (n_rows, K)
    const double* weights;  // (n_rows)
    int64_t n_rows, k;
    double *matrix, *vector;  // (K, K) and (K), written
    int n_threads;
};

template <class T>
struct ValueTask {
    Cells<T> cells;
    const T *row_factors, *fixed;  // (n_rows, K), (n_columns, K)
    int64_t k;
    int n_threads;
};

// The kernels of one instruction set and one type.
template <class T>
struct RowKernels {
    // Returns the rows for which T is not precise enough, ascending.
    std::vector<int64_t> (*solve_rows)(const HalfStep<T>&);
    // Entries from which rows are solved from sums over ranges of columns.
    int64_t (*summed_from)(const SolveOptions&, int64_t k, bool curved);
    int64_t (*sums_size)(int64_t k, bool curved);
    void (*sum_rows)(const SumTask<T>&);
    // The same as solve_rows for rows whose sums are known; their entries are not read.
    std::vector<int64_t> (*solve_summed)(const HalfStep<T>&, bool curved, const T* sums);
    void (*rotate)(const RotateTask<T>&);
    void (*extrapolate)(const ExtrapolateTask<T>&);
    void (*gram)(const GramTask<T>&);
    double (*observed_value)(const ValueTask<T>&);
};

}  // namespace mfrank
