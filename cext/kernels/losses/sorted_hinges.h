// Squared hinges over sorted thresholds, by the method of mfrank/losses/sums/ramps.py. A
// place is added at one threshold instead of all of them, which takes O(N + T log T) per list.

// The finite thresholds of a list in ascending order, and a search for the number of them that a
// score reaches.
template <class T>
class Rising {
   public:
    // Sorts the thresholds: order[i] is the index of the i-th smallest, -1 beyond the finite ones.
    void sort(const T* thresholds, int64_t n, int32_t* order) {
        pairs_.clear();
        for (int64_t t = 0; t < n; ++t)
            if (thresholds[t] < std::numeric_limits<T>::infinity())
                pairs_.push_back({thresholds[t], static_cast<int32_t>(t)});
        std::sort(pairs_.begin(), pairs_.end());
        for (size_t i = 0; i < pairs_.size(); ++i) order[i] = pairs_[i].second;
        std::fill(order + pairs_.size(), order + n, int32_t{-1});
        values_.resize(pairs_.size());
        for (size_t i = 0; i < pairs_.size(); ++i) values_[i] = pairs_[i].first;
        guide();
    }

    // Restores an order that sort() found before.
    void restore(const T* thresholds, int64_t n, const int32_t* order) {
        values_.clear();
        for (int64_t i = 0; i < n && order[i] >= 0; ++i) values_.push_back(thresholds[order[i]]);
    }

    int64_t size() const { return values_.size(); }
    T operator[](int64_t i) const { return values_[i]; }
    double gap(int64_t i) const { return double(values_[i + 1]) - double(values_[i]); }

    int64_t reached_by(T score) const {
        if (values_.empty()) return 0;
        const int64_t cell = cell_of(score);
        int64_t at = starts_[cell], end = starts_[cell + 1];
        if (end - at > SHORT)
            return std::upper_bound(values_.begin() + at, values_.begin() + end, score) -
                   values_.begin();
        while (at < end && values_[at] <= score) ++at;
        return at;
    }

   private:
    static constexpr int64_t SHORT = 8;

    // Builds a search index: as many cells of equal width as thresholds, most with one or two.
    void guide() {
        const int64_t n = size();
        starts_.assign(n + 1, 0);
        scale_ = n > 0 && values_[n - 1] > values_[0] ? n / (values_[n - 1] - values_[0]) : T(0);
        for (const T value : values_) ++starts_[cell_of(value) + 1];
        for (int64_t cell = 0; cell < n; ++cell) starts_[cell + 1] += starts_[cell];
    }

    int64_t cell_of(T x) const {
        const T at = (x - values_[0]) * scale_, last = T(size() - 1);
        return at > 0 ? static_cast<int64_t>(std::min(at, last)) : 0;
    }

    std::vector<std::pair<T, int32_t>> pairs_;
    std::vector<T> values_;
    std::vector<int64_t> starts_;  // first threshold of each cell, and the end
    T scale_ = 0;
};

// sums[b, t] = sum_j weight_j max(0, score_j - threshold_t)^2 and
// gradients[b, t] = sum_j 2 weight_j max(0, score_j - threshold_t).
template <class T>
static void sum_sorted_hinges(const HingeTask<T>& task, T* sums, T* gradients) {
    const int64_t n = task.n_places, m = task.n_thresholds;
    const int threads = threads_for(task.n_lists, 64.0 * (n + m), task.n_threads);
    struct Moments {
        double count, first, second;  // weighted moments of the distances to a threshold
    };
    for_each_list_by(task.n_lists, threads, [&task, sums, gradients, n, m] {
        return [&task, sums, gradients, n, m, rising = Rising<T>(),
                stretches = std::vector<Moments>()](int64_t b) mutable {
            rising.sort(task.thresholds + b * m, m, task.order + b * m);
            stretches.assign(rising.size(), {0, 0, 0});
            const T *scores = task.scores + b * n, *weights = task.weights + b * n;
            for (int64_t j = 0; j < n; ++j) {
                const int64_t reached = rising.reached_by(scores[j]);
                task.reached[b * n + j] = static_cast<int32_t>(reached);
                if (reached == 0) continue;
                const double distance = double(scores[j]) - double(rising[reached - 1]);
                Moments& own = stretches[reached - 1];
                own.count += weights[j], own.first += weights[j] * distance;
                own.second += weights[j] * distance * distance;
            }
            std::fill(sums + b * m, sums + (b + 1) * m, T(0));
            std::fill(gradients + b * m, gradients + (b + 1) * m, T(0));
            Moments above{0, 0, 0};
            for (int64_t i = rising.size() - 1; i >= 0; --i) {
                const double gap = i + 1 < rising.size() ? rising.gap(i) : 0;
                above.second += gap * (2 * above.first + gap * above.count);
                above.first += gap * above.count;
                above.count += stretches[i].count, above.first += stretches[i].first;
                above.second += stretches[i].second;
                const int64_t to = b * m + task.order[b * m + i];
                sums[to] = T(above.second), gradients[to] = T(2 * above.first);
            }
        };
    });
}

// to[b, j] = weight_j sum_t by_sums[b, t] 2 max(0, score_j - threshold_t).
template <class T>
static void push_sorted_hinges(const HingeTask<T>& task, const T* by_sums, T* to) {
    const int64_t n = task.n_places, m = task.n_thresholds;
    const int threads = threads_for(task.n_lists, 32.0 * (n + m), task.n_threads);
    struct Push {  // over the first thresholds: sum of by_sums, and of by_sums (last - threshold)
        double sum, at_last;
    };
    for_each_list_by(task.n_lists, threads, [&task, by_sums, to, n, m] {
        return [&task, by_sums, to, n, m, rising = Rising<T>(),
                pushes = std::vector<Push>()](int64_t b) mutable {
            const int32_t* const order = task.order + b * m;
            rising.restore(task.thresholds + b * m, m, order);
            pushes.assign(rising.size(), {0, 0});
            for (int64_t i = 0; i < rising.size(); ++i) {
                if (i > 0)
                    pushes[i] = {pushes[i - 1].sum,
                                 pushes[i - 1].at_last + rising.gap(i - 1) * pushes[i - 1].sum};
                pushes[i].sum += by_sums[b * m + order[i]];
            }
            const T *scores = task.scores + b * n, *weights = task.weights + b * n;
            for (int64_t j = 0; j < n; ++j) {
                const int64_t last = std::min<int64_t>(task.reached[b * n + j], rising.size()) - 1;
                if (last < 0) {
                    to[b * n + j] = 0;
                    continue;
                }
                const double distance = double(scores[j]) - double(rising[last]);
                to[b * n + j] =
                    T(2 * weights[j] * (pushes[last].sum * distance + pushes[last].at_last));
            }
        };
    });
}
