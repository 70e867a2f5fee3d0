// Rotates factors into another basis, such as the eigenvectors of the matrix that all rows share.

constexpr int64_t ROTATE_ROWS = 96;

// Sets entries of a row's first n_null columns to 0 if they are rounding errors of the rotation.
template <class T>
static void drop_noise(T* row, int64_t k, int64_t n_null) {
    double square = 0;
    for (int64_t j = 0; j < k; ++j) square += double(row[j]) * row[j];
    const double relative = std::max(4 * std::sqrt(double(k)) * std::numeric_limits<T>::epsilon(),
                                     1e-8);
    for (int64_t j = 0; j < n_null; ++j)
        if (std::abs(row[j]) <= relative * std::sqrt(square)) row[j] = 0;
}

template <class T>
static void rotate(const RotateTask<T>& task) {
    const int64_t k = task.k, n_rows = task.n_rows;
    Buffer<T> storage(Panels<T>::size(k, k));
    const Panels<T> basis{storage.get(), k};
    pack(task.basis, k, k, false, basis);
    share((n_rows + ROTATE_ROWS - 1) / ROTATE_ROWS, task.n_threads, [&](Blocks& blocks) {
        Buffer<T> rows(ROTATE_ROWS * k);
        for (int64_t block; blocks.next(block);) {
            const int64_t first = block * ROTATE_ROWS, n = std::min(ROTATE_ROWS, n_rows - first);
            if (task.rows)
                for (int64_t r = 0; r < n; ++r)
                    std::copy_n(task.factors + task.rows[first + r] * k, k, rows.get() + r * k);
            else
                std::copy_n(task.factors + first * k, n * k, rows.get());
            T* const out = task.out + first * k;
            multiply(rows.get(), k, n, basis, k, out, k, k);
            for (int64_t r = 0; task.n_null > 0 && r < n; ++r)
                drop_noise(out + r * k, k, task.n_null);
        }
    });
}
