// Draws the positives and negatives of users' lists.
//
// Random numbers are generated many at a time, so that compilers vectorize it.

// The entries of a row with the smallest random numbers, by these numbers ascending.
class SmallestOfRow {
   public:
    explicit SmallestOfRow(uint64_t key) : key_(key) {}

    // Writes the first `count` <= n of the entries [begin, begin + n) to `to`.
    void operator()(int64_t begin, int64_t n, int64_t count, int64_t* to) {
        bits_.resize(n), smallest_.resize(n);
        for (int64_t e = 0; e < n; ++e) bits_[e] = random_bits(key_, begin + e);
        // Few numbers are below this limit, and nearly always at least `count` of them.
        const double enough = count + 3 * std::sqrt(double(count));
        int64_t found = enough < n ? below(static_cast<uint64_t>(enough / n * 0x1p64)) : 0;
        if (found < count) found = below(~uint64_t{0});
        std::partial_sort(smallest_.begin(), smallest_.begin() + count, smallest_.begin() + found);
        for (int64_t i = 0; i < count; ++i) to[i] = begin + smallest_[i].second;
    }

   private:
    int64_t below(uint64_t limit) {
        int64_t found = 0;
        for (int64_t e = 0; e < static_cast<int64_t>(bits_.size()); ++e) {
            smallest_[found] = {bits_[e], e};
            found += bits_[e] <= limit;
        }
        return found;
    }

    const uint64_t key_;
    std::vector<uint64_t> bits_;
    std::vector<std::pair<uint64_t, int64_t>> smallest_;
};

// Writes for each list the entries of its user with the smallest random numbers, then -1.
static void draw_positives(const DrawTask& task, int64_t* cells) {
    constexpr double ROW = 4096;  // cost of a row of a few hundred entries
    const int threads = threads_for(task.n_lists, ROW, task.n_threads);
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

// Maps uniform numbers in [0, 1) to items, by the inverse of the cumulative probabilities.
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

// The set of a user's positives: a bitmap of the catalog, whose set bits are cleared for the next
// user, or, if the row is long for the number of lookups, binary search in the ascending row.
class PositiveSet {
   public:
    explicit PositiveSet(const DrawTask& task) : rows_(task.rows), n_lookups_(task.n_places) {}

    void select(int64_t user) {
        for (const int32_t* e = begin_; by_bit_ && e < end_; ++e) bits_[*e >> 6] = 0;
        begin_ = rows_.indices + rows_.indptr[user], end_ = rows_.indices + rows_.indptr[user + 1];
        by_bit_ = end_ - begin_ < 4 * n_lookups_;  // a search costs about as much as two writes
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

// Draws items with replacement, up to `rounds` times until one is not a positive of the user;
// `filled` is false where none was found.
static void draw_negatives(const DrawTask& task, int64_t rounds, int64_t* items, bool* filled) {
    const int threads = threads_for(task.n_lists, 24.0 * task.n_places, task.n_threads);
    for_each_list_by(task.n_lists, threads, [&task, rounds, items, filled] {
        return [&task, rounds, items, filled, is_positive = PositiveSet(task),
                units = std::vector<double>(task.n_places)](int64_t list) mutable {
            const int64_t n = task.n_places, first = list * n;
            is_positive.select(task.users[list]);
            for (int64_t i = 0; i < n; ++i) units[i] = random_unit(task.key, (first + i) * rounds);
            items_at(task, units.data(), n, items + first);
            for (int64_t place = first; place < first + n; ++place) {
                int64_t round = 0;
                while (is_positive(items[place]) && ++round < rounds) {
                    const double again = random_unit(task.key, place * rounds + round);
                    items_at(task, &again, 1, items + place);
                }
                filled[place] = round < rounds;
            }
        };
    });
}
