// Inner loops of ranking losses: the arguments and the table of their kernels.
#pragma once

#include <cstdint>

namespace mfrank {

enum class Ramp { hinge, squared_hinge, sigmoid, softplus };

// A ramp function of the differences between scores and thresholds.
template <class T>
struct RampTask {
    Ramp ramp;
    const T *scores, *weights;  // (n_lists, n_places)
    const T* thresholds;        // (n_lists, n_thresholds)
    int64_t n_lists, n_places, n_thresholds;
    int n_threads;
};

// Hinges of several rows of scores per list. Each row has a threshold and a weight; the weights of
// the places are shared by the rows of a list.
template <class T>
struct RowHingeTask {
    const T* scores;                          // (n_lists, n_rows, n_places)
    int64_t list_step, row_step;              // strides in elements
    const T *thresholds, *row_weights;        // (n_lists, n_rows)
    const T* weights;                         // (n_lists, n_places)
    int64_t n_lists, n_rows, n_places;
    int n_threads;
};

// Squared hinges of the differences between scores and thresholds; infinite thresholds are ignored.
template <class T>
struct HingeTask {
    const T *scores, *weights;  // (n_lists, n_places)
    const T* thresholds;        // (n_lists, n_thresholds)
    int64_t n_lists, n_places, n_thresholds;
    int32_t* order;             // (n_lists, n_thresholds), argsort of the finite ones, then -1
    int32_t* reached;           // (n_lists, n_places), number of thresholds <= the score
    int n_threads;
};

// Pairs of a positive, one of the first n_positives places, and a place of smaller gain.
template <class T>
struct PairTask {
    const T* scores;       // (n_lists, n_places)
    const T* gains;        // (n_lists, n_positives), 0 for padding
    const T* filled;       // (n_lists, n_places), 1, or 0 for padding
    const double* scales;  // (n_lists), scale of the pair weights; null: all pairs weigh the same
    int64_t n_lists, n_places, n_positives;
    T steepness;
    int n_threads;
};

// Thresholds such that a given weight of each list is above them, smoothed by smoothing_1.
template <class T>
struct TopTask {
    const T *scores, *weights;  // (n_lists, n_places)
    int64_t n_lists, n_places;
    double smoothing_1, smoothing_2;
    int n_threads;
};

// Softmax of lists, or their projection to the simplex; places that are not `filled` are padding.
template <class T>
struct SoftmaxTask {
    const T* scores;     // (n_lists, n_places)
    const bool* filled;  // (n_lists, n_places)
    const T* less;       // subtracted from the scores: a row per list, or one for all; or null
    int64_t less_stride; // from row to row of `less`
    int64_t n_lists, n_places;
    int n_threads;
};

// How the worths above a place scale its worth, as TopMetric.above (losses/sums/metric_jumps.py).
enum class Above { nothing, count, chance };

// A metric of the first places of lists whose scores are perturbed by noise.
template <class T>
struct SmoothedTask {
    const T *centers, *noise, *worths;  // (n_lists, n_places), noise 0 where not filled
    const bool* filled;                 // (n_lists, n_places)
    const T* whole;                     // (n_lists), the metric's denominator
    const T* weights;                   // (n_levels + 1), of the first places
    Above above;
    int64_t n_lists, n_places, n_levels;  // n_levels < n_places
    T sigma;
    bool share;  // whether to integrate over the noise that all other items share
    int n_threads;
};

// Lists to be sorted softly; their positives are the first n_positives places.
template <class T>
struct SoftTask {
    const T* scores;      // (n_lists, n_places)
    const bool* filled;   // (n_lists, n_places)
    const T* gains;       // (n_lists, n_positives)
    const double* ideal;  // (n_lists), DCG of the best order
    int64_t n_lists, n_places, n_positives;
    double temperature;
    int64_t rounds;  // of Sinkhorn's scaling
    int n_threads;
};

// The kernels of one instruction set and one type.
template <class T>
struct LossKernels {
    void (*sum_ramps)(const RampTask<T>&, T* sums, T* gradients);
    void (*push_ramps)(const RampTask<T>&, const T* by_sums, T* out);
    void (*row_hinges)(const RowHingeTask<T>&, T* sums, T* slope_sums, T* gradients);
    void (*sum_sorted_hinges)(const HingeTask<T>&, T* sums, T* gradients);
    void (*push_sorted_hinges)(const HingeTask<T>&, const T* by_sums, T* out);
    void (*pairs)(const PairTask<T>&, T* gradients, T* losses);
    void (*top_thresholds)(const TopTask<T>&, const double* shares, double* thresholds);
    void (*softmax)(const SoftmaxTask<T>&, T* totals, T* out);
    void (*project)(const SoftmaxTask<T>&, T* tops, T* values, T* out);
    void (*normals)(uint64_t key, int64_t n, int n_threads, T* out);
    void (*smoothed)(const SmoothedTask<T>&, T* gradients, T* values);
    void (*soft_ndcg)(const SoftTask<T>&, T* gradients, T* losses);
};

}  // namespace mfrank
