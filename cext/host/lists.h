// Distributes the lists of a batch over threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "host/parallel.h"
#include "tasks/lists.h"

namespace mfrank {

constexpr int64_t LISTS_AT_ONCE = 16;
constexpr double WORK_PER_THREAD = 1 << 19;  // multiply-adds, about 40 microseconds

// Number of threads such that each has at least WORK_PER_THREAD to do, where a list costs `work`
// multiply-adds. Batches are short, so a thread that waits for a core costs more than it saves.
inline int threads_for(int64_t n_lists, double work, int n_threads) {
    const double useful = double(n_lists) * work / WORK_PER_THREAD;
    return static_cast<int>(std::clamp(useful, 1.0, double(threads_meant(n_threads))));
}

// Calls work(list) for all lists. Each thread makes its own work = make(), which holds its scratch.
template <class Make>
void for_each_list_by(int64_t n_lists, int n_threads, const Make& make) {
    share((n_lists + LISTS_AT_ONCE - 1) / LISTS_AT_ONCE, n_threads, [&](Blocks& blocks) {
        auto work = make();
        for (int64_t block; blocks.next(block);) {
            const int64_t end = std::min(n_lists, (block + 1) * LISTS_AT_ONCE);
            for (int64_t list = block * LISTS_AT_ONCE; list < end; ++list) work(list);
        }
    });
}

template <class Work>
void for_each_list(int64_t n_lists, int n_threads, const Work& work) {
    for_each_list_by(n_lists, n_threads, [&] { return [&](int64_t list) { work(list); }; });
}

// Whether all numbers lie in [0, end). The loop has no early exit, so that compilers vectorize it.
inline bool all_within(const int64_t* numbers, int64_t count, int64_t end) {
    int64_t beyond = 0;  // negative as soon as a number < 0 or >= end is seen
    for (int64_t i = 0; i < count; ++i) beyond |= numbers[i] | (end - 1 - numbers[i]);
    return beyond >= 0;
}

// Throws if an id in the lists [begin, end) is not the number of an item.
template <class T>
inline void check_items(const ListTask<T>& task, int64_t begin, int64_t end) {
    if (!all_within(task.ids + begin * task.n_places, (end - begin) * task.n_places, task.n_items))
        throw std::out_of_range("ids must lie in [0, " + std::to_string(task.n_items) + ")");
}

}  // namespace mfrank
