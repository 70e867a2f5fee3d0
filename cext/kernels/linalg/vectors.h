// Vectors of VECTOR_BYTES bytes by the compilers' vector extensions.
//
// Compiled once per instruction set, so without an include guard; see host/isa.h.

// AVX-512 and NEON have 32 vector registers, all others 16.
#ifdef __aarch64__
constexpr bool MANY_REGISTERS = true;
#else
constexpr bool MANY_REGISTERS = VECTOR_BYTES == 64;
#endif

// A register tile is MR rows by NV vectors of W lanes.
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

// Lanes PICK... of the concatenation of a and b.
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

// Lane i is a[i] + a[i ^ STEP], or b[i] + b[i ^ STEP] if bit STEP of i is set.
template <int STEP, class T, class Lane, Lane... I>
MFRANK_INLINE Vec<T> folded_beside(const Vec<T>& a, const Vec<T>& b,
                                   std::integer_sequence<Lane, I...>) {
    using Own = std::integer_sequence<Lane, (I & STEP ? I + W<T> : I)...>;
    using Other = std::integer_sequence<Lane, (I & STEP ? (I ^ STEP) + W<T> : I ^ STEP)...>;
    return shuffle<T>(a, b, Own()) + shuffle<T>(a, b, Other());
}

template <class T, int STEP>
MFRANK_INLINE Vec<T> folded(const Vec<T>& v) {
    if constexpr (STEP == 0) return v;
    else return folded<T, STEP / 2>(v + swapped<STEP, T>(v, Lanes<T>()));
}

// The sums of four vectors, with fewer shuffles than four separate sums.
template <class T>
MFRANK_INLINE void sums_of(const Vec<T> (&v)[4], T* to) {
    if constexpr (W<T> < 4) {
        for (int r = 0; r < 4; ++r) to[r] = sum_of<T>(v[r]);
    } else {
        constexpr int HALF = W<T> / 2, QUARTER = W<T> / 4;
        const Vec<T> all = folded<T, QUARTER / 2>(
            folded_beside<QUARTER, T>(folded_beside<HALF, T>(v[0], v[2], Lanes<T>()),
                                      folded_beside<HALF, T>(v[1], v[3], Lanes<T>()), Lanes<T>()));
        for (int r = 0; r < 4; ++r) to[r] = all[r * QUARTER];
    }
}

// Lanes per 16 bytes. Shuffles within them take one instruction on every machine.
template <class T>
constexpr int PIECE = 16 / sizeof(T);

// The lanes of `low`, then those of `high`.
template <class Both, class Half, int... I>
MFRANK_INLINE Both joined(const Half& low, const Half& high, std::integer_sequence<int, I...>) {
#if defined(__clang__) || __GNUC__ >= 12
    return __builtin_shufflevector(low, high, I...);
#else
    Half halves[] = {low, high};
    Both both;
    std::memcpy(&both, halves, sizeof both);
    return both;
#endif
}

// The PIECE lanes at `at` of rows[0], then those of rows[PIECE], and so on: N lanes.
template <int N, class T>
MFRANK_INLINE auto load_pieces(const T* const* rows, int64_t at) {
    typedef T Lanes __attribute__((vector_size(N * sizeof(T))));
    if constexpr (N == PIECE<T>) {
        Lanes piece;
        std::memcpy(&piece, rows[0] + at, sizeof piece);
        return piece;
    } else {
        return joined<Lanes>(load_pieces<N / 2>(rows, at), load_pieces<N / 2>(rows + N / 2, at),
                             std::make_integer_sequence<int, N>());
    }
}

// Of each piece: lanes a0 b0 a1 b1 ... of its lower (FROM = 0) or upper (FROM = PIECE / 2) half.
template <int FROM, class T, class Lane, Lane... I>
MFRANK_INLINE Vec<T> interleaved(const Vec<T>& a, const Vec<T>& b,
                                 std::integer_sequence<Lane, I...>) {
    constexpr Lane P = PIECE<T>;
    return shuffle<T>(
        a, b, std::integer_sequence<Lane, (I / P * P + FROM + I % P / 2 + I % 2 * W<T>)...>());
}

// Transposes each of the W / PIECE matrices that the pieces of PIECE vectors make.
template <class T>
MFRANK_INLINE void transpose_pieces(Vec<T>* rows) {
    constexpr int P = PIECE<T>, HALF = P / 2;
#pragma GCC unroll 2
    for (int width = P; width > 1; width /= 2) {
        Vec<T> next[P];
#pragma GCC unroll 2
        for (int i = 0; i < HALF; ++i) {
            next[2 * i] = interleaved<0, T>(rows[i], rows[i + HALF], Lanes<T>());
            next[2 * i + 1] = interleaved<HALF, T>(rows[i], rows[i + HALF], Lanes<T>());
        }
#pragma GCC unroll 4
        for (int i = 0; i < P; ++i) rows[i] = next[i];
    }
}

// tile[j] := column `at` + j of the W rows.
template <class T>
MFRANK_INLINE void load_transposed(const T* const (&rows)[W<T>], int64_t at, Vec<T> (&tile)[W<T>]) {
    constexpr int P = PIECE<T>;
#pragma GCC unroll 4
    for (int first = 0; first < W<T>; first += P) {
#pragma GCC unroll 4
        for (int r = 0; r < P; ++r) tile[first + r] = load_pieces<W<T>>(rows + r, at + first);
        transpose_pieces<T>(tile + first);
    }
}

// to[j] := lane `lane` of tile[j], for j < n, of a tile whose every PIECE vectors went through
// transpose_pieces. Whole tiles, the most by far, are copied without a call of memcpy.
template <class T>
MFRANK_INLINE void store_lane(const Vec<T> (&tile)[W<T>], int lane, int64_t n, T* to) {
    constexpr int P = PIECE<T>;
    const T* from = reinterpret_cast<const T*>(&tile[lane % P]) + lane / P * P;
    if (n == W<T>) {
#pragma GCC unroll 4
        for (int first = 0; first < W<T>; first += P)
            std::memcpy(to + first, from + first * W<T>, sizeof(T) * P);
        return;
    }
    for (int64_t j = 0; j < n; ++j) to[j] = from[j / P * P * W<T> + j % P];
}
