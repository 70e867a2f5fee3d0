// Sums over the places of lists, by query and by item.

// out[q] = sum_i gradients[q, i] items[ids[b, i]]
template <class T>
static void sum_items(const ListTask<T>& task, const T* gradients, T* out) {
    constexpr int64_t NEAR = 1 << 14;  // bytes of item rows that stay cached for all queries
    const int64_t k = task.k, n = task.n_places, width = task.width;
    const int64_t rows = NEAR / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(k, 1);
    const int64_t step = std::max<int64_t>(rows, 4);
    const int threads = threads_for(task.n_lists, double(n) * width * k, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        const int64_t* const ids = task.ids + b * n;
        check_items(task, b, b + 1);
        if (width == 1)
            return weighted_sum(
                [&](const auto& add) {
                    for (int64_t i = 0; i < n; ++i)
                        add(gradients[b * n + i], task.items + ids[i] * k);
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
                                weights[s] = gradients[(query + s) * n + i];
                            add(weights, task.items + ids[i] * k);
                        }
                    },
                    k, to);
            });
    });
}

// For lists with one query each: out[t] = sum over the places of item touched[t], in order, of
// gradient * query; totals[t] = the sum of the gradients
template <class T>
static void sum_queries(const ListTask<T>& task, const Grouped<T>& grouped, T* out, T* totals) {
    const int64_t k = task.k, n_touched = static_cast<int64_t>(grouped.touched.size());
    const double each = double(grouped.starts.back()) / std::max<int64_t>(1, n_touched);
    const int threads = threads_for(n_touched, each * k, task.n_threads);
    for_each_list(n_touched, threads, [&](int64_t t) {
        const GroupedPlace<T>* const first = grouped.places.get() + grouped.starts[t];
        const GroupedPlace<T>* const end = grouped.places.get() + grouped.starts[t + 1];
        T even = 0, odd = 0;  // two independent chains of additions, to hide their latency
        const GroupedPlace<T>* at = first;
        for (; at + 1 < end; at += 2) even += at[0].gradient, odd += at[1].gradient;
        totals[t] = even + odd + (at < end ? at->gradient : T(0));
        weighted_sum(
            [&](const auto& add) {
                for (const GroupedPlace<T>* place = first; place < end; ++place)
                    add(place->gradient, task.queries + place->list * k);
            },
            k, out + t * k);
    });
}

// Adds the gradients of lists with several queries to the sums of their items.
template <class T>
struct Scatter {
    const ListTask<T>& task;
    const int32_t* ranks;  // index of each place's item in Ranked::touched, or -1
    const T* gradients;
    T *out, *totals;

    // Adds the places `places` of list b, whose items must be distinct.
    template <size_t SUMS>
    void add(int64_t b, const int32_t* places) const {
        const int64_t k = task.k, n = task.n_places, width = task.width;
        const T* own[SUMS];
        T *to[SUMS], *total[SUMS];
        for (size_t s = 0; s < SUMS; ++s) {
            const int64_t rank = ranks[b * n + places[s]];
            own[s] = gradients + b * width * n + places[s];
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

    // Adds the places of list b whose items rank in [begin, end), in order; `own` is scratch of
    // n_places elements.
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

// The same sums for lists with several queries. Each thread passes over all lists and adds only to
// its own range of items, so that the queries of a list stay cached while its places are processed.
template <class T>
static void sum_queries_of_lists(const ListTask<T>& task, const Ranked& ranked, const T* gradients,
                                 T* out, T* totals) {
    const int64_t k = task.k, n_touched = static_cast<int64_t>(ranked.touched.size());
    const double work = double(task.n_places) * task.width * k;
    const int parts = threads_for(task.n_lists, work, task.n_threads);
    const Scatter<T> scatter{task, ranked.ranks.get(), gradients, out, totals};
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
