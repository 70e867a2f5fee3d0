// Numbers ids by tables, and merges entries of a matrix into cells, as mfrank/data/merging.py does
// in numpy: sums are in its order, so that their bits are the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace mfrank {

enum class Rule { sum, max, last };

template <class T>
struct MergeTask {
    uint64_t* keys;  // ascending: user, item, and the place of the entry in the lowest bits
    int64_t n;
    int of_item, of_place;  // bits
    const T* values;
    const int64_t* times;  // or null
    Rule rule;
    int64_t n_users;
    // By cell, and where the cells of each user begin.
    int64_t* indptr;
    int32_t* items;
    float* merged;
    int64_t* latest;  // or null
    // Cells whose sum is above their largest entry are written over the keys: cell and entry.
    int64_t n_cells, n_summed;
    bool are_ones;  // all entries
};

template <class T>
class Merger {
   public:
    explicit Merger(MergeTask<T>& task)
        : task_(task), places_((uint64_t(1) << task.of_place) - 1) {}

    void run() {
        constexpr int64_t AHEAD_OF_USE = 16;
        const uint64_t of_items = (uint64_t(1) << task_.of_item) - 1;
        int64_t row = 0;
        task_.n_cells = task_.n_summed = 0, task_.are_ones = true;
        for (int64_t begin = 0, end; begin < task_.n; begin = end, ++task_.n_cells) {
            const uint64_t cell = task_.keys[begin] >> task_.of_place;
            for (end = begin + 1; end < task_.n && task_.keys[end] >> task_.of_place == cell;) ++end;
            if (begin + AHEAD_OF_USE < task_.n) {
                const int64_t place = place_of(begin + AHEAD_OF_USE);
                __builtin_prefetch(task_.values + place);
                if (task_.times) __builtin_prefetch(task_.times + place);
            }
            const int64_t user = int64_t(cell >> task_.of_item);
            while (row <= user) task_.indptr[row++] = task_.n_cells;
            task_.items[task_.n_cells] = int32_t(cell & of_items);
            merge(begin, end);
        }
        while (row <= task_.n_users) task_.indptr[row++] = task_.n_cells;
    }

   private:
    int64_t place_of(int64_t entry) const { return int64_t(task_.keys[entry] & places_); }
    T value_of(int64_t entry) const { return task_.values[place_of(entry)]; }

    void merge(int64_t begin, int64_t end) {
        const int64_t cell = task_.n_cells;
        T largest = value_of(begin), last = largest;
        task_.are_ones &= largest == 1;
        int64_t latest = task_.times ? task_.times[place_of(begin)] : 0;
        for (int64_t entry = begin + 1; entry < end; ++entry) {
            const T value = value_of(entry);
            task_.are_ones &= value == 1;
            largest = std::max(largest, value);
            const int64_t time = task_.times ? task_.times[place_of(entry)] : 0;
            if (time >= latest) latest = time, last = value;
        }
        if (task_.latest) task_.latest[cell] = latest;
        if (task_.rule != Rule::sum || end == begin + 1) {
            task_.merged[cell] = float(task_.rule == Rule::max ? largest : last);
            return;
        }
        const double total = double(value_of(begin)) + sum(begin + 1, end - begin - 1);
        task_.merged[cell] = float(total);
        if (total > double(largest)) {
            const double entry = double(largest);
            uint64_t* written = task_.keys + 2 * task_.n_summed++;
            written[0] = uint64_t(cell);
            std::memcpy(written + 1, &entry, sizeof entry);
        }
    }

    // In pairs, as numpy adds up.
    double sum(int64_t begin, int64_t n) const {
        constexpr int64_t LANES = 8, MOST = 128;
        if (n > MOST) {
            const int64_t half = n / 2 - n / 2 % LANES;
            return sum(begin, half) + sum(begin + half, n - half);
        }
        double total = 0;
        int64_t at = 0;
        if (n >= LANES) {
            double lanes[LANES];
            for (; at < LANES; ++at) lanes[at] = double(value_of(begin + at));
            for (; at < n - n % LANES; ++at) lanes[at % LANES] += double(value_of(begin + at));
            total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                    ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        }
        for (; at < n; ++at) total += double(value_of(begin + at));
        return total;
    }

    MergeTask<T>& task_;
    const uint64_t places_;
};

// Marks which of the numbers from `lowest` on are there; false if one is not among them.
template <class T>
bool mark(const T* numbers, int64_t n, int64_t lowest, bool* there, int64_t size) {
    for (int64_t row = 0; row < n; ++row) {
        const uint64_t place = uint64_t(numbers[row]) - uint64_t(lowest);
        if (place >= uint64_t(size)) return false;
        there[place] = true;
    }
    return true;
}

// Writes what a table has for each number from `lowest` on; false if one is beyond it.
template <class T>
bool look_up(const T* numbers, int64_t n, int64_t lowest, const int32_t* table, int64_t size,
             int32_t* out) {
    for (int64_t row = 0; row < n; ++row) {
        const uint64_t place = uint64_t(numbers[row]) - uint64_t(lowest);
        if (place >= uint64_t(size)) return false;
        out[row] = table[place];
    }
    return true;
}

}  // namespace mfrank
