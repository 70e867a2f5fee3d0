// Weighted Gram matrices in float64: compiled with REAL=double, for factors of either type.
#include "block.cuh"
#include "tile.cuh"

// Factors as rows, with the table's rows (times their weights if WEIGHTED) as terms.
template <class Factor, bool WEIGHTED>
struct TableColumns {
    static constexpr bool TERMS_ADJOIN = false;
    const Factor* factors;
    const double* weights;
    Int k, left;  // `left` is the number of factors from `factors` on.
    __device__ T at(int row, Int e) const {
        if (row >= left) return 0;
        const T factor = factors[e * k + row];
        return WEIGHTED ? weights[e] * factor : factor;
    }
};

// Part p, the rows [p height, (p + 1) height) of an n x k table F: a tile of F' diag(weights) F in
// tiles[p], where the lower triangle's tiles lie one after the other, row by row; and F' weights in
// vectors[p], by the blocks of the diagonal.
template <class Factor>
__device__ void sum_part_of(const Factor* factors, const double* weights, Int n, Int k, Int height,
                            T* tiles, T* vectors) {
    Int bytes = 0;
    T* const stage = shared_array<T>(bytes, STAGE);
    int i = 0;
    while ((i + 1) * (i + 2) / 2 <= int(blockIdx.y)) ++i;
    const int j = int(blockIdx.y) - i * (i + 1) / 2;
    const Int p = blockIdx.x, begin = p * height, rows = n - begin < height ? n - begin : height;
    const Factor* const from = factors + begin * k;
    T sum[4][4] = {};
    multiply(sum, TableColumns<Factor, true>{from + i * TILE, weights + begin, k, k - i * TILE},
             TableColumns<Factor, false>{from + j * TILE, nullptr, k, k - j * TILE}, rows, stage);
    T* const tile = tiles + (p * gridDim.y + blockIdx.y) * TILE * TILE;
    for_each_element(sum, [&](int r, int c, T s) { tile[r * TILE + c] = s; });
    if (i != j) return;
    constexpr int GROUPS = THREADS / TILE;
    const int column = threadIdx.x % TILE, group = threadIdx.x / TILE;
    T of_group = 0;
    if (i * TILE + column < k)
        for (Int e = group; e < rows; e += GROUPS)
            of_group += weights[begin + e] * T(from[e * k + i * TILE + column]);
    __syncthreads();
    stage[threadIdx.x] = of_group;
    __syncthreads();
    if (group > 0 || i * TILE + column >= k) return;
    for (int g = 1; g < GROUPS; ++g) of_group += stage[g * TILE + column];
    vectors[p * k + i * TILE + column] = of_group;
}

extern "C" __global__ void __launch_bounds__(THREADS)
sum_floats(const float* factors, const double* weights, Int n, Int k, Int height, T* tiles,
           T* vectors) {
    sum_part_of(factors, weights, n, k, height, tiles, vectors);
}

extern "C" __global__ void __launch_bounds__(THREADS)
sum_doubles(const double* factors, const double* weights, Int n, Int k, Int height, T* tiles,
            T* vectors) {
    sum_part_of(factors, weights, n, k, height, tiles, vectors);
}

// The sums over the parts, in order: the symmetric k x k matrix, and the vector as its last row.
extern "C" __global__ void __launch_bounds__(128)
add_parts(const T* tiles, const T* vectors, Int n_parts, Int n_tiles, Int k, T* sums) {
    const Int at = Int(blockIdx.x) * blockDim.x + threadIdx.x, i = at / k, j = at % k;
    if (i > k) return;
    const Int low = i > j ? i : j, high = i > j ? j : i, y = low / TILE;
    const Int tile = y * (y + 1) / 2 + high / TILE;
    const Int place = low % TILE * TILE + high % TILE;
    T sum = 0;
    for (Int p = 0; p < n_parts; ++p)
        sum += i == k ? vectors[p * k + j] : tiles[(p * n_tiles + tile) * TILE * TILE + place];
    sums[at] = sum;
}
