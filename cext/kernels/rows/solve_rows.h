// A half-step: solves every row, the longest first.

constexpr int64_t BLOCK_ROWS = 32, BLOCK_ENTRIES = 4096;

// The rows by descending length (for long ones, up to a factor of two), which balances the threads;
// ties stay in the order of the rows. Block b is rows[starts[b]:starts[b + 1]].
struct Schedule {
    std::vector<int64_t> rows, starts;
    int64_t n_blocks() const { return static_cast<int64_t>(starts.size()) - 1; }
};

// Sort keys: one for each length below SORTED, then one for each power of two.
constexpr int64_t SORTED = 256, N_PLACES = SORTED + 64;

static int64_t place_of(int64_t n) {
    if (n < SORTED) return N_PLACES - 1 - n;
    int64_t place = N_PLACES - 1 - SORTED;
    for (n /= SORTED; n > 1; n /= 2) --place;
    return place;
}

static Schedule longest_first(const int64_t* indptr, int64_t n_rows) {
    const auto place = [indptr](int64_t r) { return place_of(indptr[r + 1] - indptr[r]); };
    std::vector<int64_t> next(N_PLACES, 0);
    for (int64_t r = 0; r < n_rows; ++r) ++next[place(r)];
    for (int64_t total = 0, i = 0; i < N_PLACES; ++i) std::swap(next[i], total), total += next[i];
    Schedule schedule{std::vector<int64_t>(n_rows), {0}};
    for (int64_t r = 0; r < n_rows; ++r) schedule.rows[next[place(r)]++] = r;
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

// Solves blocks of rows; one per thread, with its scratch.
template <class T>
class BlockSolver {
   public:
    BlockSolver(const Rotated<T>& step, Panels<T> turn, Blocks& blocks)
        : step_(step), turn_(turn), solver_(step, blocks), short_(step) {
        plain_.at_least(BLOCK_ROWS * step.task.k);
        solutions_.at_least(BLOCK_ROWS * step.fixed.stride);
    }

    // Solves the rows into out; rows for which T is not precise enough are appended to `failed`.
    void solve(const int64_t* rows, int64_t n, std::vector<int64_t>& failed) {
        const HalfStep<T>& task = step_.task;
        const int64_t k = task.k, stride = step_.fixed.stride;
        prefetch_cells(rows, n);
        if (any_iterates(rows, n)) warm_start(rows, n);
        for (int64_t i = 0; i < n; ++i) {
            if (short_.add(rows[i])) {
                if (short_.full()) short_.solve(failed);
                continue;
            }
            if (i + 1 < n) solver_.prefetch_first(rows[i + 1]);
            T* x = solutions_.get() + i * stride;
            if (solver_.solve(rows[i], x, task.gain[rows[i]])) {
                std::copy_n(x, k, task.out + rows[i] * k);
            } else {
                failed.push_back(rows[i]);
            }
        }
        short_.solve(failed);
    }

   private:
    // Prefetches where the rows begin, then their first entries. Rows of one length lie anywhere, so
    // that the processor cannot foresee them.
    void prefetch_cells(const int64_t* rows, int64_t n) const {
        const HalfStep<T>& task = step_.task;
        const Csr<T>& cells = task.cells.rows;
        for (int64_t i = 0; i < n; ++i) {
            __builtin_prefetch(cells.indptr + rows[i]);
            __builtin_prefetch(task.weight + rows[i]);
            __builtin_prefetch(task.ridge + rows[i]);
        }
        for (int64_t i = 0; i < n; ++i) {
            const int64_t begin = cells.indptr[rows[i]];
            const int64_t some = std::min(cells.indptr[rows[i] + 1] - begin, CHUNK / 4);
            prefetch(cells.indices + begin, some);
            if (cells.data) prefetch(cells.data + begin, some);
        }
    }

    // Whether any row of the block is solved by iterations, from where it starts. That may be rows of
    // middle lengths alone: the exact solution of shorter and of longer ones costs less.
    bool any_iterates(const int64_t* rows, int64_t n) const {
        const int64_t* indptr = step_.task.cells.rows.indptr;
        const int64_t k = step_.fixed.stride;
        return std::any_of(rows, rows + n, [&](int64_t r) {
            return iterates(step_.task.options, indptr[r + 1] - indptr[r], k);
        });
    }

    void warm_start(const int64_t* rows, int64_t n) {
        const int64_t k = step_.task.k, stride = step_.fixed.stride;
        std::fill_n(solutions_.get(), n * stride, T(0));
        T* const start = step_.task.turn ? plain_.get() : solutions_.get();
        const int64_t start_stride = step_.task.turn ? k : stride;
        for (int64_t i = 0; i < n; ++i)
            std::copy_n(step_.task.start + rows[i] * k, k, start + i * start_stride);
        if (step_.task.turn)
            multiply(plain_.get(), k, n, turn_, k, solutions_.get(), stride, k);
    }

    const Rotated<T>& step_;
    const Panels<T> turn_;
    RowSolver<T> solver_;
    ShortRows<T> short_;
    Buffer<T> plain_, solutions_;
};

// Solves the heavy rows, which come first in a block each. Returns their number.
template <class T>
static int64_t solve_heavy(const Rotated<T>& step, const Schedule& schedule,
                           std::vector<int64_t>& failed) {
    static_assert(HEAVY >= SORTED && (HEAVY & (HEAVY - 1)) == 0 && HEAVY >= BLOCK_ENTRIES);
    static_assert((UNCACHED & (UNCACHED - 1)) == 0 && (POPULAR & (POPULAR - 1)) == 0);
    const int64_t* indptr = step.task.cells.rows.indptr;
    int64_t n_heavy = 0;
    for (const int64_t row : schedule.rows) {
        if (!HeavyRows<T>::includes(step, indptr[row + 1] - indptr[row])) break;
        ++n_heavy;
    }
    if (n_heavy == 0) return 0;
    HeavyRows<T> heavy(step);
    for (int64_t i = 0; i < n_heavy; ++i) heavy.solve(schedule.rows[i], failed);
    return n_heavy;
}

template <class T>
static std::vector<int64_t> solve_scheduled(const Rotated<T>& step, Panels<T> turn) {
    const Csr<T>& rows = step.task.cells.rows;
    const Schedule schedule = longest_first(rows.indptr, rows.n_rows);
    std::vector<int64_t> failed;
    const int64_t n_heavy = solve_heavy(step, schedule, failed);
    std::mutex mutex;
    share(schedule.n_blocks() - n_heavy, step.task.options.n_threads, [&](Blocks& blocks) {
        BlockSolver<T> solver(step, turn, blocks);
        std::vector<int64_t> own;
        for (int64_t block; blocks.next(block);) {
            block += n_heavy;
            const int64_t first = schedule.starts[block], last = schedule.starts[block + 1];
            solver.solve(schedule.rows.data() + first, last - first, own);
        }
        const std::lock_guard<std::mutex> lock(mutex);
        failed.insert(failed.end(), own.begin(), own.end());
    });
    std::sort(failed.begin(), failed.end());
    return failed;
}

// n if all fixed factors are 0 in the first n directions, where the shared matrix is 0; otherwise
// 0.
template <class T>
static int64_t untouched_directions(const HalfStep<T>& task, int64_t n) {
    for (int64_t r = 0; r < task.cells.rows.n_columns; ++r)
        for (int64_t j = 0; j < n; ++j)
            if (task.fixed[r * task.k + j] != 0) return 0;
    return n;
}

// Whether the curvature of any entry may be nonzero.
template <class T>
static bool has_curvature(const HalfStep<T>& task) {
    const Csr<T>& rows = task.cells.rows;
    const int64_t n_users = task.cells.users_are_rows ? rows.n_rows : rows.n_columns;
    const CellTerm& c = task.cells.curvature;
    return c.slope != 0 ||
           std::any_of(c.offset, c.offset + n_users, [](double v) { return v != 0; });
}

// The vectors that all rows share, padded, and what is known of them.
template <class T>
static Rotated<T> rotated(const HalfStep<T>& task, Table<T> fixed, bool curved,
                          Buffer<T>& vectors) {
    const int64_t k = task.k, stride = fixed.stride;
    T *eigenvalues = vectors.at_least(2 * stride), *vector = eigenvalues + stride;
    for (int64_t j = 0; j < stride; ++j) {
        eigenvalues[j] = j < k ? T(task.eigenvalues[j]) : T(0);
        vector[j] = j < k ? T(task.vector[j]) : T(0);
    }
    int64_t n_null = 0;
    while (n_null < k && task.eigenvalues[n_null] == 0) ++n_null;
    const bool has_vector = std::any_of(vector, vector + k, [](T v) { return v != 0; });
    return {task,       fixed,  eigenvalues, vector,
            has_vector, curved, untouched_directions(task, n_null)};
}

template <class T>
static std::vector<int64_t> solve_rows(const HalfStep<T>& task) {
    Buffer<T> storage(1), vectors, panels(Panels<T>::size(task.k, task.k));
    const Panels<T> turn{panels.get(), task.k};
    if (task.turn) pack(task.turn, task.k, task.k, false, turn);
    const Table<T> fixed = as_table(task, storage);
    return solve_scheduled(rotated(task, fixed, has_curvature(task), vectors), turn);
}

// Solves heavy rows, each from the sums over all of its entries. Returns those for which T is not
// precise enough, ascending.
template <class T>
static std::vector<int64_t> solve_summed(const HalfStep<T>& task, bool curved, const T* sums) {
    const int64_t stride = padded<T>(task.k), size = sums_size<T>(task.k, curved);
    Buffer<T> vectors;
    const Rotated<T> step = rotated(task, Table<T>{nullptr, stride}, curved, vectors);
    std::vector<int64_t> failed;
    std::mutex mutex;
    share(task.cells.rows.n_rows, task.options.n_threads, [&](Blocks& blocks) {
        RowSolver<T> solver(step, blocks);
        Buffer<T> own(size), x(stride);
        for (int64_t row; blocks.next(row);) {
            std::copy_n(sums + row * size, size, own.get());
            if (solver.solve_summed(row, own.get(), x.get(), task.gain[row])) {
                std::copy_n(x.get(), task.k, task.out + row * task.k);
                continue;
            }
            const std::lock_guard<std::mutex> lock(mutex);
            failed.push_back(row);
        }
    });
    std::sort(failed.begin(), failed.end());
    return failed;
}
