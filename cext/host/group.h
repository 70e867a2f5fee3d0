// Groups the places of lists by item, in the order of the lists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "host/lists.h"
#include "tasks/lists.h"

namespace mfrank {

// Calls each(item, place) for every place of the lists [begin, end) for which counts(place).
template <class T, class Counts, class Each>
void for_each_place(const ListTask<T>& task, int64_t begin, int64_t end, const Counts& counts,
                    const Each& each) {
    for (int64_t place = begin * task.n_places; place < end * task.n_places; ++place)
        if (counts(place)) each(task.ids[place], place);
}

struct Placed {
    int64_t item, place;
};

// The places that count, radix-sorted by item: O(places) whatever the size of the catalog.
template <class T, class Counts>
std::vector<Placed> sorted_places(const ListTask<T>& task, const Counts& counts) {
    constexpr int BITS = 11;
    constexpr int64_t MASK = (int64_t{1} << BITS) - 1;
    std::vector<Placed> places;
    places.reserve(task.n_lists * task.n_places);
    for_each_place(task, 0, task.n_lists, counts,
                   [&](int64_t item, int64_t place) { places.push_back({item, place}); });
    std::vector<Placed> sorted(places.size());
    for (int shift = 0; shift == 0 || (task.n_items - 1) >> shift > 0; shift += BITS) {
        std::vector<int64_t> begins(MASK + 2);
        for (const Placed& one : places) ++begins[((one.item >> shift) & MASK) + 1];
        for (int64_t digit = 0; digit <= MASK; ++digit) begins[digit + 1] += begins[digit];
        for (const Placed& one : places) sorted[begins[(one.item >> shift) & MASK]++] = one;
        places.swap(sorted);
    }
    return places;
}

// Whether one pass over all items costs less than sorting the places.
template <class T>
bool few_items(const ListTask<T>& task) {
    return task.n_items <= 2 * task.n_lists * task.n_places;
}

// A counting sort by item: two passes over the places, one over the items. The lists are split into
// parts that run in parallel; each part counts its own places, then writes them.
template <class T, class Counts>
Grouped<T> group_by_counting(const ListTask<T>& task, const T* gradients, const Counts& counts) {
    const int parts = threads_for(task.n_lists, 32.0 * task.n_places, task.n_threads);
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
        for_each_place(task, begin, end, counts, [own](int64_t item, int64_t) { ++own[item]; });
    });
    Grouped<T> found;
    int64_t n_places = 0;
    for (int64_t item = 0; item < task.n_items; ++item) {
        const int64_t start = n_places;
        for (int64_t end = item; end < parts * task.n_items; end += task.n_items)
            n_places += std::exchange(ends[end], n_places);
        if (n_places == start) continue;
        found.touched.push_back(item);
        found.starts.push_back(start);
    }
    found.starts.push_back(n_places);
    found.places.reset(new GroupedPlace<T>[n_places]);
    for_each_part([&](int64_t* own, int64_t begin, int64_t end) {
        for (int64_t list = begin; list < end; ++list)
            for_each_place(task, list, list + 1, counts, [&](int64_t item, int64_t place) {
                found.places[own[item]++] = {static_cast<int32_t>(list), gradients[place]};
            });
    });
    return found;
}

template <class T, class Counts>
Grouped<T> group_by_digits(const ListTask<T>& task, const T* gradients, const Counts& counts) {
    check_items(task, 0, task.n_lists);
    const std::vector<Placed> sorted = sorted_places(task, counts);
    const int64_t n_places = static_cast<int64_t>(sorted.size());
    Grouped<T> found;
    found.places.reset(new GroupedPlace<T>[n_places]);
    for (int64_t at = 0; at < n_places; ++at) {
        const auto [item, place] = sorted[at];
        if (found.touched.empty() || found.touched.back() != item) {
            found.touched.push_back(item);
            found.starts.push_back(at);
        }
        found.places[at] = {static_cast<int32_t>(place / task.n_places), gradients[place]};
    }
    found.starts.push_back(n_places);
    return found;
}

// Groups the places of nonzero gradient when each list has one query.
template <class T>
Grouped<T> group_by_item(const ListTask<T>& task, const T* gradients) {
    const auto counts = [gradients](int64_t place) { return gradients[place] != 0; };
    return few_items(task) ? group_by_counting(task, gradients, counts)
                           : group_by_digits(task, gradients, counts);
}

// Ranks the items when lists have several queries; a place counts if any query has a nonzero
// gradient.
template <class T>
Ranked rank_items(const ListTask<T>& task, const T* gradients) {
    const int64_t n = task.n_places, size = task.n_lists * n;
    const int threads = threads_for(task.n_lists, 1.0 * task.width * n, task.n_threads);
    Ranked found;
    found.ranks.reset(new int32_t[size]);
    int32_t* const ranks = found.ranks.get();
    for_each_list(task.n_lists, threads, [&task, gradients, ranks, n](int64_t list) {
        check_items(task, list, list + 1);
        int32_t* const own = ranks + list * n;
        std::fill_n(own, n, -1);
        for (int64_t query = list * task.width; query < (list + 1) * task.width; ++query)
            for (int64_t at = 0; at < n; ++at)
                own[at] = gradients[query * n + at] != 0 ? 0 : own[at];
    });
    const auto counts = [ranks](int64_t place) { return ranks[place] == 0; };
    if (!few_items(task)) {
        for (const auto& [item, place] : sorted_places(task, counts)) {
            if (found.touched.empty() || found.touched.back() != item)
                found.touched.push_back(item);
            ranks[place] = static_cast<int32_t>(found.touched.size()) - 1;
        }
        return found;
    }
    std::vector<int32_t> of_items(task.n_items, -1);
    for_each_place(task, 0, task.n_lists, counts,
                   [&](int64_t item, int64_t) { of_items[item] = 0; });
    for (int64_t item = 0; item < task.n_items; ++item)
        if (of_items[item] == 0) {
            of_items[item] = static_cast<int32_t>(found.touched.size());
            found.touched.push_back(item);
        }
    for (int64_t place = 0; place < size; ++place)
        if (ranks[place] == 0) ranks[place] = of_items[task.ids[place]];
    return found;
}

}  // namespace mfrank
