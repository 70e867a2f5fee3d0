// Python bindings of what makes cells of entries: ids numbered by tables, and entries merged.
#pragma once

#include "bindings/views.h"
#include "cells/merge.h"
#include "host/gil.h"

namespace mfrank {

// The keys of entries: user, item and place, from the highest bits down.
inline void cell_keys(const py::object& users, const py::object& items, int of_item, int of_place,
                      const py::object& out) {
    const Vector<uint64_t> keys(out, "out");
    const Vector<const int32_t> rows(users, "users", keys.size);
    const Vector<const int32_t> columns(items, "items", keys.size);
    if (of_item < 0 || of_place < 0 || of_item + of_place > 62)
        throw py::value_error("of_item and of_place must be numbers of bits, at most 62 in all");
    const ReleasedGil released;
    for (int64_t at = 0; at < keys.size; ++at) {
        const uint64_t cell = uint64_t(rows.data[at]) << of_item | uint64_t(columns.data[at]);
        keys.data[at] = cell << of_place | uint64_t(at);
    }
}

template <class T>
py::tuple merged_cells(MergeTask<T> task, const py::object& values, int64_t n_items) {
    const Vector<const T> own(values, "values", task.n);
    task.values = own.data;
    bool inside = true, ascending = true;
    {
        const ReleasedGil released;
        const uint64_t places = (uint64_t(1) << task.of_place) - 1;
        const uint64_t of_items = (uint64_t(1) << task.of_item) - 1;
        for (int64_t at = 0; at < task.n; ++at) {
            const uint64_t key = task.keys[at], cell = key >> task.of_place;
            inside &= int64_t(key & places) < task.n && int64_t(cell & of_items) < n_items;
            ascending &= !at || task.keys[at - 1] < key;
        }
        const uint64_t last = task.n ? task.keys[task.n - 1] >> task.of_place : 0;
        inside &= !task.n || int64_t(last >> task.of_item) < task.n_users;
        if (inside && ascending) Merger<T>(task).run();
    }
    if (!inside) throw py::index_error("keys must lie in the matrix, and have places of values");
    if (!ascending) throw py::value_error("keys must be ascending");
    return py::make_tuple(task.n_cells, task.n_summed, task.are_ones);
}

// How many cells there are, how many of them are sums above an entry, and whether all values are 1.
inline py::tuple merge_cells(const py::object& keys, int of_item, int of_place, int64_t n_items,
                             const std::string& duplicates, const py::object& values,
                             const py::object& times, const py::object& indptr,
                             const py::object& items, const py::object& merged,
                             const py::object& latest) {
    const Vector<uint64_t> own(keys, "keys");
    const Vector<int64_t> offsets(indptr, "indptr");
    if (of_item < 0 || of_place < 0 || of_item + of_place > 62)
        throw py::value_error("of_item and of_place must be numbers of bits, at most 62 in all");
    if (offsets.size < 1) throw py::value_error("indptr must have one element more than users");
    if (duplicates != "sum" && duplicates != "max" && duplicates != "last")
        throw py::value_error("duplicates must be sum, max or last");
    const auto with = [&](auto task) {
        task.keys = own.data, task.n = own.size, task.of_item = of_item, task.of_place = of_place;
        task.rule = duplicates == "sum"   ? Rule::sum
                    : duplicates == "max" ? Rule::max
                                          : Rule::last;
        task.n_users = offsets.size - 1, task.indptr = offsets.data;
        task.items = Vector<int32_t>(items, "items", own.size).data;
        task.merged = Vector<float>(merged, "merged", own.size).data;
        if (!times.is_none()) {
            task.times = Vector<const int64_t>(times, "times", own.size).data;
            task.latest = Vector<int64_t>(latest, "latest", own.size).data;
        }
        return merged_cells(task, values, n_items);
    };
    return is_double(values, "values") ? with(MergeTask<double>{}) : with(MergeTask<float>{});
}

inline bool is_short(const py::object& numbers) {
    return py::isinstance<py::array_t<int32_t>>(numbers);
}

inline void mark_numbers(const py::object& numbers, int64_t lowest, const py::object& out) {
    const Vector<bool> there(out, "out");
    const auto with = [&](auto own) {
        const ReleasedGil released;
        return mark(own.data, own.size, lowest, there.data, there.size);
    };
    const bool inside = is_short(numbers) ? with(Vector<const int32_t>(numbers, "numbers"))
                                          : with(Vector<const int64_t>(numbers, "numbers"));
    if (!inside) throw py::index_error("numbers must lie among those that are marked");
}

inline void look_up_numbers(const py::object& numbers, int64_t lowest, const py::object& table,
                            const py::object& out) {
    const Vector<const int32_t> known(table, "table");
    const Vector<int32_t> found(out, "out");
    const auto with = [&](auto own) {
        check_size("numbers", own.size, found.size, "elements");
        const ReleasedGil released;
        return look_up(own.data, own.size, lowest, known.data, known.size, found.data);
    };
    const bool inside = is_short(numbers) ? with(Vector<const int32_t>(numbers, "numbers"))
                                          : with(Vector<const int64_t>(numbers, "numbers"));
    if (!inside) throw py::index_error("numbers must lie among those of the table");
}

inline void bind_cells(py::module_& m) {
    using namespace pybind11::literals;
    m.def("cell_keys", cell_keys, "users"_a, "items"_a, "of_item"_a, "of_place"_a, "out"_a);
    m.def("merge_cells", merge_cells, "keys"_a, py::kw_only(), "of_item"_a, "of_place"_a,
          "n_items"_a, "duplicates"_a, "values"_a, "times"_a, "indptr"_a, "items"_a, "merged"_a,
          "latest"_a);
    m.def("mark_numbers", mark_numbers, "numbers"_a, "lowest"_a, "out"_a);
    m.def("look_up_numbers", look_up_numbers, "numbers"_a, "lowest"_a, "table"_a, "out"_a);
}

}  // namespace mfrank
