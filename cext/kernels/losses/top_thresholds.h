// Smooth thresholds near the K-th largest scores of lists; see
// mfrank/losses/sums/ramps.py.

// The weight of a list that is softly above a threshold, and minus its derivative by the threshold.
template <class T>
struct SoftlyAbove {
    double weight, fall;

    SoftlyAbove(const TopTask<T>& task, const T* scores, const T* weights, double threshold) {
        const T at = T(threshold), scale = T(1 / task.smoothing_1);
        Vec<T> sum{}, gradients{};
        for (int64_t j = 0; j < task.n_places; j += W<T>) {
            Vec<T> value, slope;
            const Vec<T> part = up_to(weights + j, task.n_places - j);
            const Vec<T> lead = up_to(scores + j, task.n_places - j) - at;
            ramp_at<T>(Sigmoid{}, lead * scale, value, slope);
            sum += part * value, gradients += part * slope;
        }
        weight = sum_of<T>(sum), fall = sum_of<T>(gradients) / task.smoothing_1;
    }
};

// Newton's method in a bracket, from `start`, or from the bracket's middle if `start` is NaN.
template <class T>
static double top_threshold(const TopTask<T>& task, const T* scores, const T* weights,
                            double share, double start) {
    constexpr int STEPS = 60;        // as in ramps.py
    constexpr double BEYOND = 40, NEAR = 1e-9;
    constexpr double ROUNDING = std::numeric_limits<T>::epsilon();
    double lowest = std::numeric_limits<double>::infinity(), highest = -lowest, all = 0;
    for (int64_t j = 0; j < task.n_places; ++j) {
        if (weights[j] == 0) continue;
        lowest = std::min(lowest, double(scores[j]));
        highest = std::max(highest, double(scores[j]));
        all += weights[j];
    }
    double low = std::min(lowest - BEYOND * task.smoothing_1, (all - share) / task.smoothing_2);
    double high = std::max(highest + BEYOND * task.smoothing_1, -share / task.smoothing_2);
    double place = std::isnan(start) ? (low + high) / 2 : std::clamp(start, low, high);
    double last = high - low;
    for (int step = 0; step < STEPS; ++step) {
        const SoftlyAbove<T> above(task, scores, weights, place);
        const double slope = share + task.smoothing_2 * place - above.weight;
        (slope < 0 ? low : high) = place;
        const double ahead = place - slope / (task.smoothing_2 + above.fall);
        const bool near = std::abs(slope) <= ROUNDING ||
                          std::abs(ahead - place) <= std::max(NEAR * task.smoothing_1,
                                                              ROUNDING * std::abs(place));
        const bool trusted = low <= ahead && ahead <= high && 2 * std::abs(ahead - place) <= last;
        const double next = near || trusted ? ahead : (low + high) / 2;
        last = std::abs(next - place), place = next;
        if (near) break;
    }
    return place;
}

// `thresholds` are the starting points on entry.
template <class T>
static void top_thresholds(const TopTask<T>& task, const double* shares, double* thresholds) {
    const int64_t n = task.n_places;
    const int threads = threads_for(task.n_lists, 128.0 * n, task.n_threads);
    for_each_list(task.n_lists, threads, [&task, shares, thresholds, n](int64_t b) {
        thresholds[b] = top_threshold(task, task.scores + b * n, task.weights + b * n, shares[b],
                                      thresholds[b]);
    });
}
