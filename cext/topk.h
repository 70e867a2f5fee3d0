// Exact top-K: scores in register tiles, a threshold and a heap per query; no score block exists.
//
// Compiled once per instruction set, after dense.h. A panel is M queries side by side, a tile NR
// items; a group of panels shares each tile, so that packing it costs little. A bias is one more
// coordinate, which every query has as 1. A score is one chain of multiply-adds over the
// coordinates: it depends on its query and its item, not on where in a tile they stand.

template <class T>
struct Entry {
    T score;
    int32_t id;
};

template <class T>
MFRANK_INLINE bool worse(const Entry<T>& a, const Entry<T>& b) {
    return a.score < b.score || (a.score == b.score && a.id > b.id);
}

// The best entries offered so far: a heap with the worst of them at its root.
template <class T>
struct Best {
    Entry<T>* entries;
    int64_t capacity, size;
    T threshold;  // a lower score cannot enter

    bool wants(const Entry<T>& entry) const { return size < capacity || worse(entries[0], entry); }

    void add(const Entry<T>& entry) {
        if (size < capacity) {
            entries[size++] = entry;
            if (size < capacity) return;
            heapify();
        } else {
            sink(0, size, entry);
        }
        threshold = entries[0].score;
    }

    // Best first; empties the heap.
    void write(int32_t* ids, T* scores) {
        if (size < capacity) heapify();
        while (size > 0) {
            --size;
            ids[size] = entries[0].id, scores[size] = entries[0].score;
            sink(0, size, entries[size]);
        }
    }

   private:
    void heapify() {
        for (int64_t hole = size / 2; hole-- > 0;) sink(hole, size, entries[hole]);
    }

    void sink(int64_t hole, int64_t n, const Entry<T> entry) {
        for (int64_t child = 2 * hole + 1; child < n; child = 2 * hole + 1) {
            if (child + 1 < n && worse(entries[child + 1], entries[child])) ++child;
            if (!worse(entries[child], entry)) break;
            entries[hole] = entries[child];
            hole = child;
        }
        entries[hole] = entry;
    }
};

template <class T, int M>
struct Panel {
    T* packed;         // (depth, M), zero beyond `count`
    int64_t first;     // its queries are `first`, `first` + 1, ...
    int count;
    double reach[M];   // no score exceeds reach times the item's length
    Best<T> best[M];

    // Whether an item no longer than this could still enter the list of query i.
    bool open(int i, double length) const { return !(reach[i] * length < best[i].threshold); }

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

// Cauchy and Schwarz, with room for what rounding and underflow may add to a score.
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
    std::memset(panel.packed, 0, sizeof(T) * depth * M);
    for (int i = 0; i < panel.count; ++i) {
        const T* const query = task.queries + (panel.first + i) * k;
        for (int64_t j = 0; j < k; ++j) panel.packed[j * M + i] = query[j];
        if (task.bias) panel.packed[k * M + i] = 1;
        panel.reach[i] = reach_of(query, task);
    }
}

#ifdef __clang__
#define MFRANK_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MFRANK_PICK(a, b, ...) __builtin_shuffle(a, b, Places{__VA_ARGS__})
#endif

// out[c * NR + r] = rows[r][column + c] for r, c < 4; by single elements this takes thrice as long.
template <class T>
MFRANK_INLINE void transpose_block(const T* const (&rows)[4], int64_t column, T* out) {
    using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    typedef T Four __attribute__((vector_size(4 * sizeof(T)), may_alias, aligned(sizeof(T))));
    [[maybe_unused]] typedef Int Places __attribute__((vector_size(4 * sizeof(T))));
    const Four* const from[] = {
        reinterpret_cast<const Four*>(rows[0] + column),
        reinterpret_cast<const Four*>(rows[1] + column),
        reinterpret_cast<const Four*>(rows[2] + column),
        reinterpret_cast<const Four*>(rows[3] + column)};
    const Four a = *from[0], b = *from[1], c = *from[2], d = *from[3];
    const Four ab01 = MFRANK_PICK(a, b, 0, 4, 1, 5), ab23 = MFRANK_PICK(a, b, 2, 6, 3, 7);
    const Four cd01 = MFRANK_PICK(c, d, 0, 4, 1, 5), cd23 = MFRANK_PICK(c, d, 2, 6, 3, 7);
    Four* const to[] = {
        reinterpret_cast<Four*>(out), reinterpret_cast<Four*>(out + NR<T>),
        reinterpret_cast<Four*>(out + 2 * NR<T>), reinterpret_cast<Four*>(out + 3 * NR<T>)};
    *to[0] = MFRANK_PICK(ab01, cd01, 0, 1, 4, 5), *to[1] = MFRANK_PICK(ab01, cd01, 2, 3, 6, 7);
    *to[2] = MFRANK_PICK(ab23, cd23, 0, 1, 4, 5), *to[3] = MFRANK_PICK(ab23, cd23, 2, 3, 6, 7);
}

