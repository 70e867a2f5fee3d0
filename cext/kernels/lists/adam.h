// Adam's update (Kingma & Ba 2015) of the rows of a table that a batch touched, in one pass.
//
// The bias correction of a row counts only the batches that touched it, so that rarely touched rows
// are corrected too.

// Bias corrections by number of updates. Their powers cost as much as a short row, so each thread
// caches them, at the number of updates modulo SIZE.
template <class T>
class Unbiasing {
   public:
    struct Factors {
        int64_t updates = 0;
        T length = 0, spread = 0;
    };

    explicit Unbiasing(const AdamTask<T>& task) : task_(task) {}

    const Factors& after(int64_t updates) {
        Factors& found = kept_[static_cast<uint64_t>(updates) % SIZE];
        if (found.updates != updates)
            found = {updates, T(task_.learning_rate / (1 - std::pow(task_.decay_1, updates))),
                     T(1 / std::sqrt(1 - std::pow(task_.decay_2, updates)))};
        return found;
    }

   private:
    static constexpr uint64_t SIZE = 256;
    const AdamTask<T>& task_;
    Factors kept_[SIZE];
};

template <class T>
static void adam(const AdamTask<T>& task) {
    const int threads = threads_for(task.n_rows, 16.0 * task.k, task.n_threads);
    const auto of_rows = [&task, unbiasing = Unbiasing<T>(task)](int64_t i) mutable {
        const int64_t row = task.rows[i], n = ++task.updates[row], k = task.k;
        const T keep_1 = T(task.decay_1), keep_2 = T(task.decay_2), epsilon = T(task.epsilon);
        const auto [_, length, spread] = unbiasing.after(n);
        const T* __restrict const gradients = task.gradients + i * k;
        T* __restrict const table = task.table + row * k;
        T* __restrict const means = task.means + row * k;
        T* __restrict const squares = task.squares + row * k;
        for (int64_t j = 0; j < k; ++j) {
            const T mean = keep_1 * means[j] + (1 - keep_1) * gradients[j];
            const T square = keep_2 * squares[j] + (1 - keep_2) * gradients[j] * gradients[j];
            means[j] = mean, squares[j] = square;
            table[j] -= length * mean / (spread * std::sqrt(square) + epsilon);
        }
    };
    for_each_list_by(task.n_rows, threads, [&of_rows] { return of_rows; });
}
