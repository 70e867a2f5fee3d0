// Hinges of rows of scores. For each row, with its threshold t and row weight a:
//   gradients[j] = a weight_j 1[score_j > t], slope_sums = sum_j gradients[j],
//   sums = sum_j a weight_j max(0, score_j - t)

template <class T>
static void row_hinges(const RowHingeTask<T>& task, T* sums, T* slope_sums, T* gradients) {
    const int64_t n = task.n_places, m = task.n_rows;
    const int threads = threads_for(task.n_lists, 4.0 * m * n, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        const T* const weights = task.weights + b * n;
        for (int64_t row = b * m; row < (b + 1) * m; ++row) {
            const int64_t of_list = row - b * m;
            const T* const scores = task.scores + b * task.list_step + of_list * task.row_step;
            const T threshold = task.thresholds[row], own = task.row_weights[row];
            Vec<T> sum{}, slope_sum{};
            for (int64_t j = 0; j < n; j += W<T>) {
                const Vec<T> lead = up_to(scores + j, n - j) - threshold;
                const Vec<T> slope = lead > 0 ? own * up_to(weights + j, n - j) : Vec<T>{};
                slope_sum += slope, sum += slope * positive<T>(lead);
                const int64_t count = std::min(n - j, int64_t{W<T>});
                std::memcpy(gradients + row * n + j, &slope, count * sizeof(T));
            }
            sums[row] = sum_of<T>(sum);
            slope_sums[row] = sum_of<T>(slope_sum);
        }
    });
}
