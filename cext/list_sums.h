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

template <int COUNT, class T, size_t STREAMS, class Terms>
MFRANK_INLINE void add_columns(const Terms& terms, int64_t at, T* const (&to)[STREAMS]) {
    Vec<T> sums[STREAMS][COUNT];
    for (size_t s = 0; s < STREAMS; ++s) std::memcpy(&sums[s], to[s] + at, sizeof sums[s]);
    terms([&](const T(&weights)[STREAMS], const T* row) {
        bool any = false;
        for (const T weight : weights) any |= weight != 0;
        if (!any) return;
#pragma GCC unroll 8
        for (int v = 0; v < COUNT; ++v) {
            const Vec<T> x = loose(row + at + v * W<T>);
#pragma GCC unroll 8
            for (size_t s = 0; s < STREAMS; ++s) sums[s][v] += weights[s] * x;
        }
    });
    for (size_t s = 0; s < STREAMS; ++s) std::memcpy(to[s] + at, &sums[s], sizeof sums[s]);
}

// to[s] += sum over the terms of weights[s] times row, k columns: a row is loaded once for all sums.
template <class T, size_t STREAMS, class Terms>
MFRANK_INLINE void add_weighted(const Terms& terms, int64_t k, T* const (&to)[STREAMS]) {
    constexpr int COUNT = VECTOR_BYTES == 64 ? 4 : 2;  // as many as leave registers for the rest
    int64_t at = 0;
    for (; at + COUNT * W<T> <= k; at += COUNT * W<T>) add_columns<COUNT>(terms, at, to);
    for (; at + W<T> <= k; at += W<T>) add_columns<1>(terms, at, to);
    for (; at < k; ++at)
        terms([&](const T(&weights)[STREAMS], const T* row) {
            for (size_t s = 0; s < STREAMS; ++s) to[s][at] += weights[s] * row[at];
        });
}

// Calls work(number, first) where numbers of 4, 2 and 1, constants, make up `count`.
template <class Work>
MFRANK_INLINE void by_fours(int64_t count, const Work& work) {
    int64_t first = 0;
    for (; first + 4 <= count; first += 4) work(std::integral_constant<size_t, 4>(), first);
    if (first + 2 <= count) work(std::integral_constant<size_t, 2>(), first), first += 2;
    if (first < count) work(std::integral_constant<size_t, 1>(), first);
}

// What a score sums over the columns: products, or squares of differences, negative.
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
    Vec<T> even{}, odd{};  // two chains, so that one need not wait for the other
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

// out[q, i] = the score of queries[q] and items[ids[b, i]], of the queries q that ask list b
template <class Of, class T>
static void scores_of(const ListTask<T>& task, T* out) {
    const int64_t k = task.k, n = task.n_places, width = task.width;
    const int threads = threads_worth(task.n_lists, double(n) * width * k, task.n_threads);
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

// out[q] = sum_i slopes[q, i] items[ids[b, i]]
template <class T>
static void sum_items(const ListTask<T>& task, const T* slopes, T* out) {
    constexpr int64_t NEAR = 1 << 14;  // bytes of rows that stay near while all queries read them
    const int64_t k = task.k, n = task.n_places, width = task.width;
    const int64_t rows = NEAR / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(k, 1);
    const int64_t step = width == 1 ? n : std::max<int64_t>(rows, 4);
    const int threads = threads_worth(task.n_lists, double(n) * width * k, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        const int64_t* const ids = task.ids + b * n;
        check_items(task, b, b + 1);
        std::fill_n(out + b * width * k, width * k, T(0));
        for (int64_t begin = 0; begin < n; begin += step)
            by_fours(width, [&](auto number, int64_t first) {
                constexpr size_t STREAMS = decltype(number)::value;
                const int64_t query = b * width + first, end = std::min(n, begin + step);
                T* to[STREAMS];
                for (size_t s = 0; s < STREAMS; ++s) to[s] = out + (query + s) * k;
                add_weighted<T>(
                    [&](const auto& add) {
                        for (int64_t i = begin; i < end; ++i) {
                            if (first == 0 && i + PREFETCH_AHEAD < n)
                                prefetch(task.items + ids[i + PREFETCH_AHEAD] * k, k);
                            T weights[STREAMS];
                            for (size_t s = 0; s < STREAMS; ++s)
                                weights[s] = slopes[(query + s) * n + i];
                            add(weights, task.items + ids[i] * k);
                        }
                    },
                    k, to);
            });
    });
}

