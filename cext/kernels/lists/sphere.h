// Rows that are constrained to the unit sphere or the unit ball.

// Projects each row of `sums` onto the tangent space of the sphere at its row of the table, which
// has norm 1.
template <class T>
static void tangent(const RowsTask<T>& task, T* sums) {
    const int64_t k = task.k;
    const int threads = threads_for(task.n_rows, 4.0 * k, task.n_threads);
    for_each_list(task.n_rows, threads, [&task, k, sums](int64_t i) {
        const T* __restrict const row = task.table + task.rows[i] * k;
        T* __restrict const sum = sums + i * k;
        const T along = loose_dot(row, sum, k);
        for (int64_t j = 0; j < k; ++j) sum[j] -= along * row[j];
    });
}

// sums[i] = 2 (sums[i] - totals[i] row): the gradient of negative squared distances by the row.
template <class T>
static void ball_gradients(const RowsTask<T>& task, const T* totals, T* sums) {
    const int64_t k = task.k;
    const int threads = threads_for(task.n_rows, 4.0 * k, task.n_threads);
    for_each_list(task.n_rows, threads, [&task, k, totals, sums](int64_t i) {
        const T* __restrict const row = task.table + task.rows[i] * k;
        T* __restrict const sum = sums + i * k;
        const T total = totals[i];
        for (int64_t j = 0; j < k; ++j) sum[j] = 2 * (sum[j] - total * row[j]);
    });
}

// Divides rows of norm above `threshold` by their norm: 0 projects to the sphere, 1 to the ball.
template <class T>
static void project_rows(const RowsTask<T>& task, T threshold) {
    const int64_t k = task.k;
    const int threads = threads_for(task.n_rows, 4.0 * k, task.n_threads);
    for_each_list(task.n_rows, threads, [&task, k, threshold](int64_t i) {
        T* const row = task.table + task.rows[i] * k;
        const T length = std::sqrt(loose_dot(row, row, k));
        if (length > threshold)
            for (int64_t j = 0; j < k; ++j) row[j] /= length;
    });
}
