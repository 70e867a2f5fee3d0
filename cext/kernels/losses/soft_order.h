// Soft orders of lists (NeuralSort, Grover et al. 2019). For n items by descending score h, row k
// of the square matrix S is softmax_j((n + 1 - 2 k) h_j - d_j), where d_j = sum_l |h_j - h_l|.
//
// From item j to the next lower one, with a gap g of scores, the logit grows by (2 (k - j) - 1) g.
// So row k is largest in column k and decreases to both sides, and only a band of S is computed.
// ROWS rows at a time share their part of the band; columns and rows beyond n are 0 there.

template <class T>
class SoftOrder {
   public:
    // Computes S for descending scores, and sums = S'1. Arrays over items have side(n) elements and
    // are aligned.
    void fill(const std::vector<double>& scores, T* sums) {
        n_ = scores.size();
        side_ = side(n_);
        matrix_ = matrix_storage_.at_least(side_ * side_);
        tile_ = tile_storage_.at_least(ROWS * side_);
        place(scores);
        spans_.clear();
        std::fill_n(sums, side_, T(0));
        int64_t begin = 0, end = 0;
        for (int64_t k = 0; k < n_; k += ROWS) {
            const int64_t last = std::min(k + ROWS, n_) - 1;
            while (begin < k && logit(k, begin) < LEAST) ++begin;
            while (end < n_ && (end <= last || logit(last, end) >= LEAST)) ++end;
            spans_.push_back({begin / W<T> * W<T>, (end + W<T> - 1) / W<T> * W<T>});
            fill_rows(k, sums);
        }
    }

    // sums = S'weights, where weight_k = weigh(k, S_k . by), in one pass over S.
    template <class Weigh>
    void pass(const T* by, T* sums, const Weigh& weigh) const {
        std::fill_n(sums, side_, T(0));
        for (int64_t k = 0; k < n_; k += ROWS) {
            Vec<T> dots[ROWS] = {};
            T weights[ROWS];
            for_each_column(k, [&](int64_t j, const T* column) {
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; ++r) dots[r] += vec(column + r * side_) * vec(by + j);
            });
            sum_rows(dots, weights);
            for (int r = 0; r < ROWS; ++r) weights[r] = weigh(k + r, weights[r]);
            for_each_column(k, [&](int64_t j, const T* column) {
                Vec<T> sum = vec(sums + j);
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; ++r) sum += weights[r] * vec(column + r * side_);
                vec(sums + j) = sum;
            });
        }
    }

    // Backpropagates to the scores in the logits, (n + 1 - 2 k) h_j, and to the distances d_j.
    // multiply(k, j, tile) adds the loss's gradients by S in ROWS rows from k on and the vector of
    // columns from j on.
    template <class Multiply>
    void push(const Multiply& multiply, T* by_scores, T* by_distances) {
        std::fill_n(by_scores, side_, T(0)), std::fill_n(by_distances, side_, T(0));
        for (int64_t k = 0; k < n_; k += ROWS) {
            Vec<T> dots[ROWS] = {};
            T along[ROWS];
            for_each_column(k, [&](int64_t j, const T* column) {
                Vec<T> gradients[ROWS] = {};
                multiply(k, j, gradients);
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; ++r) {
                    gradients[r] *= vec(column + r * side_);
                    vec(tile_ + j * ROWS + r * W<T>) = gradients[r];
                    dots[r] += gradients[r];
                }
            });
            sum_rows(dots, along);
            for_each_column(k, [&](int64_t j, const T* column) {
                Vec<T> by_score = vec(by_scores + j), by_distance = vec(by_distances + j);
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; ++r) {
                    const Vec<T> by_logit = vec(tile_ + j * ROWS + r * W<T>) -
                                            along[r] * vec(column + r * side_);
                    by_score += factor(k + r) * by_logit, by_distance -= by_logit;
                }
                vec(by_scores + j) = by_score, vec(by_distances + j) = by_distance;
            });
        }
    }

    static int64_t side(int64_t n) { return padded<T>(n); }

    static constexpr int ROWS = MR;  // processed together
    static_assert(PAD<T> % ROWS == 0 && ROWS % 4 == 0);

   private:
    // Exponentials of smaller logits count as 0, so that products with them are not subnormal.
    static constexpr T LEAST = T(0.7) * Exponential<T>::MANTISSA - Exponential<T>::EDGE;
    static constexpr T ENDLESS = std::numeric_limits<T>::infinity();
    struct Span {
        int64_t begin, end;
    };

    T factor(int64_t k) const { return T(n_ - 1 - 2 * k); }

    T logit(int64_t k, int64_t j) const {
        return factor(k) * (scores_[j] - scores_[k]) - (distances_[j] - distances_[k]);
    }

    // Calls work(j, &S[k, j]) for each vector of columns j in the band of the rows from k on.
    template <class Work>
    void for_each_column(int64_t k, const Work& work) const {
        const Span span = spans_[k / ROWS];
        T* const row = matrix_ + k * side_;
        for (int64_t j = span.begin; j < span.end; j += W<T>) work(j, row + j);
    }

    static void sum_rows(const Vec<T> (&rows)[ROWS], T* to) {
        for (int r = 0; r < ROWS; r += 4) {
            const Vec<T> four[4] = {rows[r], rows[r + 1], rows[r + 2], rows[r + 3]};
            sums_of<T>(four, to + r);
        }
    }

    // Sets the scores, relative to the middle one, and the distances, each from the previous one.
    void place(const std::vector<double>& scores) {
        scores_.assign(side_, T(0)), distances_.assign(side_, ENDLESS);
        double distance = 0;
        for (const double score : scores) distance += scores[0] - score;
        for (int64_t j = 0; j < n_; ++j) {
            if (j > 0) distance += (scores[j - 1] - scores[j]) * (2 * j - n_);
            scores_[j] = T(scores[j] - scores[n_ / 2]), distances_[j] = T(distance);
        }
    }

    // Computes ROWS rows of S from row k on and adds them to the sums.
    void fill_rows(int64_t k, T* sums) {
        Vec<T> totals[ROWS] = {};
        T own[ROWS], top[ROWS], scales[ROWS];
        for (int r = 0; r < ROWS; ++r) {
            top[r] = scores_[std::min(k + r, n_ - 1)];
            own[r] = k + r < n_ ? distances_[k + r] : -ENDLESS;
        }
        for_each_column(k, [&](int64_t j, T* column) {
            const Vec<T> score = loose(&scores_[j]), distance = loose(&distances_[j]);
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; ++r) {
                const Vec<T> x = factor(k + r) * (score - top[r]) - (distance - own[r]);
                const Vec<T> power = x < LEAST ? Vec<T>{} : exp_of<T>(x);
                vec(column + r * side_) = power, totals[r] += power;
            }
        });
        sum_rows(totals, scales);
        for (int r = 0; r < ROWS; ++r) scales[r] = scales[r] == 0 ? T(0) : 1 / scales[r];
        for_each_column(k, [&](int64_t j, T* column) {
            Vec<T> sum = vec(sums + j);
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; ++r) sum += vec(column + r * side_) *= scales[r];
            vec(sums + j) = sum;
        });
    }

    int64_t n_ = 0, side_ = 0;
    std::vector<T> scores_, distances_;
    std::vector<Span> spans_;
    Buffer<T> matrix_storage_, tile_storage_;
    T *matrix_ = nullptr, *tile_ = nullptr;
};
