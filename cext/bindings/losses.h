// Python bindings of the inner loops of ranking losses.
#pragma once

#include "bindings/views.h"

namespace mfrank {

inline Ramp ramp_named(const std::string& name) {
    if (name == "hinge") return Ramp::hinge;
    if (name == "squared_hinge") return Ramp::squared_hinge;
    if (name == "sigmoid") return Ramp::sigmoid;
    if (name == "softplus") return Ramp::softplus;
    throw py::value_error("ramp must be hinge, squared_hinge, sigmoid or softplus; got '" +
                          name + "'");
}

template <class T>
RampTask<T> ramp_task(const std::string& ramp, const py::object& scores, const py::object& weights,
                      const py::object& thresholds, int n_threads) {
    const Matrix<const T> places(scores, "scores");
    const Matrix<const T> over(thresholds, "thresholds", places.rows);
    return {ramp_named(ramp), places.data,
            Matrix<const T>(weights, "weights", places.rows, places.columns).data,
            over.data, places.rows, places.columns, over.columns, n_threads};
}

template <class T>
void sum_ramps(const std::string& ramp, const py::object& scores, const py::object& weights,
               const py::object& thresholds, const py::object& sums, const py::object& gradients,
               int n_threads) {
    const RampTask<T> task = ramp_task<T>(ramp, scores, weights, thresholds, n_threads);
    const int64_t n = task.n_lists, m = task.n_thresholds;
    chosen_kernels<T>().losses.sum_ramps(task, Matrix<T>(sums, "sums", n, m).data,
                                         Matrix<T>(gradients, "gradients", n, m).data);
}

template <class T>
void push_ramps(const std::string& ramp, const py::object& scores, const py::object& weights,
                const py::object& thresholds, const py::object& by_sums, const py::object& out,
                int n_threads) {
    const RampTask<T> task = ramp_task<T>(ramp, scores, weights, thresholds, n_threads);
    const Matrix<const T> pushing(by_sums, "by_sums", task.n_lists, task.n_thresholds);
    chosen_kernels<T>().losses.push_ramps(task, pushing.data,
                                          Matrix<T>(out, "out", task.n_lists, task.n_places).data);
}

template <class T>
void row_hinges(const py::object& scores, const py::object& thresholds,
                const py::object& row_weights, const py::object& weights, const py::object& sums,
                const py::object& slope_sums, const py::object& gradients, int n_threads) {
    const Rows<T> places(scores, "scores");
    const int64_t n_lists = places.lists, m = places.rows, n = places.columns;
    const RowHingeTask<T> task{places.data,
                               places.list_step,
                               places.row_step,
                               Matrix<const T>(thresholds, "thresholds", n_lists, m).data,
                               Matrix<const T>(row_weights, "row_weights", n_lists, m).data,
                               Matrix<const T>(weights, "weights", n_lists, n).data,
                               n_lists,
                               m,
                               n,
                               n_threads};
    const py::array to = checked<T>(gradients, "gradients", 3);
    check_size("gradients", to.shape(0), n_lists, "lists");
    check_size("gradients", to.shape(1), m, "rows");
    check_size("gradients", to.shape(2), n, "columns");
    chosen_kernels<T>().losses.row_hinges(task, Matrix<T>(sums, "sums", n_lists, m).data,
                                          Matrix<T>(slope_sums, "slope_sums", n_lists, m).data,
                                          static_cast<T*>(const_cast<void*>(to.data())));
}

template <class T>
HingeTask<T> hinge_task(const py::object& scores, const py::object& weights,
                        const py::object& thresholds, const py::object& order,
                        const py::object& reached, int n_threads) {
    const Matrix<const T> places(scores, "scores");
    const int64_t n_lists = places.rows, n = places.columns;
    const Matrix<const T> over(thresholds, "thresholds", n_lists);
    const HingeTask<T> task{places.data,
                            Matrix<const T>(weights, "weights", n_lists, n).data,
                            over.data,
                            n_lists,
                            n,
                            over.columns,
                            Matrix<int32_t>(order, "order", n_lists, over.columns).data,
                            Matrix<int32_t>(reached, "reached", n_lists, n).data,
                            n_threads};
    if (std::max(n, over.columns) > std::numeric_limits<int32_t>::max())
        throw py::value_error("scores and thresholds must have fewer than 2^31 columns");
    return task;
}

template <class T>
void sum_sorted_hinges(const py::object& scores, const py::object& weights,
                       const py::object& thresholds, const py::object& order,
                       const py::object& reached, const py::object& sums,
                       const py::object& gradients, int n_threads) {
    const auto task = hinge_task<T>(scores, weights, thresholds, order, reached, n_threads);
    const int64_t n = task.n_lists, m = task.n_thresholds;
    chosen_kernels<T>().losses.sum_sorted_hinges(task, Matrix<T>(sums, "sums", n, m).data,
                                                 Matrix<T>(gradients, "gradients", n, m).data);
}

template <class T>
void push_sorted_hinges(const py::object& scores, const py::object& weights,
                        const py::object& thresholds, const py::object& order,
                        const py::object& reached, const py::object& by_sums,
                        const py::object& out, int n_threads) {
    const auto task = hinge_task<T>(scores, weights, thresholds, order, reached, n_threads);
    const int64_t n = task.n_lists, m = task.n_thresholds;
    const int64_t size = n * task.n_places;
    if (std::any_of(task.order, task.order + n * m, [m](int32_t t) { return t >= m; }) ||
        std::any_of(task.reached, task.reached + size, [](int32_t r) { return r < 0; }))
        throw py::index_error("order and reached must be as sum_sorted_hinges returned them");
    chosen_kernels<T>().losses.push_sorted_hinges(task,
                                                  Matrix<const T>(by_sums, "by_sums", n, m).data,
                                                  Matrix<T>(out, "out", n, task.n_places).data);
}

template <class T>
void pairs(const py::object& scores, const py::object& gains, const py::object& filled,
           const py::object& scales, double steepness, const py::object& gradients,
           const py::object& losses, int n_threads) {
    const Matrix<const T> places(scores, "scores");
    const int64_t n_lists = places.rows, n = places.columns;
    const Matrix<const T> positives(gains, "gains", n_lists);
    if (positives.columns > n) throw py::value_error("gains must have no more columns than scores");
    PairTask<T> task{places.data, positives.data,
                     Matrix<const T>(filled, "filled", n_lists, n).data,
                     nullptr, n_lists, n, positives.columns, T(steepness), n_threads};
    if (!scales.is_none()) task.scales = Vector<const double>(scales, "scales", n_lists).data;
    chosen_kernels<T>().losses.pairs(task, Matrix<T>(gradients, "gradients", n_lists, n).data,
                                     Vector<T>(losses, "losses", n_lists).data);
}

template <class T>
void top_thresholds(const py::object& scores, const py::object& weights, const py::object& shares,
                    const py::object& thresholds, double smoothing_1, double smoothing_2,
                    int n_threads) {
    const Matrix<const T> places(scores, "scores");
    const int64_t n_lists = places.rows, n = places.columns;
    const TopTask<T> task{places.data, Matrix<const T>(weights, "weights", n_lists, n).data,
                          n_lists, n, smoothing_1, smoothing_2, n_threads};
    chosen_kernels<T>().losses.top_thresholds(
        task, Vector<const double>(shares, "shares", n_lists).data,
        Vector<double>(thresholds, "thresholds", n_lists).data);
}

template <class T>
void softmax(const py::object& scores, const py::object& filled, const py::object& less,
             const py::object& totals, const py::object& out, int n_threads) {
    const Matrix<const T> places(scores, "scores");
    const int64_t n_lists = places.rows, n = places.columns;
    SoftmaxTask<T> task{places.data, Matrix<const bool>(filled, "filled", n_lists, n).data,
                        nullptr, n, n_lists, n, n_threads};
    if (!less.is_none()) {
        const Matrix<const T> given(less, "less", ANY_SIZE, n);
        if (given.rows != 1) check_size("less", given.rows, n_lists, "rows");
        else task.less_stride = 0;
        task.less = given.data;
    }
    chosen_kernels<T>().losses.softmax(task, Vector<T>(totals, "totals", n_lists).data,
                                       Matrix<T>(out, "out", n_lists, n).data);
}

template <class T>
void project(const py::object& scores, const py::object& filled, const py::object& tops,
             const py::object& values, const py::object& out, int n_threads) {
    const Matrix<const T> places(scores, "scores");
    const int64_t n_lists = places.rows, n = places.columns;
    const SoftmaxTask<T> task{places.data, Matrix<const bool>(filled, "filled", n_lists, n).data,
                              nullptr, 0, n_lists, n, n_threads};
    chosen_kernels<T>().losses.project(task, Vector<T>(tops, "tops", n_lists).data,
                                       Vector<T>(values, "values", n_lists).data,
                                       Matrix<T>(out, "out", n_lists, n).data);
}

inline Above above_of(const std::string& name) {
    if (name == "nothing") return Above::nothing;
    if (name == "count") return Above::count;
    if (name == "chance") return Above::chance;
    throw py::value_error("above must be nothing, count or chance; got '" + name + "'");
}

template <class T>
void smoothed(const py::object& centers, const py::object& noise, const py::object& worths,
              const py::object& filled, const py::object& whole, const py::object& weights,
              const std::string& above, double sigma, bool share, const py::object& gradients,
              const py::object& values, int n_threads) {
    const Matrix<const T> places(centers, "centers");
    const int64_t n_lists = places.rows, n = places.columns;
    const Vector<const T> of_places(weights, "weights");
    if (of_places.size < 1 || of_places.size > n || n > std::numeric_limits<int32_t>::max())
        throw py::value_error("weights must have 1 to n_places elements, n_places below 2^31");
    const SmoothedTask<T> task{
        places.data, Matrix<const T>(noise, "noise", n_lists, n).data,
        Matrix<const T>(worths, "worths", n_lists, n).data,
        Matrix<const bool>(filled, "filled", n_lists, n).data,
        Vector<const T>(whole, "whole", n_lists).data, of_places.data, above_of(above), n_lists, n,
        of_places.size - 1, T(sigma), share, n_threads};
    chosen_kernels<T>().losses.smoothed(task, Matrix<T>(gradients, "gradients", n_lists, n).data,
                                        Vector<T>(values, "values", n_lists).data);
}

template <class T>
void soft_ndcg(const py::object& scores, const py::object& filled, const py::object& gains,
               const py::object& ideal, double temperature, int64_t rounds,
               const py::object& gradients, const py::object& losses, int n_threads) {
    const Matrix<const T> places(scores, "scores");
    const int64_t n_lists = places.rows, n = places.columns;
    const Matrix<const T> positives(gains, "gains", n_lists);
    if (rounds < 0 || rounds > std::numeric_limits<int32_t>::max())
        throw py::value_error("rounds must be at least 0 and below 2^31");
    chosen_kernels<T>().losses.soft_ndcg(
        {places.data, Matrix<const bool>(filled, "filled", n_lists, n).data, positives.data,
         Vector<const double>(ideal, "ideal", n_lists).data, n_lists, n, positives.columns,
         temperature, rounds, n_threads},
        Matrix<T>(gradients, "gradients", n_lists, n).data,
        Vector<T>(losses, "losses", n_lists).data);
}

inline void bind_losses(py::module_& m) {
    using namespace pybind11::literals;

    m.def(
        "smoothed",
        [](const py::object& centers, const py::object& noise, const py::object& worths,
           const py::object& filled, const py::object& whole, const py::object& weights,
           const std::string& above, double sigma, bool share, const py::object& gradients,
           const py::object& values, int n_threads) {
            const auto run = is_double(centers, "centers") ? smoothed<double> : smoothed<float>;
            run(centers, noise, worths, filled, whole, weights, above, sigma, share, gradients,
                values, n_threads);
        },
        "centers"_a, "noise"_a, "worths"_a, "filled"_a, "whole"_a, "weights"_a, "above"_a,
        "sigma"_a, "share"_a, "gradients"_a, "values"_a, "n_threads"_a);

    m.def(
        "soft_ndcg",
        [](const py::object& scores, const py::object& filled, const py::object& gains,
           const py::object& ideal, double temperature, int64_t rounds, const py::object& gradients,
           const py::object& losses, int n_threads) {
            const auto run = is_double(scores, "scores") ? soft_ndcg<double> : soft_ndcg<float>;
            run(scores, filled, gains, ideal, temperature, rounds, gradients, losses, n_threads);
        },
        "scores"_a, "filled"_a, "gains"_a, "ideal"_a, "temperature"_a, "rounds"_a, "gradients"_a,
        "losses"_a, "n_threads"_a);

    m.def(
        "sum_ramps",
        [](const std::string& ramp, const py::object& scores, const py::object& weights,
           const py::object& thresholds, const py::object& sums, const py::object& gradients,
           int n_threads) {
            const auto run = is_double(scores, "scores") ? sum_ramps<double> : sum_ramps<float>;
            run(ramp, scores, weights, thresholds, sums, gradients, n_threads);
        },
        "ramp"_a, "scores"_a, "weights"_a, "thresholds"_a, "sums"_a, "gradients"_a, "n_threads"_a);

    m.def(
        "push_ramps",
        [](const std::string& ramp, const py::object& scores, const py::object& weights,
           const py::object& thresholds, const py::object& by_sums, const py::object& out,
           int n_threads) {
            const auto run = is_double(scores, "scores") ? push_ramps<double> : push_ramps<float>;
            run(ramp, scores, weights, thresholds, by_sums, out, n_threads);
        },
        "ramp"_a, "scores"_a, "weights"_a, "thresholds"_a, "by_sums"_a, "out"_a, "n_threads"_a);

    m.def(
        "row_hinges",
        [](const py::object& scores, const py::object& thresholds, const py::object& row_weights,
           const py::object& weights, const py::object& sums, const py::object& slope_sums,
           const py::object& gradients, int n_threads) {
            (is_double(scores, "scores") ? row_hinges<double> : row_hinges<float>)(
                scores, thresholds, row_weights, weights, sums, slope_sums, gradients, n_threads);
        },
        py::kw_only(), "scores"_a, "thresholds"_a, "row_weights"_a, "weights"_a, "sums"_a,
        "slope_sums"_a, "gradients"_a, "n_threads"_a);

    m.def(
        "sum_sorted_hinges",
        [](const py::object& scores, const py::object& weights, const py::object& thresholds,
           const py::object& order, const py::object& reached, const py::object& sums,
           const py::object& gradients, int n_threads) {
            const auto run = is_double(scores, "scores") ? sum_sorted_hinges<double>
                                                         : sum_sorted_hinges<float>;
            run(scores, weights, thresholds, order, reached, sums, gradients, n_threads);
        },
        "scores"_a, "weights"_a, "thresholds"_a, "order"_a, "reached"_a, "sums"_a, "gradients"_a,
        "n_threads"_a);

    m.def(
        "push_sorted_hinges",
        [](const py::object& scores, const py::object& weights, const py::object& thresholds,
           const py::object& order, const py::object& reached, const py::object& by_sums,
           const py::object& out, int n_threads) {
            const auto run = is_double(scores, "scores") ? push_sorted_hinges<double>
                                                         : push_sorted_hinges<float>;
            run(scores, weights, thresholds, order, reached, by_sums, out, n_threads);
        },
        "scores"_a, "weights"_a, "thresholds"_a, "order"_a, "reached"_a, "by_sums"_a, "out"_a,
        "n_threads"_a);

    m.def(
        "pairs",
        [](const py::object& scores, const py::object& gains, const py::object& filled,
           const py::object& scales, double steepness, const py::object& gradients,
           const py::object& losses, int n_threads) {
            const auto run = is_double(scores, "scores") ? pairs<double> : pairs<float>;
            run(scores, gains, filled, scales, steepness, gradients, losses, n_threads);
        },
        "scores"_a, "gains"_a, "filled"_a, "scales"_a, "steepness"_a, "gradients"_a, "losses"_a,
        "n_threads"_a);

    m.def(
        "top_thresholds",
        [](const py::object& scores, const py::object& weights, const py::object& shares,
           const py::object& thresholds, double smoothing_1, double smoothing_2, int n_threads) {
            const auto run = is_double(scores, "scores") ? top_thresholds<double>
                                                         : top_thresholds<float>;
            run(scores, weights, shares, thresholds, smoothing_1, smoothing_2, n_threads);
        },
        "scores"_a, "weights"_a, "shares"_a, "thresholds"_a, "smoothing_1"_a, "smoothing_2"_a,
        "n_threads"_a);

    m.def(
        "project",
        [](const py::object& scores, const py::object& filled, const py::object& tops,
           const py::object& values, const py::object& out, int n_threads) {
            const auto run = is_double(scores, "scores") ? project<double> : project<float>;
            run(scores, filled, tops, values, out, n_threads);
        },
        "scores"_a, "filled"_a, "tops"_a, "values"_a, "out"_a, "n_threads"_a);

    m.def(
        "softmax",
        [](const py::object& scores, const py::object& filled, const py::object& less,
           const py::object& totals, const py::object& out, int n_threads) {
            const auto run = is_double(scores, "scores") ? softmax<double> : softmax<float>;
            run(scores, filled, less, totals, out, n_threads);
        },
        "scores"_a, "filled"_a, "less"_a, "totals"_a, "out"_a, "n_threads"_a);
}

}  // namespace mfrank
