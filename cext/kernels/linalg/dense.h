// Dense kernels on register tiles: rank-n update and matrix product.
//
// A tile of MR x (NV vectors) of the result stays in registers while `depth` rank-one terms are
// added. Sizes are rounded up to MR or PAD, so that all tiles are full; the padding is 0, or 1 on a
// diagonal.

// A matrix stored in panels of NR columns, each panel row-major with `rows` rows, so that a tile
// reads consecutive cache lines whatever the matrix's width.
template <class T>
struct Panels {
    T* data;
    int64_t rows;

    T* at(int64_t row, int64_t column) const {
        return data + (column / NR<T> * rows + row) * NR<T> + column % NR<T>;
    }
    static int64_t size(int64_t rows, int64_t columns) {
        return (columns + NR<T> - 1) / NR<T> * NR<T> * rows;
    }
};

// acc[i][v] += SIGN sum_r left[r * left_step + i * left_lane] * right[r * NR + v * W]
template <int SIGN, int N, class T>
MFRANK_INLINE void add_outer(Vec<T> (&acc)[MR][N], const T* left, int64_t left_step,
                             int64_t left_lane, const T* right, int64_t depth) {
    for (int64_t r = 0; r < depth; ++r, left += left_step, right += NR<T>) {
        Vec<T> b[N];
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) b[v] = vec(right + v * W<T>);
#pragma GCC unroll 8
        for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < N; ++v) {
                if (SIGN > 0) acc[i][v] += left[i * left_lane] * b[v];
                else acc[i][v] -= left[i * left_lane] * b[v];
            }
    }
}

template <int N, class T>
MFRANK_INLINE void load(Vec<T> (&acc)[MR][N], const T* tile, int64_t stride) {
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) acc[i][v] = vec(tile + i * stride + v * W<T>);
}

template <int N, class T>
MFRANK_INLINE void store(const Vec<T> (&acc)[MR][N], T* tile, int64_t stride) {
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) vec(tile + i * stride + v * W<T>) = acc[i][v];
}

template <int N, class T>
static void update_tile(T* tile, const T* left, const T* right, int64_t depth) {
    Vec<T> acc[MR][N];
    load<N>(acc, tile, NR<T>);
    add_outer<1, N>(acc, left, NR<T>, 1, right, depth);
    store<N>(acc, tile, NR<T>);
}

// The vectors of the panel at column j that lie in the upper triangle for the strip of rows from i
// and within the width n: both (`whole`), or only the one from column `first` on.
template <class T>
struct Span {
    bool whole;
    int64_t first;
    Span(int64_t i, int64_t j, int64_t n) : whole(i < j + W<T> && n > j + W<T>), first(j) {
        if (i >= j + W<T>) first += W<T>;
    }
};

// a += left' right on and above the diagonal, for the columns [begin, end) of a.
template <class T>
static void rank_update(Panels<T> a, Panels<T> left, Panels<T> right, int64_t depth, int64_t begin,
                        int64_t end) {
    for (int64_t j = begin; j < end; j += NR<T>)
        for (int64_t i = 0; i < std::min(end, j + NR<T>); i += MR) {
            const Span<T> span(i, j, end);
            const T *l = left.at(0, i), *r = right.at(0, span.first);
            if (span.whole) update_tile<NV>(a.at(i, span.first), l, r, depth);
            else update_tile<1>(a.at(i, span.first), l, r, depth);
        }
}

// Copies the row-major (rows, columns) matrix, or its transpose, into panels.
template <class T>
static void pack(const T* matrix, int64_t rows, int64_t columns, bool transposed, Panels<T> to) {
    std::fill_n(to.data, Panels<T>::size(to.rows, transposed ? rows : columns), T(0));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
            *(transposed ? to.at(c, r) : to.at(r, c)) = matrix[r * columns + c];
}

// Rows of a product's tile: as many as the registers hold.
constexpr int TALL = MANY_REGISTERS ? 12 : 6;

// One tile of a product: TALL rows by the NR columns of one panel.
template <class T>
static void multiply_tile(const T* const (&row)[TALL], const T* panel, int64_t depth, T* tile) {
    Vec<T> acc[TALL][NV] = {};
    for (int64_t r = 0; r < depth; ++r, panel += NR<T>) {
        const Vec<T> low = vec(panel), high = vec(panel + W<T>);
#pragma GCC unroll 12
        for (int i = 0; i < TALL; ++i) acc[i][0] += row[i][r] * low, acc[i][1] += row[i][r] * high;
    }
#pragma GCC unroll 12
    for (int i = 0; i < TALL; ++i)
        vec(tile + i * NR<T>) = acc[i][0], vec(tile + i * NR<T> + W<T>) = acc[i][1];
}

// to = from right, where `right` is (depth, columns) in panels. `from` and `to` are row-major with
// any stride and alignment; only `columns` columns of `to` are written.
template <class T>
static void multiply(const T* from, int64_t from_stride, int64_t n_rows, Panels<T> right,
                     int64_t depth, T* to, int64_t to_stride, int64_t columns) {
    alignas(VECTOR_BYTES) T tile[TALL * NR<T>];
    const T* row[TALL];
    for (int64_t j = 0; j < columns; j += NR<T>) {
        const int64_t width = std::min<int64_t>(NR<T>, columns - j);
        for (int64_t r = 0; r < n_rows; r += TALL) {
            for (int64_t i = 0; i < TALL; ++i)
                row[i] = from + std::min(r + i, n_rows - 1) * from_stride;
            multiply_tile(row, right.at(0, j), depth, tile);
            for (int64_t i = 0; i < std::min<int64_t>(TALL, n_rows - r); ++i)
                std::memcpy(to + (r + i) * to_stride + j, tile + i * NR<T>, sizeof(T) * width);
        }
    }
}
