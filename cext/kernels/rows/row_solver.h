// Solves one row of a half-step in the eigenbasis of the shared matrix, where it is diagonal:
//
//     (D + sum_e c_e f_e f_e') x = w v + ridge prior + sum_e d_e f_e,    D = w lambda + ridge
//
// Below, w v stands for w v + ridge prior.
// There are four methods. The cheapest exact one is used, unless the options select iterations:
//   diagonal   all c_e are 0:  x = D^-1 (...)
//   dual       n <= K and c_e >= 0. With B = diag(sqrt c) F D^-1/2, an n x n system (Woodbury):
//              (I + B B') t = d / sqrt c - B D^-1/2 w v,    x = D^-1 (w v + F' (sqrt c t))
//   primal     Cholesky of the K x K matrix
//   conjugate gradients, preconditioned with D, which is exactly the shared part

// Time of a multiply-add of conjugate gradients, which read a row's factors from the cache in each
// step, relative to one of the exact solution, which runs on register tiles (bench/row_cost.py). The
// factors of a row with at least UNCACHED entries are in no cache.
constexpr int64_t UNCACHED = int64_t{1} << 17;
constexpr double CG_SLOWNESS = VECTOR_BYTES == 64 ? 4 : 2.5, UNCACHED_CG_SLOWNESS = 10;

// Steps of conjugate gradients that cost as much as the exact solution of a row of n entries.
inline double break_even_steps(int64_t n, int64_t k) {
    const double dual = double(n) * n * (k / 2.0 + n / 6.0);
    const double primal = double(k) * k * (n / 2.0 + k / 6.0);
    const double slowness = n < UNCACHED ? CG_SLOWNESS : UNCACHED_CG_SLOWNESS;
    return std::min(dual, primal) / (slowness * 2.0 * n * k);
}

// Whether a row of n entries is solved by conjugate gradients. Solver::automatic uses them where
// they cost less than the exact solution.
inline bool iterates(const SolveOptions& options, int64_t n, int64_t k) {
    if (options.solver != Solver::automatic) return options.solver == Solver::conjugate_gradients;
    return n > 0 && options.steps < break_even_steps(n, k) - 1;
}

// Largest norm of a row's scaled matrix I + B'B for which T is precise enough.
template <class T>
constexpr double MOST_GROWTH = sizeof(T) == 4 ? 2e3 : 1e12;

template <class T>
class RowSolver {
   public:
    RowSolver(const Rotated<T>& step, Blocks& blocks)
        : step_(step), blocks_(blocks), task_(step.task), row_(step), k_(row_.k) {
        for (Buffer<T>* vector : {&residual_, &direction_, &image_, &pivots_, &dual_, &root_})
            vector->at_least(k_);
        columns_.at_least(k_);
    }

    // Solves one row into x, which is the warm start on entry; false if T is not precise enough.
    // `gain` becomes 2 x'b - x'A x for the system A x = b: how far x lowers the row's quadratic.
    bool solve(int64_t row, T* x, double& gain) {
        const Csr<T>& rows = task_.cells.rows;
        const bool iterate =
            iterates(task_.options, rows.indptr[row + 1] - rows.indptr[row], k_);
        constexpr double ANY_SPREAD = std::numeric_limits<double>::infinity();
        if (!row_.load(row, iterate ? ANY_SPREAD : MOST_SPREAD<T>)) return false;
        bool solved = true;
        surplus_ = 0;
        if (!row_.curved) solve_diagonal(x);
        else solved = iterate ? iterate_on(row, x) : solve_exactly(x);
        gain = dot(x, row_.right, k_) + surplus_;
        return solved && std::isfinite(gain);
    }

    // Sums the entries [begin, end) of the row into `sums`: d_e f_e and, if there is curvature,
    // c_e f_e f_e', a matrix.
    void sum(int64_t row, int64_t begin, int64_t end, T* sums) {
        row_.select(row);
        std::fill_n(row_.right, k_, T(0));
        if (step_.curved) {
            const Panels<T> matrix{sums + k_, k_};
            std::fill_n(matrix.data, Panels<T>::size(k_, k_), T(0));
            add_entries(begin, end, matrix);
        } else {
            add_pulls(begin, end);
        }
        std::copy_n(row_.right, k_, sums);
    }

