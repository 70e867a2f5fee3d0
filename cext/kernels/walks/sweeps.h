// Gauss-Seidel sweeps over waves of nodes for the stationary distributions of walks with restarts.
//
// The update of node i is
//     x_i := r_i (alpha sum x + keep dangling . x) + sum_j a_ij share_j x_j.
// Nodes are updated wave by wave, from the newest values of all other waves and the old values of
// their own wave. So threads can share a wave, and results do not depend on the number of threads.
// The products share_j x_j are stored rounded to Z, whose unit roundoff is u. After a sweep that
// changes x by c in the 1-norm, the distance of x / sum x to the solution is at most
//     (c / sum x + keep (1 + c / sum x) u) / alpha,
// because the residual after an update comes only from values that were not new.
//
// Columns are iterated LANES at a time or alone; a column stops changing when its error bound is
// small enough. No operation crosses lanes, so a column does not depend on its neighbors.

constexpr int64_t LANES = 16;
constexpr int64_t SWEEP_CHUNK = 1 << 12;  // Approximate number of products of a chunk.
constexpr int64_t AHEAD = 16;             // Prefetch distance in entries.

template <class Z>
MFRANK_INLINE Vec<double> widened(const Z* p) {
    if constexpr (std::is_same_v<Z, double>) {
        return vec(p);
    } else {
        typedef Z half __attribute__((vector_size(VECTOR_BYTES / 2), may_alias));
        return __builtin_convertvector(*reinterpret_cast<const half*>(p), Vec<double>);
    }
}

MFRANK_INLINE void narrowed(const Vec<double>& v, double* to) { vec(to) = v; }
MFRANK_INLINE void narrowed(const Vec<double>& v, float* to) {
    typedef float half __attribute__((vector_size(VECTOR_BYTES / 2), may_alias));
    *reinterpret_cast<half*>(to) = __builtin_convertvector(v, half);
}

// Cuts the rows of each wave into chunks of about equal work.
struct WaveChunks {
    std::vector<int64_t> begins, wave_of;
    std::vector<int64_t> ends_of_wave;  // one past the last chunk of each wave
    explicit WaveChunks(const StationaryTask& task) {
        const int64_t* const indptr = task.rows.indptr;
        for (int64_t wave = 0; wave < task.n_waves; ++wave) {
            int64_t work = SWEEP_CHUNK;
            for (int64_t row = task.waves[wave]; row < task.waves[wave + 1]; ++row) {
                if (work >= SWEEP_CHUNK)
                    begins.push_back(row), wave_of.push_back(wave), work = 0;
                work += indptr[row + 1] - indptr[row] + 4;
            }
            ends_of_wave.push_back(static_cast<int64_t>(begins.size()));
        }
        begins.push_back(task.rows.n_rows);
    }
    int64_t size() const { return static_cast<int64_t>(wave_of.size()); }
};

// The iteration of up to K columns.
template <class Z, int64_t K>
class Sweeps {
    static constexpr int64_t VECTORS = K == 1 ? 1 : K / W<double>;
    struct alignas(64) Sums {
        double change[K], total[K], dangling[K];
    };

   public:
    Sweeps(const StationaryTask& task, const WaveChunks& chunks, int64_t column)
        : task_(task), chunks_(chunks), column_(column), sums_(chunks.size()),
          restarts_here_(task.rows.n_rows) {
        n_lanes_ = n_active_ = std::min(K, task.starts.n_rows - column);
        const int64_t size = task.rows.n_rows * K;
        int64_t widest = 0;
        for (int64_t wave = 0; wave < task.n_waves; ++wave)
            widest = std::max(widest, task.waves[wave + 1] - task.waves[wave]);
        x_.at_least(size), restarts_.at_least(size), z_.at_least(size);
        updated_.at_least(widest * K);
        std::fill_n(restarts_.get(), size, 0.0);
        for (int64_t j = 0; j < n_lanes_; ++j) load_restarts(j), active_[j] = 1;
        if (!task.begin) std::copy_n(restarts_.get(), size, x_.get());
        else load_start();
        for (int64_t row = 0; row < task.rows.n_rows; ++row)
            for (int64_t j = 0; j < K; ++j) {
                const double value = x_.get()[row * K + j];
                z_.get()[row * K + j] = Z(value * task.shares[row]);
                total_[j] += value;
                if (task.shares[row] == 0) dangling_[j] += value;
            }
    }

    bool converged() const { return n_active_ == 0; }

    void advance(int64_t chunk) {
        if constexpr (K == 1) task_.rows.data ? lane_of<true>(chunk) : lane_of<false>(chunk);
        else task_.rows.data ? lanes_of<true>(chunk) : lanes_of<false>(chunk);
    }

    // Ends a wave, after all its chunks: makes its updated values visible to the next waves.
    void publish(int64_t wave) {
        const int64_t first = task_.waves[wave], size = task_.waves[wave + 1] - first;
        std::copy_n(updated_.get(), size * K, z_.get() + first * K);
        for (int64_t c = wave ? chunks_.ends_of_wave[wave - 1] : 0; c < chunks_.ends_of_wave[wave];
             ++c)
            for (int64_t j = 0; j < K; ++j) {
                change_[j] += sums_[c].change[j];
                total_[j] += sums_[c].total[j], dangling_[j] += sums_[c].dangling[j];
            }
        if (wave + 1 == task_.n_waves) finish_sweep();
    }

    // Writes the columns, normalized to sum 1, by nodes.
    void write() {
        const int64_t n = task_.rows.n_rows;
        const double* const x = x_.get();
        double totals[K] = {}, *const to = task_.values + column_ * n;
        for (int64_t node = 0; node < n; ++node)
            for (int64_t j = 0; j < K; ++j) totals[j] += x[task_.place[node] * K + j];
        for (int64_t node = 0; node < n; ++node)
            for (int64_t j = 0; j < n_lanes_; ++j)
                to[j * n + node] = x[task_.place[node] * K + j] / totals[j];
    }

