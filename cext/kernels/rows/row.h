// The system of one row in the eigenbasis of the shared matrix: its diagonal part D, the right-hand
// side that all rows share, and the coefficients of its entries.

constexpr int64_t CHUNK = 256;  // Entries of a long row that are processed at a time.

// The half-step in the eigenbasis; all vectors padded to `fixed.stride`.
template <class T>
struct Rotated {
    const HalfStep<T>& task;
    Table<T> fixed;
    const T *eigenvalues, *vector;
    bool has_vector;    // `vector` is not 0.
    bool curved;        // Some entry may have nonzero curvature.
    int64_t untouched;  // Number of leading directions in which all fixed factors are 0.
};

// The fixed factors with every row aligned and padded to whole vectors: the array itself if it is
// so already, else a copy in `storage`.
template <class T>
static Table<T> as_table(const HalfStep<T>& task, Buffer<T>& storage) {
    const int64_t k = task.k, stride = padded<T>(k), n = task.cells.rows.n_columns;
    if (stride == k && reinterpret_cast<uintptr_t>(task.fixed) % VECTOR_BYTES == 0)
        return {task.fixed, k};
    T* const copy = storage.at_least(n * stride);
    for (int64_t r = 0; r < n; ++r) {
        std::copy_n(task.fixed + r * k, k, copy + r * stride);
        std::fill(copy + r * stride + k, copy + (r + 1) * stride, T(0));
    }
    return {copy, stride};
}

// Largest ratio of D's largest to its smallest value for which T is precise enough; other rows are
// solved in a wider type.
template <class T>
constexpr double MOST_SPREAD = sizeof(T) == 4 ? 1e7 : 1e13;

// The range of the diagonal D of a row.
struct Spectrum {
    template <class T>
    Spectrum(const Rotated<T>& step, int64_t row)
        : weight(step.task.weight[row]), ridge(step.task.ridge[row]) {
        const int64_t k = step.task.k;
        largest = weight * step.task.eigenvalues[k - 1] + ridge;
        smallest = weight * step.task.eigenvalues[std::min(step.untouched, k - 1)] + ridge;
        floor = largest * k * std::numeric_limits<double>::epsilon();
        nothing_to_fit = step.untouched == k;
    }

    // Whether T can tell D's small values from 0 in the directions that fixed factors span.
    bool sound(double most_spread) const {
        return nothing_to_fit || (largest > 0 && smallest * most_spread >= largest);
    }

    double weight, ridge;
    double largest, smallest, floor;  // Values up to the floor count as 0.
    bool nothing_to_fit;
};

template <class T>
class Row {
   public:
    // Coefficients of some consecutive entries.
    struct Part {
        const int32_t* columns;
        const T *curvature, *pull;
        int64_t n;
    };

    explicit Row(const Rotated<T>& step)
        : k(step.fixed.stride), step_(step), task_(step.task), capacity_(std::max(CHUNK, k)) {
        for (Buffer<T>* vector : {&diagonal_, &inverse_, &scale_, &right_}) vector->at_least(k);
        for (Buffer<T>* vector : {&curvature_, &pull_}) vector->at_least(capacity_);
        diagonal = diagonal_.get(), inverse = inverse_.get(), scale = scale_.get();
        right = right_.get();
    }

    // Loads a row. Returns the same as load_shared(); true for a row without entries.
    bool load(int64_t row, double most_spread) {
        select(row);
        const bool sound = load_shared(row, most_spread);
        classify();
        return n == 0 || sound;
    }

    // Loads what a row has beside its entries. False if T cannot tell D's small values from 0 in a
    // direction that fixed factors span.
    bool load_shared(int64_t row, double most_spread) {
        row_ = row;
        const bool sound = set_diagonal(most_spread);
        set_right();
        return sound;
    }

    // Selects a row for part(), without its diagonal and right-hand side.
    void select(int64_t row) {
        row_ = row;
        begin_ = task_.cells.rows.indptr[row];
        n = task_.cells.rows.indptr[row + 1] - begin_;
        loaded_ = false;
    }

    // The entries from `at` on: all of them, or the next CHUNK if the row does not fit in memory.
    Part part(int64_t at) {
        const bool fits = n <= capacity_;
        const int64_t count = fits ? n : std::min(CHUNK, n - at);
        if (!fits || !loaded_)
            load_cells(task_.cells, row_, begin_ + at, count, curvature_.get(), pull_.get());
        loaded_ = true;
        return {task_.cells.rows.indices + begin_ + at, curvature_.get(), pull_.get(), count};
    }

    // Resets `right` to w v + ridge prior.
    void set_right() {
        const T weight = T(task_.weight[row_]);
        for (int64_t j = 0; j < k; ++j) right[j] = weight * step_.vector[j];
        has_right = step_.has_vector && weight != 0;
        if (!task_.prior) return;
        const T ridge = T(task_.ridge[row_]), *prior = task_.prior + row_ * task_.k;
        for (int64_t j = 0; j < task_.k; ++j) right[j] += ridge * prior[j];
        has_right = true;
    }

    const int64_t k;  // padded
    int64_t n = 0;    // entries
    // D; 1/D, or 0 where D counts as 0; sqrt(1/D); and w v + ridge prior, to which
    // solvers add sum_e d_e f_e.
    T *diagonal, *inverse, *scale, *right;
    bool curved = false, negative = false;  // Some c_e is not 0; some c_e is negative.
    bool has_right = false;                 // `right` is not 0.

   private:
    bool set_diagonal(double most_spread) {
        const Spectrum spectrum(step_, row_);
        const T floor = T(spectrum.floor);
        for (int64_t j = 0; j < k; ++j) {
            diagonal[j] = T(spectrum.weight) * step_.eigenvalues[j] + T(spectrum.ridge);
            inverse[j] = diagonal[j] > floor ? 1 / diagonal[j] : T(0);
        }
        if (step_.curved)
            for (int64_t j = 0; j < k; ++j) scale[j] = std::sqrt(inverse[j]);
        return spectrum.sound(most_spread);
    }

    void classify() {
        curved = negative = false;
        if (!step_.curved) return;
        for (int64_t at = 0; at < n;) {
            const Part some = part(at);
            for (int64_t e = 0; e < some.n; ++e) {
                curved |= some.curvature[e] != 0;
                negative |= some.curvature[e] < 0;
            }
            at += some.n;
        }
    }

    const Rotated<T>& step_;
    const HalfStep<T>& task_;
    const int64_t capacity_;
    int64_t row_ = 0, begin_ = 0;
    bool loaded_ = false;
    Buffer<T> diagonal_, inverse_, scale_, right_, curvature_, pull_;
};
