// A half-step: rotate the fixed factors into the eigenbasis, solve every row, rotate back.

constexpr int64_t ROTATE_ROWS = 64;
constexpr int64_t BLOCK_ROWS = 32, BLOCK_ENTRIES = 4096;

// Rows in order of falling length (to a factor of two: that balances the threads, and keeps rows
// of one length in their own order), cut into blocks; block b is rows[starts[b]:starts[b + 1]].
struct Schedule {
    std::vector<int64_t> rows, starts;
    int64_t n_blocks() const { return static_cast<int64_t>(starts.size()) - 1; }
};

static int magnitude(int64_t n) {
    int bits = 0;
    for (; n > 0; n >>= 1) ++bits;
    return bits;
}

static Schedule longest_first(const int64_t* indptr, int64_t n_rows) {
    std::vector<int64_t> place(65, 0);
    for (int64_t r = 0; r < n_rows; ++r) ++place[64 - magnitude(indptr[r + 1] - indptr[r])];
    for (int64_t total = 0, i = 0; i < 65; ++i) std::swap(place[i], total), total += place[i];
    Schedule schedule{std::vector<int64_t>(n_rows), {0}};
    for (int64_t r = 0; r < n_rows; ++r)
        schedule.rows[place[64 - magnitude(indptr[r + 1] - indptr[r])]++] = r;
    int64_t entries = 0;
    for (int64_t i = 0; i < n_rows; ++i) {
        const int64_t r = schedule.rows[i];
        entries += indptr[r + 1] - indptr[r];
        if (i + 1 - schedule.starts.back() < BLOCK_ROWS && entries < BLOCK_ENTRIES) continue;
        schedule.starts.push_back(i + 1);
        entries = 0;
    }
    if (schedule.starts.back() < n_rows) schedule.starts.push_back(n_rows);
    return schedule;
}

// Sets to 0 the parts of a rotated factor, in directions that the shared matrix does not have,
// which are no more than the rotation's rounding. Returns whether none is left.
template <class T>
static bool drop_noise(T* row, int64_t k, int64_t n_null) {
    double square = 0;
    for (int64_t j = 0; j < k; ++j) square += double(row[j]) * row[j];
    const double relative = std::max(4 * std::sqrt(double(k)) * std::numeric_limits<T>::epsilon(),
                                     1e-8);
    bool empty = true;
    for (int64_t j = 0; j < n_null; ++j) {
        if (std::abs(row[j]) <= relative * std::sqrt(square)) row[j] = 0;
        else empty = false;
    }
    return empty;
}

// The fixed factors in the eigenbasis; returns whether they have no part in null directions.
template <class T>
static bool rotate(const HalfStep<T>& task, Panels<T> basis, int64_t n_null, T* to,
                   int64_t stride) {
    const int64_t n_rows = task.cells.rows.n_columns, k = task.k;
    std::atomic<bool> empty{true};
    share((n_rows + ROTATE_ROWS - 1) / ROTATE_ROWS, task.options.n_threads, [&](Blocks& blocks) {
        for (int64_t block; blocks.next(block);) {
            const int64_t first = block * ROTATE_ROWS, n = std::min(ROTATE_ROWS, n_rows - first);
            multiply(task.fixed + first * k, k, n, basis, k, to + first * stride, stride, k);
            for (int64_t r = first; r < first + n; ++r) {
                std::fill(to + r * stride + k, to + (r + 1) * stride, T(0));
                if (n_null > 0 && !drop_noise(to + r * stride, k, n_null)) empty = false;
            }
        }
    });
    return empty;
}

// What a thread needs to solve blocks of rows.
template <class T>
class BlockSolver {
   public:
    BlockSolver(const Rotated<T>& step, Panels<T> basis, Panels<T> transposed, Blocks& blocks)
        : step_(step), basis_(basis), transposed_(transposed), solver_(step, blocks) {
        plain_.at_least(BLOCK_ROWS * step.task.k);
        rotated_.at_least(BLOCK_ROWS * step.fixed.stride);
    }

