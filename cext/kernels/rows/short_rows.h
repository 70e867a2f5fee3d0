// Solves W rows of few entries at once, one in each lane, by the dual system of row_solver.h:
//
//     (I + B B') t = d / sqrt c - B g,    x = D^-1/2 (g + B' t),    g = D^-1/2 (w v + ridge prior)
//
// where B = diag(sqrt c) X and X = F D^-1/2. An entry without curvature (c = 0) has a row of zeros
// in B, and adds its d times its row of X to g. Rows are padded to the longest one, and to whole
// blocks, with entries of c = d = 0, which add exact zeros: see lanes.h.

// Rows with more entries than this are cheaper one by one, and so are rows whose X exceeds the
// cache.
constexpr int64_t MOST_SHORT = 64, MOST_BYTES = int64_t{1} << 20;

inline int64_t most_short(int64_t k) {
    return std::min({MOST_SHORT, k + k / 2, MOST_BYTES / (k * VECTOR_BYTES)});
}

template <class T>
class ShortRows {
   public:
    explicit ShortRows(const Rotated<T>& step)
        : step_(step),
          task_(step.task),
          k_(step.fixed.stride),
          most_(most_short(k_)),
          stride_(padded<T>(most_)),
          slabs_(step.fixed) {
        for (Buffer<T>* each : {&scale_, &shared_}) each->at_least(k_ * W<T>);
        const int64_t size = stride_ * W<T>;
        for (Buffer<T>* each : {&curvature_, &pull_, &root_, &dual_, &flats_, &target_,
                                &inverse_})
            each->at_least(size);
        columns_.at_least(size);
    }

    // Assigns a lane to the row; false if the row must be solved by RowSolver.
    bool add(int64_t row) {
        const int64_t begin = task_.cells.rows.indptr[row];
        const int64_t n = task_.cells.rows.indptr[row + 1] - begin;
        const bool iterate = iterates(task_.options, n, k_);
        if (n == 0 || n > most_ || iterate || !step_.curved) return false;
        if (!load_lane(row, begin, n)) return false;
        lanes_[n_lanes_++] = {row, n};
        return true;
    }

    bool full() const { return n_lanes_ == W<T>; }

    // Solves the added rows into out and gain; rows for which T is not precise enough are appended
    // to `failed` instead.
    void solve(std::vector<int64_t>& failed) {
        if (n_lanes_ == 0) return;
        fill_up();
        set_scale();
        split_entries();
        solve_dual();
        write_out(failed);
        n_lanes_ = 0;
    }

   private:
    struct Lane {
        int64_t row, n;
    };

    static int64_t whole_blocks(int64_t n) { return (n + SIDE - 1) / SIDE * SIDE; }

    // Loads the entries into the next lane; false if one has negative curvature.
    bool load_lane(int64_t row, int64_t begin, int64_t n) {
        const int64_t lane = n_lanes_ * stride_;
        const T* curvature = curvature_.get() + lane;
        load_cells(task_.cells, row, begin, n, curvature_.get() + lane, pull_.get() + lane);
        std::copy_n(task_.cells.rows.indices + begin, n, columns_.get() + lane);
        for (int64_t e = 0; e < n; ++e)
            prefetch(step_.fixed.row(columns_.get()[lane + e]), std::min(Slabs<T>::DEPTH, k_));
        T least = 0;
        for (int64_t e = 0; e < n; ++e) least = std::min(least, curvature[e]);
        return least == 0;
    }

    // Pads to whole blocks, and to whole tiles for split_entries: unused lanes repeat the first row
    // without entries, shorter rows repeat their first column.
    void fill_up() {
        n_ = 0;
        for (int l = 0; l < n_lanes_; ++l) n_ = std::max(n_, whole_blocks(lanes_[l].n));
        const int64_t n_tiled = padded<T>(n_);
        for (int l = 0; l < W<T>; ++l) {
            const int from = l < n_lanes_ ? l : 0;
            if (from != l) lanes_[l] = {lanes_[from].row, 0};
            const int64_t lane = l * stride_, begin = lane + lanes_[l].n, end = lane + n_tiled;
            std::fill(columns_.get() + begin, columns_.get() + end, columns_.get()[from * stride_]);
            std::fill(curvature_.get() + begin, curvature_.get() + end, T(0));
            std::fill(pull_.get() + begin, pull_.get() + end, T(0));
        }
    }

