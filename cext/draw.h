// Samples of users' lists: items they like, and others that they were not seen to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "parallel.h"
#include "random.h"
#include "tasks.h"

namespace mfrank {

constexpr int64_t LISTS_AT_ONCE = 16;
constexpr double WORTH_A_THREAD = 1 << 22;  // multiply-adds, about a third of a millisecond

// As many threads as have that much to do, at so much a list: a batch is short, and a thread that
// waits for a core costs more than it brings.
inline int threads_worth(int64_t n_lists, double work, int n_threads) {
    const int most = n_threads > 0 ? n_threads : usable_cores();
    return static_cast<int>(std::clamp(double(n_lists) * work / WORTH_A_THREAD, 1.0, double(most)));
}

template <class Work>
void for_each_list(int64_t n_lists, int n_threads, const Work& work) {
    share((n_lists + LISTS_AT_ONCE - 1) / LISTS_AT_ONCE, n_threads, [&](Blocks& blocks) {
        for (int64_t block; blocks.next(block);) {
            const int64_t end = std::min(n_lists, (block + 1) * LISTS_AT_ONCE);
            for (int64_t list = block * LISTS_AT_ONCE; list < end; ++list) work(list);
        }
    });
}

// The entries of a row whose random numbers are smallest, in their order; -1 beyond the row.
inline void draw_likes(const DrawTask& task, int64_t* cells) {
    constexpr double ROW = 1024;  // as much as to sort some hundred entries
    const int threads = threads_worth(task.n_lists, ROW, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t list) {
        const int64_t begin = task.rows.indptr[task.users[list]];
        const int64_t n = task.rows.indptr[task.users[list] + 1] - begin;
        const int64_t kept = std::min(n, task.n_places);
        std::vector<std::pair<uint64_t, int64_t>> order(n);
        for (int64_t e = 0; e < n; ++e) order[e] = {random_bits(task.key, begin + e), begin + e};
        std::partial_sort(order.begin(), order.begin() + kept, order.end());
        int64_t* const to = cells + list * task.n_places;
        for (int64_t i = 0; i < kept; ++i) to[i] = order[i].second;
        std::fill(to + kept, to + task.n_places, int64_t{-1});
    });
}

// The item at u in [0, 1): by equal chances, or where the cumulative chances pass u.
inline int64_t item_at(const DrawTask& task, double u) {
    const int64_t n = task.rows.n_columns, at = std::min(n - 1, static_cast<int64_t>(u * n));
    if (!task.cumulative) return at;
    const double *begin = task.cumulative + task.guide[at], *end = task.cumulative + n;
    while (begin < end - 1 && *begin <= u) ++begin;
    return begin - task.cumulative;
}

// Looks up which items a user likes: in a bitmap of the catalogue, of which only the bits of the
// user's row are ever written, or where few lookups are to come in the ascending row itself.
class Liked {
   public:
    Liked(const DrawTask& task) : rows_(task.rows), n_lookups_(task.n_places) {}

    void turn_to(int64_t user) {
        if (by_bit_) flip();
        begin_ = rows_.indices + rows_.indptr[user], end_ = rows_.indices + rows_.indptr[user + 1];
        by_bit_ = end_ - begin_ < 4 * n_lookups_;  // a search costs some two writes
        if (by_bit_) flip();
    }

    bool operator()(int64_t item) const {
        if (by_bit_) return bits_[item >> 6] >> (item & 63) & 1;
        return std::binary_search(begin_, end_, static_cast<int32_t>(item));
    }

   private:
    void flip() {
        if (bits_.empty()) bits_.resize((rows_.n_columns + 63) / 64);
        for (const int32_t* e = begin_; e < end_; ++e) {
            if (*e < 0 || *e >= rows_.n_columns)
                throw std::out_of_range("indices must lie in [0, n_columns)");
            bits_[*e >> 6] ^= uint64_t{1} << (*e & 63);
        }
    }

    const Csr<float>& rows_;
    const int64_t n_lookups_;
    const int32_t *begin_ = nullptr, *end_ = nullptr;
    bool by_bit_ = false;
    std::vector<uint64_t> bits_;
};

// Items with replacement, drawn again while the user likes them; after `rounds`, not `filled`.
inline void draw_others(const DrawTask& task, int64_t rounds, int64_t* items, bool* filled) {
    const int64_t n_blocks = (task.n_lists + LISTS_AT_ONCE - 1) / LISTS_AT_ONCE;
    const int threads = threads_worth(task.n_lists, 16.0 * task.n_places, task.n_threads);
    share(n_blocks, threads, [&](Blocks& blocks) {
        Liked liked(task);
        for (int64_t block; blocks.next(block);) {
            const int64_t end = std::min(task.n_lists, (block + 1) * LISTS_AT_ONCE);
            for (int64_t list = block * LISTS_AT_ONCE; list < end; ++list) {
                liked.turn_to(task.users[list]);
                for (int64_t i = 0; i < task.n_places; ++i) {
                    const int64_t place = list * task.n_places + i;
                    int64_t item = 0, round = 0;
                    do item = item_at(task, random_unit(task.key, place * rounds + round));
                    while (liked(item) && ++round < rounds);
                    items[place] = item, filled[place] = round < rounds;
                }
            }
        }
    });
}

}  // namespace mfrank