    // Solves the row exactly from the sums over its entries, which are not read; otherwise as `solve`.
    bool solve_summed(int64_t row, const T* sums, T* x, double& gain) {
        if (!row_.load_shared(row, MOST_SPREAD<T>)) return false;
        for (int64_t j = 0; j < k_; j += W<T>) vec(row_.right + j) += vec(sums + j);
        bool solved = true;
        if (step_.curved) {
            const Panels<T> a = diagonal_matrix();
            for (int64_t i = 0; i < Panels<T>::size(k_, k_); i += W<T>)
                vec(a.data + i) += vec(sums + k_ + i);
            solved = solve_system(a, x);
        } else {
            divide_by_diagonal(x);
        }
        gain = dot(x, row_.right, k_);
        return solved && std::isfinite(gain);
    }

    // Prefetches the first factors of a row that will be solved soon.
    void prefetch_first(int64_t row) const {
        const Csr<T>& rows = task_.cells.rows;
        const int64_t begin = rows.indptr[row], end = rows.indptr[row + 1];
        for (int64_t e = begin; e < std::min(end, begin + 2 * PREFETCH_AHEAD); ++e)
            prefetch(step_.fixed.row(rows.indices[e]), k_);
    }

   private:
    using Part = typename Row<T>::Part;

    // Conjugate gradients. If the tolerance must be reached and was not by the time that the steps
    // cost as much as the exact solution, solves exactly: so a row takes at most twice as long.
    bool iterate_on(int64_t row, T* x) {
        const SolveOptions& options = task_.options;
        const int most = int(break_even_steps(row_.n, k_));
        const int steps = options.to_tolerance ? std::max(options.steps, most) : options.steps;
        if (conjugate_gradients(x, steps) || !options.to_tolerance) return true;
        surplus_ = 0;
        return row_.load(row, MOST_SPREAD<T>) && solve_exactly(x);
    }

    bool solve_exactly(T* x) {
        if (row_.n <= k_ && !row_.negative) return solve_dual(x);
        return solve_primal(x);
    }

