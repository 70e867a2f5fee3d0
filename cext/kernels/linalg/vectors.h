// Vectors of VECTOR_BYTES bytes by the compilers' vector extensions.
//
// Compiled once per instruction set, so without an include guard; see host/isa.h.

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