// out[t] = sum over the places of item touched[t], in their order, of the queries that ask their
// lists, one each, times their slopes; totals[t] = the sum of the slopes
template <class T>
static void sum_queries(const ListTask<T>& task, const Grouped<T>& grouped, T* out, T* totals) {
    const int64_t k = task.k, n_touched = static_cast<int64_t>(grouped.touched.size());
    const double each = double(grouped.starts.back()) / std::max<int64_t>(1, n_touched);
    const int threads = threads_worth(n_touched, each * k, task.n_threads);
    for_each_list(n_touched, threads, [&](int64_t t) {
        const GroupedPlace<T>* const first = grouped.places.get() + grouped.starts[t];
        const GroupedPlace<T>* const end = grouped.places.get() + grouped.starts[t + 1];
        totals[t] = std::accumulate(first, end, T(0), [](T total, const GroupedPlace<T>& place) {
            return total + place.slope;
        });
        weighted_sum(
            [&](const auto& add) {
                for (const GroupedPlace<T>* place = first; place < end; ++place)
                    add(place->slope, task.queries + place->list * k);
            },
            k, out + t * k);
    });
}

// The same where several ask each list. Those of one list stay near while its places are passed
// over, for which each thread adds up what its own part of the items gets.
template <class T>
static void sum_queries_of_lists(const ListTask<T>& task, const Ranked& ranked, const T* slopes,
                                 T* out, T* totals) {
    const int64_t k = task.k, n = task.n_places, width = task.width;
    const int64_t n_touched = static_cast<int64_t>(ranked.touched.size());
    const int parts = threads_worth(task.n_lists, double(n) * width * k, task.n_threads);
    const auto add_list = [&](int64_t b, const int32_t* places, int64_t n_own) {
        const int32_t* const ranks = ranked.ranks.get() + b * n;
        const T* const queries = task.queries + b * width * k;
        const auto add_places = [&](auto number, int64_t first) {
            constexpr size_t STREAMS = decltype(number)::value;
            T *to[STREAMS], *total[STREAMS];
            const T* own[STREAMS];
            for (size_t s = 0; s < STREAMS; ++s) {
                const int64_t place = places[first + s], rank = ranks[place];
                to[s] = out + rank * k, total[s] = totals + rank;
                own[s] = slopes + b * width * n + place;
            }
            add_weighted<T>(
                [&](const auto& add) {
                    for (int64_t q = 0; q < width; ++q) {
                        T weights[STREAMS];
                        for (size_t s = 0; s < STREAMS; ++s) weights[s] = own[s][q * n];
                        add(weights, queries + q * k);
                    }
                },
                k, to);
            for (size_t s = 0; s < STREAMS; ++s) {
                T sum = 0;
                for (int64_t q = 0; q < width; ++q) sum += own[s][q * n];
                *total[s] += sum;
            }
        };
        by_fours(n_own, [&](auto number, int64_t first) {
            for (size_t s = 0; s < number; ++s)
                prefetch(out + ranks[places[std::min(first + PREFETCH_AHEAD + int64_t(s), n_own - 1)]] * k, k);
            bool repeats = false;  // sums of one item are made one after the other
            for (size_t s = 1; s < number; ++s)
                for (size_t r = 0; r < s; ++r)
                    repeats |= ranks[places[first + s]] == ranks[places[first + r]];
            if (!repeats) return add_places(number, first);
            for (size_t s = 0; s < number; ++s)
                add_places(std::integral_constant<size_t, 1>(), first + s);
        });
    };
    share(parts, parts, [&](Blocks& blocks) {
        std::vector<int32_t> own(n);
        for (int64_t part; blocks.next(part);) {
            const int64_t begin = n_touched * part / parts, end = n_touched * (part + 1) / parts;
            std::fill_n(out + begin * k, (end - begin) * k, T(0));
            std::fill_n(totals + begin, end - begin, T(0));
            for (int64_t b = 0; b < task.n_lists; ++b) {
                const int32_t* const ranks = ranked.ranks.get() + b * n;
                int64_t n_own = 0;
                for (int64_t i = 0; i < n; ++i) {
                    own[n_own] = static_cast<int32_t>(i);
                    n_own += ranks[i] >= begin && ranks[i] < end;
                }
                add_list(b, own.data(), n_own);
            }
        }
    });
}
