// Packs items as the register tiles read them: coordinate by coordinate, the items side by side.

template <class T>
struct FourOf {
    using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    typedef T type __attribute__((vector_size(4 * sizeof(T)), may_alias, aligned(sizeof(T))));
    typedef Int Places __attribute__((vector_size(4 * sizeof(T))));
};
template <class T>
using Four = typename FourOf<T>::type;

#ifdef __clang__
#define MFRANK_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MFRANK_PICK(a, b, ...) __builtin_shuffle(a, b, Places{__VA_ARGS__})
#endif

// out[c * NR + r] = rows[r][column + c] for r, c < 4. Packing would take three times as long
// element by element, and a quarter longer with transpose() of vectors.h.
template <class T>
MFRANK_INLINE void transpose_block(const T* const* rows, int64_t column, T* out) {
    [[maybe_unused]] typedef typename FourOf<T>::Places Places;
    Four<T> r[4], pairs[4];
    for (int i = 0; i < 4; ++i) r[i] = *reinterpret_cast<const Four<T>*>(rows[i] + column);
    pairs[0] = MFRANK_PICK(r[0], r[1], 0, 4, 1, 5), pairs[1] = MFRANK_PICK(r[2], r[3], 0, 4, 1, 5);
    pairs[2] = MFRANK_PICK(r[0], r[1], 2, 6, 3, 7), pairs[3] = MFRANK_PICK(r[2], r[3], 2, 6, 3, 7);
    for (int c = 0; c < 4; c += 2) {
        Four<T>* const even = reinterpret_cast<Four<T>*>(out + c * NR<T>);
        Four<T>* const odd = reinterpret_cast<Four<T>*>(out + (c + 1) * NR<T>);
        *even = MFRANK_PICK(pairs[c], pairs[c + 1], 0, 1, 4, 5);
        *odd = MFRANK_PICK(pairs[c], pairs[c + 1], 2, 3, 6, 7);
    }
}

// scores[r] = query . rows[r] for W rows, transposed in registers. Each score is one chain of
// multiply-adds over the coordinates, so that it equals that of a packed tile. The rows `ahead` are
// prefetched, because W streams are too many for the hardware prefetcher.
template <class T>
MFRANK_INLINE Vec<T> score_rows(const T* query, const T* const (&rows)[W<T>],
                                const T* const (&ahead)[W<T>], int64_t k) {
    Vec<T> scores{};
    int64_t j = 0;
    for (; j + W<T> <= k; j += W<T>) {
        Vec<T> columns[W<T>];
        for (int r = 0; r < W<T>; ++r) __builtin_prefetch(ahead[r] + j);
        load_transposed<T>(rows, j, columns);
        for (int c = 0; c < W<T>; ++c) scores += query[j + c] * columns[c];
    }
    for (; j < k; ++j) {
        Vec<T> column;
        for (int r = 0; r < W<T>; ++r) column[r] = rows[r][j];
        scores += query[j] * column;
    }
    return scores;
}

// tile[j * NR + q] = items[ids[q]][j]. Places from `count` on repeat the last item; the bias is
// appended as one more coordinate.
template <class T>
static void pack_items(const TopKTask<T>& task, const int32_t* ids, int count, T* tile) {
    const int64_t k = task.k;
    const T* rows[NR<T>];
    for (int q = 0; q < NR<T>; ++q) rows[q] = task.items + ids[std::min(q, count - 1)] * k;
    for (int q = 0; q < NR<T>; q += 4) {
        for (int i = q + 4; i < std::min(q + 8, NR<T>); ++i)
            for (int64_t j = 0; j < k; j += 64 / sizeof(T)) __builtin_prefetch(rows[i] + j);
        int64_t j = 0;
        for (; j + 4 <= k; j += 4) transpose_block(rows + q, j, tile + j * NR<T> + q);
        for (; j < k; ++j)
            for (int i = q; i < q + 4; ++i) tile[j * NR<T> + i] = rows[i][j];
    }
    if (!task.bias) return;
    for (int q = 0; q < NR<T>; ++q) tile[k * NR<T> + q] = task.bias[ids[std::min(q, count - 1)]];
}
