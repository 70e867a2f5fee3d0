// Squared hinges of lists: sums over the places j of weight_j max(0, score_j - threshold_t)^2.

// The hinges of one list of n places against n_thresholds.
template <class T>
struct Hinges {
    const T *scores, *weights, *thresholds;
    int64_t n, n_thresholds;

    static Vec<T> lead(const Vec<T>& scores, T threshold) {
        const Vec<T> apart = scores - threshold;
        return apart > 0 ? apart : Vec<T>{};
    }

    // sums[t] = sum of weight lead^2, firsts[t] = sum of weight lead.
    void add_up(T* sums, T* firsts) const {
        for (int64_t t = 0; t < n_thresholds; ++t) {
            Vec<T> square{}, first{};
            int64_t j = 0;
            for (; j + W<T> <= n; j += W<T>) {
                const Vec<T> leads = lead(loose(scores + j), thresholds[t]);
                const Vec<T> weighted = loose(weights + j) * leads;
                first += weighted, square += weighted * leads;
            }
            sums[t] = sum_of<T>(square), firsts[t] = sum_of<T>(first);
            for (; j < n; ++j) {
                const T leads = std::max(scores[j] - thresholds[t], T(0));
                firsts[t] += weights[j] * leads, sums[t] += weights[j] * leads * leads;
            }
        }
    }

    // to[j] = 2 weight_j sum over the thresholds of by_sums lead: the slopes by the scores.
    void push(const T* by_sums, T* to) const {
        int64_t j = 0;
        for (; j + W<T> <= n; j += W<T>) {
            Vec<T> pushed{};
            for (int64_t t = 0; t < n_thresholds; ++t)
                pushed += by_sums[t] * lead(loose(scores + j), thresholds[t]);
            pushed *= 2 * loose(weights + j);
            std::memcpy(to + j, &pushed, sizeof pushed);
        }
        for (; j < n; ++j) {
            T pushed = 0;
            for (int64_t t = 0; t < n_thresholds; ++t)
                pushed += by_sums[t] * std::max(scores[j] - thresholds[t], T(0));
            to[j] = 2 * weights[j] * pushed;
        }
    }
};

static void hinge_sums(const HingeTask& task, double* sums, double* firsts) {
    for_each_list(task.n_lists, task.n_threads, [&](int64_t b) {
        const int64_t n = task.n_places, m = task.n_thresholds;
        const Hinges<double> hinges{task.scores + b * n, task.weights + b * n,
                                    task.thresholds + b * m, n, m};
        hinges.add_up(sums + b * m, firsts + b * m);
    });
}

static void hinge_pushes(const HingeTask& task, const double* by_sums, double* to) {
    for_each_list(task.n_lists, task.n_threads, [&](int64_t b) {
        const int64_t n = task.n_places, m = task.n_thresholds;
        const Hinges<double> hinges{task.scores + b * n, task.weights + b * n,
                                    task.thresholds + b * m, n, m};
        hinges.push(by_sums + b * m, to + b * n);
    });
}
