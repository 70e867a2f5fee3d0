// Change of basis of rows.
#include "block.cuh"
#include "tile.cuh"

struct PickedRows {
    static constexpr bool TERMS_ADJOIN = true;
    const int* rows;
    Int first, n, k;
    const T* from;
    __device__ T at(int row, Int term) const {
        return row < n ? from[(first + rows[row]) * k + term] : T(0);
    }
};

struct TurnColumns {
    static constexpr bool TERMS_ADJOIN = false;
    const T* turn;
    Int k, left;  // `left` is the number of columns from `turn` on.
    __device__ T at(int column, Int term) const {
        return column < left ? turn[term * k + column] : T(0);
    }
};

// to[b] := from[first + rows[b]] turn, with k x k `turn`; one tile per block.
extern "C" __global__ void __launch_bounds__(THREADS)
turn_rows(const T* from, const int* rows, Int first, Int n, const T* turn, Int k, T* to) {
    Int bytes = 0;
    T* const stage = shared_array<T>(bytes, STAGE);
    const Int i = Int(blockIdx.x) * TILE, j = Int(blockIdx.y) * TILE;
    T sum[4][4] = {};
    multiply(sum, PickedRows{rows + i, first, n - i, k, from}, TurnColumns{turn + j, k, k - j}, k, stage);
    for_each_element(sum, [&](int r, int c, T s) {
        if (i + r < n && j + c < k) to[(i + r) * k + j + c] = s;
    });
}
