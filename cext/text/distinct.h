// Numbers the distinct fields of a text in the order in which they come first.
//
// The table is made of arrays of the caller, who replaces those that are full by larger ones.
#pragma once

#include "text/fields.h"

namespace mfrank {

struct DistinctTable {
    uint64_t* slots;  // high half of the hash, then the number plus 1; 0 is free
    int64_t n_slots;  // a power of two
    uint64_t* hashes;  // of each distinct field
    int64_t* bounds;  // where each ends in the bytes, after what is ahead of them
    uint8_t* bytes;
    int64_t most, most_bytes;
    int64_t n;  // distinct fields so far
};

inline uint64_t hash_of(const uint8_t* begin, int64_t size) {
    constexpr uint64_t MIX = 0x9E3779B97F4A7C15u;
    uint64_t hash = uint64_t(size) * MIX;
    const auto add = [&](uint64_t word) {
        const Wide product = Wide(word ^ hash ^ MIX) * 0xD6E8FEB86659FD93u;
        hash = uint64_t(product) ^ uint64_t(product >> 64);
    };
    if (size <= 8) {
        add(last_bytes(begin + size, size));
    } else {
        int64_t at = 0;
        for (; at + 8 < size; at += 8) add(word_at(begin + at));
        add(word_at(begin + size - 8));
    }
    return hash * MIX;
}

inline bool same(const uint8_t* one, const uint8_t* other, int64_t size) {
    if (size <= 8) return last_bytes(one + size, size) == last_bytes(other + size, size);
    for (int64_t at = 0; at + 8 < size; at += 8)
        if (word_at(one + at) != word_at(other + at)) return false;
    return word_at(one + size - 8) == word_at(other + size - 8);
}

inline void put_in_slot(DistinctTable& table, uint64_t hash, int64_t number) {
    int64_t at = hash & (table.n_slots - 1);
    while (table.slots[at]) at = (at + 1) & (table.n_slots - 1);
    table.slots[at] = (hash >> 32 << 32) | uint64_t(number + 1);
}

// Number of a field with this hash; -1 if there is no room for a new one.
inline int32_t number_of(DistinctTable& table, const uint8_t* field, int64_t size, uint64_t hash) {
    for (int64_t at = hash & (table.n_slots - 1); table.slots[at];
         at = (at + 1) & (table.n_slots - 1)) {
        if ((table.slots[at] ^ hash) >> 32) continue;
        const int64_t number = int64_t(table.slots[at] & 0xFFFFFFFFu) - 1;
        const int64_t begin = table.bounds[number];
        if (table.bounds[number + 1] - begin == size && same(table.bytes + begin, field, size))
            return int32_t(number);
    }
    const int64_t begin = table.bounds[table.n];
    if (table.n == table.most || begin + size > table.most_bytes) return -1;
    std::memcpy(table.bytes + begin, field, size);
    table.bounds[table.n + 1] = begin + size, table.hashes[table.n] = hash;
    put_in_slot(table, hash, table.n);
    return int32_t(table.n++);
}

// Numbers fields; how many, up to the first for which there is no room. What the table has of them
// is fetched some fields ahead, because it lies anywhere in memory.
inline int64_t number_all(DistinctTable& table, const uint8_t* text, const int64_t* begins,
                          const int64_t* ends, int64_t n, int32_t* codes) {
    constexpr int64_t GROUP = 32;
    uint64_t hashes[GROUP];
    for (int64_t first = 0; first < n; first += GROUP) {
        const int64_t size = std::min(GROUP, n - first);
        const int64_t* begin = begins + first;
        const int64_t* end = ends + first;
        for (int64_t i = 0; i < size; ++i) {
            hashes[i] = hash_of(text + begin[i], end[i] - begin[i]);
            __builtin_prefetch(table.slots + (hashes[i] & (table.n_slots - 1)));
        }
        for (int64_t i = 0; i < size; ++i) {
            const uint64_t slot = table.slots[hashes[i] & (table.n_slots - 1)];
            if (slot) __builtin_prefetch(table.bounds + (slot & 0xFFFFFFFFu) - 1);
        }
        for (int64_t i = 0; i < size; ++i) {
            const uint64_t slot = table.slots[hashes[i] & (table.n_slots - 1)];
            if (slot) __builtin_prefetch(table.bytes + table.bounds[(slot & 0xFFFFFFFFu) - 1]);
        }
        for (int64_t i = 0; i < size; ++i) {
            codes[first + i] =
                number_of(table, text + begin[i], end[i] - begin[i], hashes[i]);
            if (codes[first + i] < 0) return first + i;
        }
    }
    return n;
}

}  // namespace mfrank
