// Python bindings of top-K and of the sketches that it may read.
#pragma once

#include "bindings/views.h"

namespace mfrank {

// A checked view of lists given as (indptr, indices).
template <class T>
Csr<T> lists_view(const py::object& rows, int64_t n_columns, int n_threads) {
    const auto pair = rows.cast<py::tuple>();
    if (pair.size() != 2) throw py::value_error("rows must be (indptr, indices)");
    return csr_view<T>(pair[0], pair[1], py::none(), n_columns, n_threads);
}

// A checked view of a sketch, padded to whole blocks; see kernels/topk/sketch.h.
template <class Codes, class Numbers>
struct SketchView {
    Codes* codes;
    Numbers *scales, *rooms;
    SketchView(const py::tuple& parts, int64_t n_items, int64_t k) {
        constexpr int64_t LINE = 64;
        if (parts.size() != 3) throw py::value_error("sketch must be (codes, scales, rooms)");
        const int64_t n = (n_items + SKETCH_BLOCK - 1) / SKETCH_BLOCK * SKETCH_BLOCK;
        codes = Vector<Codes>(parts[0], "codes", n * ((k + 3) / 4 * 4)).data;
        if (n * k > 0 && reinterpret_cast<uintptr_t>(codes) % LINE != 0)
            throw py::value_error("codes must begin on a cache line");
        scales = Vector<Numbers>(parts[1], "scales", n).data;
        rooms = Vector<Numbers>(parts[2], "rooms", n).data;
    }
};

template <class T>
void top_k(const py::object& queries, const py::object& items, const py::object& item_bias,
           const py::object& shelves, const py::object& sketch, const py::object& lengths,
           const py::object& allowed, const py::object& exclude, const py::object& ids,
           const py::object& scores, int n_threads) {
    const Matrix<const T> right(items, "items");
    const Matrix<const T> left(queries, "queries", ANY_SIZE, right.columns);
    const Matrix<int32_t> listed(ids, "ids", left.rows);
    TopKTask<T> task{};
    task.queries = left.data, task.n_queries = left.rows;
    task.items = right.data, task.k = right.columns;
    if (!item_bias.is_none()) task.bias = Vector<const T>(item_bias, "item_bias", right.rows).data;
    const int64_t every[] = {0, right.rows};
    if (sketch.is_none()) {
        task.shelves = lists_view<T>(shelves, right.rows, n_threads);
    } else {
        if (!shelves.is_none() || !lengths.is_none())
            throw py::value_error("shelves and lengths must be None if a sketch is given");
        const SketchView<const int8_t, const float> parts(sketch, right.rows, right.columns);
        task.sketch = {parts.codes, parts.scales, parts.rooms};
        task.shelves = {1, right.rows, every, nullptr, nullptr};
    }
    if (task.shelves.n_rows != 1 || !lengths.is_none())
        check_size("shelves", task.shelves.n_rows, lengths.is_none() ? left.rows : 1, "rows");
    if (!lengths.is_none())
        task.lengths = Vector<const double>(lengths, "lengths", task.shelves.indptr[1]).data;
    if (!allowed.is_none())
        task.allowed = Vector<const bool>(allowed, "allowed", right.rows).data;
    if (!exclude.is_none()) {
        task.exclude = lists_view<T>(exclude, right.rows, n_threads);
        check_size("exclude", task.exclude.n_rows, left.rows, "rows");
    }
    task.count = listed.columns, task.ids = listed.data;
    task.scores = Matrix<T>(scores, "scores", left.rows, listed.columns).data;
    task.n_threads = n_threads;
    if (task.n_queries > 0 && task.count > 0) chosen_kernels<T>().topk.top_k(task);
}

template <class T>
void sketch(const py::object& items, const py::tuple& parts, int n_threads) {
    const Matrix<const T> rows(items, "items");
    const SketchView<int8_t, float> to(parts, rows.rows, rows.columns);
    chosen_kernels<T>().topk.sketch(rows.data, rows.rows, rows.columns, n_threads, to.codes,
                                    to.scales, to.rooms);
}

inline void bind_topk(py::module_& m) {
    using namespace pybind11::literals;

    m.def(
        "top_k",
        [](const py::object& queries, const py::object& items, const py::object& item_bias,
           const py::object& shelves, const py::object& sketch, const py::object& lengths,
           const py::object& allowed, const py::object& exclude, const py::object& ids,
           const py::object& scores, int n_threads) {
            const auto run = is_double(items, "items") ? top_k<double> : top_k<float>;
            run(queries, items, item_bias, shelves, sketch, lengths, allowed, exclude, ids, scores,
                n_threads);
        },
        py::kw_only(), "queries"_a, "items"_a, "item_bias"_a, "shelves"_a, "sketch"_a,
        "lengths"_a, "allowed"_a = py::none(), "exclude"_a, "ids"_a, "scores"_a,
        "n_threads"_a);

    m.def(
        "sketch",
        [](const py::object& items, const py::tuple& parts, int n_threads) {
            (is_double(items, "items") ? sketch<double> : sketch<float>)(items, parts, n_threads);
        },
        "items"_a, "parts"_a, "n_threads"_a);
}

}  // namespace mfrank
