// Sums over the places of lists: by query, and by item.

// out[q] = sum_i slopes[q, i] items[ids[b, i]]
template <class T>
static void sum_items(const ListTask<T>& task, const T* slopes, T* out) {
    constexpr int64_t NEAR = 1 << 14;  // bytes of rows that stay near while all queries read them
    const int64_t k = task.k, n = task.n_places, width = task.width;
    const int64_t rows = NEAR / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(k, 1);
    const int64_t step = std::max<int64_t>(rows, 4);
    const int threads = threads_worth(task.n_lists, double(n) * width * k, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        const int64_t* const ids = task.ids + b * n;
        check_items(task, b, b + 1);
        if (width == 1)
            return weighted_sum(
                [&](const auto& add) {
                    for (int64_t i = 0; i < n; ++i) add(slopes[b * n + i], task.items + ids[i] * k);
                },
                k, out + b * k);
        std::fill_n(out + b * width * k, width * k, T(0));
        for (int64_t begin = 0; begin < n; begin += step)
            by_fours(width, [&](auto number, int64_t first) {
                constexpr size_t SUMS = decltype(number)::value;
                const int64_t query = b * width + first, end = std::min(n, begin + step);
                T* to[SUMS];
                for (size_t s = 0; s < SUMS; ++s) to[s] = out + (query + s) * k;
                sum_weighted<true>(
                    [&](const auto& add) {
                        for (int64_t i = begin; i < end; ++i) {
                            if (first == 0 && i + PREFETCH_AHEAD < n)
                                prefetch(task.items + ids[i + PREFETCH_AHEAD] * k, k);
                            T weights[SUMS];
                            for (size_t s = 0; s < SUMS; ++s)
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
        T even = 0, odd = 0;  // two chains, so that one need not wait for the other
        const GroupedPlace<T>* at = first;
        for (; at + 1 < end; at += 2) even += at[0].slope, odd += at[1].slope;
        totals[t] = even + odd + (at < end ? at->slope : T(0));
        weighted_sum(
            [&](const auto& add) {
                for (const GroupedPlace<T>* place = first; place < end; ++place)
                    add(place->slope, task.queries + place->list * k);
            },
            k, out + t * k);
    });
}

// Places of lists that several queries ask, and what their items get of these.
template <class T>
struct Scatter {
    const ListTask<T>& task;
    const int32_t* ranks;  // where the item of each place stands among those that get something
    const T* slopes;
    T *out, *totals;

    // The places of list b at `places` add to their items, which are different ones.
    template <size_t SUMS>
    void add(int64_t b, const int32_t* places) const {
        const int64_t k = task.k, n = task.n_places, width = task.width;
        const T* own[SUMS];
        T *to[SUMS], *total[SUMS];
        for (size_t s = 0; s < SUMS; ++s) {
            const int64_t rank = ranks[b * n + places[s]];
            own[s] = slopes + b * width * n + places[s];
            to[s] = out + rank * k, total[s] = totals + rank;
        }
        sum_weighted<true>(
            [&](const auto& add) {
                for (int64_t q = 0; q < width; ++q) {
                    T weights[SUMS];
                    for (size_t s = 0; s < SUMS; ++s) weights[s] = own[s][q * n];
                    add(weights, task.queries + (b * width + q) * k);
                }
            },
            k, to);
        for (size_t s = 0; s < SUMS; ++s) {
            T sum = 0;
            for (int64_t q = 0; q < width; ++q) sum += own[s][q * n];
            *total[s] += sum;
        }
    }

    // The places of list b whose items rank in [begin, end) do, in their order; `own` has room for
    // them.
    void add_list(int64_t b, int64_t begin, int64_t end, int32_t* own) const {
        const int32_t* const of_list = ranks + b * task.n_places;
        int64_t n_own = 0;
        for (int64_t i = 0; i < task.n_places; ++i) {
            own[n_own] = static_cast<int32_t>(i);
            n_own += of_list[i] >= begin && of_list[i] < end;
        }
        by_fours(n_own, [&](auto number, int64_t first) {
            constexpr size_t SUMS = decltype(number)::value;
            bool repeats = false;
            for (size_t s = 0; s < SUMS; ++s) {
                const int64_t ahead = std::min<int64_t>(first + s + PREFETCH_AHEAD, n_own - 1);
                prefetch(out + of_list[own[ahead]] * task.k, task.k);
                for (size_t r = 0; r < s; ++r)
                    repeats |= of_list[own[first + s]] == of_list[own[first + r]];
            }
            if (!repeats) return add<SUMS>(b, own + first);
            for (size_t s = 0; s < SUMS; ++s) add<1>(b, own + first + s);
        });
    }
};

// The same where several ask each list. Those of one list stay near while its places are passed
// over, for which each thread adds up what its own part of the items gets.
template <class T>
static void sum_queries_of_lists(const ListTask<T>& task, const Ranked& ranked, const T* slopes,
                                 T* out, T* totals) {
    const int64_t k = task.k, n_touched = static_cast<int64_t>(ranked.touched.size());
    const double work = double(task.n_places) * task.width * k;
    const int parts = threads_worth(task.n_lists, work, task.n_threads);
    const Scatter<T> scatter{task, ranked.ranks.get(), slopes, out, totals};
    share(parts, parts, [&](Blocks& blocks) {
        std::vector<int32_t> own(task.n_places);
        for (int64_t part; blocks.next(part);) {
            const int64_t begin = n_touched * part / parts, end = n_touched * (part + 1) / parts;
            std::fill_n(out + begin * k, (end - begin) * k, T(0));
            std::fill_n(totals + begin, end - begin, T(0));
            for (int64_t b = 0; b < task.n_lists; ++b) scatter.add_list(b, begin, end, own.data());
        }
    });
}
