// Exact top-K: scores in register tiles, with a threshold and a heap per query. Scores are not
// stored.
//
// A panel is M interleaved queries (MR, or a single one), a tile is NR items. A group of panels
// shares each tile, which makes packing it cheap. A bias is one more coordinate, which is 1 in
// every query. A score is one chain of multiply-adds over the coordinates, so it depends only on
// its query and its item, not on their positions or on the number of queries.

template <class T, int M>
struct Panel {
    T* packed;        // (depth, M), zero beyond `count`
    int64_t first;    // number of its first query
    int count;        // number of its queries
    double reach[M];  // no score exceeds reach times the item's norm
    Best<T> best[M];

    // Whether an item of at most this norm could still enter the list of query i.
    bool open(int i, double length) const {
        // Larger scores overflow, so a threshold of infinity can still be tied.
        const double largest = std::numeric_limits<T>::max();
        return !(reach[i] * length < std::min<double>(best[i].threshold, largest));
    }

    bool open(double length) const {
        for (int i = 0; i < count; ++i)
            if (open(i, length)) return true;
        return false;
    }
};

template <class T>
static int64_t depth_of(const TopKTask<T>& task) {
    return task.k + (task.bias != nullptr);
}

// The bound of Cauchy and Schwarz on scores, raised by what rounding and underflow may add.
template <class T>
static double reach_of(const T* query, const TopKTask<T>& task) {
    const double depth = depth_of(task), eps = std::numeric_limits<T>::epsilon();
    double square = depth * std::numeric_limits<T>::min() + (task.bias != nullptr);
    for (int64_t j = 0; j < task.k; ++j) square += static_cast<double>(query[j]) * query[j];
    return std::sqrt(square) * (1 + 2 * (depth + 8) * eps);
}

template <class T, int M>
static void pack_queries(const TopKTask<T>& task, Panel<T, M>& panel) {
    const int64_t k = task.k, depth = depth_of(task);
    std::fill_n(panel.packed, depth * M, T(0));
    for (int i = 0; i < panel.count; ++i) {
        const T* const query = task.queries + (panel.first + i) * k;
        for (int64_t j = 0; j < k; ++j) panel.packed[j * M + i] = query[j];
        if (task.bias) panel.packed[k * M + i] = 1;
        panel.reach[i] = reach_of(query, task);
    }
}

template <class T>
static bool excluded(const TopKTask<T>& task, int64_t query, int32_t id) {
    if (task.exclude.n_rows == 0) return false;
    const int32_t* const begin = task.exclude.indices + task.exclude.indptr[query];
    const int32_t* const end = task.exclude.indices + task.exclude.indptr[query + 1];
    const int32_t* const found = std::lower_bound(begin, end, id);
    return found != end && *found == id;
}

template <class T>
static void offer(const TopKTask<T>& task, int64_t query, const T* scores, const int32_t* ids,
                  int count, Best<T>& best) {
    uint64_t passed = 0;
    for (int q = 0; q < NR<T>; ++q)
        passed |= scores[q] >= best.threshold ? uint32_t{1} << q : uint32_t{0};
    // Exclusions are looked up last, because few scores pass the threshold.
    for (passed &= (uint64_t{1} << count) - 1; passed; passed &= passed - 1) {
        const int q = __builtin_ctzll(passed);
        const Entry<T> entry{scores[q], ids[q]};
        if (best.accepts(entry) && !excluded(task, query, entry.id)) best.add(entry);
    }
}

template <class T, int M>
class Group {
   public:
    Group(const TopKTask<T>& task, int64_t size)
        : task_(task),
          tile_(depth_of(task) * NR<T>),
          packed_(depth_of(task) * size),
          panels_(size / M) {}

    // Writes the lists of the queries [begin, end), which share their candidates.
    void serve(int64_t begin, int64_t end, Blocks& blocks) {
        const int64_t shelf = task_.shelves.n_rows == 1 ? 0 : begin;
        const int64_t first = task_.shelves.indptr[shelf];
        const int64_t n_items = task_.shelves.indptr[shelf + 1] - first;
        const int64_t capacity = std::min(task_.count, n_items);
        if (capacity == 0) return;
        start(begin, end, capacity);
        if (task_.sketch.codes) search_sketch(first, n_items, blocks);
        else search_shelf(first, n_items, blocks);
        for (int64_t p = 0; p < n_panels_; ++p)
            for (int i = 0; i < panels_[p].count; ++i) {
                const int64_t place = (panels_[p].first + i) * task_.count;
                panels_[p].best[i].write(task_.ids + place, task_.scores + place);
            }
    }

   private:
    static constexpr int64_t AHEAD = NR<T>;

