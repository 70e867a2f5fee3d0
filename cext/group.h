// The slopes of lists by their items, in the order of the lists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tasks.h"

namespace mfrank {

// Calls each(item, term) for every slope that is not 0.
template <class T, class Each>
void for_each_term(const ListTask<T>& task, const T* slopes, const Each& each) {
    const int64_t* item = task.ids;
    for (int64_t list = 0; list < task.n_lists; ++list)
        for (int64_t at = 0; at < task.n_places; ++at, ++item, ++slopes)
            if (*slopes != 0)
                each(*item, typename Grouped<T>::Term{static_cast<int32_t>(list), *slopes});
}

// A counting sort over all items: two passes over the places, one over the items.
template <class T>
Grouped<T> group_by_counting(const ListTask<T>& task, const T* slopes) {
    std::vector<int64_t> ends(task.n_items);
    for_each_term(task, slopes, [&](int64_t item, auto) { ++ends[item]; });
    Grouped<T> found;
    int64_t total = 0;
    for (int64_t item = 0; item < task.n_items; ++item) {
        if (ends[item] > 0) {
            found.touched.push_back(item);
            found.starts.push_back(total);
        }
        total += ends[item];
        ends[item] = total - ends[item];
    }
    found.starts.push_back(total);
    found.terms.resize(total);
    for_each_term(task, slopes, [&](int64_t item, auto term) { found.terms[ends[item]++] = term; });
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
    for_each_term(task, slopes, [&](int64_t item, auto term) { keyed.push_back({item, term}); });
    std::vector<Keyed> sorted(keyed.size());
    for (int shift = 0; shift == 0 || (task.n_items - 1) >> shift > 0; shift += BITS) {
        std::vector<int64_t> begins(MASK + 2);
        for (const Keyed& one : keyed) ++begins[((one.item >> shift) & MASK) + 1];
        for (int64_t digit = 0; digit <= MASK; ++digit) begins[digit + 1] += begins[digit];
        for (const Keyed& one : keyed) sorted[begins[(one.item >> shift) & MASK]++] = one;
        keyed.swap(sorted);
    }
    Grouped<T> found;
    found.terms.reserve(keyed.size());
    for (const Keyed& one : keyed) {
        if (found.touched.empty() || found.touched.back() != one.item) {
            found.touched.push_back(one.item);
            found.starts.push_back(static_cast<int64_t>(found.terms.size()));
        }
        found.terms.push_back(one.term);
    }
    found.starts.push_back(static_cast<int64_t>(found.terms.size()));
    return found;
}

template <class T>
Grouped<T> group_by_item(const ListTask<T>& task, const T* slopes) {
    // Beyond that, passing over all items would cost as much as sorting.
    const bool few_items = task.n_items <= 2 * task.n_lists * task.n_places;
    return few_items ? group_by_counting(task, slopes) : group_by_digits(task, slopes);
}

}  // namespace mfrank
