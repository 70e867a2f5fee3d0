// Dense kernels on register tiles: rank-n update, Cholesky, matrix product, transposition.
//
// Compiled once per instruction set (no include guard, see isa.h), with VECTOR_BYTES of it. One
// tile of MR x (NV vectors) of a result stays in registers while `depth` rank-one terms are added.
// Sizes are rounded up to MR or PAD, so that tiles are whole; the padding is zero, or 1 on a
// diagonal.

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

// Lanes PICK... of a and b side by side.
template <class T, class Lane, Lane... PICK>
MFRANK_INLINE Vec<T> shuffle(const Vec<T>& a, const Vec<T>& b,
                             std::integer_sequence<Lane, PICK...>) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, PICK...);
#else
    return __builtin_shuffle(a, b, Vec<Lane>{PICK...});
#endif
}

template <class T>
using LaneOf = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
template <class T>
using Lanes = std::make_integer_sequence<LaneOf<T>, W<T>>;

// Lane i of the result is lane i ^ STEP.
template <int STEP, class T, class Lane, Lane... I>
MFRANK_INLINE Vec<T> swapped(const Vec<T>& v, std::integer_sequence<Lane, I...>) {
    return shuffle<T>(v, v, std::integer_sequence<Lane, (I ^ STEP)...>());
}

