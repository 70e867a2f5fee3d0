// The largest entries of each row of a product of sparse matrices: links between items.
//
// A row of the product is summed densely, in the order of scipy's product, and its largest entries
// are chosen without sorting it. This is compiled once, without fused multiply-adds on x86-64: so
// sums have scipy's bits there.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tasks/csr.h"

namespace mfrank {

struct ProductsTask {
    Csr<double> left, right;
    const int64_t* rows;    // (n_rows), rows of `left`; the column of this number is left out
    int64_t n_rows;
    int64_t most;           // entries of a row that stay
    const double* divisor;  // (right.n_columns), of the sums, or null
    bool is_signed;         // entries below 0 count, too, by their magnitude
    const int64_t* begins;  // (n_rows + 1), the room of each row in `columns` and `values`
    int32_t* columns;       // ascending
    double* values;
    int64_t* counts;        // (n_rows), entries of each row
};

class LargestProducts {
   public:
    explicit LargestProducts(const ProductsTask& task)
        : task_(task), sums_(task.right.n_columns, 0.0) {}

    void solve(int64_t at) {
        const int64_t row = task_.rows[at], room = task_.begins[at + 1] - task_.begins[at];
        most_ = std::min(task_.most, room);
        capacity_ = std::max(4 * most_, AT_ONCE) + AT_ONCE;
        if (int64_t(found_.size()) < capacity_) found_.resize(capacity_);
        n_found_ = 0, least_ = 0;
        const int64_t n_pairs = add_rows(row), n_columns = task_.right.n_columns;
        if (row < n_columns) sums_[row] = 0;
        if (most_ > 0 && n_pairs >= n_columns / DENSE) {
            for (int64_t column = 0; column < n_columns; column += AT_ONCE)
                take(std::min(AT_ONCE, n_columns - column), [=](int64_t i) { return column + i; });
        } else {
            take_met(row);
        }
        if (n_found_ > most_) keep_best();
        std::sort(found_.begin(), found_.begin() + n_found_,
                  [](const Entry& a, const Entry& b) { return a.column < b.column; });
        for (int64_t i = 0; i < n_found_; ++i) {
            task_.columns[task_.begins[at] + i] = found_[i].column;
            task_.values[task_.begins[at] + i] = found_[i].value;
        }
        task_.counts[at] = n_found_;
    }

   private:
    static constexpr int64_t AT_ONCE = 256;  // columns between two looks at the room
    static constexpr int64_t DENSE = 16;     // A look through all columns is so much faster.

    struct Entry {
        double value;
        int32_t column;
    };

    double size_of(double value) const { return task_.is_signed ? std::abs(value) : value; }

    // Adds the rows of `right` to the sums; returns the number of their entries.
    int64_t add_rows(int64_t row) {
        const Csr<double>&left = task_.left, &right = task_.right;
        double* const sums = sums_.data();
        int64_t n_pairs = 0;
        for (int64_t e = left.indptr[row], last = left.indptr[row + 1]; e < last; ++e) {
            const int64_t begin = right.indptr[left.indices[e]];
            const int64_t n = right.indptr[left.indices[e] + 1] - begin;
            if (e + AHEAD < last) prefetch(right.indptr[left.indices[e + AHEAD]]);
            const int32_t* const columns = right.indices + begin;
            const double *const data = right.data + begin, value = left.data[e];
            for (int64_t i = 0; i < n; ++i) sums[columns[i]] += value * data[i];
            n_pairs += n;
        }
        return n_pairs;
    }

    static constexpr int64_t AHEAD = 4;

    void prefetch(int64_t entry) const {
        __builtin_prefetch(task_.right.indices + entry);
        __builtin_prefetch(task_.right.data + entry);
    }

    void take_met(int64_t row) {
        const Csr<double>&left = task_.left, &right = task_.right;
        for (int64_t e = left.indptr[row]; e < left.indptr[row + 1]; ++e) {
            const int64_t end = right.indptr[left.indices[e] + 1];
            for (int64_t f = right.indptr[left.indices[e]]; f < end; f += AT_ONCE) {
                const int32_t* const columns = right.indices + f;
                take(std::min(AT_ONCE, end - f), [=](int64_t i) { return columns[i]; });
            }
        }
    }

    // Takes the sums of n columns, which are 0 afterwards. Entries are written in any case, and stay
    // where they are large enough: a branch would be foreseen by no processor.
    template <class Column>
    void take(int64_t n, const Column& column_of) {
        if (n_found_ + n > capacity_) keep_best();
        double* const sums = sums_.data();
        Entry* const found = found_.data();
        const double* const divisor = task_.divisor;
        const double least = least_;
        int64_t at = n_found_;
        for (int64_t i = 0; i < n; ++i) {
            const auto column = static_cast<int32_t>(column_of(i));
            double value = sums[column];
            sums[column] = 0;
            if (divisor) value /= divisor[column];
            const double size = size_of(value);
            found[at] = {value, column};
            at += (size >= least) & (size > 0);
        }
        n_found_ = at;
    }

    // Keeps the best of what was found, of equals those of lower columns.
    void keep_best() {
        if (most_ == 0) {
            n_found_ = 0;
            return;
        }
        sizes_.resize(n_found_);
        for (int64_t i = 0; i < n_found_; ++i) sizes_[i] = size_of(found_[i].value);
        least_ = nth_largest(n_found_, most_);
        int64_t n_above = 0;
        equals_.clear();
        for (int64_t i = 0; i < n_found_; ++i) {
            const double size = size_of(found_[i].value);
            if (size == least_) equals_.push_back(found_[i]);
            else if (size > least_) found_[n_above++] = found_[i];
        }
        const auto missing = equals_.begin() + (most_ - n_above);
        std::nth_element(equals_.begin(), missing, equals_.end(),
                         [](const Entry& a, const Entry& b) { return a.column < b.column; });
        std::copy(equals_.begin(), missing, found_.begin() + n_above);
        n_found_ = most_;
    }

    // The n-th largest of the sizes, which are overwritten. As std::nth_element does, but without
    // branches that depend on numbers.
    double nth_largest(int64_t count, int64_t n) {
        above_.resize(sizes_.size());
        double *own = sizes_.data(), *above = above_.data();
        for (;;) {
            const double a = own[0], b = own[count / 2], c = own[count - 1];
            const double middle = std::max(std::min(a, b), std::min(std::max(a, b), c));
            int64_t n_above = 0, n_below = 0;
            for (int64_t i = 0; i < count; ++i) {
                const double size = own[i];
                above[n_above] = size, n_above += size > middle;
                own[n_below] = size, n_below += size < middle;
            }
            if (n <= n_above) {
                std::swap(own, above);
                count = n_above;
            } else if (n <= count - n_below) {
                return middle;
            } else {
                n -= count - n_below;
                count = n_below;
            }
        }
    }

    const ProductsTask& task_;
    std::vector<double> sums_, sizes_, above_;
    std::vector<Entry> found_, equals_;
    int64_t most_ = 0, capacity_ = 0, n_found_ = 0;
    double least_ = 0;  // Smaller entries are not among the best.
};

}  // namespace mfrank