   private:
    void load_restarts(int64_t lane) {
        const Csr<double>& starts = task_.starts;
        const int64_t column = column_ + lane;
        for (int64_t e = starts.indptr[column]; e < starts.indptr[column + 1]; ++e) {
            const int64_t row = task_.place[starts.indices[e]];
            restarts_.get()[row * K + lane] = starts.data[e], restarts_here_[row] = true;
        }
    }

    void load_start() {
        const int64_t n = task_.rows.n_rows;
        const double* const from = task_.begin + column_ * n;
        std::fill_n(x_.get(), n * K, 0.0);
        for (int64_t node = 0; node < n; ++node)
            for (int64_t j = 0; j < n_lanes_; ++j)
                x_.get()[task_.place[node] * K + j] = from[j * n + node];
    }

    double mass(int64_t lane) const {
        return (1 - task_.keep) * total_[lane] + task_.keep * dangling_[lane];
    }

    template <bool WEIGHTED>
    void lane_of(int64_t chunk) {
        const Csr<double>& rows = task_.rows;
        const Z* const z = z_.get();
        const double *const restarts = restarts_.get(), lane_mass = mass(0);
        double *const x = x_.get(), change = 0, total = 0, dangling = 0;
        Z* const updated = updated_.get() - task_.waves[chunks_.wave_of[chunk]];
        for (int64_t row = chunks_.begins[chunk]; row < chunks_.begins[chunk + 1]; ++row) {
            double sum = 0;
            for (int64_t e = rows.indptr[row]; e < rows.indptr[row + 1]; ++e) {
                const double from = z[rows.indices[e]];
                if constexpr (WEIGHTED) sum += rows.data[e] * from;
                else sum += from;
            }
            if (restarts_here_[row]) sum += restarts[row] * lane_mass;
            const double step = sum - x[row];
            change += std::abs(step), total += step;
            if (task_.shares[row] == 0) dangling += step;
            x[row] = sum, updated[row] = Z(sum * task_.shares[row]);
        }
        sums_[chunk] = {{change}, {total}, {dangling}};
    }

    template <bool WEIGHTED>
    void lanes_of(int64_t chunk) {
        using V = Vec<double>;
        const Csr<double>& rows = task_.rows;
        const Z* const z = z_.get();
        Z* const updated = updated_.get() - task_.waves[chunks_.wave_of[chunk]] * K;
        alignas(64) double masses[K], active[K];
        for (int64_t j = 0; j < K; ++j) masses[j] = mass(j), active[j] = active_[j];
        V change[VECTORS] = {}, total[VECTORS] = {}, dangling[VECTORS] = {};
        const int64_t last = rows.indptr[rows.n_rows] - 1;
        for (int64_t row = chunks_.begins[chunk]; row < chunks_.begins[chunk + 1]; ++row) {
            V sum[VECTORS] = {};
            for (int64_t e = rows.indptr[row]; e < rows.indptr[row + 1]; ++e) {
                const Z* const from = z + rows.indices[e] * K;
                __builtin_prefetch(z + rows.indices[std::min(e + AHEAD, last)] * K);
#pragma GCC unroll 8
                for (int64_t v = 0; v < VECTORS; ++v) {
                    if constexpr (WEIGHTED) sum[v] += rows.data[e] * widened(from + v * W<double>);
                    else sum[v] += widened(from + v * W<double>);
                }
            }
            const double share = task_.shares[row];
            double* const x = x_.get() + row * K;
            const double* const restarts = restarts_.get() + row * K;
#pragma GCC unroll 8
            for (int64_t v = 0; v < VECTORS; ++v) {
                const int64_t at = v * W<double>;
                if (restarts_here_[row]) sum[v] += loose(restarts + at) * vec(masses + at);
                const V old = vec(x + at), step = vec(active + at) != 0 ? sum[v] - old : V{};
                change[v] += step < 0 ? -step : step, total[v] += step;
                if (share == 0) dangling[v] += step;
                const V value = vec(active + at) != 0 ? sum[v] : old, given = value * share;
                vec(x + at) = value;
                narrowed(given, updated + row * K + at);
            }
        }
        Sums& part = sums_[chunk];
        for (int64_t v = 0; v < VECTORS; ++v) {
            const int64_t at = v * W<double>;
            vec(part.change + at) = change[v], vec(part.total + at) = total[v];
            vec(part.dangling + at) = dangling[v];
        }
    }

    // Computes the error bounds, and deactivates columns that have converged.
    void finish_sweep() {
        constexpr double rounding = std::is_same_v<Z, float> ? 0x1p-24 : 0;
        for (int64_t j = 0; j < n_lanes_; ++j) {
            if (active_[j] == 0) continue;
            const double change = change_[j] / total_[j];
            const double error = (change + task_.keep * (1 + change) * rounding) / (1 - task_.keep);
            change_[j] = 0;
            const int64_t steps = ++task_.steps[column_ + j];
            task_.errors[column_ + j] = error;
            if (steps == task_.n_steps || error <= task_.tolerance) active_[j] = 0, --n_active_;
        }
    }

    const StationaryTask& task_;
    const WaveChunks& chunks_;
    const int64_t column_;  // the first column
    Buffer<double> x_, restarts_;
    Buffer<Z> z_, updated_;  // x * share as last published, and the new values of the current wave
    std::vector<Sums> sums_;
    std::vector<char> restarts_here_;  // whether any lane restarts at the row
    double change_[K] = {}, total_[K] = {}, dangling_[K] = {}, active_[K] = {};
    int64_t n_lanes_, n_active_;
};
