// The places of lists by their items: a radix sort, stable, whatever the size of the catalogue.
#pragma once

#include <cstdint>
#include <vector>

#include "tasks.h"

namespace mfrank {

template <class T>
Grouped group_places(const ListTask<T>& task, const T* slopes) {
    using Place = Grouped::Place;
    constexpr int BITS = 11;
    constexpr int64_t DIGITS = int64_t{1} << BITS;
    Grouped found;
    for (int64_t list = 0; list < task.n_lists; ++list)
        for (int64_t at = 0; at < task.n_places; ++at)
            if (*slopes++ != 0)
                found.order.push_back({static_cast<int32_t>(list), static_cast<int32_t>(at)});
    const auto item = [&](Place place) { return task.ids[place.list * task.n_places + place.at]; };
    std::vector<Place> sorted(found.order.size());
    for (int shift = 0; shift == 0 || (task.n_items - 1) >> shift > 0; shift += BITS) {
        std::vector<int64_t> begins(DIGITS + 1);
        for (const Place place : found.order) ++begins[(item(place) >> shift) % DIGITS + 1];
        for (int64_t digit = 0; digit < DIGITS; ++digit) begins[digit + 1] += begins[digit];
        for (const Place place : found.order)
            sorted[begins[(item(place) >> shift) % DIGITS]++] = place;
        found.order.swap(sorted);
    }
    for (size_t e = 0; e < found.order.size(); ++e)
        if (e == 0 || item(found.order[e]) != item(found.order[e - 1])) {
            found.touched.push_back(item(found.order[e]));
            found.starts.push_back(static_cast<int64_t>(e));
        }
    found.starts.push_back(static_cast<int64_t>(found.order.size()));
    return found;
}

}  // namespace mfrank
