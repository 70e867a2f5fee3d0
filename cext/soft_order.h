// Soft orders of lists (NeuralSort): of n items by falling score, the square matrix S, row k of
// which is softmax_j((n + 1 - 2 k) h_j - d_j), d_j the sum of the distances |h_j - h_l|.
//
// From item j to the next lower one, a gap g of scores, the logit grows by (2 (k - j) - 1) g:
// row k is largest in column k and falls off to both sides, so a band of S is all that counts.
// Tiles of some rows share a part of the band; columns and rows beyond n are 0 there.

template <class T>
class SoftOrder {
   public:
    // Of scores that fall; sums = S'1. Arrays by items have side(n) places, aligned.
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

    // sums = S'weights, where weight_k = weigh(k, S_k . by), of one reading of S.
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

    // Slopes by the scores as the logits have them, and by the distances d, of a loss whose slopes
    // by S are some products: multiply(k, j, tile) writes a vector of each of some rows.
    template <class Multiply>
    void push(const Multiply& multiply, T* by_scores, T* by_distances) {
        std::fill_n(by_scores, side_, T(0)), std::fill_n(by_distances, side_, T(0));
        for (int64_t k = 0; k < n_; k += ROWS) {
            Vec<T> dots[ROWS] = {};
            T along[ROWS];
            for_each_column(k, [&](int64_t j, const T* column) {
                Vec<T> slopes[ROWS] = {};
                multiply(k, j, slopes);
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; ++r) {
                    slopes[r] *= vec(column + r * side_);
                    vec(tile_ + j * ROWS + r * W<T>) = slopes[r];
                    dots[r] += slopes[r];
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

    static constexpr int ROWS = MR;  // that go together
    static_assert(PAD<T> % ROWS == 0 && ROWS % 4 == 0);

   private:
    // Less is taken for 0, so that products with it need not leave the normal numbers.
    static constexpr T LEAST = T(0.7) * Exponential<T>::MANTISSA - Exponential<T>::EDGE;
    static constexpr T ENDLESS = std::numeric_limits<T>::infinity();
    struct Span {
        int64_t begin, end;
    };

    T factor(int64_t k) const { return T(n_ - 1 - 2 * k); }

    T logit(int64_t k, int64_t j) const {
        return factor(k) * (scores_[j] - scores_[k]) - (distances_[j] - distances_[k]);
    }

    // Calls work(j, row k from its column j on) for each vector of the band of the rows from k on.
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

    // Scores about that in the middle, and the distances, from one item to the next.
    void place(const std::vector<double>& scores) {
        scores_.assign(side_, T(0)), distances_.assign(side_, ENDLESS);
        double distance = 0;
        for (const double score : scores) distance += scores[0] - score;
        for (int64_t j = 0; j < n_; ++j) {
            if (j > 0) distance += (scores[j - 1] - scores[j]) * (2 * j - n_);
            scores_[j] = T(scores[j] - scores[n_ / 2]), distances_[j] = T(distance);
        }
    }

    // Some rows, of softmax, which are added to the sums.
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
