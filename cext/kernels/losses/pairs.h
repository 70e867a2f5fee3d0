// Pairwise logistic losses: each positive of a list against every place of a smaller gain.

// Discounts 1 / log2(1 + rank) of the filled places by descending score, ties by place. Discounts
// of other places are undefined.
template <class T>
class Discounts {
   public:
    explicit Discounts(int64_t n_places) : falling_(n_places), by_rank_(n_places), of_(n_places) {
        for (int64_t r = 0; r < n_places; ++r) by_rank_[r] = T(1 / std::log2(2.0 + r));
    }

    const T* of(const T* scores, const T* filled) {
        falling_.clear();
        for (size_t j = 0; j < of_.size(); ++j)
            if (filled[j] > 0) falling_.add(j, scores[j]);
        falling_.sort();
        for (int64_t r = 0; r < falling_.size(); ++r) of_[falling_[r]] = by_rank_[r];
        return of_.data();
    }

   private:
    Falling<T> falling_;
    std::vector<T> by_rank_, of_;
};

// losses[b] = sum_ij w_ij softplus(steepness (h_j - h_i)) and its gradients by the scores h. With
// scales, w_ij = scale_b (G_i - G_j) |discount_i - discount_j|; without, the loss is the mean over
// all pairs.
template <class T>
static void pairs(const PairTask<T>& task, T* gradients, T* losses) {
    const int64_t n = task.n_places, m = task.n_positives;
    const int threads = threads_for(task.n_lists, 16.0 * n * m, task.n_threads);
    for_each_list_by(task.n_lists, threads, [&task, gradients, losses, n, m] {
        return [&task, gradients, losses, n, m, discounts = Discounts<T>(n),
                gains = std::vector<T>(n)](int64_t b) mutable {
            const T *scores = task.scores + b * n, *filled = task.filled + b * n;
            const T* const swaps = task.scales ? discounts.of(scores, filled) : nullptr;
            T* const to = gradients + b * n;
            std::copy_n(task.gains + b * m, m, gains.begin());
            std::fill_n(to, n, T(0));
            T loss = 0, weight = 0;
            for (int64_t i = 0; i < m; ++i) {
                if (!(gains[i] > 0)) continue;
                Vec<T> up{}, values{}, count{};
                for (int64_t j = 0; j < n; j += W<T>) {
                    const Vec<T> ahead = gains[i] - up_to(gains.data() + j, n - j);
                    Vec<T> w = up_to(filled + j, n - j);
                    if (swaps) {
                        const Vec<T> moved = swaps[i] - up_to(swaps + j, n - j);
                        w *= positive<T>(ahead) * (moved > 0 ? moved : -moved);
                    } else {
                        w = ahead > 0 ? w : Vec<T>{};
                    }
                    Vec<T> value, slope;
                    const Vec<T> lead = up_to(scores + j, n - j) - scores[i];
                    ramp_at<T>(Softplus{}, task.steepness * lead, value, slope);
                    const Vec<T> down = up_to(to + j, n - j) + w * slope;
                    std::memcpy(to + j, &down, std::min(n - j, int64_t{W<T>}) * sizeof *to);
                    up += w * slope, values += w * value, count += w;
                }
                to[i] -= sum_of<T>(up);
                loss += sum_of<T>(values), weight += sum_of<T>(count);
            }
            const T scale = task.scales ? T(task.scales[b]) : 1 / std::max(weight, T(1));
            losses[b] = scale * loss;
            for (int64_t j = 0; j < n; ++j) to[j] *= scale * task.steepness;
        };
    });
}
