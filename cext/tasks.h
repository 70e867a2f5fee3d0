// What one call asks of the kernels, as plain borrowed arrays, and the table of the kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

namespace mfrank {

// Rows of a sparse matrix; `data` is null where every stored value counts as 1.
template <class T>
struct Csr {
    int64_t n_rows, n_columns;
    const int64_t* indptr;
    const int32_t* indices;
    const T* data;
};

// A coefficient of observed cells, offset[user] + slope |r|.
struct CellTerm {
    const double* offset;
    double slope;
    double at(int64_t user, double magnitude) const { return offset[user] + slope * magnitude; }
};

// Observed cells by rows; the offsets belong to the rows or to the columns.
template <class T>
struct Cells {
    Csr<T> rows;
    bool users_are_rows;
    CellTerm curvature, pull, constant;

    int64_t user(int64_t row, int64_t entry) const {
        return users_are_rows ? row : rows.indices[entry];
    }
    double value(int64_t entry) const { return rows.data ? rows.data[entry] : 1.0; }
};

enum class Solver { automatic, cholesky, conjugate_gradients };

struct SolveOptions {
    Solver solver;
    int steps;
    double tolerance;   // Conjugate gradients end where the residual is this part of the right side.
    bool to_tolerance;  // It was asked for: a row left above it is solved exactly, and `steps` is no
                        // limit. Otherwise it is rounding.
    int n_threads;
};

// The half-step of mfrank.quadratic.RowProblem; the matrix that rows share is diag(eigenvalues).
template <class T>
struct HalfStep {
    Cells<T> cells;
    const double *weight, *ridge;  // one per row
    const T* fixed;                // (n_columns, K)
    int64_t k;
    const double* eigenvalues;     // (K), ascending, those that count as zero exactly 0
    const double* vector;          // (K)
    const T* start;                // (n_rows, K), warm start of iterations; may be `out`
    const T* turn;                 // (K, K): the warm start of a row is start[row] turn; or null
    T* out;                        // (n_rows, K), written
    double* gain;                  // (n_rows), written: 2 x'b - x'A x of each row's A x = b
    SolveOptions options;
};

// out = factors basis, where what rounding left in the first n_null columns becomes 0.
template <class T>
struct RotateTask {
    const T *factors, *basis;  // (n_rows, K), (K, K)
    int64_t n_rows, k, n_null;
    T* out;                    // (n_rows, K), written; may be `factors`
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

// Lists of some users, to be drawn.
struct DrawTask {
    Csr<float> rows;           // what users like, ascending in each row
    const int64_t* users;      // (n_lists)
    int64_t n_lists, n_places;
    uint64_t key;              // of the random numbers
    const double* cumulative;  // (n_columns) chances of the items and all before, or null: equal
    const int64_t* guide;      // (n_columns): at j, the first item whose cumulative passes j / n
    int n_threads;
};

// Items at the places of lists, and a number for each place.
template <class T>
struct ListTask {
    const T* items;      // (n_items, K)
    const T* queries;    // (n_lists width, K), `width` of them ask each list
    int64_t n_items, n_lists, width, k;
    const int64_t* ids;  // (n_lists, n_places), rows of items
    int64_t n_places;
    int n_threads;
};

// A place of a list, and the slope of the query that asks it.
template <class T>
struct GroupedPlace {
    int32_t list;
    T slope;
};

// The places that have a slope, by their items: item touched[t] has the places
// [starts[t], starts[t + 1]), in the order of the lists.
template <class T>
struct Grouped {
    std::vector<int64_t> touched, starts;
    std::unique_ptr<GroupedPlace<T>[]> places;
};

// The items that have a place with a slope, ascending, and at each place (n_lists, n_places) where
// its item stands among them, -1 where no query that asks the list has a slope.
struct Ranked {
    std::vector<int64_t> touched;
    std::unique_ptr<int32_t[]> ranks;
};

// Adam's step of some rows of a table.
template <class T>
struct AdamTask {
    T *table, *means, *squares;  // (n, K), written
    int64_t* updates;            // (n), written
    int64_t k;
    const int64_t* rows;         // (n_rows), none twice
    const T* slopes;             // (n_rows, K)
    int64_t n_rows;
    double learning_rate, decay_1, decay_2, epsilon;
    int n_threads;
};

// Some rows of a table.
template <class T>
struct RowsTask {
    T* table;             // (n, K)
    int64_t k;
    const int64_t* rows;  // (n_rows), none twice
    int64_t n_rows;
    int n_threads;
};

enum class Ramp { hinge, squared_hinge, sigmoid, softplus };

// A ramp of the differences of scores and thresholds.
template <class T>
struct RampTask {
    Ramp ramp;
    const T *scores, *weights;  // (n_lists, n_places)
    const T* thresholds;        // (n_lists, n_thresholds)
    int64_t n_lists, n_places, n_thresholds;
    int n_threads;
};

// Rows of scores with thresholds and weights of their own, in lists whose places have weights.
template <class T>
struct RowHingeTask {
    const T* scores;                          // (n_lists, n_rows, n_places)
    int64_t list_step, row_step;              // from one list, or row, to the next
    const T *thresholds, *row_weights;        // (n_lists, n_rows)
    const T* weights;                         // (n_lists, n_places)
    int64_t n_lists, n_rows, n_places;
    int n_threads;
};

// Squared hinges of the differences of scores and thresholds, of which infinite ones count nothing.
template <class T>
struct HingeTask {
    const T *scores, *weights;  // (n_lists, n_places)
    const T* thresholds;        // (n_lists, n_thresholds)
    int64_t n_lists, n_places, n_thresholds;
    int32_t* order;             // (n_lists, n_thresholds), ascending; -1 beyond the finite ones
    int32_t* reached;           // (n_lists, n_places), how many of these a score reaches
    int n_threads;
};

// Likes of lists, the first n_likes places, against places of smaller gains.
template <class T>
struct PairTask {
    const T* scores;       // (n_lists, n_places)
    const T* gains;        // (n_lists, n_likes), 0 for padding
    const T* filled;       // (n_lists, n_places), 1 or, for padding, 0
    const double* scales;  // (n_lists), of what swapping a pair changes; or null: pairs count alike
    int64_t n_lists, n_places, n_likes;
    T steepness;
    int n_threads;
};

// Scores of lists that a part of each is to be above, softly: by the scale smoothing_1.
template <class T>
struct TopTask {
    const T *scores, *weights;  // (n_lists, n_places)
    int64_t n_lists, n_places;
    double smoothing_1, smoothing_2;
    int n_threads;
};

// Softmax of lists, or their projection to the simplex; a place of which `filled` is false is padding.
template <class T>
struct SoftmaxTask {
    const T* scores;     // (n_lists, n_places)
    const bool* filled;  // likewise
    const T* less;       // likewise, subtracted from the scores; or null
    int64_t n_lists, n_places;
    int n_threads;
};

// What the worths above a place make of it.
enum class Above { nothing, count, chance };

// A metric of the first places, of lists whose scores get noise.
template <class T>
struct SmoothedTask {
    const T *centres, *noise, *worths;  // (n_lists, n_places), noise 0 where not filled
    const bool* filled;                 // likewise
    const T* whole;                     // (n_lists)
    const T* weights;                   // (n_levels + 1), of places
    Above above;
    int64_t n_lists, n_places, n_levels;  // n_levels < n_places
    T sigma;
    bool share;  // integrate the noise that all others of an item have in common
    int n_threads;
};

// Lists to be sorted softly, likes in the first n_likes places.
template <class T>
struct SoftTask {
    const T* scores;      // (n_lists, n_places)
    const bool* filled;   // likewise
    const T* gains;       // (n_lists, n_likes)
    const double* ideal;  // (n_lists), discounted gain of the best order
    int64_t n_lists, n_places, n_likes;
    double temperature;
    int64_t rounds;
    int n_threads;
};

// Backend.walk: x := base + scale (W x + left (right . x)) in each block, until it settles.
template <class T>
struct WalkTask {
    Csr<T> rows;             // W, entries within the columns of their row's block
    const T *left, *right;   // (n, left_k) and (n), or both null
    int64_t left_k;          // 1, one left for all columns, or K, one for each
    const int64_t* blocks;   // (n_blocks + 1), where they begin
    int64_t n_blocks;
    const T* base;           // (n, K)
    T scale;
    int64_t k;
    T* x;                    // (n, K), start and result
    int64_t n_steps;
    const double* tolerance; // (n_blocks), changes that end a block's iteration; or null: none do
    bool spread;             // the norm of changes: half of largest - smallest, not their sum
    double* changes;         // (n_blocks), written: norm of the last step's change
    int64_t* steps;          // (n_blocks), written
    int n_threads;
};

// Backend.settle: stationary distributions of walks, a row of `values` for each row of `starts`.
struct SettleTask {
    Csr<double> rows;       // weights of the edges to each node, or null: all weigh 1; by waves
    const double* shares;   // (n), of what a node gives along an edge of weight 1; 0: it restarts
    const int64_t* waves;   // (n_waves + 1), where they begin
    int64_t n_waves;
    const int64_t *order, *place;  // (n), the node of each row, and the row of each node
    Csr<double> starts;     // where walks restart, by nodes
    const double* begin;    // (n_columns, n), what iterations begin with, or null: the restarts
    double keep;            // probability to go on
    double tolerance;       // of the 1-norm of the errors
    int64_t n_steps;        // most of them
    double *values, *errors;  // (n_columns, n) and (n_columns), written
    int64_t* steps;         // (n_columns), written
    int n_threads;
};

// Items at a byte a factor, in blocks; sketch.h.
constexpr int64_t SKETCH_BLOCK = 32;
struct Sketch {
    const int8_t* codes;           // aligned to a cache line; or null
    const float *scales, *rooms;
};

// Backend.top_k: the lists of every query, the places that stay empty left as they are.
template <class T>
struct TopKTask {
    const T *queries, *items;  // (n_queries, K), (n_items, K)
    int64_t n_queries, k;
    const T* bias;          // (n_items), or null
    Csr<T> shelves;         // the items each query may get; a single row serves all
    Sketch sketch;          // where it is, the shelf is every item, and needs no indices
    const double* lengths;  // of the single shelf's items, bias included, descending; or null
    Csr<T> exclude;         // ascending in each row; no rows: nothing is excluded
    int64_t count;          // length of a list
    int32_t* ids;           // (n_queries, count), written
    T* scores;              // (n_queries, count), written
    int n_threads;
};

// The kernels of one instruction set and one type.
template <class T>
struct Kernels {
    // Returns the rows it could not solve to the precision of T, ascending.
    std::vector<int64_t> (*solve_rows)(const HalfStep<T>&);
    void (*rotate)(const RotateTask<T>&);
    void (*gram)(const GramTask<T>&);
    double (*observed_value)(const ValueTask<T>&);
    void (*top_k)(const TopKTask<T>&);
    void (*sketch)(const T* items, int64_t n_items, int64_t k, int n_threads, int8_t* codes,
                   float* scales, float* rooms);
    void (*score)(const ListTask<T>&, bool distances, T* out);
    void (*sum_items)(const ListTask<T>&, const T* slopes, T* out);
    void (*sum_queries)(const ListTask<T>&, const Grouped<T>&, T* out, T* totals);
    void (*sum_queries_of_lists)(const ListTask<T>&, const Ranked&, const T* slopes, T* out,
                                 T* totals);
    void (*adam)(const AdamTask<T>&);
    void (*sum_ramps)(const RampTask<T>&, T* sums, T* slopes);
    void (*push_ramps)(const RampTask<T>&, const T* by_sums, T* out);
    void (*row_hinges)(const RowHingeTask<T>&, T* sums, T* slope_sums, T* slopes);
    void (*sum_sorted_hinges)(const HingeTask<T>&, T* sums, T* slopes);
    void (*push_sorted_hinges)(const HingeTask<T>&, const T* by_sums, T* out);
    void (*pairs)(const PairTask<T>&, T* slopes, T* losses);
    void (*top_thresholds)(const TopTask<T>&, const double* shares, double* thresholds);
    void (*softmax)(const SoftmaxTask<T>&, T* totals, T* out);
    void (*project)(const SoftmaxTask<T>&, T* tops, T* values, T* out);
    void (*normals)(uint64_t key, int64_t n, int n_threads, T* out);
    void (*smoothed)(const SmoothedTask<T>&, T* slopes, T* values);
    void (*soft_ndcg)(const SoftTask<T>&, T* slopes, T* losses);
    void (*walk)(const WalkTask<T>&);
    void (*settle)(const SettleTask&);  // what nodes give to each other in the precision of T
    void (*slide)(const RowsTask<T>&, T* sums);
    void (*pull)(const RowsTask<T>&, const T* totals, T* sums);
    void (*confine)(const RowsTask<T>&, T shortest);
    void (*draw_likes)(const DrawTask&, int64_t* cells);
    void (*draw_others)(const DrawTask&, int64_t rounds, int64_t* items, bool* filled);
};

// Those of the instruction set that this machine has; module.cpp.
template <class T>
Kernels<T> chosen_kernels();

}  // namespace mfrank
