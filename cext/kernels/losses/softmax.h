// Softmax over lists, and the log-sum-exp of each list.

// to[b, j] = softmax_j(score_j - less_j), 0 where not filled.
// totals[b] = log sum_j exp(score_j - less_j), -inf for an empty list.
template <class T>
static void softmax(const SoftmaxTask<T>& task, T* totals, T* to) {
    const int64_t n = task.n_places;
    const int threads = threads_for(task.n_lists, 16.0 * n, task.n_threads);
    for_each_list(task.n_lists, threads, [&](int64_t b) {
        const T nothing = -std::numeric_limits<T>::infinity();
        const T *scores = task.scores + b * n, *less = task.less ? task.less + b * n : nullptr;
        const bool* filled = task.filled + b * n;
        T* const out = to + b * n;
        for (int64_t j = 0; j < n; ++j) out[j] = filled[j] ? scores[j] : nothing;
        for (int64_t j = 0; less && j < n; ++j) out[j] -= filled[j] ? less[j] : T(0);
        T largest = nothing;
        Vec<T> highest = Vec<T>{} + nothing;
        int64_t j = 0;
        for (; j + W<T> <= n; j += W<T>) {
            const Vec<T> x = loose(out + j);
            highest = x > highest ? x : highest;
        }
        for (int lane = 0; lane < W<T>; ++lane) largest = std::max(largest, T(highest[lane]));
        for (; j < n; ++j) largest = std::max(largest, out[j]);
        Vec<T> sums{};
        for (j = 0; largest > nothing && j < n; j += W<T>) {
            const int64_t count = std::min(n - j, int64_t{W<T>});
            Vec<T> x = Vec<T>{} + nothing;
            std::memcpy(&x, out + j, count * sizeof(T));
            // NaN stays NaN, so that the caller can report it.
            const Vec<T> e = x == nothing ? Vec<T>{} : exp_of<T>(x - largest);
            std::memcpy(out + j, &e, count * sizeof(T));
            sums += e;
        }
        const T sum = sum_of<T>(sums);
        totals[b] = largest > nothing ? largest + std::log(sum) : nothing;
        const T scale = largest > nothing ? 1 / sum : T(0);
        for (j = 0; j < n; ++j) out[j] = largest > nothing ? out[j] * scale : T(0);
    });
}
