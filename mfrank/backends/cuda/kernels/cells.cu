// Coefficients of observed cells, from the objective's terms and the cells' values.
#include "block.cuh"

// For each row r < n_rows, whose entries begin at indptr[r] - first: curvature c, pull d (for a
// dislike times of_dislikes), and bits in `kinds`: 1 if some c is not 0, 2 if some c is negative, 4 if some entry has
// c = 0 but d != 0. Factors are `scale` times the values that kernels read, so c is multiplied by
// scale^2 and d by scale. One warp per row.
extern "C" __global__ void __launch_bounds__(128)
load_cells(const Int* indptr, const int* indices, const T* data, Int first, Int n_rows,
           const double* curvature_offset, double curvature_slope, const double* pull_offset,
           double pull_slope, double of_dislikes, Int users_are_rows, double scale, T* curvature, T* pull,
           unsigned char* kinds) {
    const Int r = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (r >= n_rows) return;
    unsigned kind = 0;
    for (Int e = indptr[r] - first + threadIdx.x % WARP; e < indptr[r + 1] - first; e += WARP) {
        const Int user = users_are_rows ? r : Int(indices[e]);
        const double value = data ? double(data[e]) : 1.0, magnitude = value < 0 ? -value : value;
        const T c = T(scale * scale * (curvature_offset[user] + curvature_slope * magnitude));
        const double size = pull_offset[user] + pull_slope * magnitude;
        const T d = T(scale * (value > 0 ? size : of_dislikes * size));
        curvature[e] = c;
        pull[e] = d;
        kind |= unsigned(c != 0) | unsigned(c < 0) << 1 | unsigned(c == 0 && d != 0) << 2;
    }
    unsigned of_row = 0;
    for (unsigned bit = 1; bit <= 4; bit *= 2)
        if (__ballot_sync(ALL_LANES, (kind & bit) != 0)) of_row |= bit;
    if (threadIdx.x % WARP == 0) kinds[r] = (unsigned char)of_row;
}
