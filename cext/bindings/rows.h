// Python bindings of the half-steps of alternating least squares.
#pragma once

#include <algorithm>

#include "bindings/views.h"

namespace mfrank {

template <class T>
Cells<T> cells_view(const py::tuple& csr, const py::tuple& observed, bool users_are_rows,
                    int64_t n_columns, int n_threads) {
    if (csr.size() != 3 || observed.size() != 3)
        throw py::value_error(
            "rows must be (indptr, indices, data), observed a tuple of three terms");
    Cells<T> cells{csr_view<T>(csr[0], csr[1], csr[2], n_columns, n_threads), users_are_rows,
                   {}, {}, {}, true};
    const int64_t n_users = users_are_rows ? cells.rows.n_rows : n_columns;
    CellTerm* const terms[] = {&cells.curvature, &cells.pull, &cells.constant};
    for (size_t i = 0; i < 3; ++i) {
        const py::tuple term = observed[i];
        terms[i]->offset = Vector<const double>(term[0], "offset", n_users).data;
        terms[i]->slope = term[1].cast<double>();
        terms[i]->of_dislikes = term.size() > 2 ? term[2].cast<double>() : 0;
        const double* offset = terms[i]->offset;
        cells.users_are_alike &= std::all_of(offset, offset + n_users,
                                             [offset](double each) { return each == *offset; });
    }
    return cells;
}

inline Solver solver_named(const std::string& name) {
    if (name == "auto") return Solver::automatic;
    if (name == "cholesky") return Solver::cholesky;
    if (name == "cg") return Solver::conjugate_gradients;
    throw py::value_error("solver must be auto, cholesky or cg; got '" + name + "'");
}

inline SolveOptions options_of(const std::string& solver, int cg_steps, double cg_tolerance,
                               bool to_tolerance, int n_threads) {
    return {solver_named(solver), cg_steps, cg_tolerance, to_tolerance, n_threads};
}

// What the systems of a half-step have beside their entries, and where their solutions go.
template <class T>
HalfStep<T> systems(int64_t n_rows, const py::object& weight, const py::object& ridge,
                    const py::object& fixed, const py::object& eigenvalues,
                    const py::object& vector, const py::object& prior, const py::object& out,
                    const py::object& gain, const SolveOptions& options) {
    const Matrix<const T> factors(fixed, "fixed");
    const int64_t k = factors.columns;
    if (k == 0) throw py::value_error("fixed must have at least one column");
    HalfStep<T> task{};
    task.cells.rows.n_rows = n_rows, task.cells.rows.n_columns = factors.rows;
    task.weight = Vector<const double>(weight, "weight", n_rows).data;
    task.ridge = Vector<const double>(ridge, "ridge", n_rows).data;
    task.fixed = factors.data, task.k = k;
    task.eigenvalues = Vector<const double>(eigenvalues, "eigenvalues", k).data;
    task.vector = Vector<const double>(vector, "vector", k).data;
    if (!prior.is_none()) task.prior = Matrix<const T>(prior, "prior", n_rows, k).data;
    task.out = Matrix<T>(out, "out", n_rows, k).data;
    task.gain = Vector<double>(gain, "gain", n_rows).data;
    task.options = options;
    return task;
}

template <class T>
py::array_t<int64_t> solve_rows(HalfStep<T> task, const Cells<T>& cells, const py::object& start,
                                const py::object& turn) {
    const int64_t n_rows = cells.rows.n_rows, k = task.k;
    task.cells = cells;
    task.start = Matrix<const T>(start, "start", n_rows, k).data;
    if (!turn.is_none()) task.turn = Matrix<const T>(turn, "turn", k, k).data;
    const std::vector<int64_t> failed = chosen_kernels<T>().rows.solve_rows(task);
    return py::array_t<int64_t>(failed.size(), failed.data());
}

template <class T>
py::array_t<T> sum_rows(const py::tuple& csr, const py::tuple& observed, bool users_are_rows,
                        const py::object& fixed, bool curved, int n_threads) {
    const Matrix<const T> factors(fixed, "fixed");
    const int64_t k = factors.columns;
    if (k == 0) throw py::value_error("fixed must have at least one column");
    const auto cells = cells_view<T>(csr, observed, users_are_rows, factors.rows, n_threads);
    const RowKernels<T>& kernels = chosen_kernels<T>().rows;
    py::array_t<T> sums({cells.rows.n_rows, kernels.sums_size(k, curved)});
    kernels.sum_rows({cells, factors.data, k, curved, sums.mutable_data(), n_threads});
    return sums;
}

template <class T>
py::array_t<int64_t> solve_summed(const HalfStep<T>& task, bool curved, const py::object& sums) {
    const RowKernels<T>& kernels = chosen_kernels<T>().rows;
    const int64_t size = kernels.sums_size(task.k, curved);
    const Matrix<const T> known(sums, "sums", task.cells.rows.n_rows, size);
    const std::vector<int64_t> failed = kernels.solve_summed(task, curved, known.data);
    return py::array_t<int64_t>(failed.size(), failed.data());
}

inline py::array_t<int64_t> column_ranges(int64_t n_columns) {
    const int64_t n = n_column_ranges(n_columns);
    py::array_t<int64_t> bounds(n + 1);
    for (int64_t i = 0; i <= n; ++i) bounds.mutable_at(i) = column_range_begin(i, n_columns);
    return bounds;
}

template <class T>
void rotate(const py::object& factors, const py::object& basis, int64_t n_null,
            const py::object& out, int n_threads, const py::object& rows) {
    const Matrix<const T> f(factors, "factors");
    const T* columns = Matrix<const T>(basis, "basis", f.columns, f.columns).data;
    if (n_null < 0 || n_null > f.columns) throw py::value_error("n_null must lie in 0..K");
    const int64_t* chosen = nullptr;
    int64_t n_rows = f.rows;
    if (!rows.is_none()) {
        const Vector<const int64_t> numbers(rows, "rows");
        chosen = numbers.data, n_rows = numbers.size;
        if (std::any_of(chosen, chosen + n_rows, [&](int64_t r) { return r < 0 || r >= f.rows; }))
            throw py::value_error("rows must lie in 0.." + std::to_string(f.rows - 1));
    }
    const Matrix<T> to(out, "out", n_rows, f.columns);
    chosen_kernels<T>().rows.rotate(
        {f.data, columns, chosen, n_rows, f.columns, n_null, to.data, n_threads});
}

template <class T>
void extrapolate(const py::object& solved, double weight, const py::object& before,
                 const py::object& basis, const py::object& displacements, const py::object& turn,
                 int n_threads) {
    const Matrix<T> s(solved, "solved");
    const int64_t n_rows = s.rows, k = s.columns;
    const Matrix<Half<T>> moved(displacements, "displacements", n_rows, k);
    const Matrix<const T> old(before, "before", n_rows, k);
    const Matrix<const T> by(basis, "basis", k, k), turned(turn, "turn", k, k);
    chosen_kernels<T>().rows.extrapolate({s.data, moved.data, old.data, by.data, turned.data,
                                          n_rows, k, T(weight), n_threads});
}

template <class T>
py::tuple gram(const py::object& factors, const py::object& weights, int n_threads) {
    const Matrix<const T> f(factors, "factors");
    const Vector<const double> w(weights, "weights", f.rows);
    py::array_t<double> matrix({f.columns, f.columns}), vector(f.columns);
    chosen_kernels<T>().rows.gram({f.data, w.data, f.rows, f.columns, matrix.mutable_data(),
                                   vector.mutable_data(), n_threads});
    return py::make_tuple(matrix, vector);
}

template <class T>
double observed_value(const py::tuple& csr, const py::tuple& observed, bool users_are_rows,
                      const py::object& row_factors, const py::object& fixed, int n_threads) {
    const Matrix<const T> right(fixed, "fixed");
    const auto cells = cells_view<T>(csr, observed, users_are_rows, right.rows, n_threads);
    const Matrix<const T> left(row_factors, "row_factors", cells.rows.n_rows, right.columns);
    return chosen_kernels<T>().rows.observed_value(
        {cells, left.data, right.data, right.columns, n_threads});
}

inline void bind_rows(py::module_& m) {
    using namespace pybind11::literals;
    m.def(
        "solve_rows",
        [](const py::tuple& rows, const py::tuple& observed, bool users_are_rows,
           const py::object& weight, const py::object& ridge, const py::object& fixed,
           const py::object& eigenvalues, const py::object& vector, const py::object& prior,
           const py::object& start, const py::object& turn, const py::object& out,
           const py::object& gain, const std::string& solver, int cg_steps, double cg_tolerance,
           bool to_tolerance, int n_threads) {
            const auto options =
                options_of(solver, cg_steps, cg_tolerance, to_tolerance, n_threads);
            const auto run = [&](auto zero) {
                using T = decltype(zero);
                const int64_t n_columns = Matrix<const T>(fixed, "fixed").rows;
                const auto cells =
                    cells_view<T>(rows, observed, users_are_rows, n_columns, n_threads);
                return solve_rows(systems<T>(cells.rows.n_rows, weight, ridge, fixed, eigenvalues,
                                             vector, prior, out, gain, options),
                                  cells, start, turn);
            };
            return is_double(fixed, "fixed") ? run(double{}) : run(float{});
        },
        py::kw_only(), "rows"_a, "observed"_a, "users_are_rows"_a, "weight"_a, "ridge"_a,
        "fixed"_a, "eigenvalues"_a, "vector"_a, "prior"_a = py::none(), "start"_a, "turn"_a,
        "out"_a, "gain"_a, "solver"_a, "cg_steps"_a, "cg_tolerance"_a, "to_tolerance"_a,
        "n_threads"_a);

    m.def(
        "summed_from",
        [](bool in_float64, int64_t k, const std::string& solver, int cg_steps,
           double cg_tolerance, bool to_tolerance, bool curved) {
            const auto options = options_of(solver, cg_steps, cg_tolerance, to_tolerance, 0);
            return in_float64 ? chosen_kernels<double>().rows.summed_from(options, k, curved)
                              : chosen_kernels<float>().rows.summed_from(options, k, curved);
        },
        py::kw_only(), "in_float64"_a, "k"_a, "solver"_a, "cg_steps"_a, "cg_tolerance"_a,
        "to_tolerance"_a, "curved"_a);

    m.def("column_ranges", column_ranges, "n_columns"_a);

    m.def(
        "sum_rows",
        [](const py::tuple& rows, const py::tuple& observed, bool users_are_rows,
           const py::object& fixed, bool curved, int n_threads) -> py::array {
            if (is_double(fixed, "fixed"))
                return sum_rows<double>(rows, observed, users_are_rows, fixed, curved, n_threads);
            return sum_rows<float>(rows, observed, users_are_rows, fixed, curved, n_threads);
        },
        py::kw_only(), "rows"_a, "observed"_a, "users_are_rows"_a, "fixed"_a, "curved"_a,
        "n_threads"_a);

    m.def(
        "solve_summed",
        [](const py::object& sums, bool curved, const py::object& weight, const py::object& ridge,
           const py::object& fixed, const py::object& eigenvalues, const py::object& vector,
           const py::object& prior, const py::object& out, const py::object& gain,
           int n_threads) {
            const SolveOptions options{Solver::cholesky, 0, 0, false, n_threads};
            const auto run = [&](auto zero) {
                using T = decltype(zero);
                const int64_t n_rows = Matrix<const T>(sums, "sums").rows;
                return solve_summed(systems<T>(n_rows, weight, ridge, fixed, eigenvalues, vector,
                                               prior, out, gain, options),
                                    curved, sums);
            };
            return is_double(fixed, "fixed") ? run(double{}) : run(float{});
        },
        py::kw_only(), "sums"_a, "curved"_a, "weight"_a, "ridge"_a, "fixed"_a, "eigenvalues"_a,
        "vector"_a, "prior"_a = py::none(), "out"_a, "gain"_a, "n_threads"_a);

    m.def(
        "rotate",
        [](const py::object& factors, const py::object& basis, int64_t n_null,
           const py::object& out, int n_threads, const py::object& rows) {
            const auto run = is_double(factors, "factors") ? rotate<double> : rotate<float>;
            run(factors, basis, n_null, out, n_threads, rows);
        },
        "factors"_a, "basis"_a, "n_null"_a, "out"_a, "n_threads"_a, "rows"_a = py::none());

    m.def(
        "extrapolate",
        [](const py::object& solved, double weight, const py::object& before,
           const py::object& basis, const py::object& displacements, const py::object& turn,
           int n_threads) {
            const auto run =
                is_double(solved, "solved") ? extrapolate<double> : extrapolate<float>;
            run(solved, weight, before, basis, displacements, turn, n_threads);
        },
        "solved"_a, "weight"_a, "before"_a, "basis"_a, "displacements"_a, "turn"_a,
        "n_threads"_a);

    m.def(
        "gram",
        [](const py::object& factors, const py::object& weights, int n_threads) {
            return (is_double(factors, "factors") ? gram<double> : gram<float>)(factors, weights,
                                                                                n_threads);
        },
        "factors"_a, "weights"_a, "n_threads"_a);

    m.def(
        "observed_value",
        [](const py::tuple& rows, const py::tuple& observed, bool users_are_rows,
           const py::object& row_factors, const py::object& fixed, int n_threads) {
            const auto run =
                is_double(fixed, "fixed") ? observed_value<double> : observed_value<float>;
            return run(rows, observed, users_are_rows, row_factors, fixed, n_threads);
        },
        py::kw_only(), "rows"_a, "observed"_a, "users_are_rows"_a, "row_factors"_a, "fixed"_a,
        "n_threads"_a);
}

}  // namespace mfrank
