// Python bindings of the random walks.
#pragma once

#include "bindings/views.h"

namespace mfrank {

// Checks that the parts, each of at least one row, partition the rows.
inline void check_partition(const char* name, const int64_t* begins, int64_t n, int64_t n_rows) {
    bool ascending = n >= 0 && begins[0] == 0;
    for (int64_t part = 0; ascending && part < n; ++part)
        ascending = begins[part] < begins[part + 1];
    if (!ascending || begins[n] != n_rows)
        throw py::value_error(std::string(name) +
                              " must increase strictly from 0 to the number of rows");
}

// Checks that entries lie in the columns of their row's block, so that blocks are independent.
template <class T>
void check_blocks(const WalkTask<T>& task) {
    check_partition("blocks", task.blocks, task.n_blocks, task.rows.n_rows);
    if (task.n_blocks == 1) return;
    std::atomic<bool> outside{false};
    for_each_list(task.n_blocks, task.n_threads, [&](int64_t b) {
        const int64_t first = task.blocks[b], last = task.blocks[b + 1];
        for (int64_t e = task.rows.indptr[first]; e < task.rows.indptr[last]; ++e)
            if (task.rows.indices[e] < first || task.rows.indices[e] >= last) outside = true;
    });
    if (outside) throw py::index_error("indices must lie in the columns of their row's block");
}

template <class T>
void walk(const py::tuple& rows, const py::object& blocks, const py::object& left,
          const py::object& right, const py::object& base, double scale, const py::object& x,
          int64_t n_steps, const py::object& tolerance, bool spread, const py::object& changes,
          const py::object& steps, int n_threads) {
    if (rows.size() != 3 || rows[2].is_none())
        throw py::value_error("rows must be (indptr, indices, data)");
    const Matrix<T> to(x, "x");
    const Vector<const int64_t> bounds(blocks, "blocks");
    const int64_t n = to.rows, n_blocks = bounds.size - 1;
    WalkTask<T> task{};
    task.rows = csr_view<T>(rows[0], rows[1], rows[2], n, n_threads);
    check_size("rows", task.rows.n_rows, n, "rows");
    if (left.is_none() != right.is_none()) 
        throw py::value_error("left and right must both be given or both be None");
    if (!left.is_none()) {
        const Matrix<const T> lefts(left, "left", n);
        if (lefts.columns != 1 && lefts.columns != to.columns)
            throw py::value_error("left must have one column, or as many as x");
        task.left = lefts.data, task.left_k = lefts.columns;
        task.right = Vector<const T>(right, "right", n).data;
    }
    task.blocks = bounds.data, task.n_blocks = n_blocks;
    task.base = Matrix<const T>(base, "base", n, to.columns).data;
    task.scale = T(scale), task.k = to.columns, task.x = to.data;
    if (n_steps < 0 || n_steps > std::numeric_limits<int32_t>::max())
        throw py::value_error("n_steps must lie in 0..2^31 - 1");
    task.n_steps = to.columns ? n_steps : 0, task.spread = spread, task.n_threads = n_threads;
    if (!tolerance.is_none())
        task.tolerance = Vector<const double>(tolerance, "tolerance", n_blocks).data;
    task.changes = Vector<double>(changes, "changes", n_blocks).data;
    task.steps = Vector<int64_t>(steps, "steps", n_blocks).data;
    check_blocks(task);
    chosen_kernels<T>().walks.walk(task);
}

// Checks that `order` is a permutation and `place` its inverse: every node has one row.
inline void check_order(const StationaryTask& task) {
    for (int64_t row = 0; row < task.rows.n_rows; ++row) {
        const int64_t node = task.order[row];
        if (node < 0 || node >= task.rows.n_rows || task.place[node] != row)
            throw py::value_error("order must be a permutation of nodes, and place its inverse");
    }
}

inline void stationary(const py::tuple& rows, const py::object& shares, const py::object& waves,
                       const py::object& order, const py::object& place, const py::tuple& starts,
                       const py::object& begin, double keep, double tolerance, int64_t n_steps,
                       const py::object& values, const py::object& errors, const py::object& steps,
                       bool rounded, int n_threads) {
    const Matrix<double> to(values, "values");
    const int64_t n = to.columns;
    const Vector<const int64_t> bounds(waves, "waves");
    StationaryTask task{};
    task.rows = csr_view<double>(rows[0], rows[1], rows[2], n, n_threads);
    check_size("rows", task.rows.n_rows, n, "rows");
    task.starts = csr_view<double>(starts[0], starts[1], starts[2], n, n_threads);
    if (!task.starts.data) throw py::value_error("starts must be (indptr, indices, data)");
    check_size("values", to.rows, task.starts.n_rows, "rows");
    task.shares = Vector<const double>(shares, "shares", n).data;
    task.waves = bounds.data, task.n_waves = bounds.size - 1;
    check_partition("waves", bounds.data, task.n_waves, n);
    task.order = Vector<const int64_t>(order, "order", n).data;
    task.place = Vector<const int64_t>(place, "place", n).data;
    check_order(task);
    if (!begin.is_none()) task.begin = Matrix<const double>(begin, "begin", to.rows, n).data;
    if (!(keep > 0 && keep < 1)) throw py::value_error("keep must lie in (0, 1)");
    if (n_steps < 1) throw py::value_error("n_steps must be at least 1");
    task.keep = keep, task.tolerance = tolerance, task.n_steps = n_steps;
    task.values = to.data, task.n_threads = n_threads;
    task.errors = Vector<double>(errors, "errors", to.rows).data;
    task.steps = Vector<int64_t>(steps, "steps", to.rows).data;
    rounded ? chosen_kernels<float>().walks.stationary(task)
            : chosen_kernels<double>().walks.stationary(task);
}

inline void bind_walk(py::module_& m) {
    using namespace pybind11::literals;
    m.def(
        "walk",
        [](const py::tuple& rows, const py::object& blocks, const py::object& left,
           const py::object& right, const py::object& base, double scale, const py::object& x,
           int64_t n_steps, const py::object& tolerance, bool spread, const py::object& changes,
           const py::object& steps, int n_threads) {
            const auto run = py::isinstance<py::array_t<float>>(x) ? walk<float> : walk<double>;
            run(rows, blocks, left, right, base, scale, x, n_steps, tolerance, spread, changes,
                steps, n_threads);
        },
        py::kw_only(), "rows"_a, "blocks"_a, "left"_a, "right"_a, "base"_a, "scale"_a, "x"_a,
        "n_steps"_a, "tolerance"_a, "spread"_a, "changes"_a, "steps"_a, "n_threads"_a);
    m.def("stationary", stationary, py::kw_only(), "rows"_a, "shares"_a, "waves"_a, "order"_a,
          "place"_a, "starts"_a, "begin"_a, "keep"_a, "tolerance"_a, "n_steps"_a, "values"_a,
          "errors"_a, "steps"_a, "rounded"_a, "n_threads"_a);
}

}  // namespace mfrank
