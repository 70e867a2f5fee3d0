// Samples of users' lists: items they like, and others that they were not seen to.
//
// Random numbers are made many at a time, so that vectors make them.

// The entries of a row whose random numbers are smallest, in their order.
class SmallestOfRow {
   public:
    explicit SmallestOfRow(uint64_t key) : key_(key) {}

    // The first `count` <= n of the entries [begin, begin + n), to `to`.
    void operator()(int64_t begin, int64_t n, int64_t count, int64_t* to) {
        bits_.resize(n), few_.resize(n);
        for (int64_t e = 0; e < n; ++e) bits_[e] = random_bits(key_, begin + e);
        // Few numbers are below a limit that hardly ever leaves out one of the smallest.
        const double enough = count + 3 * std::sqrt(double(count));
        int64_t found = enough < n ? below(static_cast<uint64_t>(enough / n * 0x1p64)) : 0;
        if (found < count) found = below(~uint64_t{0});
        std::partial_sort(few_.begin(), few_.begin() + count, few_.begin() + found);
        for (int64_t i = 0; i < count; ++i) to[i] = begin + few_[i].second;
    }

   private:
    int64_t below(uint64_t limit) {
        int64_t found = 0;
        for (int64_t e = 0; e < static_cast<int64_t>(bits_.size()); ++e) {
            few_[found] = {bits_[e], e};
            found += bits_[e] <= limit;
        }
        return found;
    }

    const uint64_t key_;
    std::vector<uint64_t> bits_;
    std::vector<std::pair<uint64_t, int64_t>> few_;
};

// Of each list the likes whose random numbers are smallest; -1 beyond the row.
static void draw_likes(const DrawTask& task, int64_t* cells) {
    constexpr double ROW = 4096;  // as much as to go through some hundred entries
    const int threads = threads_worth(task.n_lists, ROW, task.n_threads);
    for_each_list_by(task.n_lists, threads, [&task, cells] {
        return [&task, cells, smallest = SmallestOfRow(task.key)](int64_t list) mutable {
            const int64_t begin = task.rows.indptr[task.users[list]];
            const int64_t n = task.rows.indptr[task.users[list] + 1] - begin;
            const int64_t count = std::min(n, task.n_places);
            int64_t* const to = cells + list * task.n_places;
            smallest(begin, n, count, to);
            std::fill(to + count, to + task.n_places, int64_t{-1});
        };
    });
}

// Items at numbers in [0, 1): by equal chances, or where the cumulative chances pass them.
static void items_at(const DrawTask& task, const double* units, int64_t n, int64_t* items) {
    const int64_t n_items = task.rows.n_columns;
    for (int64_t i = 0; i < n; ++i)
        items[i] = std::min(n_items - 1, static_cast<int64_t>(units[i] * double(n_items)));
    if (!task.cumulative) return;
    for (int64_t i = 0; i < n; ++i) {
        int64_t item = task.guide[items[i]];
        while (item < n_items - 1 && task.cumulative[item] <= units[i]) ++item;
        items[i] = item;
    }
}

// Looks up which items a user likes: in a bitmap of the catalogue, of which only the bits of the
// user's row are ever written, or where few lookups are to come in the ascending row itself.
class Liked {
   public:
    explicit Liked(const DrawTask& task) : rows_(task.rows), n_lookups_(task.n_places) {}

    void turn_to(int64_t user) {
        for (const int32_t* e = begin_; by_bit_ && e < end_; ++e) bits_[*e >> 6] = 0;
        begin_ = rows_.indices + rows_.indptr[user], end_ = rows_.indices + rows_.indptr[user + 1];
        by_bit_ = end_ - begin_ < 4 * n_lookups_;  // a search costs some two writes
        if (by_bit_) set_bits();
    }

    bool operator()(int64_t item) const {
        if (by_bit_) return bits_[item >> 6] >> (item & 63) & 1;
        return std::binary_search(begin_, end_, static_cast<int32_t>(item));
    }

   private:
    void set_bits() {
        if (bits_.empty()) bits_.resize((rows_.n_columns + 63) / 64);
        for (const int32_t* e = begin_; e < end_; ++e) {
            if (*e < 0 || *e >= rows_.n_columns)
                throw std::out_of_range("indices must lie in [0, n_columns)");
            bits_[*e >> 6] |= uint64_t{1} << (*e & 63);
        }
    }

    const Csr<float>& rows_;
    const int64_t n_lookups_;
    const int32_t *begin_ = nullptr, *end_ = nullptr;
    bool by_bit_ = false;
    std::vector<uint64_t> bits_;
};

// Items with replacement, drawn again while the user likes them; after `rounds`, not `filled`.
static void draw_others(const DrawTask& task, int64_t rounds, int64_t* items, bool* filled) {
    const int threads = threads_worth(task.n_lists, 24.0 * task.n_places, task.n_threads);
    for_each_list_by(task.n_lists, threads, [&task, rounds, items, filled] {
        return [&task, rounds, items, filled, liked = Liked(task),
                units = std::vector<double>(task.n_places)](int64_t list) mutable {
            const int64_t n = task.n_places, first = list * n;
            liked.turn_to(task.users[list]);
            for (int64_t i = 0; i < n; ++i) units[i] = random_unit(task.key, (first + i) * rounds);
            items_at(task, units.data(), n, items + first);
            for (int64_t place = first; place < first + n; ++place) {
                int64_t round = 0;
                while (liked(items[place]) && ++round < rounds) {
                    const double again = random_unit(task.key, place * rounds + round);
                    items_at(task, &again, 1, items + place);
                }
                filled[place] = round < rounds;
            }
        };
    });
}
