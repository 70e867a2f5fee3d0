// Scores of queries against items, and the filters that remove items.
#include "block.cuh"
#include "tile.cuh"
#include "search.cuh"

// Rows of factors with k terms each.
struct FactorTable {
    static constexpr bool TERMS_ADJOIN = true;
    const T* factors;
    Int k, left;  // `left` is the number of rows from `factors` on.
    __device__ T at(int row, Int j) const { return row < left ? factors[row * k + j] : T(0); }
};

// scores[q, i] = queries[q] . items[i] + bias[i], one tile per block. All scores sum their terms in
// the same order, so a score does not depend on its place in a tile.
extern "C" __global__ void __launch_bounds__(THREADS)
score_tiles(const T* queries, Int n_queries, const T* items, Int n_items, Int k, const T* bias,
            T* scores) {
    Int bytes = 0;
    T* const stage = shared_array<T>(bytes, STAGE);
    const Int i = Int(blockIdx.x) * TILE, q = Int(blockIdx.y) * TILE;
    T sum[4][4] = {};
    multiply(sum, FactorTable{queries + q * k, k, n_queries - q},
             FactorTable{items + i * k, k, n_items - i}, k, stage);
    for_each_element(sum, [&](int r, int c, T score) {
        if (q + r < n_queries && i + c < n_items)
            scores[(q + r) * n_items + i + c] = bias ? score + bias[i + c] : score;
    });
}

// Sets the scores of query q's list, the ascending indices[begins[q]:ends[q]], to NaN. Column i of
// the scores is item shelf[begin + i], `shelf` ascending, or item begin + i if `shelf` is null. One
// block per query.
extern "C" __global__ void __launch_bounds__(128)
drop_listed(const Int* begins, const Int* ends, const int* indices, const int* shelf, Int begin,
            Int n_items, T* scores) {
    const Int q = blockIdx.x;
    for (Int e = begins[q] + threadIdx.x; e < ends[q]; e += blockDim.x) {
        Int at = Int(indices[e]) - begin;
        if (shelf) {
            at = lower_bound(shelf + begin, n_items, indices[e]);
            if (at == n_items || shelf[begin + at] != indices[e]) continue;
        }
        if (at >= 0 && at < n_items) scores[q * n_items + at] = T(NAN_BITS);
    }
}

// Sets the scores of all items that are not in query q's list to NaN; arguments as above. A grid of
// blocks of items by queries.
extern "C" __global__ void __launch_bounds__(128)
keep_listed(const Int* begins, const Int* ends, const int* indices, const int* shelf, Int begin,
            Int n_items, T* scores) {
    const Int q = blockIdx.y, at = Int(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= n_items) return;
    const int item = shelf ? shelf[begin + at] : int(begin + at);
    const int* const row = indices + begins[q];
    const Int n = ends[q] - begins[q], found = lower_bound(row, n, item);
    if (found == n || row[found] != item) scores[q * n_items + at] = T(NAN_BITS);
}
