// Python bindings of the links between items: products of their columns, and regressions.
#pragma once

#include "bindings/views.h"
#include "cells/products.h"
#include "host/lists.h"

namespace mfrank {

inline Csr<double> with_data(const py::tuple& rows, const char* name, int64_t n_columns,
                             int n_threads) {
    if (rows.size() != 3 || rows[2].is_none())
        throw py::value_error(std::string(name) + " must be (indptr, indices, data)");
    return csr_view<double>(rows[0], rows[1], rows[2], n_columns, n_threads);
}

// Checks that columns ascend within rows, so that only the upper triangle is written.
inline void check_ascending(const char* name, const Csr<double>& rows) {
    for (int64_t row = 0; row < rows.n_rows; ++row)
        for (int64_t e = rows.indptr[row] + 1; e < rows.indptr[row + 1]; ++e)
            if (rows.indices[e - 1] >= rows.indices[e])
                throw py::value_error(std::string(name) + " must have ascending columns");
}

inline void regress(const py::tuple& rows, const py::tuple& users, const py::tuple& near,
                    const py::object& diagonal, const py::object& place, const py::object& common,
                    const py::object& out, const py::object& failed, int n_threads) {
    const Vector<const double> diagonals(diagonal, "diagonal");
    const int64_t n_items = diagonals.size;
    LinksTask task{};
    task.rows = with_data(rows, "rows", n_items, n_threads);
    task.users = with_data(users, "users", task.rows.n_rows, n_threads);
    task.near = with_data(near, "near", n_items, n_threads);
    check_size("users", task.users.n_rows, n_items, "rows");
    check_ascending("rows", task.rows);
    check_ascending("near", task.near);
    const Matrix<const double> table(common, "common");
    check_size("common", table.columns, table.rows, "columns");
    task.diagonal = diagonals.data, task.common = table.data, task.n_common = table.rows;
    const Vector<const int32_t> places(place, "place", n_items);
    for (int64_t item = 0; item < n_items; ++item)
        if (places.data[item] < -1 || places.data[item] >= table.rows)
            throw py::index_error("place must lie in [-1, the rows of common)");
    task.place = places.data;
    const Vector<double> weights(out, "out");
    if (weights.size < task.near.indptr[task.near.n_rows])
        throw py::value_error("out must have an element for each of near");
    task.out = weights.data;
    task.failed = Vector<int64_t>(failed, "failed", task.near.n_rows).data;
    task.n_threads = n_threads;
    chosen_kernels<double>().links.regress(task);
}

inline void largest_products(const py::tuple& left, const py::tuple& right,
                             const py::object& rows, int64_t most, const py::object& divisor,
                             bool is_signed, int64_t n_columns, const py::object& begins,
                             const py::object& columns, const py::object& values,
                             const py::object& counts, int n_threads) {
    ProductsTask task{};
    task.right = with_data(right, "right", n_columns, n_threads);
    task.left = with_data(left, "left", task.right.n_rows, n_threads);
    const Vector<const int64_t> own(rows, "rows");
    if (!all_within(own.data, own.size, task.left.n_rows))
        throw py::index_error("rows must lie in [0, the rows of left)");
    task.rows = own.data, task.n_rows = own.size;
    if (most < 1) throw py::value_error("most must be 1 or more");
    task.most = most, task.is_signed = is_signed;
    if (!divisor.is_none())
        task.divisor = Vector<const double>(divisor, "divisor", n_columns).data;
    const Vector<int32_t> found(columns, "columns");
    task.columns = found.data;
    task.values = Vector<double>(values, "values", found.size).data;
    task.counts = Vector<int64_t>(counts, "counts", own.size).data;
    const Vector<const int64_t> room(begins, "begins", own.size + 1);
    bool ascending = room.data[0] >= 0 && room.data[own.size] <= found.size;
    for (int64_t at = 0; at < own.size; ++at) ascending &= room.data[at] <= room.data[at + 1];
    if (!ascending) throw py::value_error("begins must ascend and lie in 0..the size of columns");
    task.begins = room.data;
    for_each_list_by(own.size, n_threads, [&] {
        return [one = std::make_unique<LargestProducts>(task)](int64_t at) { one->solve(at); };
    });
}

inline void bind_links(py::module_& m) {
    using namespace pybind11::literals;
    m.def("regress", regress, py::kw_only(), "rows"_a, "users"_a, "near"_a, "diagonal"_a, "place"_a,
          "common"_a, "out"_a, "failed"_a, "n_threads"_a);
    m.def("largest_products", largest_products, py::kw_only(), "left"_a, "right"_a, "rows"_a,
          "most"_a, "divisor"_a, "is_signed"_a, "n_columns"_a, "begins"_a, "columns"_a, "values"_a,
          "counts"_a, "n_threads"_a);
}

}  // namespace mfrank