    // scale_ = D^-1/2
    void set_scale() {
        T weight[W<T>], ridge[W<T>], floor[W<T>];
        for (int l = 0; l < W<T>; ++l) {
            const Spectrum spectrum(step_, lanes_[l].row);
            weight[l] = T(spectrum.weight), ridge[l] = T(spectrum.ridge);
            floor[l] = T(spectrum.floor);
            sound_[l] = spectrum.sound(MOST_SPREAD<T>);
        }
        // Rows of the same length follow each other, and often share weights and ridges.
        if (has_scale_ && std::equal(weight, weight + W<T>, weight_) &&
            std::equal(ridge, ridge + W<T>, ridge_))
            return;
        has_scale_ = true;
        std::copy_n(weight, W<T>, weight_);
        std::copy_n(ridge, W<T>, ridge_);
        for (int64_t k = 0; k < k_; ++k) {
            T* scale = scale_.get() + k * W<T>;
            for (int l = 0; l < W<T>; ++l) {
                const T diagonal = weight[l] * step_.eigenvalues[k] + ridge[l];
                scale[l] = std::sqrt(diagonal > floor[l] ? 1 / diagonal : T(0));
            }
        }
    }

    // root_ = sqrt c and dual_ = d / sqrt c of entries with curvature; flats_ = d of the others.
    void split_entries() {
        const T *curvatures[W<T>], *pulls[W<T>];
        for (int l = 0; l < W<T>; ++l) {
            curvatures[l] = curvature_.get() + l * stride_;
            pulls[l] = pull_.get() + l * stride_;
        }
        const Vec<T> zero{};
        Vec<T> curvature = zero, flat = zero;
        for (int64_t at = 0; at < n_; at += W<T>) {
            Vec<T> c[W<T>], d[W<T>];
            load_transposed<T>(curvatures, at, c);
            load_transposed<T>(pulls, at, d);
            for (int i = 0; i < W<T>; ++i) {
                const int64_t e = (at + i) * W<T>;
                const Vec<T> root = square_root<T>(c[i]), rest = c[i] != zero ? zero : d[i];
                vec(root_.get() + e) = root;
                vec(dual_.get() + e) = c[i] != zero ? d[i] / root : zero;
                vec(flats_.get() + e) = rest;
                curvature += c[i];
                flat += rest < zero ? -rest : rest;
            }
        }
        curved_ = sum_of<T>(curvature) != 0;
        flat_ = sum_of<T>(flat) != 0;
    }

    // shared_ = g + B' t, and gain_ without the term x'D x.
    void solve_dual() {
        const int64_t n_blocks = n_ / SIDE, size = Triangle<T>::size(n_blocks);
        const Triangle<T> a{&vec(matrix_.at_least(size * W<T>))};
        const Vec<T>*scale = &vec(scale_.get()), *root = &vec(root_.get());
        Vec<T>*g = &vec(shared_.get()), *t = &vec(dual_.get()), *target = &vec(target_.get());
        std::fill_n(a.data, size, Vec<T>{});
        slabs_.select(columns_.get(), stride_, n_);
        slabs_.gather(scale, curved_, a);
        for (int64_t k = 0; k < k_; ++k) g[k] = step_.vector[k] * vec(weight_) * scale[k];
        if (task_.prior) add_priors(scale, g);
        if (flat_) slabs_.add_entries(&vec(flats_.get()), g);
        gain_ = Vec<T>{};
        if (!curved_) return;
        set_system(a);
        std::copy_n(t, n_, target);
        if (step_.has_vector || flat_ || task_.prior) slabs_.subtract_projections(root, g, t);
        factor_lanes(a, n_blocks, &vec(inverse_.get()));
        solve_lanes(a, n_blocks, &vec(inverse_.get()), t);
        for (int64_t e = 0; e < n_; ++e) {
            const Vec<T> fitted = target[e] - t[e];  // sqrt(c) f . x
            gain_ += fitted * fitted;
            t[e] *= root[e];
        }
        slabs_.add_entries(t, g);
    }

