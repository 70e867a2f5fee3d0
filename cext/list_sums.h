// Scores at the places of lists, and sums over the places: by list, and by item.

// to[0, COUNT vectors) = sum over the terms e of weight(e) row(e), from column `at` on,
// in registers.
template <int COUNT, class T, class Weight, class Row>
MFRANK_INLINE void sum_columns(int64_t n, const Weight& weight, const Row& row, int64_t at, T* to) {
    Vec<T> sums[COUNT] = {};
    for (int64_t e = 0; e < n; ++e) {
        const T c = weight(e);
        if (c == 0) continue;
        const T* const f = row(e) + at;
#pragma GCC unroll 8
        for (int v = 0; v < COUNT; ++v) sums[v] += c * loose(f + v * W<T>);
    }
    for (int v = 0; v < COUNT; ++v) std::memcpy(to + v * W<T>, &sums[v], sizeof sums[v]);
}

// to = sum over the terms of weight(e) row(e), k columns.
template <class T, class Weight, class Row>
MFRANK_INLINE void weighted_sum(int64_t n, const Weight& weight, const Row& row, int64_t k, T* to) {
    int64_t at = 0;
    for (; at + 8 * W<T> <= k; at += 8 * W<T>) sum_columns<8>(n, weight, row, at, to + at);
    if (at + 4 * W<T> <= k) sum_columns<4>(n, weight, row, at, to + at), at += 4 * W<T>;
    if (at + 2 * W<T> <= k) sum_columns<2>(n, weight, row, at, to + at), at += 2 * W<T>;
    if (at + W<T> <= k) sum_columns<1>(n, weight, row, at, to + at), at += W<T>;
    for (; at < k; ++at) {
        T sum = 0;
        for (int64_t e = 0; e < n; ++e) sum += weight(e) * row(e)[at];
        to[at] = sum;
    }
}

template <class T>
MFRANK_INLINE T loose_dot(const T* a, const T* b, int64_t k) {
    Vec<T> even{}, odd{};  // two chains, so that one need not wait for the other
    int64_t j = 0;
    for (; j + 2 * W<T> <= k; j += 2 * W<T>) {
        even += loose(a + j) * loose(b + j);
        odd += loose(a + j + W<T>) * loose(b + j + W<T>);
    }
    if (j + W<T> <= k) even += loose(a + j) * loose(b + j), j += W<T>;
    T sum = sum_of<T>(even + odd);
    for (; j < k; ++j) sum += a[j] * b[j];
    return sum;
}

// to[r] = query . rows[r]
template <class T>
MFRANK_INLINE void four_dots(const T* query, const T* const (&rows)[4], int64_t k, T* to) {
    Vec<T> sums[4] = {};
    int64_t j = 0;
    for (; j + W<T> <= k; j += W<T>) {
        const Vec<T> q = loose(query + j);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) sums[r] += q * loose(rows[r] + j);
    }
    sums_of<T>(sums, to);
    for (; j < k; ++j)
        for (int r = 0; r < 4; ++r) to[r] += query[j] * rows[r][j];
}

// out[b, i] = queries[b] . items[ids[b, i]]
template <class T>
static void score(const ListTask<T>& task, T* out) {
    const int64_t k = task.k, n = task.n_places;
    const int threads = threads_worth(task.n_lists, double(n) * k, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        const T* const query = task.queries + b * k;
        const int64_t* const ids = task.ids + b * n;
        check_items(task, b, b + 1);
        int64_t i = 0;
        for (; i + 4 <= n; i += 4) {
            const T* rows[4];
            for (int r = 0; r < 4; ++r) {
                rows[r] = task.items + ids[i + r] * k;
                if (i + r + PREFETCH_AHEAD < n)
                    prefetch(task.items + ids[i + r + PREFETCH_AHEAD] * k, k);
            }
            four_dots(query, rows, k, out + b * n + i);
        }
        for (; i < n; ++i) out[b * n + i] = loose_dot(query, task.items + ids[i] * k, k);
    });
}

// out[b] = sum_i slopes[b, i] items[ids[b, i]]
template <class T>
static void sum_items(const ListTask<T>& task, const T* slopes, T* out) {
    const int64_t k = task.k, n = task.n_places;
    const int threads = threads_worth(task.n_lists, double(n) * k, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        const int64_t* const ids = task.ids + b * n;
        check_items(task, b, b + 1);
        weighted_sum(
            n, [&](int64_t e) { return slopes[b * n + e]; },
            [&](int64_t e) { return task.items + ids[e] * k; }, k, out + b * k);
    });
}

// out[t] = sum over the terms of item touched[t], in their order, of slope and query
template <class T>
static void sum_queries(const ListTask<T>& task, const Grouped<T>& grouped, T* out) {
    const int64_t k = task.k, n_touched = static_cast<int64_t>(grouped.touched.size());
    const double terms = double(grouped.n_terms) / std::max<int64_t>(1, n_touched);
    const int threads = threads_worth(n_touched, terms * k, task.n_threads);
    for_each_list(n_touched, threads, [&](int64_t t) {
        const typename Grouped<T>::Term* const terms = grouped.terms.get() + grouped.starts[t];
        weighted_sum(
            grouped.starts[t + 1] - grouped.starts[t], [&](int64_t e) { return terms[e].slope; },
            [&](int64_t e) { return task.queries + terms[e].list * k; }, k, out + t * k);
    });
}
