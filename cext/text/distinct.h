// Numbers the distinct fields of a text in the order in which they come first.
//
// The table is made of arrays of the caller, who replaces those that are full by larger ones.
#pragma once

#include "text/fields.h"

namespace mfrank {

constexpr int64_t MOST_IN_SLOT = 16;

// A short field is here as a whole: its bytes in the table lie anywhere in memory.
struct Slot {
    uint64_t first, second;  // the words of a short field; the place and the hash of a long one
    uint32_t number;         // plus 1; 0 is free
    uint32_t size;
};

struct DistinctTable {
    Slot* slots;
    int64_t n_slots;  // a power of two
    int64_t* bounds;  // where each field ends in the bytes, after what is ahead of them
    uint8_t* bytes;
    int64_t most, most_bytes;
    int64_t n;  // distinct fields so far
};

struct Key {
    uint64_t first, second, hash;
};

inline uint64_t mixed(uint64_t word, uint64_t hash) {
    const Wide product = Wide(word ^ hash) * 0xD6E8FEB86659FD93u;
    return uint64_t(product) ^ uint64_t(product >> 64);
}

inline Key key_of(const uint8_t* begin, int64_t size) {
    const uint8_t* end = begin + size;
    Key key{0, 0, 0x9E3779B97F4A7C15u + uint64_t(size)};
    if (size <= 8) {
        key.first = last_bytes(end, size);
        key.hash = mixed(key.first, key.hash);
    } else if (size <= MOST_IN_SLOT) {
        key.first = word_at(begin), key.second = word_at(end - 8);
        key.hash = mixed(key.second, mixed(key.first, key.hash));
    } else {
        for (int64_t at = 0; at + 8 < size; at += 8)
            key.hash = mixed(word_at(begin + at), key.hash);
        key.second = key.hash = mixed(word_at(end - 8), key.hash);
    }
    return key;
}

// Whether two long fields of one size are the same.
inline bool same(const uint8_t* one, const uint8_t* other, int64_t size) {
    for (int64_t at = 0; at + 8 < size; at += 8)
        if (word_at(one + at) != word_at(other + at)) return false;
    return word_at(one + size - 8) == word_at(other + size - 8);
}

inline Slot* home_of(const DistinctTable& table, uint64_t hash) {
    return table.slots + (hash & uint64_t(table.n_slots - 1));
}

inline Slot* after(const DistinctTable& table, Slot* slot) {
    return ++slot == table.slots + table.n_slots ? table.slots : slot;
}

// Number of a field; -1 if there is no room for a new one.
inline int32_t number_of(DistinctTable& table, const uint8_t* field, int64_t size, const Key& key) {
    const bool is_long = size > MOST_IN_SLOT;
    Slot* slot = home_of(table, key.hash);
    for (; slot->number; slot = after(table, slot)) {
        if (slot->second != key.second || slot->size != size) continue;
        if (is_long ? same(table.bytes + slot->first, field, size) : slot->first == key.first)
            return int32_t(slot->number - 1);
    }
    const int64_t begin = table.bounds[table.n];
    if (table.n == table.most || begin + size > table.most_bytes) return -1;
    std::memcpy(table.bytes + begin, field, size);
    table.bounds[++table.n] = begin + size;
    *slot = {is_long ? uint64_t(begin) : key.first, key.second, uint32_t(table.n), uint32_t(size)};
    return int32_t(table.n - 1);
}

// Puts the known fields into slots that are free.
inline void fill(DistinctTable& table) {
    for (int64_t number = 0; number < table.n; ++number) {
        const int64_t begin = table.bounds[number], size = table.bounds[number + 1] - begin;
        const Key key = key_of(table.bytes + begin, size);
        Slot* slot = home_of(table, key.hash);
        while (slot->number) slot = after(table, slot);
        const uint64_t first = size > MOST_IN_SLOT ? uint64_t(begin) : key.first;
        *slot = {first, key.second, uint32_t(number + 1), uint32_t(size)};
    }
}

// Numbers fields; how many, up to the first for which there is no room. The slots of a group are
// fetched while the group before it is numbered.
inline int64_t number_all(DistinctTable& table, const uint8_t* text, const int64_t* begins,
                          const int64_t* ends, int64_t n, int32_t* codes) {
    constexpr int64_t GROUP = 16;
    Key keys[2][GROUP];
    const auto fetch = [&](int64_t first, Key* own) {
        for (int64_t row = first; row < std::min(first + GROUP, n); ++row, ++own) {
            *own = key_of(text + begins[row], ends[row] - begins[row]);
            __builtin_prefetch(home_of(table, own->hash));
        }
    };
    fetch(0, keys[0]);
    for (int64_t first = 0; first < n; first += GROUP) {
        const Key* own = keys[first / GROUP % 2];
        const int64_t size = std::min(GROUP, n - first);
        if (ends[first] - begins[first] > MOST_IN_SLOT) {  // as are most, then
            for (int64_t i = 0; i < size; ++i) {
                const Slot* slot = home_of(table, own[i].hash);
                if (slot->size <= MOST_IN_SLOT) continue;
                __builtin_prefetch(table.bytes + slot->first);
                __builtin_prefetch(table.bytes + slot->first + slot->size - 1);
            }
        }
        fetch(first + GROUP, keys[(first / GROUP + 1) % 2]);
        for (int64_t row = first; row < first + size; ++row, ++own) {
            codes[row] = number_of(table, text + begins[row], ends[row] - begins[row], *own);
            if (codes[row] < 0) return row;
        }
    }
    return n;
}

}  // namespace mfrank
