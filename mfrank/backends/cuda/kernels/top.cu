// Scores of all items for all queries.
#include "block.cuh"
#include "tile.cuh"
#include "score.cuh"

// Rows of factors with k terms each.
struct FactorTable {
    static constexpr bool TERMS_ADJOIN = true;
    const T* factors;
    Int k, left;  // `left` is the number of rows from `factors` on.
    __device__ T at(int row, Int j) const { return row < left ? factors[row * k + j] : T(0); }
};

// scores[q, i] = queries[q] . items[i] + bias[i], one tile per block.
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
            scores[(q + r) * n_items + i + c] = with_bias(score, bias, i + c);
    });
}