    // right += sum_e d_e f_e over the entries [begin, end); `begin` is 0 if all entries of the row
    // fit in memory.
    void add_pulls(int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end && !blocks_.stopping();) {
            const Part some = row_.part(at);
            const int64_t wanted = std::min(some.n, end - at);
            add_rows(step_.fixed, some.columns, some.pull, wanted, row_.right);
            at += wanted;
        }
    }

    void solve_diagonal(T* x) {
        add_pulls(0, row_.n);
        divide_by_diagonal(x);
    }

    void divide_by_diagonal(T* x) {
        for (int64_t j = 0; j < k_; ++j) x[j] = row_.inverse[j] * row_.right[j];
    }

    // Writes entries with curvature to columns_, root_ (sqrt c) and dual_ (d / sqrt c), and adds
    // d_e f_e of the others to the right-hand side.
    int64_t gather_curved() {
        const Part all = row_.part(0);
        int64_t n = 0;
        for (int64_t e = 0; e < all.n; ++e) {
            if (all.curvature[e] > 0) {
                columns_.get()[n] = all.columns[e];
                root_.get()[n] = std::sqrt(all.curvature[e]);
                dual_.get()[n] = all.pull[e] / root_.get()[n];
                ++n;
            } else if (all.pull[e] != 0) {
                add_rows(step_.fixed, all.columns + e, all.pull + e, 1, row_.right);
                row_.has_right = true;
            }
        }
        return n;
    }

    // B' in panels: gathers, scales and transposes W rows at a time in registers.
    void pack_dual(Panels<T> b, int64_t n, int64_t n_padded) {
        const T* scale = row_.scale;
        for (int64_t e = 0; e < n_padded; e += W<T>) {
            const T* rows[W<T>];
            alignas(VECTOR_BYTES) T root[W<T>];
            for (int i = 0; i < W<T>; ++i) {
                rows[i] = step_.fixed.row(columns_.get()[std::min(e + i, n - 1)]);
                root[i] = e + i < n ? root_.get()[e + i] : T(0);
                if (e + i + W<T> < n)
                    prefetch(step_.fixed.row(columns_.get()[e + i + W<T>]), k_);
            }
            for (int64_t j = 0; j < k_; j += W<T>) {
                Vec<T> tile[W<T>];
                load_transposed<T>(rows, j, tile);
                T* to = b.at(j, e);
#pragma GCC unroll 16
                for (int i = 0; i < W<T>; ++i)
                    vec(to + i * NR<T>) = tile[i] * scale[j + i] * vec(root);
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
        if (!(growth(a, n_padded, nullptr) <= MOST_GROWTH<T>)) return false;
        T *t = dual_.get(), *target = image_.get();
        std::fill(t + n, t + padded<T>(n), T(0));
        std::copy_n(t, n, target);
        if (row_.has_right) subtract_shared(b, n_padded, t);
        if (!cholesky(a, n_padded, pivots_.get())) return false;
        solve_factored(a, n_padded, pivots_.get(), t, residual_.get());
        for (int64_t i = 0; i < n; ++i) {
            // sqrt(c) f . x: its square is the entry's term of x'A x.
            const double fitted = double(target[i]) - t[i];
            surplus_ += fitted * fitted;
            t[i] *= root_.get()[i];
        }
        add_rows(step_.fixed, columns_.get(), t, n, row_.right);
        for (int64_t j = 0; j < k_; ++j) x[j] = row_.inverse[j] * row_.right[j];
        return true;
    }

    // An upper bound of the Frobenius norm, and so of the largest eigenvalue, of diag(scale) a
    // diag(scale). Its smallest eigenvalue is 1, or not much less where cells weigh less than the
    // background.
    static double growth(Panels<T> a, int64_t n, const T* scale) {
        Vec<T> squares{};
        for (int64_t j = 0; j < n; j += W<T>)
            for (int64_t i = 0; i < std::min(n, j + W<T>); ++i) {
                Vec<T> row = vec(a.at(i, j));
                if (scale) row *= scale[i] * vec(scale + j);
                squares += row * row;
            }
        return std::sqrt(2.0 * sum_of<T>(squares));
    }

    // t -= B D^-1/2 right
    void subtract_shared(Panels<T> b, int64_t n_padded, T* t) {
        T* factor = residual_.get();
        for (int64_t j = 0; j < k_; ++j) factor[j] = row_.scale[j] * row_.right[j];
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
                vec(row_.right + j) += d * f;
            }
        }
    }

    bool solve_primal(T* x) {
        const Panels<T> a = diagonal_matrix();
        add_entries(0, row_.n, a);
        return blocks_.stopping() || solve_system(a, x);
    }

    // D as a matrix, with 1 in place of 0 on the diagonal.
    Panels<T> diagonal_matrix() {
        const Panels<T> a{matrix_.at_least(Panels<T>::size(k_, k_)), k_};
        std::fill_n(a.data, Panels<T>::size(k_, k_), T(0));
        for (int64_t j = 0; j < k_; ++j)
            *a.at(j, j) = row_.inverse[j] > 0 ? row_.diagonal[j] : T(1);
        return a;
    }

    // a += sum_e c_e f_e f_e', right += sum_e d_e f_e over the entries [begin, end); `begin` is 0 if
    // all entries of the row fit in memory.
    void add_entries(int64_t begin, int64_t end, Panels<T> a) {
        const Panels<T> rows{left_.at_least(2 * Panels<T>::size(CHUNK, k_)), CHUNK};
        const Panels<T> weighted{left_.get() + Panels<T>::size(CHUNK, k_), CHUNK};
        for (int64_t at = begin; at < end && !blocks_.stopping();) {
            const Part some = row_.part(at);
            const int64_t wanted = std::min(some.n, end - at);
            for (int64_t first = 0; first < wanted; first += CHUNK) {
                const int64_t n = std::min(CHUNK, wanted - first);
                const Part chunk{some.columns + first, some.curvature + first,
                                 some.pull + first, n};
                pack_primal(chunk, rows, weighted);
                rank_update(a, weighted, rows, chunk.n, 0, k_);
            }
            at += wanted;
        }
    }

    bool solve_system(Panels<T> a, T* x) {
        const T* inverse = row_.inverse;
        if (!(growth(a, k_, row_.scale) <= MOST_GROWTH<T>)) return false;
        if (!cholesky(a, k_, pivots_.get())) return false;
        for (int64_t j = 0; j < k_; ++j) x[j] = inverse[j] > 0 ? row_.right[j] : T(0);
        solve_factored(a, k_, pivots_.get(), x, residual_.get());
        return true;
    }

    // y = (D + sum_e c_e f_e f_e') x
    void apply(const T* x, T* y) {
        for (int64_t j = 0; j < k_; ++j) y[j] = row_.diagonal[j] * x[j];
        for (int64_t at = 0; at < row_.n && !blocks_.stopping();) {
            const Part some = row_.part(at);
            add_projections(step_.fixed, some.columns, some.curvature, some.n, x, y);
            at += some.n;
        }
    }

    // Returns whether the residual, in the norm of D^-1, fell to the tolerance times the right-hand
    // side. If only a number of steps is given, the first residual replaces a smaller right-hand
    // side: below the rounding error of a start far off, further steps do not help, and many make
    // it worse.
    bool conjugate_gradients(T* x, int most_steps) {
        T *r = residual_.get(), *p = direction_.get(), *image = image_.get();
        const T* inverse = row_.inverse;
        add_pulls(0, row_.n);
        for (int64_t j = 0; j < k_; ++j) x[j] = inverse[j] > 0 ? x[j] : T(0);
        apply(x, r);
        Vec<T> sizes{}, squares{};
        for (int64_t j = 0; j < k_; j += W<T>) {
            const Vec<T> right = vec(row_.right + j);
            vec(r + j) = right - vec(r + j);
            vec(p + j) = vec(inverse + j) * vec(r + j);
            sizes += right * vec(inverse + j) * right;
            squares += vec(r + j) * vec(p + j);
        }
        const SolveOptions& options = task_.options;
        T size = sum_of<T>(sizes), left = sum_of<T>(squares);
        if (!options.to_tolerance) size = std::max(size, left);
        const T enough = T(options.tolerance * options.tolerance) * size;
        for (int step = 0; left > enough; ++step) {
            const bool last = step == most_steps || blocks_.stopping();
            if (!last) apply(p, image);
            const T curvature = last ? T(0) : dot(p, image, k_);
            if (!(curvature > 0)) {
                surplus_ = dot(x, r, k_);
                return false;
            }
            const T length = left / curvature;
            squares = Vec<T>{};
            for (int64_t j = 0; j < k_; j += W<T>) {
                vec(x + j) += length * vec(p + j);
                vec(r + j) -= length * vec(image + j);
                squares += vec(r + j) * vec(inverse + j) * vec(r + j);
            }
            const T next = sum_of<T>(squares), momentum = next / left;
            for (int64_t j = 0; j < k_; j += W<T>)
                vec(p + j) = vec(inverse + j) * vec(r + j) + momentum * vec(p + j);
            left = next;
        }
        surplus_ = dot(x, r, k_);
        return true;
    }

    const Rotated<T>& step_;
    Blocks& blocks_;
    const HalfStep<T>& task_;
    Row<T> row_;
    const int64_t k_;      // padded
    double surplus_ = 0;   // The gain minus x . right.

    Buffer<T> residual_, direction_, image_, pivots_, dual_, root_, left_, matrix_;
    Buffer<int32_t> columns_;
};
