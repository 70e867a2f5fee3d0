// One row of a half-step, in the eigenbasis of the shared matrix, where that matrix is diagonal:
//
//     (D + sum_e c_e f_e f_e') x = w v + sum_e d_e f_e,    D = w lambda + ridge
//
// Four ways, the cheapest that is exact being taken unless conjugate gradients were asked for:
//   diagonal   no c_e differs from 0:  x = D^-1 (...)
//   dual       n <= K and c_e >= 0. With B = diag(sqrt c) F D^-1/2, an n x n system (Woodbury):
//              (I + B B') t = d / sqrt c - B D^-1/2 w v,    x = D^-1 (w v + F' (sqrt c t))
//   primal     the K x K matrix itself
//   conjugate gradients, preconditioned with D, which is the shared part exactly

// Where the rounding of T would show in a solution, the row is left to a wider type: when the
// largest and smallest of D, or the scaled matrix I + B'B, are further apart than this.
template <class T>
constexpr double MOST_SPREAD = sizeof(T) == 4 ? 1e7 : 1e13;
template <class T>
constexpr double MOST_GROWTH = sizeof(T) == 4 ? 2e3 : 1e12;

// Cost of conjugate gradients to full precision against the exact solution, in multiply-adds that
// run at the speed of the register tiles: passes over a row's entries that they are taken to need,
// and how much slower those run.
constexpr double CG_PASSES = 24, CG_SLOWNESS = 4;
constexpr int CG_MOST_STEPS = 60;
template <class T>
constexpr double CG_TOLERANCE = sizeof(T) == 4 ? 1e-5 : 1e-10;

constexpr int64_t CHUNK = 256;  // Entries of a long row that are packed at a time.

inline bool prefers_cg(int64_t n, int64_t k) {
    if (n <= k) return false;
    const double exact = double(k) * k * (n / 2.0 + k / 6.0);
    return CG_PASSES * CG_SLOWNESS * 2.0 * n * k < exact;
}

// The half-step in the eigenbasis; all vectors padded to `fixed.stride`.
template <class T>
struct Rotated {
    const HalfStep<T>& task;
    Table<T> fixed;
    const T *eigenvalues, *vector;
    bool has_vector;    // It is not 0.
    int64_t untouched;  // Leading directions where every fixed factor is 0.
};

template <class T>
class RowSolver {
   public:
    RowSolver(const Rotated<T>& step, Blocks& blocks)
        : step_(step), blocks_(blocks), task_(step.task), k_(step.fixed.stride) {
        const int64_t entries = std::max(CHUNK, k_);
        for (Buffer<T>* vector : {&diagonal_, &inverse_, &scale_, &right_, &residual_, &direction_,
                                  &image_, &pivots_, &dual_})
            vector->at_least(entries);
        for (Buffer<T>* vector : {&curvature_, &pull_, &root_}) vector->at_least(entries);
        columns_.at_least(entries);
    }

    // Solves one row into x, the warm start on entry; false where T is not precise enough.
    bool solve(int64_t row, T* x) {
        row_ = row;
        begin_ = task_.cells.rows.indptr[row];
        n_ = task_.cells.rows.indptr[row + 1] - begin_;
        const bool iterate = task_.options.solver == Solver::conjugate_gradients;
        const bool sound = set_diagonal(iterate ? std::numeric_limits<double>::infinity()
                                                : MOST_SPREAD<T>);
        if (n_ > 0 && !sound) return false;
        set_right();
        classify();
        bool solved = true;
        if (!curved_) solve_diagonal(x);
        else if (iterate) conjugate_gradients(x, task_.options.steps, task_.options.tolerance);
        else solved = solve_exactly(x);
        return solved && std::isfinite(dot(x, x, k_));
    }

    // Brings the first factors of a row that will be solved soon into the cache.
    void expect(int64_t row) const {
        const Csr<T>& rows = task_.cells.rows;
        const int64_t begin = rows.indptr[row], end = rows.indptr[row + 1];
        for (int64_t e = begin; e < std::min(end, begin + 2 * PREFETCH_AHEAD); ++e)
            prefetch(step_.fixed.row(rows.indices[e]), k_);
    }

