// Normal densities about the first places of lists, by the scores that may come there.

// places[b]: the largest scores of each list, the first of equal ones first; NaN counts as lowest.
template <class T>
static void first_places(const FirstTask<T>& task, int64_t* places) {
    const int64_t n = task.n_places, m = task.n_first;
    const int threads = threads_worth(task.n_lists, 4.0 * n, task.n_threads);
    for_each_list_by(task.n_lists, threads, [&task, n, m, places] {
        return [&task, n, m, places, heap = std::vector<Entry<T>>(m), ids = std::vector<int32_t>(m),
                scores = std::vector<T>(m)](int64_t b) mutable {
            constexpr T LOWEST = -std::numeric_limits<T>::infinity();
            Best<T> best{heap.data(), m, 0, LOWEST};
            for (int64_t j = 0; j < n; ++j) {
                const T score = task.scores[b * n + j];
                if (score < best.threshold) continue;
                const Entry<T> entry{score == score ? score : LOWEST, static_cast<int32_t>(j)};
                if (best.wants(entry)) best.add(entry);
            }
            best.write(ids.data(), scores.data());
            std::copy_n(ids.data(), m, places + b * m);
        };
    });
}

// out[b, j] = sum_p (still_bp + worth_bj rise_bp) exp(-((level_bp - score_bj) scale_b)^2 / 2)
template <class T>
static void sum_bells(const BellTask<T>& task, T* out) {
    const int64_t n = task.n_places, m = task.n_levels;
    const int threads = threads_worth(task.n_lists, 16.0 * n * m, task.n_threads);
    for_each_list(task.n_lists, threads, [&task, n, m, out](int64_t b) {
        const T *levels = task.levels + b * m, *still = task.still + b * m;
        const T *rise = task.rise + b * m, scale = task.scales[b];
        for (int64_t j = 0; j < n; j += W<T>) {
            const Vec<T> score = up_to(task.scores + b * n + j, n - j);
            const Vec<T> worth = up_to(task.worths + b * n + j, n - j);
            Vec<T> sum{};
            for (int64_t p = 0; p < m; ++p) {
                const Vec<T> apart = (levels[p] - score) * scale;
                sum += (still[p] + worth * rise[p]) * exp_of<T>(T(-0.5) * apart * apart);
            }
            std::memcpy(out + b * n + j, &sum, std::min(n - j, int64_t{W<T>}) * sizeof *out);
        }
    });
}
