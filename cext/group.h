// The slopes of lists by their items, in the order of the lists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "lists.h"
#include "tasks.h"

namespace mfrank {

// Calls each(item, term) for every slope of the lists [begin, end) that is not 0.
template <class T, class Each>
void for_each_term(const ListTask<T>& task, const T* slopes, int64_t begin, int64_t end,
                   const Each& each) {
    const int64_t n = task.n_places, *item = task.ids + begin * n;
    slopes += begin * n;
    for (int64_t list = begin; list < end; ++list)
        for (int64_t at = 0; at < n; ++at, ++item, ++slopes)
            if (*slopes != 0)
                each(*item, typename Grouped<T>::Term{static_cast<int32_t>(list), *slopes});
}

// A counting sort over all items: two passes over the places, one over the items. Each part of the
// lists counts, and then places, its own terms.
template <class T>
Grouped<T> group_by_counting(const ListTask<T>& task, const T* slopes) {
    const int parts = threads_worth(task.n_lists, 32.0 * task.n_places, task.n_threads);
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
        for_each_term(task, slopes, begin, end, [own](int64_t item, auto) { ++own[item]; });
    });
    Grouped<T> found;
    for (int64_t item = 0; item < task.n_items; ++item) {
        const int64_t start = found.n_terms;
        for (int64_t end = item; end < parts * task.n_items; end += task.n_items)
            found.n_terms += std::exchange(ends[end], found.n_terms);
        if (found.n_terms == start) continue;
        found.touched.push_back(item);
        found.starts.push_back(start);
    }
    found.starts.push_back(found.n_terms);
    found.terms.reset(new typename Grouped<T>::Term[found.n_terms]);
    for_each_part([&](int64_t* own, int64_t begin, int64_t end) {
        for_each_term(task, slopes, begin, end, [own, to = found.terms.get()](
                          int64_t item, auto term) { to[own[item]++] = term; });
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
        typename Grouped<T>::Term term;
    };
    std::vector<Keyed> keyed;
    keyed.reserve(task.n_lists * task.n_places);
    check_items(task, 0, task.n_lists);
    for_each_term(task, slopes, 0, task.n_lists,
                  [&](int64_t item, auto term) { keyed.push_back({item, term}); });
    std::vector<Keyed> sorted(keyed.size());
    for (int shift = 0; shift == 0 || (task.n_items - 1) >> shift > 0; shift += BITS) {
        std::vector<int64_t> begins(MASK + 2);
        for (const Keyed& one : keyed) ++begins[((one.item >> shift) & MASK) + 1];
        for (int64_t digit = 0; digit <= MASK; ++digit) begins[digit + 1] += begins[digit];
        for (const Keyed& one : keyed) sorted[begins[(one.item >> shift) & MASK]++] = one;
        keyed.swap(sorted);
    }
    Grouped<T> found;
    found.terms.reset(new typename Grouped<T>::Term[keyed.size()]);
    for (const Keyed& one : keyed) {
        if (found.touched.empty() || found.touched.back() != one.item) {
            found.touched.push_back(one.item);
            found.starts.push_back(found.n_terms);
        }
        found.terms[found.n_terms++] = one.term;
    }
    found.starts.push_back(found.n_terms);
    return found;
}

template <class T>
Grouped<T> group_by_item(const ListTask<T>& task, const T* slopes) {
    // Beyond that, passing over all items would cost as much as sorting.
    const bool few_items = task.n_items <= 2 * task.n_lists * task.n_places;
    return few_items ? group_by_counting(task, slopes) : group_by_digits(task, slopes);
}

}  // namespace mfrank