   private:
    // Coefficients of some consecutive entries of the row.
    struct Part {
        const int32_t* columns;
        const T *curvature, *pull;
        int64_t n;
    };

    Part part(int64_t at) {
        const int64_t capacity = n_ <= std::max(CHUNK, k_) ? n_ : CHUNK;
        const int64_t n = std::min(capacity, n_ - at);
        if (loaded_ != at || capacity < n_)
            load_cells(task_.cells, row_, begin_ + at, n, curvature_.get(), pull_.get());
        loaded_ = at;
        return {task_.cells.rows.indices + begin_ + at, curvature_.get(), pull_.get(), n};
    }

    // D, 1/D (0 where D is) and its root. False where T cannot tell D's small values from 0 in
    // a direction that entries have a part in.
    bool set_diagonal(double most_spread) {
        const double weight = task_.weight[row_], ridge = task_.ridge[row_];
        const double largest = weight * task_.eigenvalues[task_.k - 1] + ridge;
        const double smallest =
            weight * task_.eigenvalues[std::min(step_.untouched, task_.k - 1)] + ridge;
        const T floor = T(largest * task_.k * std::numeric_limits<double>::epsilon());
        T *d = diagonal_.get(), *inverse = inverse_.get(), *scale = scale_.get();
        for (int64_t j = 0; j < k_; ++j) {
            d[j] = T(weight) * step_.eigenvalues[j] + T(ridge);
            inverse[j] = d[j] > floor ? 1 / d[j] : T(0);
            scale[j] = std::sqrt(inverse[j]);
        }
        const bool nothing_to_fit = step_.untouched == task_.k;
        return nothing_to_fit || (largest > 0 && smallest * most_spread >= largest);
    }

    // w v, to which the pulls of entries without curvature are added later.
    void set_right() {
        const T weight = T(task_.weight[row_]);
        for (int64_t j = 0; j < k_; ++j) right_.get()[j] = weight * step_.vector[j];
        shared_pull_ = step_.has_vector && weight != 0;
    }

    void classify() {
        loaded_ = -1;
        curved_ = negative_ = false;
        for (int64_t at = 0; at < n_;) {
            const Part some = part(at);
            for (int64_t e = 0; e < some.n; ++e) {
                curved_ |= some.curvature[e] != 0;
                negative_ |= some.curvature[e] < 0;
            }
            at += some.n;
        }
    }

    bool solve_exactly(T* x) {
        if (n_ <= k_ && !negative_) return solve_dual(x);
        const bool iterate = task_.options.solver == Solver::automatic && prefers_cg(n_, k_);
        if (iterate && conjugate_gradients(x, CG_MOST_STEPS, CG_TOLERANCE<T>)) return true;
        if (iterate) set_right();
        return solve_primal(x);
    }

    void add_pulls(T* right) {
        for (int64_t at = 0; at < n_ && !blocks_.stopping();) {
            const Part some = part(at);
            add_rows(step_.fixed, some.columns, some.pull, some.n, right);
            at += some.n;
        }
    }

    void solve_diagonal(T* x) {
        add_pulls(right_.get());
        for (int64_t j = 0; j < k_; ++j) x[j] = inverse_.get()[j] * right_.get()[j];
    }

    // Splits the entries: those with curvature into columns_, root_ (sqrt c), dual_ (d / sqrt c);
    // the pulls of the others into right_.
    int64_t gather_curved() {
        const Part all = part(0);
        int64_t n = 0;
        for (int64_t e = 0; e < all.n; ++e) {
            if (all.curvature[e] > 0) {
                columns_.get()[n] = all.columns[e];
                root_.get()[n] = std::sqrt(all.curvature[e]);
                dual_.get()[n] = all.pull[e] / root_.get()[n];
                ++n;
            } else if (all.pull[e] != 0) {
                add_rows(step_.fixed, all.columns + e, all.pull + e, 1, right_.get());
                shared_pull_ = true;
            }
        }
        return n;
    }

