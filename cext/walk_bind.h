// The door of the random walks' kernel.
#pragma once

#include "bind.h"
#include "draw.h"

namespace mfrank {

template <class T>
Kernels<T> chosen_kernels();  // module.cpp

// Every entry lies in the columns of its row's block, so that blocks do not wait for each other.
template <class T>
void check_blocks(const WalkTask<T>& task) {
    bool ascending = task.n_blocks >= 0 && task.blocks[0] == 0;
    for (int64_t b = 0; ascending && b < task.n_blocks; ++b)
        ascending = task.blocks[b] < task.blocks[b + 1];
    if (!ascending || task.blocks[task.n_blocks] != task.rows.n_rows)
        throw py::value_error("blocks must ascend strictly from 0 to the number of rows");
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
    if (left.is_none() != right.is_none()) throw py::value_error("left and right go together");
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
    chosen_kernels<T>().walk(task);
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
}

}  // namespace mfrank
