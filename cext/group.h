// The places of lists by their items, in the order of the lists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "lists.h"
#include "tasks.h"

namespace mfrank {

// Calls each(item, list, slopes) for every place of the lists [begin, end) that has a slope, of which
// the queries' lie n_places apart.
template <class T, class Width, class Each>
void for_each_place(const ListTask<T>& task, const T* slopes, int64_t begin, int64_t end,
                    Width width, const Each& each) {
    const int64_t n = task.n_places;
    for (int64_t list = begin; list < end; ++list) {
        const int64_t* const items = task.ids + list * n;
        const T* const own = slopes + list * width * n;
        for (int64_t at = 0; at < n; ++at) {
            bool asked = own[at] != 0;
            for (int64_t query = 1; query < width; ++query) asked |= own[query * n + at] != 0;
            if (asked) each(items[at], static_cast<int32_t>(list), own + at);
        }
    }
}

// A counting sort over all items: two passes over the places, one over the items. Each part of the
// lists counts, and then places, its own.
template <class T>
Grouped<T> group_by_counting(const ListTask<T>& task, const T* slopes) {
    const int parts =
        threads_worth(task.n_lists, 32.0 * task.width * task.n_places, task.n_threads);
    std::vector<int64_t> ends(parts * task.n_items);
    const auto for_each_part = [&](const auto& each) {
        share(parts, parts, [&](Blocks& blocks) {
            for (int64_t part; blocks.next(part);)
                each(ends.data() + part * task.n_items, task.n_lists * part / parts,
                     task.n_lists * (part + 1) / parts);
        });
    };
    for_each_part([&](int64_t* own, int64_t begin, int64_t end) {
        check_items(task, begin, end);
        by_width(task.width, [&](auto width) {
            for_each_place(task, slopes, begin, end, width,
                           [own](int64_t item, int32_t, const T*) { ++own[item]; });
        });
    });
    Grouped<T> found;
    for (int64_t item = 0; item < task.n_items; ++item) {
        const int64_t start = found.n_places;
        for (int64_t end = item; end < parts * task.n_items; end += task.n_items)
            found.n_places += std::exchange(ends[end], found.n_places);
        if (found.n_places == start) continue;
        found.touched.push_back(item);
        found.starts.push_back(start);
    }
    found.starts.push_back(found.n_places);
    found.places.reset(new T[found.n_places * (1 + task.width)]);
    for_each_part([&](int64_t* own, int64_t begin, int64_t end) {
        by_width(task.width, [&](auto width) {
            for_each_place(task, slopes, begin, end, width,
                           [&](int64_t item, int32_t list, const T* at) {
                               found.write(own[item]++, list, at, task.n_places, width);
                           });
        });
    });
    return found;
}

// A radix sort of the places, whatever the size of the catalogue.
template <class T>
Grouped<T> group_by_digits(const ListTask<T>& task, const T* slopes) {
    constexpr int BITS = 11;
    constexpr int64_t MASK = (int64_t{1} << BITS) - 1;
    struct Keyed {
        int64_t item;
        int32_t list;
        const T* at;
    };
    std::vector<Keyed> keyed;
    keyed.reserve(task.n_lists * task.n_places);
    check_items(task, 0, task.n_lists);
    for_each_place(task, slopes, 0, task.n_lists, task.width,
                   [&](int64_t item, int32_t list, const T* at) {
                       keyed.push_back({item, list, at});
                   });
    std::vector<Keyed> sorted(keyed.size());
    for (int shift = 0; shift == 0 || (task.n_items - 1) >> shift > 0; shift += BITS) {
        std::vector<int64_t> begins(MASK + 2);
        for (const Keyed& one : keyed) ++begins[((one.item >> shift) & MASK) + 1];
        for (int64_t digit = 0; digit <= MASK; ++digit) begins[digit + 1] += begins[digit];
        for (const Keyed& one : keyed) sorted[begins[(one.item >> shift) & MASK]++] = one;
        keyed.swap(sorted);
    }
    Grouped<T> found;
    found.places.reset(new T[keyed.size() * (1 + task.width)]);
    for (const Keyed& one : keyed) {
        if (found.touched.empty() || found.touched.back() != one.item) {
            found.touched.push_back(one.item);
            found.starts.push_back(found.n_places);
        }
        found.write(found.n_places++, one.list, one.at, task.n_places, task.width);
    }
    found.starts.push_back(found.n_places);
    return found;
}

template <class T>
Grouped<T> group_by_item(const ListTask<T>& task, const T* slopes) {
    // Beyond that, passing over all items would cost as much as sorting.
    const bool few_items = task.n_items <= 2 * task.n_lists * task.n_places;
    return few_items ? group_by_counting(task, slopes) : group_by_digits(task, slopes);
}

}  // namespace mfrank