    // B' in panels: W gathered rows are scaled and transposed in registers at a time.
    void pack_dual(Panels<T> b, int64_t n, int64_t n_padded) {
        const T* scale = scale_.get();
        for (int64_t e = 0; e < n_padded; e += W<T>) {
            const T* rows[W<T>];
            T root[W<T>];
            for (int i = 0; i < W<T>; ++i) {
                rows[i] = step_.fixed.row(columns_.get()[std::min(e + i, n - 1)]);
                root[i] = e + i < n ? root_.get()[e + i] : T(0);
                if (e + i + W<T> < n)
                    prefetch(step_.fixed.row(columns_.get()[e + i + W<T>]), k_);
            }
            for (int64_t j = 0; j < k_; j += W<T>) {
                Vec<T> tile[W<T>];
                const Vec<T> s = vec(scale + j);
#pragma GCC unroll 16
                for (int i = 0; i < W<T>; ++i) tile[i] = vec(rows[i] + j) * s * root[i];
                transpose<T>(tile);
                T* to = b.at(j, e);
#pragma GCC unroll 16
                for (int i = 0; i < W<T>; ++i) vec(to + i * NR<T>) = tile[i];
            }
        }
    }

    bool solve_dual(T* x) {
        const int64_t n = gather_curved(), n_padded = (n + MR - 1) / MR * MR;
        const Panels<T> b{left_.at_least(Panels<T>::size(k_, n_padded)), k_};
        const Panels<T> a{matrix_.at_least(Panels<T>::size(n_padded, n_padded)), n_padded};
        pack_dual(b, n, n_padded);
        std::fill_n(a.data, Panels<T>::size(n_padded, n_padded), T(0));
        for (int64_t i = 0; i < n_padded; ++i) *a.at(i, i) = 1;
        rank_update(a, b, b, k_, 0, n_padded);
        double growth = 0;
        for (int64_t i = 0; i < n; ++i) growth += *a.at(i, i);
        if (!(growth <= MOST_GROWTH<T>)) return false;
        T* t = dual_.get();
        std::fill(t + n, t + padded<T>(n), T(0));
        if (shared_pull_) subtract_shared(b, n_padded, t);
        if (!cholesky(a, n_padded, pivots_.get())) return false;
        solve_factored(a, n_padded, pivots_.get(), t, residual_.get());
        for (int64_t i = 0; i < n; ++i) t[i] *= root_.get()[i];
        add_rows(step_.fixed, columns_.get(), t, n, right_.get());
        for (int64_t j = 0; j < k_; ++j) x[j] = inverse_.get()[j] * right_.get()[j];
        return true;
    }

    // t -= B D^-1/2 right
    void subtract_shared(Panels<T> b, int64_t n_padded, T* t) {
        T* factor = residual_.get();
        for (int64_t j = 0; j < k_; ++j) factor[j] = scale_.get()[j] * right_.get()[j];
        for (int64_t i = 0; i < n_padded; i += W<T>) {
            const T* column = b.at(0, i);
            Vec<T> sum{};
            for (int64_t j = 0; j < k_; ++j) sum += factor[j] * vec(column + j * NR<T>);
            vec(t + i) -= sum;
        }
    }

    void pack_primal(const Part& some, Panels<T> rows, Panels<T> weighted) {
        for (int64_t e = 0; e < some.n; ++e) {
            if (e + PREFETCH_AHEAD < some.n)
                prefetch(step_.fixed.row(some.columns[e + PREFETCH_AHEAD]), k_);
            const T* row = step_.fixed.row(some.columns[e]);
            const T c = some.curvature[e], d = some.pull[e];
            for (int64_t j = 0; j < k_; j += W<T>) {
                const Vec<T> f = vec(row + j);
                vec(rows.at(e, j)) = f;
                vec(weighted.at(e, j)) = c * f;
                vec(right_.get() + j) += d * f;
            }
        }
    }