    void start(int64_t begin, int64_t end, int64_t capacity) {
        Entry<T>* entries = entries_.at_least((end - begin) * capacity);
        n_panels_ = (end - begin + M - 1) / M;
        for (int64_t p = 0; p < n_panels_; ++p) {
            Panel<T, M>& panel = panels_[p];
            panel.packed = packed_.get() + p * M * depth_of(task_);
            panel.first = begin + p * M;
            panel.count = static_cast<int>(std::min<int64_t>(M, end - panel.first));
            pack_queries(task_, panel);
            for (int i = 0; i < panel.count; ++i, entries += capacity)
                panel.best[i] = empty_best(entries, capacity);
        }
    }

    // Scores of a single query: as it shares no tile, its items are not packed.
    void score_items(const T* query, const int32_t* ids, int count, int64_t left, T* scores) {
        for (int v = 0; v < NV; ++v) {
            const T *rows[W<T>], *ahead[W<T>];
            Vec<T> biases{};
            for (int r = 0; r < W<T>; ++r) {
                const int64_t at = std::min(v * W<T> + r, count - 1);
                rows[r] = task_.items + ids[at] * task_.k;
                ahead[r] = task_.items + ids[std::min(at + AHEAD, left - 1)] * task_.k;
                if (task_.bias) biases[r] = task_.bias[ids[at]];
            }
            vec(scores + v * W<T>) = score_rows<T>(query, rows, ahead, task_.k) + biases;
        }
    }

    // Scores those items of [first, first + n_items) whose sketches reach the threshold, by tiles.
    void search_sketch(int64_t first, int64_t n_items, Blocks& blocks) {
        constexpr double ANY_LENGTH = std::numeric_limits<double>::infinity();
        Panel<T, M>& panel = panels_[0];
        const int64_t end = first + n_items;
        const SketchedQuery<T> query(task_.sketch, panel.packed, task_.k, task_.bias);
        int32_t found[NR<T>];
        int count = 0;
        for (int64_t block = first / SKETCH_BLOCK; block * SKETCH_BLOCK < end; ++block) {
            if (block % 256 == 255 && blocks.stopping()) return;
            uint32_t may = query.may_reach(block, end, panel.best[0].threshold);
            for (; may; may &= may - 1) {
                const int64_t id = block * SKETCH_BLOCK + __builtin_ctz(may);
                if (id < first || id >= end || (task_.allowed && !task_.allowed[id])) continue;
                found[count++] = static_cast<int32_t>(id);
                if (count < NR<T>) continue;
                offer_tile(panel, found, count, count, ANY_LENGTH);
                count = 0;
            }
        }
        if (count > 0) offer_tile(panel, found, count, count, ANY_LENGTH);
    }

    // The shelf's allowed items, piece by piece: those between them are never scored.
    void search_shelf(int64_t first, int64_t n_items, Blocks& blocks) {
        const int32_t* const ids = task_.shelves.indices + first;
        if (!task_.allowed) {
            search(ids, task_.lengths, n_items, blocks);
            return;
        }
        constexpr int64_t PIECE = 128 * NR<T>;  // of which `search` looks twice whether to stop
        std::vector<int32_t> kept(PIECE);
        std::vector<double> lengths(task_.lengths ? PIECE : 0);
        bool open = true;
        for (int64_t i = 0; i < n_items && open;) {
            int64_t count = 0;
            for (; i < n_items && count < PIECE; ++i) {
                kept[count] = ids[i];
                if (task_.lengths) lengths[count] = task_.lengths[i];
                count += task_.allowed[ids[i]];
            }
            open = search(kept.data(), task_.lengths ? lengths.data() : nullptr, count, blocks);
        }
    }

    // Longest items first: stops when no list can be entered by an item of the current norm. Returns
    // whether one may be entered by shorter items.
    bool search(const int32_t* ids, const double* lengths, int64_t n_items, Blocks& blocks) {
        bool open = true;
        for (int64_t i = 0; i < n_items && open; i += NR<T>) {
            if (i / NR<T> % 64 == 63 && blocks.stopping()) return false;
            const int count = static_cast<int>(std::min<int64_t>(NR<T>, n_items - i));
            const double length = lengths ? lengths[i] : std::numeric_limits<double>::infinity();
            open = false;
            for (int64_t p = 0; p < n_panels_; ++p) {
                if (!panels_[p].open(length)) continue;
                if (M > 1 && !open) pack_items(task_, ids + i, count, tile_.get());
                open = true;
                offer_tile(panels_[p], ids + i, count, n_items - i, length);
            }
        }
        return open;
    }

