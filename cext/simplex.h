// Projections of lists to the simplex: what is left of scores above a threshold, of sum 1.

// Of list b: shares max(score_j - t, 0), 0 where not filled; tops[b] its largest score, and
// values[b] = sum_j p_j (score_j - top) - p_j^2 / 2 + 1/2, the largest there is over the simplex.
template <class T>
static void project(const SoftmaxTask<T>& task, T* tops, T* values, T* shares) {
    const int64_t n = task.n_places;
    const int threads = threads_worth(task.n_lists, 32.0 * n, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        constexpr T NOTHING = -std::numeric_limits<T>::infinity();
        const T* const scores = task.scores + b * n;
        const bool* const filled = task.filled + b * n;
        T* const to = shares + b * n;
        T top = NOTHING;
        for (int64_t j = 0; j < n; ++j) top = filled[j] ? std::max(top, scores[j]) : top;
        for (int64_t j = 0; j < n; ++j) to[j] = filled[j] ? scores[j] - top : NOTHING;
        // Nothing 1 below the top is left. From there each threshold leaves fewer places, and is
        // the next one's bound (Michelot 1986).
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
            if (left == 0 || left >= before) break;  // 0 only of what is not a number
            threshold = T((total - 1) / left), before = left;
        }
        double value = 0.5;
        for (int64_t j = 0; j < n; ++j) {
            const T share = std::max(to[j] - threshold, T(0));
            if (share > 0) value += double(share) * to[j] - 0.5 * double(share) * share;
            // What is not a number stays so, to be told by the caller.
            to[j] = to[j] == to[j] ? share : to[j];
        }
        tops[b] = top, values[b] = T(value);
    });
}
