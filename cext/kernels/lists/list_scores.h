// Scores at the places of lists: dot products or negative squared distances.

// The terms of a score: products, or negative squared differences.
struct Products {
    template <class X>
    MFRANK_INLINE void add(X& sum, X a, X b) {
        sum += a * b;
    }
};
struct Distances {
    template <class X>
    MFRANK_INLINE void add(X& sum, X a, X b) {
        sum -= (a - b) * (a - b);
    }
};

template <class Of, class T>
MFRANK_INLINE T loose_score(const T* a, const T* b, int64_t k) {
    Vec<T> even{}, odd{};  // two independent chains of additions, to hide their latency
    int64_t j = 0;
    for (; j + 2 * W<T> <= k; j += 2 * W<T>) {
        Of::template add<Vec<T>>(even, loose(a + j), loose(b + j));
        Of::template add<Vec<T>>(odd, loose(a + j + W<T>), loose(b + j + W<T>));
    }
    if (j + W<T> <= k) Of::template add<Vec<T>>(even, loose(a + j), loose(b + j)), j += W<T>;
    T sum = sum_of<T>(even + odd);
    for (; j < k; ++j) Of::add(sum, a[j], b[j]);
    return sum;
}

template <class T>
MFRANK_INLINE T loose_dot(const T* a, const T* b, int64_t k) {
    return loose_score<Products>(a, b, k);
}

// to[r] = the score of the query and rows[r]
template <class Of, class T>
MFRANK_INLINE void four_scores(const T* query, const T* const (&rows)[4], int64_t k, T* to) {
    Vec<T> sums[4] = {};
    int64_t j = 0;
    for (; j + W<T> <= k; j += W<T>) {
        const Vec<T> q = loose(query + j);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) Of::template add<Vec<T>>(sums[r], q, loose(rows[r] + j));
    }
    sums_of<T>(sums, to);
    for (; j < k; ++j)
        for (int r = 0; r < 4; ++r) Of::add(to[r], query[j], rows[r][j]);
}

// out[q, i] = the score of queries[q] and items[ids[b, i]], for each query q of list b
template <class Of, class T>
static void scores_of(const ListTask<T>& task, T* out) {
    const int64_t k = task.k, n = task.n_places, width = task.width;
    const int threads = threads_for(task.n_lists, double(n) * width * k, task.n_threads);
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
                four_scores<Of>(queries + q * k, rows, k, scores + q * n + i);
        }
        for (; i < n; ++i)
            for (int64_t q = 0; q < width; ++q)
                scores[q * n + i] = loose_score<Of>(queries + q * k, task.items + ids[i] * k, k);
    });
}

template <class T>
static void score(const ListTask<T>& task, bool distances, T* out) {
    distances ? scores_of<Distances>(task, out) : scores_of<Products>(task, out);
}
