// Adam's step (Kingma & Ba 2015) of those rows of a table that a batch touched, in one pass.
//
// A row's averages count the batches that touched it, so that a row seldom touched is not held
// back by the bias of averages that began at 0.

template <class T>
static void adam(const AdamTask<T>& task) {
    const int threads = threads_worth(task.n_rows, 16.0 * task.k, task.n_threads);
    for_each_list(task.n_rows, threads, [&task](int64_t i) {
        const int64_t row = task.rows[i], n = ++task.updates[row], k = task.k;
        const T keep_1 = T(task.decay_1), keep_2 = T(task.decay_2), epsilon = T(task.epsilon);
        const T length = T(task.learning_rate / (1 - std::pow(task.decay_1, n)));
        const T spread = T(1 / std::sqrt(1 - std::pow(task.decay_2, n)));
        const T* __restrict const slopes = task.slopes + i * k;
        T* __restrict const table = task.table + row * k;
        T* __restrict const means = task.means + row * k;
        T* __restrict const squares = task.squares + row * k;
        for (int64_t j = 0; j < k; ++j) {
            const T mean = keep_1 * means[j] + (1 - keep_1) * slopes[j];
            const T square = keep_2 * squares[j] + (1 - keep_2) * slopes[j] * slopes[j];
            means[j] = mean, squares[j] = square;
            table[j] -= length * mean / (spread * std::sqrt(square) + epsilon);
        }
    });
}