    void offer_tile(Panel<T, M>& panel, const int32_t* ids, int count, int64_t left,
                    double length) {
        alignas(VECTOR_BYTES) T scores[M * NR<T>];
        if constexpr (M == 1) score_items(panel.packed, ids, count, left, scores);
        else score_tile(panel.packed, scores);
        for (int i = 0; i < panel.count; ++i)
            if (panel.open(i, length))
                offer(task_, panel.first + i, scores + i * NR<T>, ids, count, panel.best[i]);
    }

    void score_tile(const T* queries, T* scores) {
        const T* tile = tile_.get();
        static_assert(M == MR);
        Vec<T> acc[M][NV] = {};
        add_outer<1, NV>(acc, queries, MR, 1, tile, depth_of(task_));
        store<NV>(acc, scores, NR<T>);
    }

    const TopKTask<T>& task_;
    Buffer<T> tile_, packed_;
    Buffer<Entry<T>> entries_;
    std::vector<Panel<T, M>> panels_;
    int64_t n_panels_ = 0;
};

template <class T, int M>
static void serve_in_groups(const TopKTask<T>& task, int64_t size) {
    share((task.n_queries + size - 1) / size, task.n_threads, [&](Blocks& blocks) {
        Group<T, M> group(task, size);
        for (int64_t block; blocks.next(block);)
            group.serve(block * size, std::min(task.n_queries, (block + 1) * size), blocks);
    });
}

// For so few queries that one panel holds them: each thread searches a part of their candidates.
template <class T, int M>
static void serve_in_parts(const TopKTask<T>& task, int64_t n_parts) {
    const int64_t* const shelf = task.shelves.indptr;
    const int64_t places = task.n_queries * task.count;
    std::vector<int32_t> ids(n_parts * places, -1);
    std::vector<T> scores(n_parts * places);
    share(n_parts, task.n_threads, [&](Blocks& blocks) {
        for (int64_t part; blocks.next(part);) {
            const int64_t n_items = shelf[1] - shelf[0];
            const int64_t indptr[] = {shelf[0] + n_items * part / n_parts,
                                      shelf[0] + n_items * (part + 1) / n_parts};
            TopKTask<T> mine = task;
            mine.shelves.indptr = indptr;
            mine.ids = ids.data() + part * places, mine.scores = scores.data() + part * places;
            Group<T, M>(mine, M).serve(0, task.n_queries, blocks);
        }
    });
    const int64_t capacity = std::min(task.count, shelf[1] - shelf[0]);
    std::vector<Entry<T>> entries(capacity);
    for (int64_t query = 0; query < task.n_queries; ++query) {
        Best<T> best = empty_best(entries.data(), capacity);
        for (int64_t part = 0; part < n_parts; ++part)
            for (int64_t i = 0; i < task.count; ++i) {
                const int64_t place = part * places + query * task.count + i;
                const Entry<T> entry{scores[place], ids[place]};
                if (entry.id < 0 || !best.accepts(entry)) break;
                best.add(entry);
            }
        best.write(task.ids + query * task.count, task.scores + query * task.count);
    }
}

template <class T, int M>
static void serve(const TopKTask<T>& task, int64_t size) {
    constexpr int64_t WORK_PER_THREAD = int64_t{1} << 19;  // factors read, about 0.1 ms
    const int64_t n_items = task.shelves.indptr[1];
    const int64_t work = task.sketch.codes ? 2 * WORK_PER_THREAD : WORK_PER_THREAD;
    int64_t n_parts = std::min(n_items * depth_of(task) / work, n_items / task.count);
    // Where items are sorted by length, one search ends early, and its parts would not.
    if (task.shelves.n_rows != 1 || task.n_queries > M || task.lengths) n_parts = 1;
    if (n_parts > 1) n_parts = std::min<int64_t>(n_parts, threads_meant(task.n_threads));
    if (n_parts > 1) serve_in_parts<T, M>(task, n_parts);
    else serve_in_groups<T, M>(task, size);
}

template <class T>
static void top_k(const TopKTask<T>& task) {
    // Queries of a group share the cost of packing a tile. More than MOST gain nothing: measured
    // from 64 to 1,024 factors, also where the group's panels exceed the L2 cache.
    constexpr int64_t MOST = 512, ENTRIES = int64_t{1} << 20;
    if (task.n_queries == 1 || task.shelves.n_rows != 1 || task.sketch.codes)
        return serve<T, 1>(task, 1);
    const int64_t threads = threads_meant(task.n_threads);
    const int64_t fair = threads == 1 ? task.n_queries : task.n_queries / (4 * threads);
    const int64_t size = std::max<int64_t>(1, std::min({MOST, fair, ENTRIES / task.count}));
    serve<T, MR>(task, (size + MR - 1) / MR * MR);
}