    bool solve_primal(T* x) {
        const Panels<T> rows{left_.at_least(2 * Panels<T>::size(CHUNK, k_)), CHUNK};
        const Panels<T> weighted{left_.get() + Panels<T>::size(CHUNK, k_), CHUNK};
        const Panels<T> a{matrix_.at_least(Panels<T>::size(k_, k_)), k_};
        const T* inverse = inverse_.get();
        std::fill_n(a.data, Panels<T>::size(k_, k_), T(0));
        for (int64_t j = 0; j < k_; ++j) *a.at(j, j) = inverse[j] > 0 ? diagonal_.get()[j] : T(1);
        for (int64_t at = 0; at < n_;) {
            if (blocks_.stopping()) return true;
            const Part some = part(at);
            for (int64_t begin = 0; begin < some.n; begin += CHUNK) {
                const Part chunk{some.columns + begin, some.curvature + begin, some.pull + begin,
                                 std::min(CHUNK, some.n - begin)};
                pack_primal(chunk, rows, weighted);
                rank_update(a, weighted, rows, chunk.n, 0, k_);
            }
            at += some.n;
        }
        double growth = 0;
        for (int64_t j = 0; j < k_; ++j) growth += *a.at(j, j) * inverse[j];
        if (!(growth <= MOST_GROWTH<T>) || !cholesky(a, k_, pivots_.get())) return false;
        for (int64_t j = 0; j < k_; ++j) x[j] = inverse[j] > 0 ? right_.get()[j] : T(0);
        solve_factored(a, k_, pivots_.get(), x, residual_.get());
        return true;
    }

    // y = (D + sum_e c_e f_e f_e') x
    void apply(const T* x, T* y) {
        for (int64_t j = 0; j < k_; ++j) y[j] = diagonal_.get()[j] * x[j];
        for (int64_t at = 0; at < n_ && !blocks_.stopping();) {
            const Part some = part(at);
            add_projections(step_.fixed, some.columns, some.curvature, some.n, x, y);
            at += some.n;
        }
    }

    // Whether the residual, measured in D^-1, fell to `tolerance` of the right-hand side.
    bool conjugate_gradients(T* x, int most_steps, double tolerance) {
        T *r = residual_.get(), *p = direction_.get(), *image = image_.get();
        const T* inverse = inverse_.get();
        add_pulls(right_.get());
        for (int64_t j = 0; j < k_; ++j) x[j] = inverse[j] > 0 ? x[j] : T(0);
        apply(x, r);
        double size = 0, left = 0;
        for (int64_t j = 0; j < k_; ++j) {
            r[j] = right_.get()[j] - r[j];
            p[j] = inverse[j] * r[j];
            size += double(right_.get()[j]) * inverse[j] * right_.get()[j];
            left += double(r[j]) * p[j];
        }
        const double enough = tolerance * tolerance * size;
        for (int step = 0; left > enough; ++step) {
            if (step == most_steps || blocks_.stopping()) return false;
            apply(p, image);
            const double curvature = dot(p, image, k_);
            if (!(curvature > 0)) return false;
            const T length = T(left / curvature);
            double next = 0;
            for (int64_t j = 0; j < k_; ++j) {
                x[j] += length * p[j];
                r[j] -= length * image[j];
                next += double(r[j]) * inverse[j] * r[j];
            }
            const T momentum = T(next / left);
            for (int64_t j = 0; j < k_; ++j) p[j] = inverse[j] * r[j] + momentum * p[j];
            left = next;
        }
        return true;
    }

    const Rotated<T>& step_;
    Blocks& blocks_;
    const HalfStep<T>& task_;
    const int64_t k_;  // padded

    int64_t row_ = 0, begin_ = 0, n_ = 0, loaded_ = -1;
    bool curved_ = false, negative_ = false, shared_pull_ = false;

    Buffer<T> diagonal_, inverse_, scale_, right_, residual_, direction_, image_, pivots_, dual_;
    Buffer<T> curvature_, pull_, root_, left_, matrix_;
    Buffer<int32_t> columns_;
};