template <class T, int STEP = W<T> / 2>
MFRANK_INLINE T sum_of(const Vec<T>& v) {
    const Vec<T> folded = v + swapped<STEP, T>(v, Lanes<T>());
    if constexpr (STEP == 1) return folded[0];
    else return sum_of<T, STEP / 2>(folded);
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

// Vectors of the panel at column j that a strip of rows from i, or the width n, leaves to do: all,
// or one; and whether that one is the panel's second, the first being below the diagonal.
template <class T>
struct Span {
    bool whole;
    int64_t first;
    Span(int64_t i, int64_t j, int64_t n) : whole(i < j + W<T> && n > j + W<T>), first(j) {
        if (i >= j + W<T>) first += W<T>;
    }
};

// a += left' right for the columns [begin, end) of a, on and above the diagonal.
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

// Upper factor of the MR x MR block, in place; `inverse` gets 1 / diagonal. False: not positive.
template <class T>
static bool factor_block(T (&t)[MR][MR], T* inverse) {
    T pivot[MR];
    for (int i = 0; i < MR; ++i) {
        pivot[i] = t[i][i];
        if (!(pivot[i] > 0)) return false;
        const T reciprocal = 1 / pivot[i];  // The root comes later, off the critical path.
#pragma GCC unroll 8
        for (int p = i + 1; p < MR; ++p) {
            const T factor = t[i][p] * reciprocal;
            for (int j = 0; j < MR; ++j) t[p][j] -= factor * t[i][j];
        }
    }
    for (int i = 0; i < MR; ++i) inverse[i] = 1 / std::sqrt(pivot[i]);
    for (int i = 0; i < MR; ++i)
        for (int j = 0; j < MR; ++j) t[i][j] *= inverse[i];
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

// a = U'U in place, upper blocks, n a multiple of MR; false where a pivot is not positive.
template <class T>
static bool cholesky(Panels<T> a, int64_t n, T* inverse_diagonal) {
    T block[MR][MR];
    for (int64_t i = 0; i < n; i += MR)
        for (int64_t j = i / NR<T> * NR<T>; j < n; j += NR<T>) {
            const Span<T> span(i, j, n);
            const int64_t offset = j <= i ? i - span.first : -1;
            T *tile = a.at(i, span.first), *column = a.at(0, span.first), *above = a.at(0, i);
            T* const inverse = inverse_diagonal + i;
            const bool positive =
                span.whole ? factor_tile<NV>(tile, above, column, i, offset, block, inverse)
                           : factor_tile<1>(tile, above, column, i, offset, block, inverse);
            if (!positive) return false;
        }
    return true;
}

// y = U'^-1 x by strips of MR rows; x is used up, and 0 from n to the end of its last vector.
template <class T>
static void solve_lower(Panels<T> u, int64_t n, const T* inverse_diagonal, T* x, T* y) {
    for (int64_t i = 0; i < n; i += MR) {
        const T* strip = u.at(i, i);
        for (int a = 0; a < MR; ++a) {
            y[i + a] = x[i + a] * inverse_diagonal[i + a];
            for (int b = a + 1; b < MR; ++b) x[i + b] -= y[i + a] * strip[a * NR<T> + b];
        }
        for (int64_t j = (i + MR) / W<T> * W<T>; j < n; j += W<T>) {
            const T* column = u.at(i, j);
            Vec<T> rest = vec(x + j);
#pragma GCC unroll 8
            for (int a = 0; a < MR; ++a) rest -= y[i + a] * vec(column + a * NR<T>);
            vec(x + j) = rest;
        }
    }
}

// x = U^-1 y by strips of MR rows, from the last.
template <class T>
static void solve_upper(Panels<T> u, int64_t n, const T* inverse_diagonal, const T* y, T* x) {
    std::fill_n(x, padded<T>(n), T(0));  // What is not solved yet adds nothing to the sums below.
    for (int64_t i = n - MR; i >= 0; i -= MR) {
        Vec<T> sums[MR] = {};
        for (int64_t j = (i + MR) / W<T> * W<T>; j < n; j += W<T>) {
            const T* column = u.at(i, j);
#pragma GCC unroll 8
            for (int a = 0; a < MR; ++a) sums[a] += vec(column + a * NR<T>) * vec(x + j);
        }
        const T* strip = u.at(i, i);
        for (int a = MR - 1; a >= 0; --a) {
            T rest = y[i + a] - sum_of<T>(sums[a]);
            for (int b = MR - 1; b > a; --b) rest -= strip[a * NR<T> + b] * x[i + b];
            x[i + a] = rest * inverse_diagonal[i + a];
        }
    }
}

// x = (U'U)^-1 x; `y` is scratch.
template <class T>
static void solve_factored(Panels<T> u, int64_t n, const T* inverse_diagonal, T* x, T* y) {
    solve_lower(u, n, inverse_diagonal, x, y);
    solve_upper(u, n, inverse_diagonal, y, x);
}

// Panels of the (rows, columns) row-major matrix, or of its transpose.
template <class T>
static void pack(const T* matrix, int64_t rows, int64_t columns, bool transposed, Panels<T> to) {
    std::memset(to.data, 0, sizeof(T) * Panels<T>::size(to.rows, transposed ? rows : columns));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
            *(transposed ? to.at(c, r) : to.at(r, c)) = matrix[r * columns + c];
}

// One tile of a product, MR rows of `row` by the NR columns of one panel.
template <class T>
static void multiply_tile(const T* const (&row)[MR], const T* panel, int64_t depth, T* tile) {
    Vec<T> acc[MR][NV] = {};
    for (int64_t r = 0; r < depth; ++r, panel += NR<T>) {
        const Vec<T> low = vec(panel), high = vec(panel + W<T>);
#pragma GCC unroll 8
        for (int i = 0; i < MR; ++i) acc[i][0] += row[i][r] * low, acc[i][1] += row[i][r] * high;
    }
    store<NV>(acc, tile, NR<T>);
}

// to = from right, where `right` is (depth, columns) in panels; `from` and `to` are row-major with
// rows of any length and alignment, and only `columns` of `to` are written.
template <class T>
static void multiply(const T* from, int64_t from_stride, int64_t n_rows, Panels<T> right,
                     int64_t depth, T* to, int64_t to_stride, int64_t columns) {
    alignas(VECTOR_BYTES) T tile[MR * NR<T>];
    const T* row[MR];
    for (int64_t j = 0; j < columns; j += NR<T>) {
        const int64_t width = std::min<int64_t>(NR<T>, columns - j);
        for (int64_t r = 0; r < n_rows; r += MR) {
            for (int64_t i = 0; i < MR; ++i) row[i] = from + std::min(r + i, n_rows - 1) * from_stride;
            multiply_tile(row, right.at(0, j), depth, tile);
            for (int64_t i = 0; i < std::min<int64_t>(MR, n_rows - r); ++i)
                std::memcpy(to + (r + i) * to_stride + j, tile + i * NR<T>, sizeof(T) * width);
        }
    }
}

// Lanes a0 b0 a1 b1 ... of the lower (FROM = 0) or upper (FROM = W / 2) halves of a and b.
template <int FROM, class T, class Lane, Lane... I>
MFRANK_INLINE Vec<T> interleaved(const Vec<T>& a, const Vec<T>& b,
                                 std::integer_sequence<Lane, I...>) {
    return shuffle<T>(a, b, std::integer_sequence<Lane, (FROM + I / 2 + I % 2 * W<T>)...>());
}

// Transposes W x W in registers: log2(W) perfect shuffles of the rows.
template <class T>
MFRANK_INLINE void transpose(Vec<T> (&rows)[W<T>]) {
    constexpr int HALF = W<T> / 2;
#pragma GCC unroll 4
    for (int width = W<T>; width > 1; width /= 2) {
        Vec<T> next[W<T>];
#pragma GCC unroll 16
        for (int i = 0; i < HALF; ++i) {
            next[2 * i] = interleaved<0, T>(rows[i], rows[i + HALF], Lanes<T>());
            next[2 * i + 1] = interleaved<HALF, T>(rows[i], rows[i + HALF], Lanes<T>());
        }
#pragma GCC unroll 16
        for (int i = 0; i < W<T>; ++i) rows[i] = next[i];
    }
}
