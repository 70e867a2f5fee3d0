// Dense kernels on register tiles: rank-n update, Cholesky, matrix product, transposition.
//
// Compiled once per instruction set (no include guard, see isa.h), with VECTOR_BYTES of it. One
// tile of MR x (NV vectors) of a result stays in registers while `depth` rank-one terms are added.
// Sizes are rounded up to PAD, so that tiles are whole; the padding is zero, or 1 on a diagonal.

constexpr int MR = VECTOR_BYTES == 64 ? 8 : 4;
constexpr int NV = 2;
template <class T>
constexpr int W = VECTOR_BYTES / sizeof(T);
template <class T>
constexpr int NR = NV * W<T>;
template <class T>
constexpr int PAD = W<T> > MR ? W<T> : MR;

template <class T>
struct VectorOf {
    typedef T aligned __attribute__((vector_size(VECTOR_BYTES), may_alias));
    typedef T loose __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(sizeof(T))));
};
template <class T>
using Vec = typename VectorOf<T>::aligned;

#define MFRANK_INLINE static inline __attribute__((always_inline))

template <class T>
MFRANK_INLINE Vec<T>& vec(T* p) {
    return *reinterpret_cast<Vec<T>*>(p);
}
template <class T>
MFRANK_INLINE const Vec<T>& vec(const T* p) {
    return *reinterpret_cast<const Vec<T>*>(p);
}
template <class T>
MFRANK_INLINE Vec<T> loose(const T* p) {
    return *reinterpret_cast<const typename VectorOf<T>::loose*>(p);
}

template <class T>
static int64_t padded(int64_t n) {
    return (n + PAD<T> - 1) / PAD<T> * PAD<T>;
}

template <class T>
MFRANK_INLINE T sum_of(const Vec<T>& v) {
    alignas(VECTOR_BYTES) T lanes[W<T>];
    vec(lanes) = v;
    for (int step = W<T> / 2; step > 0; step /= 2)
        for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
    return lanes[0];
}

// A matrix stored by panels of NR columns, each panel row-major with `rows` rows: what a tile
// reads lies on consecutive cache lines whatever the matrix's width.
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
template <int SIGN, int N, int M, class T>
MFRANK_INLINE void add_outer(Vec<T> (&acc)[M][N], const T* left, int64_t left_step,
                             int64_t left_lane, const T* right, int64_t depth) {
    for (int64_t r = 0; r < depth; ++r, left += left_step, right += NR<T>) {
        Vec<T> b[N];
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) b[v] = vec(right + v * W<T>);
#pragma GCC unroll 8
        for (int i = 0; i < M; ++i)
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

template <int N, int M, class T>
MFRANK_INLINE void store(const Vec<T> (&acc)[M][N], T* tile, int64_t stride) {
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i)
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

// a += left' right for the columns [begin, end) of a, on and above the diagonal.
template <class T>
static void rank_update(Panels<T> a, Panels<T> left, Panels<T> right, int64_t depth, int64_t begin,
                        int64_t end) {
    for (int64_t j = begin; j < end; j += NR<T>) {
        const bool whole = end - j >= NR<T>;
        const int64_t rows = std::min(end, j + NR<T>);
        for (int64_t i = 0; i < rows; i += MR) {
            if (whole) update_tile<NV>(a.at(i, j), left.at(0, i), right.at(0, j), depth);
            else update_tile<1>(a.at(i, j), left.at(0, i), right.at(0, j), depth);
        }
    }
}

// Upper factor of the MR x MR block, in place; `inverse` gets 1 / diagonal. False: not positive.
template <class T>
static bool factor_block(T (&t)[MR][MR], T* inverse) {
    for (int i = 0; i < MR; ++i) {
        if (!(t[i][i] > 0)) return false;
        inverse[i] = 1 / std::sqrt(t[i][i]);
        for (int j = i; j < MR; ++j) t[i][j] *= inverse[i];
        for (int p = i + 1; p < MR; ++p)
            for (int j = p; j < MR; ++j) t[p][j] -= t[i][p] * t[i][j];
    }
    return true;
}

// One tile of the left-looking factor: subtract what the rows above explain, then divide by the
// diagonal block, which the first tile of a strip of rows (`offset` >= 0) factors on the way.
template <int N, class T>
static bool factor_tile(T* tile, const T* above, const T* column, int64_t depth, int64_t offset,
                        T (&block)[MR][MR], T* inverse) {
    Vec<T> acc[MR][N];
    load<N>(acc, tile, NR<T>);
    add_outer<-1, N>(acc, above, NR<T>, 1, column, depth);
    if (offset >= 0) {
        store<N>(acc, tile, NR<T>);
        for (int i = 0; i < MR; ++i)
            for (int j = 0; j < MR; ++j) block[i][j] = tile[i * NR<T> + offset + j];
        if (!factor_block(block, inverse)) return false;
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
        for (int p = 0; p < i; ++p)
#pragma GCC unroll 4
            for (int v = 0; v < N; ++v) acc[i][v] -= block[p][i] * acc[p][v];
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) acc[i][v] *= inverse[i];
    }
    store<N>(acc, tile, NR<T>);
    return true;
}

