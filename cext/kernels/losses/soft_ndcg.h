// NDCG of softly sorted lists and its gradients, by the equations of
// mfrank/losses/sums/soft_ndcg.py.

// Processes lists one by one, with scratch for one thread. Arrays contain the filled places only,
// by descending score.
template <class T>
class SoftNDCG {
   public:
    SoftNDCG(const SoftTask<T>& task, Blocks& blocks)
        : task_(task), blocks_(blocks), places_(task.n_places) {
        for (int64_t k = 0; k < task.n_places; ++k) discounts_.push_back(1 / std::log2(2.0 + k));
    }

    // Writes the gradients of list b and returns its loss. Stops early if the call must stop.
    T operator()(int64_t b, T* gradients) {
        std::fill_n(gradients, task_.n_places, T(0));
        constexpr T NONE = std::numeric_limits<T>::quiet_NaN();
        if (!sort(b)) {  // the caller reports NaN
            std::fill_n(gradients, task_.n_places, NONE);
            return NONE;
        }
        prepare(b);
        order_.fill(falling_, sums_);
        const double loss = sinkhorn();
        if (blocks_.stopping()) return NONE;
        order_.push(
            [this](int64_t k, int64_t j, Vec<T>(&gradients)[ORDER_ROWS]) {
                add_products(by_row_, v_, task_.rounds + 1, k, j, gradients);
                add_products(u_, by_column_, task_.rounds, k, j, gradients);
            },
            by_scores_, sums_);
        write_gradients(b, gradients);
        return T(loss);
    }

   private:
    static constexpr int ORDER_ROWS = SoftOrder<T>::ROWS;

    // Sorts the filled places of list b by descending score; false if a score is not finite.
    bool sort(int64_t b) {
        const T* const scores = task_.scores + b * task_.n_places;
        const bool* const filled = task_.filled + b * task_.n_places;
        places_.clear();
        for (int64_t j = 0; j < task_.n_places; ++j) {
            if (filled[j] && !std::isfinite(scores[j])) return false;
            if (filled[j]) places_.add(j, scores[j]);
        }
        places_.sort();
        falling_.clear();
        for (int64_t r = 0; r < places_.size(); ++r)
            falling_.push_back(scores[places_[r]] / task_.temperature);
        return true;
    }

    // Allocates scratch and sets the weights of places and the gains of items of list b.
    void prepare(int64_t b) {
        const int64_t n = places_.size();
        side_ = SoftOrder<T>::side(n);
        T* at = storage_.at_least((4 * task_.rounds + 8) * side_);
        for (T** one : {&worths_, &gains_, &sums_, &by_scores_, &by_v_}) *one = at, at += side_;
        for (T** some : {&u_, &v_, &by_row_}) *some = at, at += (task_.rounds + 1) * side_;
        by_column_ = at;
        std::fill_n(worths_, side_, T(0)), std::fill_n(gains_, side_, T(0));
        for (int64_t j = 0; j < n; ++j) {
            worths_[j] = T(discounts_[j] / task_.ideal[b]);
            if (places_[j] < task_.n_positives)
                gains_[j] = task_.gains[b * task_.n_positives + places_[j]];
        }
    }

    static T inverse(T sum) { return sum > 0 ? 1 / sum : T(1); }

    // Sinkhorn's rounds scale the soft order S to diag(u) S diag(v), with v = 1 / S'u and u = 1 / S
    // v in turn. The loss's gradients by S are sum_r (by_row_r v_r' + u_r by_column_r') over the
    // rounds, plus a term by_row v' of the loss itself, where v is the last v times the gains.
    // Returns the loss.
    double sinkhorn() {
        const int64_t rounds = task_.rounds;
        std::fill_n(u_, side_, T(1));
        for (int64_t r = 0; r < rounds && !blocks_.stopping(); ++r) {
            T *v = v_ + r * side_, *next = u_ + (r + 1) * side_;
            for (int64_t j = 0; j < side_; ++j) v[j] = inverse(sums_[j]);
            order_.pass(v, sums_, [this, next, last = r + 1 == rounds](int64_t k, T sum) {
                next[k] = inverse(sum);
                return last ? next[k] * worths_[k] : next[k];
            });
        }
        T *of_gains = v_ + rounds * side_, *own = by_row_ + rounds * side_;
        for (int64_t j = 0; j < side_; ++j) {
            by_v_[j] = -gains_[j] * sums_[j];
            of_gains[j] = rounds > 0 ? gains_[j] * v_[(rounds - 1) * side_ + j] : gains_[j];
        }
        const T* const u = u_ + rounds * side_;
        double loss = 0;
        order_.pass(of_gains, sums_, [this, u, own, &loss](int64_t k, T gain) {
            own[k] = -worths_[k] * u[k];
            loss += double(own[k]) * gain;
            return task_.rounds > 0 ? set_by_row(task_.rounds - 1, k, -worths_[k] * gain) : T(0);
        });
        backpropagate();
        return loss;
    }

