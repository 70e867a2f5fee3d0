// Python bindings of the kernels over lists: draws, scores, sums, and updates of rows.
#pragma once

#include "bindings/views.h"
#include "host/group.h"

namespace mfrank {

// Lists of items and their queries, which may be an output array. Kernels check the ids when they
// read them.
template <class T>
ListTask<T> lists_of(const Matrix<const T>& items, const Matrix<T>& queries, const py::object& ids,
                     int n_threads) {
    const Matrix<const int64_t> places(ids, "ids");
    check_size("queries", queries.columns, items.columns, "columns");
    if (std::max(places.rows, places.columns) > std::numeric_limits<int32_t>::max())
        throw py::value_error("ids must have fewer than 2^31 rows and columns");
    const int64_t width = places.rows ? queries.rows / places.rows : 0;
    if (queries.rows != width * places.rows)
        throw py::value_error("queries must have a multiple of the rows of ids, got " +
                              std::to_string(queries.rows) + " rows for " +
                              std::to_string(places.rows));
    return {items.data,    queries.data, items.rows,     places.rows, width,
            items.columns, places.data,  places.columns, n_threads};
}

template <class T>
void score(const py::object& queries, const py::object& items, const py::object& ids,
           const py::object& out, bool distances, int n_threads) {
    const Matrix<const T> left(queries, "queries"), right(items, "items");
    const ListTask<T> task =
        lists_of<T>(right, {const_cast<T*>(left.data), left.rows, left.columns}, ids, n_threads);
    chosen_kernels<T>().lists.score(task, distances,
                                    Matrix<T>(out, "out", left.rows, task.n_places).data);
}

template <class T>
void sum_items(const py::object& items, const py::object& ids, const py::object& gradients,
               const py::object& out, int n_threads) {
    const Matrix<const T> right(items, "items");
    const Matrix<T> to(out, "out");
    const ListTask<T> task = lists_of<T>(right, to, ids, n_threads);
    const Matrix<const T> numbers(gradients, "gradients", to.rows, task.n_places);
    chosen_kernels<T>().lists.sum_items(task, numbers.data, to.data);
}

template <class T>
py::tuple sum_queries(const py::object& queries, int64_t n_items, const py::object& ids,
                      const py::object& gradients, int n_threads) {
    const Matrix<const T> left(queries, "queries");
    const Matrix<const T> items{nullptr, n_items, left.columns};
    const ListTask<T> task =
        lists_of<T>(items, {const_cast<T*>(left.data), left.rows, left.columns}, ids, n_threads);
    const Matrix<const T> numbers(gradients, "gradients", left.rows, task.n_places);
    const auto sum = [&task](const std::vector<int64_t>& items, const auto& kernel) {
        const auto n = static_cast<py::ssize_t>(items.size());
        py::array_t<T> sums({n, static_cast<py::ssize_t>(task.k)}), totals(n);
        kernel(sums.mutable_data(), totals.mutable_data());
        return py::make_tuple(py::array_t<int64_t>(n, items.data()), sums, totals);
    };
    if (task.width == 1) {
        const Grouped<T> grouped = group_by_item(task, numbers.data);
        return sum(grouped.touched, [&](T* sums, T* totals) {
            chosen_kernels<T>().lists.sum_queries(task, grouped, sums, totals);
        });
    }
    const Ranked ranked = rank_items(task, numbers.data);
    return sum(ranked.touched, [&](T* sums, T* totals) {
        chosen_kernels<T>().lists.sum_queries_of_lists(task, ranked, numbers.data, sums, totals);
    });
}

// Row numbers of a table with n rows, checked to be in range and distinct.
inline Vector<const int64_t> rows_of_table(const py::object& rows, int64_t n) {
    const Vector<const int64_t> given(rows, "rows");
    std::vector<bool> seen(n);
    for (int64_t i = 0; i < given.size; ++i) {
        const int64_t row = given.data[i];
        if (row < 0 || row >= n || seen[row])
            throw py::index_error("rows must be distinct and lie in [0, " + std::to_string(n) +
                                  ")");
        seen[row] = true;
    }
    return given;
}

template <class T>
void adam(const py::object& table, const py::object& rows, const py::object& gradients,
          const py::object& means, const py::object& squares, const py::object& updates,
          double learning_rate, double decay_1, double decay_2, double epsilon, int n_threads) {
    const Matrix<T> weights(table, "table");
    const int64_t n = weights.rows, k = weights.columns;
    const Vector<const int64_t> touched = rows_of_table(rows, n);
    chosen_kernels<T>().lists.adam(
        {weights.data, Matrix<T>(means, "means", n, k).data,
         Matrix<T>(squares, "squares", n, k).data, Vector<int64_t>(updates, "updates", n).data, k,
         touched.data, Matrix<const T>(gradients, "gradients", touched.size, k).data, touched.size,
         learning_rate, decay_1, decay_2, epsilon, n_threads});
}

template <class T>
RowsTask<T> rows_task(const py::object& table, const py::object& rows, int n_threads) {
    const Matrix<T> weights(table, "table");
    const Vector<const int64_t> given = rows_of_table(rows, weights.rows);
    return {weights.data, weights.columns, given.data, given.size, n_threads};
}

template <class T>
void tangent(const py::object& table, const py::object& rows, const py::object& sums,
           int n_threads) {
    const RowsTask<T> task = rows_task<T>(table, rows, n_threads);
    chosen_kernels<T>().lists.tangent(task, Matrix<T>(sums, "sums", task.n_rows, task.k).data);
}

template <class T>
void ball_gradients(const py::object& table, const py::object& rows, const py::object& totals,
          const py::object& sums, int n_threads) {
    const RowsTask<T> task = rows_task<T>(table, rows, n_threads);
    chosen_kernels<T>().lists.ball_gradients(
        task, Vector<const T>(totals, "totals", task.n_rows).data,
        Matrix<T>(sums, "sums", task.n_rows, task.k).data);
}

// Checks only the users' rows, because nothing else of the matrix is read.
inline DrawTask draw_task(const py::object& indptr, const py::object& indices, int64_t n_columns,
                          const py::object& users, int64_t n_places, uint64_t key, int n_threads) {
    const Vector<const int64_t> offsets(indptr, "indptr"), lists(users, "users");
    const Vector<const int32_t> columns(indices, "indices");
    const int64_t n_rows = offsets.size - 1;
    for (int64_t i = 0; i < lists.size; ++i) {
        const int64_t user = lists.data[i];
        if (user < 0 || user >= n_rows)
            throw py::index_error("users must lie in [0, " + std::to_string(n_rows) + ")");
        const int64_t begin = offsets.data[user], end = offsets.data[user + 1];
        if (begin < 0 || begin > end || end > columns.size)
            throw py::value_error(
                "indptr must be non-decreasing and lie in 0..the number of indices");
    }
    return {{n_rows, n_columns, offsets.data, columns.data, nullptr},
            lists.data, lists.size, n_places, key, nullptr, nullptr, n_threads};
}

inline void bind_lists(py::module_& m) {
    using namespace pybind11::literals;

    m.def(
        "score",
        [](const py::object& queries, const py::object& items, const py::object& ids,
           const py::object& out, bool distances, int n_threads) {
            (is_double(items, "items") ? score<double> : score<float>)(queries, items, ids, out,
                                                                       distances, n_threads);
        },
        "queries"_a, "items"_a, "ids"_a, "out"_a, "distances"_a, "n_threads"_a);

    m.def(
        "sum_items",
        [](const py::object& items, const py::object& ids, const py::object& gradients,
           const py::object& out, int n_threads) {
            const auto run = is_double(items, "items") ? sum_items<double> : sum_items<float>;
            run(items, ids, gradients, out, n_threads);
        },
        "items"_a, "ids"_a, "gradients"_a, "out"_a, "n_threads"_a);

    m.def(
        "sum_queries",
        [](const py::object& queries, int64_t n_items, const py::object& ids,
           const py::object& gradients, int n_threads) {
            const auto run =
                is_double(queries, "queries") ? sum_queries<double> : sum_queries<float>;
            return run(queries, n_items, ids, gradients, n_threads);
        },
        "queries"_a, "n_items"_a, "ids"_a, "gradients"_a, "n_threads"_a);

    m.def(
        "adam",
        [](const py::object& table, const py::object& rows, const py::object& gradients,
           const py::object& means, const py::object& squares, const py::object& updates,
           double learning_rate, double decay_1, double decay_2, double epsilon, int n_threads) {
            (is_double(table, "table") ? adam<double> : adam<float>)(
                table, rows, gradients, means, squares, updates, learning_rate, decay_1, decay_2,
                epsilon, n_threads);
        },
        py::kw_only(), "table"_a, "rows"_a, "gradients"_a, "means"_a, "squares"_a, "updates"_a,
        "learning_rate"_a, "decay_1"_a, "decay_2"_a, "epsilon"_a, "n_threads"_a);

    m.def(
        "tangent",
        [](const py::object& table, const py::object& rows, const py::object& sums,
           int n_threads) {
            (is_double(table, "table") ? tangent<double> : tangent<float>)(table, rows, sums,
                                                                           n_threads);
        },
        "table"_a, "rows"_a, "sums"_a, "n_threads"_a);

    m.def(
        "ball_gradients",
        [](const py::object& table, const py::object& rows, const py::object& totals,
           const py::object& sums, int n_threads) {
            const auto run =
                is_double(table, "table") ? ball_gradients<double> : ball_gradients<float>;
            run(table, rows, totals, sums, n_threads);
        },
        "table"_a, "rows"_a, "totals"_a, "sums"_a, "n_threads"_a);

    m.def(
        "project_rows",
        [](const py::object& table, const py::object& rows, bool in_ball, int n_threads) {
            if (is_double(table, "table"))
                chosen_kernels<double>().lists.project_rows(
                    rows_task<double>(table, rows, n_threads), in_ball);
            else
                chosen_kernels<float>().lists.project_rows(
                    rows_task<float>(table, rows, n_threads), in_ball);
        },
        "table"_a, "rows"_a, "in_ball"_a, "n_threads"_a);

    m.def(
        "normals",
        [](uint64_t key, const py::object& out, int n_threads) {
            if (is_double(out, "out")) {
                const Vector<double> to(out, "out");
                chosen_kernels<double>().losses.normals(key, to.size, n_threads, to.data);
            } else {
                const Vector<float> to(out, "out");
                chosen_kernels<float>().losses.normals(key, to.size, n_threads, to.data);
            }
        },
        "key"_a, "out"_a, "n_threads"_a);

    m.def(
        "draw_positives",
        [](const py::object& indptr, const py::object& indices, int64_t n_columns,
           const py::object& users, uint64_t key, const py::object& cells, int n_threads) {
            const Matrix<int64_t> to(cells, "cells");
            const DrawTask task =
                draw_task(indptr, indices, n_columns, users, to.columns, key, n_threads);
            check_size("cells", to.rows, task.n_lists, "rows");
            chosen_kernels<float>().lists.draw_positives(task, to.data);
        },
        py::kw_only(), "indptr"_a, "indices"_a, "n_columns"_a, "users"_a, "key"_a, "cells"_a,
        "n_threads"_a);

    m.def(
        "draw_negatives",
        [](const py::object& indptr, const py::object& indices, int64_t n_columns,
           const py::object& users, uint64_t key, const py::object& cumulative,
           const py::object& guide, int64_t rounds, const py::object& items,
           const py::object& filled, int n_threads) {
            const Matrix<int64_t> to(items, "items");
            DrawTask task =
                draw_task(indptr, indices, n_columns, users, to.columns, key, n_threads);
            check_size("items", to.rows, task.n_lists, "rows");
            if (n_columns < 1) throw py::value_error("n_columns must be at least 1");
            if (!cumulative.is_none()) {
                const Vector<const int64_t> places(guide, "guide", n_columns);
                task.cumulative = Vector<const double>(cumulative, "cumulative", n_columns).data;
                task.guide = places.data;
                if (!all_within(places.data, n_columns, n_columns))
                    throw py::index_error("guide must lie in [0, n_columns)");
            }
            chosen_kernels<float>().lists.draw_negatives(
                task, rounds, to.data, Matrix<bool>(filled, "filled", to.rows, to.columns).data);
        },
        py::kw_only(), "indptr"_a, "indices"_a, "n_columns"_a, "users"_a, "key"_a,
        "cumulative"_a, "guide"_a, "rounds"_a, "items"_a, "filled"_a, "n_threads"_a);
}

}  // namespace mfrank
