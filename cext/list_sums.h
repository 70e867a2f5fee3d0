// Scores at the places of lists, and sums over the places: by list, and by item.

// to[0, COUNT vectors) = sum over the terms of weight times row, from column `at` on, in registers.
// Terms call what they are given with every weight and row.
template <int COUNT, class T, class Terms>
MFRANK_INLINE void sum_columns(const Terms& terms, int64_t at, T* to) {
    Vec<T> sums[COUNT] = {};
    terms([&](T weight, const T* row) {
        if (weight == 0) return;
#pragma GCC unroll 8
        for (int v = 0; v < COUNT; ++v) sums[v] += weight * loose(row + at + v * W<T>);
    });
    for (int v = 0; v < COUNT; ++v) std::memcpy(to + v * W<T>, &sums[v], sizeof sums[v]);
}

// to = sum over the terms of weight times row, k columns.
template <class T, class Terms>
MFRANK_INLINE void weighted_sum(const Terms& terms, int64_t k, T* to) {
    int64_t at = 0;
    for (; at + 8 * W<T> <= k; at += 8 * W<T>) sum_columns<8>(terms, at, to + at);
    if (at + 4 * W<T> <= k) sum_columns<4>(terms, at, to + at), at += 4 * W<T>;
    if (at + 2 * W<T> <= k) sum_columns<2>(terms, at, to + at), at += 2 * W<T>;
    if (at + W<T> <= k) sum_columns<1>(terms, at, to + at), at += W<T>;
    for (; at < k; ++at) {
        T sum = 0;
        terms([&](T weight, const T* row) { sum += weight * row[at]; });
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

// out[q, i] = queries[q] . items[ids[b, i]], of the queries q that ask list b
template <class T>
static void score(const ListTask<T>& task, T* out) {
    const int64_t k = task.k, n = task.n_places;
    const int threads = threads_worth(task.n_lists, double(n) * task.width * k, task.n_threads);
    by_width(task.width, [&](auto width) {
        for_each_list(task.n_lists, threads, [&](int64_t b) {
            const T* const queries = task.queries + b * width * k;
            const int64_t* const ids = task.ids + b * n;
            T* const scores = out + b * width * n;
            check_items(task, b, b + 1);
            int64_t i = 0;
            for (; i + 4 <= n; i += 4) {
                const T* rows[4];
                for (int r = 0; r < 4; ++r) {
                    rows[r] = task.items + ids[i + r] * k;
                    if (i + r + PREFETCH_AHEAD < n)
                        prefetch(task.items + ids[i + r + PREFETCH_AHEAD] * k, k);
                }
                for (int64_t q = 0; q < width; ++q)
                    four_dots(queries + q * k, rows, k, scores + q * n + i);
            }
            for (; i < n; ++i)
                for (int64_t q = 0; q < width; ++q)
                    scores[q * n + i] = loose_dot(queries + q * k, task.items + ids[i] * k, k);
        });
    });
}

// out[q] = sum_i slopes[q, i] items[ids[b, i]]
template <class T>
static void sum_items(const ListTask<T>& task, const T* slopes, T* out) {
    const int64_t k = task.k, n = task.n_places, width = task.width;
    const int threads = threads_worth(task.n_lists, double(n) * width * k, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        const int64_t* const ids = task.ids + b * n;
        check_items(task, b, b + 1);
        for (int64_t q = b * width; q < (b + 1) * width; ++q)
            weighted_sum(
                [&](const auto& add) {
                    for (int64_t i = 0; i < n; ++i) add(slopes[q * n + i], task.items + ids[i] * k);
                },
                k, out + q * k);
    });
}

// out[t] = sum over the places of item touched[t], in their order, of the queries that ask their
// lists, times their slopes
template <class T>
static void sum_queries(const ListTask<T>& task, const Grouped<T>& grouped, T* out) {
    const int64_t k = task.k, n_touched = static_cast<int64_t>(grouped.touched.size());
    const double each = double(grouped.n_places * task.width) / std::max<int64_t>(1, n_touched);
    const int threads = threads_worth(n_touched, each * k, task.n_threads);
    by_width(task.width, [&](auto width) {
        for_each_list(n_touched, threads, [&](int64_t t) {
            const int64_t record = 1 + width;
            const T* const first = grouped.places.get() + grouped.starts[t] * record;
            const T* const end = grouped.places.get() + grouped.starts[t + 1] * record;
            weighted_sum(
                [&](const auto& add) {
                    for (const T* place = first; place < end; place += record) {
                        const T* row = task.queries + grouped.list_of(place) * width * k;
                        for (int64_t q = 1; q <= width; ++q, row += k) add(place[q], row);
                    }
                },
                k, out + t * k);
        });
    });
}
