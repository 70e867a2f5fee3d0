// Weighted sums of rows, accumulated in registers.
//
// `terms` is a function that enumerates the terms: terms(add) calls add(weights, row) for each one.

// to[s] = sum over the terms of weights[s] * row, for COUNT vectors from column `at` on. If ONTO,
// the sums are added to `to`.
template <int COUNT, bool ONTO, class T, size_t SUMS, class Terms>
MFRANK_INLINE void sum_columns(const Terms& terms, int64_t at, T* const (&to)[SUMS]) {
    Vec<T> sums[SUMS][COUNT] = {};
    for (size_t s = 0; ONTO && s < SUMS; ++s) std::memcpy(&sums[s], to[s] + at, sizeof sums[s]);
    terms([&](const T(&weights)[SUMS], const T* row) {
        bool any = false;
        for (const T weight : weights) any |= weight != 0;
        if (!any) return;
#pragma GCC unroll 8
        for (int v = 0; v < COUNT; ++v) {
            const Vec<T> x = loose(row + at + v * W<T>);
#pragma GCC unroll 4
            for (size_t s = 0; s < SUMS; ++s) sums[s][v] += weights[s] * x;
        }
    });
    for (size_t s = 0; s < SUMS; ++s) std::memcpy(to[s] + at, &sums[s], sizeof sums[s]);
}

// The same for all k columns; each row is read once for all sums.
template <bool ONTO, class T, size_t SUMS, class Terms>
MFRANK_INLINE void sum_weighted(const Terms& terms, int64_t k, T* const (&to)[SUMS]) {
    // As many vectors as fit in the registers beside rows and weights.
    constexpr int MOST = SUMS == 1 ? 8 : MANY_REGISTERS ? 4 : 2;
    int64_t at = 0;
    for (; at + MOST * W<T> <= k; at += MOST * W<T>) sum_columns<MOST, ONTO>(terms, at, to);
    if constexpr (MOST > 4)
        if (at + 4 * W<T> <= k) sum_columns<4, ONTO>(terms, at, to), at += 4 * W<T>;
    if constexpr (MOST > 2)
        if (at + 2 * W<T> <= k) sum_columns<2, ONTO>(terms, at, to), at += 2 * W<T>;
    if (at + W<T> <= k) sum_columns<1, ONTO>(terms, at, to), at += W<T>;
    for (; at < k; ++at) {
        for (size_t s = 0; !ONTO && s < SUMS; ++s) to[s][at] = 0;
        terms([&](const T(&weights)[SUMS], const T* row) {
            for (size_t s = 0; s < SUMS; ++s) to[s][at] += weights[s] * row[at];
        });
    }
}

// to = sum over the terms of weight * row, for terms with a single weight.
template <class T, class Terms>
MFRANK_INLINE void weighted_sum(const Terms& terms, int64_t k, T* to) {
    T* const only[1] = {to};
    sum_weighted<false>(
        [&](const auto& add) {
            terms([&](T weight, const T* row) {
                const T weights[1] = {weight};
                add(weights, row);
            });
        },
        k, only);
}

// Splits [0, count) into ranges of 4, 2 and 1 and calls work(length, first) for each; the length is
// a compile-time constant.
template <class Work>
MFRANK_INLINE void by_fours(int64_t count, const Work& work) {
    int64_t first = 0;
    for (; first + 4 <= count; first += 4) work(std::integral_constant<size_t, 4>(), first);
    if (first + 2 <= count) work(std::integral_constant<size_t, 2>(), first), first += 2;
    if (first < count) work(std::integral_constant<size_t, 1>(), first);
}