    // by_row of round r, from the loss's gradient by the u of that round.
    T set_by_row(int64_t r, int64_t k, T by_u) {
        const T u = u_[(r + 1) * side_ + k];
        return by_row_[r * side_ + k] = -by_u * u * u;
    }

    // Backpropagates through the rounds, last first; on entry, sums_ = S'by_row of the last round.
    void backpropagate() {
        for (int64_t r = task_.rounds - 1; r >= 0 && !blocks_.stopping(); --r) {
            const T* const v = v_ + r * side_;
            T* const by_column = by_column_ + r * side_;
            for (int64_t j = 0; j < side_; ++j)
                by_column[j] = -(by_v_[j] + sums_[j]) * v[j] * v[j];
            std::fill_n(by_v_, side_, T(0));
            if (r == 0) return;
            order_.pass(by_column, sums_,
                        [this, r](int64_t k, T by_u) { return set_by_row(r - 1, k, by_u); });
        }
    }

    // gradients[i] += sum_r left_r[k + i] right_r[j], for the vector of columns from j on.
    void add_products(const T* left, const T* right, int64_t count, int64_t k, int64_t j,
                      Vec<T> (&gradients)[ORDER_ROWS]) const {
        left += k, right += j;
        for (int64_t r = 0; r < count; ++r, left += side_, right += side_)
#pragma GCC unroll 8
            for (int i = 0; i < ORDER_ROWS; ++i) gradients[i] += left[i] * vec(right);
    }

    // Writes the gradients of the places. In the gradients by the distances |h_j - h_l|, items
    // above have the sign -, items below +, and ties 0.
    void write_gradients(int64_t b, T* gradients) const {
        const T *const by_distances = sums_, *const scores = task_.scores + b * task_.n_places;
        const int64_t n = places_.size();
        const double all = std::accumulate(by_distances, by_distances + n, 0.0);
        double above = 0;
        for (int64_t begin = 0, end = 0; begin < n; begin = end) {
            double tied = 0;
            while (end < n && scores[places_[end]] == scores[places_[begin]])
                tied += by_distances[end++];
            const double rest = all - tied - 2 * above, more = n - end - begin;
            for (int64_t j = begin; j < end; ++j)
                gradients[places_[j]] =
                    T((by_scores_[j] + more * by_distances[j] + rest) / task_.temperature);
            above += tied;
        }
    }

    const SoftTask<T>& task_;
    Blocks& blocks_;
    std::vector<double> discounts_, falling_;
    Falling<T> places_;
    SoftOrder<T> order_;
    Buffer<T> storage_;
    int64_t side_ = 0;
    T *worths_, *gains_, *sums_, *by_scores_, *by_v_;  // (side)
    T *u_, *v_, *by_row_, *by_column_;                 // (rounds + 1, side); (rounds, side)
};

// Writes the gradients by the scores, 0 where not filled, and the loss of each list.
template <class T>
static void soft_ndcg(const SoftTask<T>& task, T* gradients, T* losses) {
    const double work = double(task.n_places) * task.n_places * (6.0 * task.rounds + 20);
    const int threads = threads_for(task.n_lists, work, task.n_threads);
    share(task.n_lists, threads, [&task, gradients, losses](Blocks& blocks) {
        SoftNDCG<T> of_list(task, blocks);
        for (int64_t b; blocks.next(b);) losses[b] = of_list(b, gradients + b * task.n_places);
    });
}
