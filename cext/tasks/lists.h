// Lists of items and tables of factors: the arguments and the table of their kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tasks/csr.h"

namespace mfrank {

// Draws of positives or negatives for a list of each user.
struct DrawTask {
    Csr<float> rows;           // the users' positives, ascending in each row
    const int64_t* users;      // (n_lists)
    int64_t n_lists, n_places;
    uint64_t key;              // of the random number stream
    const double* cumulative;  // (n_columns) cumulative probabilities of items; null: uniform
    const int64_t* guide;      // (n_columns): at j, the first item with cumulative > j / n_columns
    int n_threads;
};

// Lists of items, and the queries that are scored against each list.
template <class T>
struct ListTask {
    const T* items;      // (n_items, K)
    const T* queries;    // (n_lists * width, K), `width` consecutive queries per list
    int64_t n_items, n_lists, width, k;
    const int64_t* ids;  // (n_lists, n_places), row numbers of items
    int64_t n_places;
    int n_threads;
};

// A list, and the gradient of its query at one of its places.
template <class T>
struct GroupedPlace {
    int32_t list;
    T gradient;
};

// The places of nonzero gradient, grouped by item: item touched[t] has the places
// [starts[t], starts[t + 1]), in the order of the lists.
template <class T>
struct Grouped {
    std::vector<int64_t> touched, starts;
    std::unique_ptr<GroupedPlace<T>[]> places;
};

// The items that have a place of nonzero gradient, ascending. ranks (n_lists, n_places) is the
// index of each place's item in `touched`, or -1 where the gradients of all queries of the list are
// 0.
struct Ranked {
    std::vector<int64_t> touched;
    std::unique_ptr<int32_t[]> ranks;
};

// Adam's update of some rows of a table.
template <class T>
struct AdamTask {
    T *table, *means, *squares;  // (n, K), updated
    int64_t* updates;            // (n), updated: number of updates of each row
    int64_t k;
    const int64_t* rows;         // (n_rows), distinct
    const T* gradients;          // (n_rows, K)
    int64_t n_rows;
    double learning_rate, decay_1, decay_2, epsilon;
    int n_threads;
};

// Some rows of a table.
template <class T>
struct RowsTask {
    T* table;             // (n, K)
    int64_t k;
    const int64_t* rows;  // (n_rows), distinct
    int64_t n_rows;
    int n_threads;
};

// The kernels of one instruction set and one type.
template <class T>
struct ListKernels {
    void (*score)(const ListTask<T>&, bool distances, T* out);
    void (*sum_items)(const ListTask<T>&, const T* gradients, T* out);
    void (*sum_queries)(const ListTask<T>&, const Grouped<T>&, T* out, T* totals);
    void (*sum_queries_of_lists)(const ListTask<T>&, const Ranked&, const T* gradients, T* out,
                                 T* totals);
    void (*adam)(const AdamTask<T>&);
    void (*tangent)(const RowsTask<T>&, T* sums);
    void (*ball_gradients)(const RowsTask<T>&, const T* totals, T* sums);
    void (*project_rows)(const RowsTask<T>&, T threshold);
    void (*draw_positives)(const DrawTask&, int64_t* cells);
    void (*draw_negatives)(const DrawTask&, int64_t rounds, int64_t* items, bool* filled);
};

}  // namespace mfrank