    // Solves the rows into out; those that T cannot solve keep their values and are returned.
    void solve(const int64_t* rows, int64_t n, std::vector<int64_t>& failed) {
        const HalfStep<T>& task = step_.task;
        const int64_t k = task.k, stride = step_.fixed.stride;
        if (warm_start(rows[0])) rotate_warm_start(rows, n);
        bool solved[BLOCK_ROWS];
        for (int64_t i = 0; i < n; ++i) {
            if (i + 1 < n) solver_.expect(rows[i + 1]);
            solved[i] = solver_.solve(rows[i], rotated_.get() + i * stride);
        }
        multiply(rotated_.get(), stride, n, transposed_, k, plain_.get(), k, k);
        for (int64_t i = 0; i < n; ++i) {
            if (solved[i]) std::copy_n(plain_.get() + i * k, k, task.out + rows[i] * k);
            else failed.push_back(rows[i]);
        }
    }

   private:
    bool warm_start(int64_t longest) const {
        const HalfStep<T>& task = step_.task;
        const int64_t* indptr = task.cells.rows.indptr;
        // Rows of one block differ by less than a factor of two in length.
        const int64_t n = 2 * (indptr[longest + 1] - indptr[longest]);
        return task.options.solver == Solver::conjugate_gradients ||
               (task.options.solver == Solver::automatic && prefers_cg(n, step_.fixed.stride));
    }

    void rotate_warm_start(const int64_t* rows, int64_t n) {
        const int64_t k = step_.task.k, stride = step_.fixed.stride;
        for (int64_t i = 0; i < n; ++i) {
            std::copy_n(step_.task.out + rows[i] * k, k, plain_.get() + i * k);
            std::fill_n(rotated_.get() + i * stride, stride, T(0));
        }
        multiply(plain_.get(), k, n, basis_, k, rotated_.get(), stride, k);
    }

    const Rotated<T>& step_;
    const Panels<T> basis_, transposed_;
    RowSolver<T> solver_;
    Buffer<T> plain_, rotated_;
};

template <class T>
static std::vector<int64_t> solve_rotated(const Rotated<T>& step, Panels<T> basis,
                                          Panels<T> transposed) {
    const Csr<T>& rows = step.task.cells.rows;
    const Schedule schedule = longest_first(rows.indptr, rows.n_rows);
    std::vector<int64_t> failed;
    std::mutex mutex;
    share(schedule.n_blocks(), step.task.options.n_threads, [&](Blocks& blocks) {
        BlockSolver<T> solver(step, basis, transposed, blocks);
        std::vector<int64_t> mine;
        for (int64_t block; blocks.next(block);) {
            const int64_t first = schedule.starts[block], last = schedule.starts[block + 1];
            solver.solve(schedule.rows.data() + first, last - first, mine);
        }
        const std::lock_guard<std::mutex> lock(mutex);
        failed.insert(failed.end(), mine.begin(), mine.end());
    });
    std::sort(failed.begin(), failed.end());
    return failed;
}

template <class T>
static std::vector<int64_t> solve_rows(const HalfStep<T>& task) {
    const int64_t k = task.k, stride = padded<T>(k), size = Panels<T>::size(k, k);
    Buffer<T> panels(2 * size), vectors(2 * stride), table(task.cells.rows.n_columns * stride);
    const Panels<T> basis{panels.get(), k}, transposed{panels.get() + size, k};
    pack(task.basis, k, k, false, basis);
    pack(task.basis, k, k, true, transposed);
    T *eigenvalues = vectors.get(), *vector = vectors.get() + stride;
    for (int64_t j = 0; j < stride; ++j) {
        eigenvalues[j] = j < k ? T(task.eigenvalues[j]) : T(0);
        vector[j] = j < k ? T(task.vector[j]) : T(0);
    }
    int64_t n_null = 0;
    while (n_null < k && task.eigenvalues[n_null] == 0) ++n_null;
    const bool empty = rotate(task, basis, n_null, table.get(), stride);
    const bool has_vector = std::any_of(vector, vector + k, [](T v) { return v != 0; });
    const Rotated<T> step{task,   {table.get(), stride}, eigenvalues,
                          vector, has_vector,            empty ? n_null : 0};
    return solve_rotated(step, basis, transposed);
}
