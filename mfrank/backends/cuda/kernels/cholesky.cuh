// Left-looking Cholesky factorization by tiles, and triangular solves, by the threads of a block.
//
// The matrix, `size` x `size` with size a multiple of TILE, is in shared or global memory; only its
// lower tiles are read. A diagonal tile is replaced by the inverse of its factor, so that the tiles
// below it and the solves are matrix products. A pivot that is not positive results in values that
// are not finite.

// tile := L^-1 for a tile L L', of which the lower part is read; the upper part becomes 0. `line`
// holds TILE numbers.
__device__ void invert_factor(T* tile, Int stride, T* line) {
    const int thread = int(threadIdx.x);
    for (int j = 0; j < TILE; ++j) {
        __syncthreads();
        const T root = 1 / sqrt(tile[j * stride + j]);
        for (int t = thread; t < TILE; t += THREADS)
            line[t] = t == j ? root : (t < j ? tile[j * stride + t] : tile[t * stride + j]) * root;
        __syncthreads();
        // Below row j: columns before j contain the inverse so far, those after j are unfactored.
        for (int at = thread; at < TILE * TILE; at += THREADS) {
            const int i = at / TILE, c = at % TILE;
            T& element = tile[i * stride + c];
            if (i > j && c <= i) element = (c == j ? T(0) : element) - line[i] * line[c];
            else if (i == j) element = c <= j ? line[c] : T(0);
        }
    }
    __syncthreads();
}

// `work` is a TILE x (TILE + 1) tile in shared memory, or null if the matrix is in shared memory.
__device__ void factor(T* a, Int size, T* stage, T* work) {
    const int n = int(size / TILE);
    for (int j = 0; j < n; ++j) {
        const MatrixRows right{a + j * TILE * size, size};
        T* const diagonal = a + j * TILE * (size + 1);
        for (int i = j; i < n; ++i) {
            T sum[4][4] = {};
            multiply(sum, MatrixRows{a + i * TILE * size, size}, right, j * TILE, stage, i == j);
            T* const tile = a + i * TILE * size + j * TILE;
            for_each_element(sum, [&](int r, int c, T s) { tile[r * size + c] -= s; });
        }
        __syncthreads();
        if (work) {
            for (int at = threadIdx.x; at < TILE * TILE; at += THREADS)
                work[at / TILE * (TILE + 1) + at % TILE] = diagonal[at / TILE * size + at % TILE];
            invert_factor(work, TILE + 1, stage);
            for (int at = threadIdx.x; at < TILE * TILE; at += THREADS)
                diagonal[at / TILE * size + at % TILE] = work[at / TILE * (TILE + 1) + at % TILE];
        } else {
            invert_factor(diagonal, size, stage);
        }
        for (int i = j + 1; i < n; ++i) {
            T* const tile = a + i * TILE * size + j * TILE;
            T sum[4][4] = {};
            multiply(sum, MatrixRows{tile, size}, MatrixRows{diagonal, size}, TILE, stage);
            for_each_element(sum, [&](int r, int c, T s) { tile[r * size + c] = s; });
        }
    }
    __syncthreads();
}

// x := L^-1 x, x in shared memory.
__device__ void solve_lower(const T* a, Int size, T* x, T* stage) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (Int j = 0; j < size; j += TILE) {
        for (int r = warp; r < TILE; r += THREADS / WARP) {
            T sum = 0;
            for (Int c = lane; c < j; c += WARP) sum += a[(j + r) * size + c] * x[c];
            sum = warp_sum(sum);
            if (lane == 0) x[j + r] -= sum;
        }
        __syncthreads();
        for (int r = warp; r < TILE; r += THREADS / WARP) {
            T sum = 0;
            for (int c = lane; c <= r; c += WARP) sum += a[(j + r) * size + j + c] * x[j + c];
            sum = warp_sum(sum);
            if (lane == 0) stage[r] = sum;
        }
        __syncthreads();
        for (int r = threadIdx.x; r < TILE; r += THREADS) x[j + r] = stage[r];
        __syncthreads();
    }
}

// x := L'^-1 x.
__device__ void solve_upper(const T* a, Int size, T* x, T* stage) {
    const int column = threadIdx.x % TILE, group = threadIdx.x / TILE, groups = THREADS / TILE;
    for (Int j = size - TILE; j >= 0; j -= TILE) {
        T sum = 0;
        for (Int i = j + TILE + group; i < size; i += groups) sum += a[i * size + j + column] * x[i];
        stage[group * TILE + column] = sum;
        __syncthreads();
        if (group == 0)
            for (int g = 0; g < groups; ++g) x[j + column] -= stage[g * TILE + column];
        __syncthreads();
        sum = 0;
        for (int r = column; group == 0 && r < TILE; ++r)
            sum += a[(j + r) * size + j + column] * x[j + r];
        __syncthreads();
        if (group == 0) x[j + column] = sum;
        __syncthreads();
    }
}
