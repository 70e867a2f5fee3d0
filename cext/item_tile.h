// Items packed side by side, one coordinate after another, as the register tile reads them.
//
// Compiled once per instruction set, after dense.h.

// tile[j * NR + q] = items[ids[q]][j]; places from `count` on repeat the last item, and a bias
// follows as one more coordinate.
template <class T>
static void pack_items(const TopKTask<T>& task, const int32_t* ids, int count, T* tile) {
    const int64_t k = task.k;
    const T* rows[NR<T>];
    for (int q = 0; q < NR<T>; ++q) rows[q] = task.items + ids[std::min(q, count - 1)] * k;
    for (int q = 0; q < NR<T>; q += W<T>) {
        for (int i = q + W<T>; i < NR<T>; ++i)
            for (int64_t j = 0; j < k; j += 64 / sizeof(T)) __builtin_prefetch(rows[i] + j);
        int64_t j = 0;
        for (; j + W<T> <= k; j += W<T>) {
            Vec<T> block[W<T>];
            for (int i = 0; i < W<T>; ++i) block[i] = loose(rows[q + i] + j);
            transpose<T>(block);
            for (int i = 0; i < W<T>; ++i) vec(tile + (j + i) * NR<T> + q) = block[i];
        }
        for (; j < k; ++j)
            for (int i = q; i < q + W<T>; ++i) tile[j * NR<T> + i] = rows[i][j];
    }
    if (!task.bias) return;
    for (int q = 0; q < NR<T>; ++q) tile[k * NR<T> + q] = task.bias[ids[std::min(q, count - 1)]];
}
