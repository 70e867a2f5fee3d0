// Projections of lists to the simplex: p_j = max(score_j - t, 0), where t makes them sum to 1.

// For list b: points[b, j] = p_j, 0 where not filled; tops[b] is the largest score, and values[b] =
// 1/2 + sum_j (p_j (score_j - top) - p_j^2 / 2), the maximum over the simplex.
template <class T>
static void project(const SoftmaxTask<T>& task, T* tops, T* values, T* points) {
    const int64_t n = task.n_places;
    const int threads = threads_for(task.n_lists, 32.0 * n, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        constexpr T NOTHING = -std::numeric_limits<T>::infinity();
        const T* const scores = task.scores + b * n;
        const bool* const filled = task.filled + b * n;
        T* const to = points + b * n;
        T top = NOTHING;
        for (int64_t j = 0; j < n; ++j) top = filled[j] ? std::max(top, scores[j]) : top;
        for (int64_t j = 0; j < n; ++j) to[j] = filled[j] ? scores[j] - top : NOTHING;
        // Scores 1 below the top or lower project to 0. From this threshold on, each one leaves
        // fewer places and bounds the next (Michelot 1986).
        T threshold = -1;
        for (int64_t before = n + 1;;) {
            Vec<T> sum{}, counts{};
            int64_t j = 0;
            for (; j + W<T> <= n; j += W<T>) {
                const Vec<T> x = loose(to + j), one = Vec<T>{} + 1;
                sum += x > threshold ? x : Vec<T>{}, counts += x > threshold ? one : Vec<T>{};
            }
            double total = sum_of<T>(sum);
            int64_t left = static_cast<int64_t>(sum_of<T>(counts));
            for (; j < n; ++j)
                if (to[j] > threshold) total += to[j], ++left;
            if (left == 0 || left >= before) break;  // 0 only if scores are NaN
            threshold = T((total - 1) / left), before = left;
        }
        double value = 0.5;
        for (int64_t j = 0; j < n; ++j) {
            const T point = std::max(to[j] - threshold, T(0));
            if (point > 0) value += double(point) * to[j] - 0.5 * double(point) * point;
            // NaN stays NaN, so that the caller can report it.
            to[j] = to[j] == to[j] ? point : to[j];
        }
        tops[b] = top, values[b] = T(value);
    });
}
