// Coefficients of observed cells: what the objective's terms make of the values.
#include "block.cuh"

// Of each row r < n_rows, whose entries lie from indptr[r] - first on: curvature c, pull d (0 of a
// dislike), and in `kinds` 1 where some c is not 0, 2 where some is below, 4 where some entry
// without curvature pulls. Factors are `scale` times what is read of them, so c has its square and d
// has it. A warp a row.
extern "C" __global__ void __launch_bounds__(128)
load_cells(const Int* indptr, const int* indices, const T* data, Int first, Int n_rows,
           const double* curvature_offset, double curvature_slope, const double* pull_offset,
           double pull_slope, Int users_are_rows, double scale, T* curvature, T* pull,
           unsigned char* kinds) {
    const Int r = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (r >= n_rows) return;
    unsigned kind = 0;
    for (Int e = indptr[r] - first + threadIdx.x % WARP; e < indptr[r + 1] - first; e += WARP) {
        const Int user = users_are_rows ? r : Int(indices[e]);
        const double value = data ? double(data[e]) : 1.0, magnitude = value < 0 ? -value : value;
        const T c = T(scale * scale * (curvature_offset[user] + curvature_slope * magnitude));
        const T d = value > 0 ? T(scale * (pull_offset[user] + pull_slope * magnitude)) : T(0);
        curvature[e] = c;
        pull[e] = d;
        kind |= unsigned(c != 0) | unsigned(c < 0) << 1 | unsigned(c == 0 && d != 0) << 2;
    }
    unsigned of_row = 0;
    for (unsigned bit = 1; bit <= 4; bit *= 2)
        if (__ballot_sync(ALL_LANES, (kind & bit) != 0)) of_row |= bit;
    if (threadIdx.x % WARP == 0) kinds[r] = (unsigned char)of_row;
}
