// The best items of queries: the arguments and the table of their kernels.
#pragma once

#include <cstdint>

#include "tasks/csr.h"

namespace mfrank {

// Items compressed to one byte per factor, in blocks; see kernels/topk/sketch.h.
constexpr int64_t SKETCH_BLOCK = 32;
struct Sketch {
    const int8_t* codes;  // aligned to a cache line; null: no sketch
    const float *scales, *rooms;
};

// Backend.top_k for all queries; places that stay empty are not written.
template <class T>
struct TopKTask {
    const T *queries, *items;  // (n_queries, K), (n_items, K)
    int64_t n_queries, k;
    const T* bias;          // (n_items), or null
    Csr<T> shelves;         // candidate items: a row per query, or a single row for all queries
    Sketch sketch;          // if given, every item is a candidate, and `shelves` has no indices
    const double* lengths;  // norms of a single row's candidates, with bias, descending; or null
    const bool* allowed;    // (n_items), which of the candidates any query may get; or null: all
    Csr<T> exclude;         // ascending in each row; no rows: nothing is excluded
    int64_t count;          // K of top-K
    int32_t* ids;           // (n_queries, count), written
    T* scores;              // (n_queries, count), written
    int n_threads;
};

// The kernels of one instruction set and one type.
template <class T>
struct TopKKernels {
    void (*top_k)(const TopKTask<T>&);
    void (*sketch)(const T* items, int64_t n_items, int64_t k, int n_threads, int8_t* codes,
                   float* scales, float* rooms);
};

}  // namespace mfrank