    // g += D^-1/2 ridge prior
    void add_priors(const Vec<T>* scale, Vec<T>* g) {
        for (int l = 0; l < W<T>; ++l) {
            const T* prior = task_.prior + lanes_[l].row * task_.k;
            for (int64_t k = 0; k < task_.k; ++k) g[k][l] += scale[k][l] * (ridge_[l] * prior[k]);
        }
    }

    // a := I + diag(root) a diag(root); lanes where its norm is too large are marked not sound.
    void set_system(Triangle<T> a) {
        const Vec<T>* root = &vec(root_.get());
        Vec<T> squares{};
        for (int64_t i = 0; i < n_; ++i)
            for (int64_t j = 0; j <= i; ++j) {
                Vec<T>& value = a.block(i / SIDE, j / SIDE)[i % SIDE * SIDE + j % SIDE];
                value *= root[i] * root[j];
                squares += value * value;
                if (i == j) value += T(1);
            }
        for (int l = 0; l < W<T>; ++l)
            sound_[l] &= 1 + std::sqrt(2.0 * squares[l]) <= MOST_GROWTH<T>;
    }

    // Writes x = D^-1/2 shared_ of each lane to its row.
    void write_out(std::vector<int64_t>& failed) {
        const Vec<T>* scale = &vec(scale_.get());
        Vec<T>*x = &vec(shared_.get()), squares{};
        for (int64_t k = 0; k < k_; ++k) {
            gain_ += x[k] * x[k];
            x[k] *= scale[k];
            squares += x[k] * x[k];
        }
        for (int l = 0; l < n_lanes_; ++l) {
            const int64_t row = lanes_[l].row;
            sound_[l] &= std::isfinite(gain_[l]) && std::isfinite(squares[l]);
            if (sound_[l]) task_.gain[row] = gain_[l];
            else failed.push_back(row);
        }
        for (int64_t at = 0; at < task_.k; at += W<T>) {
            Vec<T> tile[W<T>];
            std::copy_n(x + at, W<T>, tile);
            for (int first = 0; first < W<T>; first += PIECE<T>) transpose_pieces<T>(tile + first);
            const int64_t width = std::min<int64_t>(W<T>, task_.k - at);
            for (int l = 0; l < n_lanes_; ++l)
                if (sound_[l]) store_lane<T>(tile, l, width, task_.out + lanes_[l].row * task_.k + at);
        }
    }

    const Rotated<T>& step_;
    const HalfStep<T>& task_;
    const int64_t k_;       // padded
    const int64_t most_;    // Entries of the longest row that is accepted.
    const int64_t stride_;  // Room for the entries of a lane.
    Lane lanes_[W<T>];
    int n_lanes_ = 0;
    int64_t n_ = 0;                       // Entries of every lane, padding included.
    bool curved_ = false, flat_ = false;  // Some entry has c != 0; some has c == 0 and d != 0.
    bool has_scale_ = false, sound_[W<T>];
    alignas(VECTOR_BYTES) T weight_[W<T>], ridge_[W<T>];
    Vec<T> gain_;
    Slabs<T> slabs_;
    // The entries of each lane, lane after lane.
    Buffer<T> curvature_, pull_;
    Buffer<int32_t> columns_;
    // The values of all lanes are interleaved, by column or by entry.
    Buffer<T> scale_, shared_, root_, dual_, flats_, target_, inverse_, matrix_;
};