// tile[j * NR + q] = items[ids[q]][j]; places beyond `count` repeat the last item.
template <class T>
static void pack_items(const TopKTask<T>& task, const int32_t* ids, int count, T* tile) {
    const int64_t k = task.k;
    const auto id_at = [&](int q) -> int64_t { return ids[std::min(q, count - 1)]; };
    for (int q = 0; q < NR<T>; q += 4) {
        const T* rows[4];
        for (int i = 0; i < 4; ++i) {
            rows[i] = task.items + id_at(q + i) * k;
            const T* const later = task.items + id_at(q + 4 + i) * k;
            for (int64_t j = 0; j < k; j += 64 / sizeof(T)) __builtin_prefetch(later + j);
        }
        int64_t j = 0;
        for (; j + 4 <= k; j += 4) transpose_block(rows, j, tile + j * NR<T> + q);
        for (; j < k; ++j)
            for (int i = 0; i < 4; ++i) tile[j * NR<T> + q + i] = rows[i][j];
        if (task.bias)
            for (int i = 0; i < 4; ++i) tile[k * NR<T> + q + i] = task.bias[id_at(q + i)];
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
    // Exclusions are looked up last: few scores come this far.
    for (passed &= (uint64_t{1} << count) - 1; passed; passed &= passed - 1) {
        const int q = __builtin_ctzll(passed);
        const Entry<T> entry{scores[q], ids[q]};
        if (best.wants(entry) && !excluded(task, query, entry.id)) best.add(entry);
    }
}

template <class T, int M>
static void offer_tile(const TopKTask<T>& task, const T* tile, const int32_t* ids, int count,
                       double length, Panel<T, M>& panel) {
    alignas(VECTOR_BYTES) T scores[M * NR<T>];
    Vec<T> acc[M][NV] = {};
    add_outer<1, NV>(acc, panel.packed, M, 1, tile, depth_of(task));
    store<NV>(acc, scores, NR<T>);
    for (int i = 0; i < panel.count; ++i)
        if (panel.open(i, length))
            offer(task, panel.first + i, scores + i * NR<T>, ids, count, panel.best[i]);
}

template <class T, int M>
class Group {
   public:
    Group(const TopKTask<T>& task, int64_t size)
        : task_(task),
          tile_(depth_of(task) * NR<T>),
          packed_(depth_of(task) * size),
          panels_(size / M) {}

    // The lists of the queries [begin, end), which share a shelf.
    void serve(int64_t begin, int64_t end, Blocks& blocks) {
        const int64_t shelf = task_.shelves.n_rows == 1 ? 0 : begin;
        const int64_t first = task_.shelves.indptr[shelf];
        const int64_t n_items = task_.shelves.indptr[shelf + 1] - first;
        const int64_t capacity = std::min(task_.count, n_items);
        if (capacity == 0) return;
        start(begin, end, capacity);
        search(task_.shelves.indices + first, n_items, blocks);
        for (int64_t p = 0; p < n_panels_; ++p)
            for (int i = 0; i < panels_[p].count; ++i) {
                const int64_t place = (panels_[p].first + i) * task_.count;
                panels_[p].best[i].write(task_.ids + place, task_.scores + place);
            }
    }

   private:
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
                panel.best[i] = {entries, capacity, 0, -std::numeric_limits<T>::infinity()};
        }
    }

    // Longest items first: the search ends when no list is open to items of the length reached.
    void search(const int32_t* ids, int64_t n_items, Blocks& blocks) {
        bool open = true;
        for (int64_t i = 0; i < n_items && open; i += NR<T>) {
            if (i / NR<T> % 64 == 63 && blocks.stopping()) return;
            const int count = static_cast<int>(std::min<int64_t>(NR<T>, n_items - i));
            const double length =
                task_.lengths ? task_.lengths[i] : std::numeric_limits<double>::infinity();
            open = false;
            for (int64_t p = 0; p < n_panels_; ++p) {
                if (!panels_[p].open(length)) continue;
                if (!open) pack_items(task_, ids + i, count, tile_.get());
                open = true;
                offer_tile(task_, tile_.get(), ids + i, count, length, panels_[p]);
            }
        }
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

template <class T>
static void top_k(const TopKTask<T>& task) {
    if (task.n_queries == 1 || task.shelves.n_rows != 1) return serve_in_groups<T, 1>(task, 1);
    constexpr int64_t MOST = 256, ENTRIES = int64_t{1} << 20;
    const int64_t threads = task.n_threads > 0 ? task.n_threads : usable_cores();
    const int64_t fair = task.n_queries / (4 * threads);
    const int64_t size = std::max<int64_t>(1, std::min({MOST, fair, ENTRIES / task.count}));
    serve_in_groups<T, MR>(task, (size + MR - 1) / MR * MR);
}
