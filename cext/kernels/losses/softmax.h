// Softmax over lists, and the log-sum-exp of each list.

// to[b, j] = softmax_j(score_j - less_j), 0 where not filled.
// totals[b] = log sum_j exp(score_j - less_j), -inf for an empty list.
template <class T>
static void softmax(const SoftmaxTask<T>& task, T* totals, T* to) {
    const int64_t n = task.n_places;
    const int threads = threads_for(task.n_lists, 16.0 * n, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        const T nothing = -std::numeric_limits<T>::infinity();
        const T *scores = task.scores + b * n, *less = task.less ? task.less + b * task.less_stride : nullptr;
        const bool* filled = task.filled + b * n;
        T* const out = to + b * n;
        if (less)
            for (int64_t j = 0; j < n; ++j) out[j] = filled[j] ? scores[j] - less[j] : nothing;
        else
            for (int64_t j = 0; j < n; ++j) out[j] = filled[j] ? scores[j] : nothing;
        T largest = nothing;
        Vec<T> highest = Vec<T>{} + nothing;
        int64_t j = 0;
        for (; j + W<T> <= n; j += W<T>) {
            const Vec<T> x = loose(out + j);
            highest = x > highest ? x : highest;
        }
        for (int lane = 0; lane < W<T>; ++lane) largest = std::max(largest, T(highest[lane]));
        for (; j < n; ++j) largest = std::max(largest, out[j]);
        totals[b] = nothing;
        if (largest == nothing) {
            std::fill_n(out, n, T(0));
            return;
        }
        Vec<T> sums{};
        const auto raise = [&sums, largest, nothing](Vec<T> x) {
            // NaN stays NaN, so that the caller can report it.
            const Vec<T> e = x == nothing ? Vec<T>{} : exp_of<T>(x - largest);
            sums += e;
            return e;
        };
        for (j = 0; j + W<T> <= n; j += W<T>) {  // no memcpy of a size that compilers cannot see
            const Vec<T> e = raise(loose(out + j));
            std::memcpy(out + j, &e, sizeof e);
        }
        if (j < n) {
            Vec<T> rest = Vec<T>{} + nothing;
            std::memcpy(&rest, out + j, (n - j) * sizeof(T));
            rest = raise(rest);
            std::memcpy(out + j, &rest, (n - j) * sizeof(T));
        }
        const T sum = sum_of<T>(sums), scale = 1 / sum;
        totals[b] = largest + std::log(sum);
        for (j = 0; j < n; ++j) out[j] *= scale;
    });
}
