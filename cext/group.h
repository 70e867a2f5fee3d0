// The places of lists by their items: a radix sort, stable, whatever the size of the catalogue.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tasks.h"

namespace mfrank {

template <class T>
Grouped group_places(const ListTask<T>& task, const T* slopes) {
    using Place = Grouped::Place;
    struct Keyed {
        int64_t item;
        Place place;
    };
    std::vector<Keyed> keyed;
    keyed.reserve(task.n_lists * task.n_places);
    const int64_t* item = task.ids;
    for (int32_t list = 0; list < task.n_lists; ++list)
        for (int32_t at = 0; at < task.n_places; ++at, ++item, ++slopes)
            if (*slopes != 0) keyed.push_back({*item, {list, at}});
    std::vector<Keyed> sorted(keyed.size());
    // As few passes as have no more digits than there are about places.
    int bits = 1, width = 1;
    while ((task.n_items - 1) >> bits > 0) ++bits;
    while (width < bits && int64_t{1} << width < static_cast<int64_t>(keyed.size())) ++width;
    const int n_passes = (bits + width - 1) / width;
    width = (bits + n_passes - 1) / n_passes;
    const int64_t mask = (int64_t{1} << width) - 1;
    for (int shift = 0; shift < bits; shift += width) {
        std::vector<int64_t> begins(mask + 2);
        for (const Keyed& one : keyed) ++begins[((one.item >> shift) & mask) + 1];
        for (int64_t digit = 0; digit <= mask; ++digit) begins[digit + 1] += begins[digit];
        for (const Keyed& one : keyed) sorted[begins[(one.item >> shift) & mask]++] = one;
        keyed.swap(sorted);
    }
    Grouped found;
    found.order.reserve(keyed.size());
    for (const Keyed& one : keyed) {
        if (found.touched.empty() || found.touched.back() != one.item) {
            found.touched.push_back(one.item);
            found.starts.push_back(static_cast<int64_t>(found.order.size()));
        }
        found.order.push_back(one.place);
    }
    found.starts.push_back(static_cast<int64_t>(found.order.size()));
    return found;
}

}  // namespace mfrank