// a = U'U in place, upper blocks; false where a pivot is not positive.
template <class T>
static bool cholesky(Panels<T> a, int64_t n, T* inverse_diagonal) {
    T block[MR][MR];
    for (int64_t i = 0; i < n; i += MR) {
        const int64_t first = i / NR<T> * NR<T>;
        for (int64_t j = first; j < n; j += NR<T>) {
            const int64_t offset = j == first ? i - j : -1;
            T* const inverse = inverse_diagonal + i;
            const bool positive =
                n - j >= NR<T>
                    ? factor_tile<NV>(a.at(i, j), a.at(0, i), a.at(0, j), i, offset, block, inverse)
                    : factor_tile<1>(a.at(i, j), a.at(0, i), a.at(0, j), i, offset, block, inverse);
            if (!positive) return false;
        }
    }
    return true;
}

// x = (U'U)^-1 x
template <class T>
static void solve_factored(Panels<T> u, int64_t n, const T* inverse_diagonal, T* x) {
    for (int64_t i = 0; i < n; ++i) {
        const T xi = x[i] *= inverse_diagonal[i];
        int64_t j = i + 1;
        for (; j < n && j % W<T> != 0; ++j) x[j] -= xi * *u.at(i, j);
        for (; j < n; j += W<T>) vec(x + j) -= xi * vec(u.at(i, j));
    }
    for (int64_t i = n - 1; i >= 0; --i) {
        int64_t j = i + 1;
        T rest = 0;
        for (; j < n && j % W<T> != 0; ++j) rest += *u.at(i, j) * x[j];
        Vec<T> sum{};
        for (; j < n; j += W<T>) sum += vec(u.at(i, j)) * vec(x + j);
        x[i] = (x[i] - rest - sum_of<T>(sum)) * inverse_diagonal[i];
    }
}

// Panels of the (rows, columns) row-major matrix, or of its transpose.
template <class T>
static void pack(const T* matrix, int64_t rows, int64_t columns, bool transposed, Panels<T> to) {
    std::memset(to.data, 0, sizeof(T) * Panels<T>::size(to.rows, transposed ? rows : columns));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
            *(transposed ? to.at(c, r) : to.at(r, c)) = matrix[r * columns + c];
}

// to = from right: `from` and `to` have up to MR rows, `right` is (depth, columns) in panels.
// Only `columns` (any number) of `to` are written; no alignment is asked of either.
template <class T>
static void multiply_strip(const T* from, int64_t from_stride, int64_t n_rows, Panels<T> right,
                           int64_t depth, T* to, int64_t to_stride, int64_t columns) {
    const T* row[MR];
    for (int64_t i = 0; i < MR; ++i) row[i] = from + std::min(i, n_rows - 1) * from_stride;
    alignas(VECTOR_BYTES) T tile[MR * NR<T>];
    for (int64_t j = 0; j < columns; j += NR<T>) {
        const T* panel = right.at(0, j);
        Vec<T> acc[MR][NV] = {};
        for (int64_t r = 0; r < depth; ++r, panel += NR<T>) {
            const Vec<T> low = vec(panel), high = vec(panel + W<T>);
#pragma GCC unroll 8
            for (int i = 0; i < MR; ++i) acc[i][0] += row[i][r] * low, acc[i][1] += row[i][r] * high;
        }
        store<NV>(acc, tile, NR<T>);
        const size_t width = sizeof(T) * std::min<int64_t>(NR<T>, columns - j);
        for (int64_t i = 0; i < n_rows; ++i)
            std::memcpy(to + i * to_stride + j, tile + i * NR<T>, width);
    }
}

// Lanes a0 b0 a1 b1 ... of the lower (FROM = 0) or upper (FROM = W / 2) halves of a and b.
template <int FROM, class T, size_t... I>
MFRANK_INLINE Vec<T> interleave(const Vec<T>& a, const Vec<T>& b, std::index_sequence<I...>) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, int(FROM + I / 2 + I % 2 * W<T>)...);
#else
    using Lane = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    return __builtin_shuffle(a, b, Vec<Lane>{Lane(FROM + I / 2 + I % 2 * W<T>)...});
#endif
}

// Transposes W x W in registers: log2(W) perfect shuffles of the rows.
template <class T>
MFRANK_INLINE void transpose(Vec<T> (&rows)[W<T>]) {
    constexpr int HALF = W<T> / 2;
    const auto lanes = std::make_index_sequence<W<T>>();
#pragma GCC unroll 4
    for (int width = W<T>; width > 1; width /= 2) {
        Vec<T> next[W<T>];
#pragma GCC unroll 16
        for (int i = 0; i < HALF; ++i) {
            next[2 * i] = interleave<0, T>(rows[i], rows[i + HALF], lanes);
            next[2 * i + 1] = interleave<HALF, T>(rows[i], rows[i + HALF], lanes);
        }
#pragma GCC unroll 16
        for (int i = 0; i < W<T>; ++i) rows[i] = next[i];
    }
}
