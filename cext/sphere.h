// Rows that are kept at length 1, or in the unit ball, and slopes in them.

// Takes from each sum what of it goes along its row: a slope on the sphere.
template <class T>
static void slide(const RowsTask<T>& task, T* sums) {
    const int64_t k = task.k;
    const int threads = threads_worth(task.n_rows, 4.0 * k, task.n_threads);
    for_each_list(task.n_rows, threads, [&task, k, sums](int64_t i) {
        const T* __restrict const row = task.table + task.rows[i] * k;
        T* __restrict const sum = sums + i * k;
        const T along = loose_dot(row, sum, k);
        for (int64_t j = 0; j < k; ++j) sum[j] -= along * row[j];
    });
}

// sums[i] = 2 (sums[i] - totals[i] row): a slope of squared distances, negative.
template <class T>
static void pull(const RowsTask<T>& task, const T* totals, T* sums) {
    const int64_t k = task.k;
    const int threads = threads_worth(task.n_rows, 4.0 * k, task.n_threads);
    for_each_list(task.n_rows, threads, [&task, k, totals, sums](int64_t i) {
        const T* __restrict const row = task.table + task.rows[i] * k;
        T* __restrict const sum = sums + i * k;
        const T total = totals[i];
        for (int64_t j = 0; j < k; ++j) sum[j] = 2 * (sum[j] - total * row[j]);
    });
}

// Divides the rows by their lengths: those longer than `shortest`, which are 0 or 1.
template <class T>
static void confine(const RowsTask<T>& task, T shortest) {
    const int64_t k = task.k;
    const int threads = threads_worth(task.n_rows, 4.0 * k, task.n_threads);
    for_each_list(task.n_rows, threads, [&task, k, shortest](int64_t i) {
        T* const row = task.table + task.rows[i] * k;
        const T length = std::sqrt(loose_dot(row, row, k));
        if (length > shortest)
            for (int64_t j = 0; j < k; ++j) row[j] /= length;
    });
}
