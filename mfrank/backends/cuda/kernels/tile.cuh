// Matrix products: the threads of a block compute a TILE x TILE tile of the result.

constexpr int SIDE = TILE / 4, THREADS = SIDE * SIDE;
constexpr int DEPTH = 16;        // Terms of the sums that are staged at a time.
constexpr int LINE = TILE + 4;   // Stride of a stage, padded to avoid bank conflicts.
constexpr int MINE = TILE * DEPTH / THREADS;
constexpr int STAGE = 2 * DEPTH * LINE;

struct alignas(16) Four {
    T v[4];
};

// Rows of a matrix whose terms are adjacent in memory.
struct MatrixRows {
    static constexpr bool TERMS_ADJOIN = true;
    const T* data;
    Int stride;
    __device__ T at(int row, Int term) const { return data[row * stride + term]; }
};

// Row and term of element s of those that the thread stages.
template <class Source>
__device__ void place(int s, int& row, int& term) {
    const int at = int(threadIdx.x) + s * THREADS;
    row = Source::TERMS_ADJOIN ? at / DEPTH : at % TILE;
    term = Source::TERMS_ADJOIN ? at % DEPTH : at / TILE;
}

template <class Source>
__device__ void fetch(const Source& source, Int begin, Int n_terms, T (&mine)[MINE]) {
#pragma unroll
    for (int s = 0; s < MINE; ++s) {
        int row, term;
        place<Source>(s, row, term);
        mine[s] = begin + term < n_terms ? source.at(row, begin + term) : T(0);
    }
}

template <class Source>
__device__ void put(const T (&mine)[MINE], T* stage) {
#pragma unroll
    for (int s = 0; s < MINE; ++s) {
        int row, term;
        place<Source>(s, row, term);
        stage[term * LINE + row] = mine[s];
    }
}

// sum[a][b] += sum over the terms of left(4 y + a) right(4 x + b), where (y, x) is the thread's
// place in the tile. Terms are summed in the same order in every tile. All threads of the block
// must call it. If both sides are the `same`, they are fetched once.
template <class Left, class Right>
__device__ void multiply(T (&sum)[4][4], const Left& left, const Right& right, Int n_terms,
                         T* stage, bool same = false) {
    const int x = int(threadIdx.x) % SIDE, y = int(threadIdx.x) / SIDE;
    T *const lefts = stage, *const rights = same ? stage : stage + DEPTH * LINE;
    T next_left[MINE], next_right[MINE];
    __syncthreads();
    fetch(left, 0, n_terms, next_left);
    if (!same) fetch(right, 0, n_terms, next_right);
    for (Int begin = 0; begin < n_terms; begin += DEPTH) {
        __syncthreads();
        put<Left>(next_left, lefts);
        if (!same) put<Right>(next_right, rights);
        __syncthreads();
        if (begin + DEPTH < n_terms) {
            fetch(left, begin + DEPTH, n_terms, next_left);
            if (!same) fetch(right, begin + DEPTH, n_terms, next_right);
        }
#pragma unroll 4
        for (int term = 0; term < DEPTH; ++term) {
            const Four l = *reinterpret_cast<const Four*>(lefts + term * LINE + 4 * y);
            const Four r = *reinterpret_cast<const Four*>(rights + term * LINE + 4 * x);
#pragma unroll
            for (int a = 0; a < 4; ++a)
#pragma unroll
                for (int b = 0; b < 4; ++b) sum[a][b] += l.v[a] * r.v[b];
        }
    }
}

// Calls take(row, column, element) for the thread's elements of the tile.
template <class Take>
__device__ void for_each_element(T (&sum)[4][4], const Take& take) {
    const int x = int(threadIdx.x) % SIDE, y = int(threadIdx.x) / SIDE;
#pragma unroll
    for (int a = 0; a < 4; ++a)
#pragma unroll
        for (int b = 0; b < 4; ++b) take(4 * y + a, 4 * x + b, sum[a][b]);
}
