// Exact solution of rows with very many entries: the sums over a row's entries, sum_e c_e f_e f_e'
// and sum_e d_e f_e, are taken in parts, which are added in order. A part has the entries in one
// range of columns, and ranges depend on the number of columns alone. So a row has the same bits
// whichever threads, or workers that have a range's factors each, take its parts.

// Below, the parts of an exactly solved row are not worth a thread each.
constexpr int64_t HEAVY = int64_t{1} << 15;
// From here on, iterations would need more factors at hand than any block of other rows.
constexpr int64_t POPULAR = int64_t{1} << 22;

// Entries from which a row is solved by sums over ranges.
static int64_t summed_from(const SolveOptions& options, int64_t stride, bool curved) {
    if (!curved) return HEAVY;
    if (options.solver == Solver::conjugate_gradients) return std::numeric_limits<int64_t>::max();
    if (!iterates(options, HEAVY, stride)) return HEAVY;
    return iterates(options, UNCACHED, stride) ? POPULAR : UNCACHED;
}

// Elements of the sums of a row: a vector and, if there is curvature, a matrix.
template <class T>
static int64_t sums_size(int64_t k, bool curved) {
    const int64_t stride = padded<T>(k);
    return stride + (curved ? Panels<T>::size(stride, stride) : 0);
}

// Sums the entries of every row into `sums`.
template <class T>
static void sum_rows(const SumTask<T>& task) {
    HalfStep<T> none{};
    none.cells = task.cells, none.fixed = task.fixed, none.k = task.k;
    Buffer<T> storage(1);
    const Rotated<T> step{none, as_table(none, storage), nullptr, nullptr, false, task.curved, 0};
    const int64_t size = sums_size<T>(task.k, task.curved);
    const int64_t* indptr = task.cells.rows.indptr;
    share(task.cells.rows.n_rows, task.n_threads, [&](Blocks& blocks) {
        RowSolver<T> solver(step, blocks);
        Buffer<T> sums(size);
        for (int64_t row; blocks.next(row);) {
            solver.sum(row, 0, indptr[row + 1] - indptr[row], sums.get());
            std::copy_n(sums.get(), size, task.sums + row * size);
        }
    });
}

// Solves the heavy rows of a half-step in this process, one after the other: all threads take parts
// of the same row.
template <class T>
class HeavyRows {
   public:
    explicit HeavyRows(const Rotated<T>& step)
        : step_(step),
          size_(sums_size<T>(step.task.k, step.curved)),
          n_ranges_(n_column_ranges(step.task.cells.rows.n_columns)),
          sums_(n_ranges_ * size_),
          x_(step.fixed.stride) {}

    static bool includes(const Rotated<T>& step, int64_t n) {
        return n >= summed_from(step.task.options, step.fixed.stride, step.curved);
    }

    // Solves the row into out; if T is not precise enough, appends it to `failed` instead.
    void solve(int64_t row, std::vector<int64_t>& failed) {
        const HalfStep<T>& task = step_.task;
        const std::vector<int64_t> cuts = cuts_of(row);
        share(n_ranges_, task.options.n_threads, [&](Blocks& blocks) {
            RowSolver<T> solver(step_, blocks);
            for (int64_t i; blocks.next(i);)
                solver.sum(row, cuts[i], cuts[i + 1], sums_.get() + i * size_);
        });
        T* const total = sums_.get();
        for (int64_t i = 1; i < n_ranges_; ++i)
            for (int64_t j = 0; j < size_; j += W<T>) vec(total + j) += vec(total + i * size_ + j);
        Blocks none(0);
        RowSolver<T> solver(step_, none);
        if (solver.solve_summed(row, total, x_.get(), task.gain[row]))
            std::copy_n(x_.get(), task.k, task.out + row * task.k);
        else failed.push_back(row);
    }

   private:
    // The first entry of each range, and the end. Every entry is in one range even where columns do
    // not ascend.
    std::vector<int64_t> cuts_of(int64_t row) const {
        const Csr<T>& rows = step_.task.cells.rows;
        const int32_t *begin = rows.indices + rows.indptr[row],
                      *end = rows.indices + rows.indptr[row + 1];
        std::vector<int64_t> cuts{0};
        for (int64_t i = 1; i < n_ranges_; ++i) {
            const int64_t column = column_range_begin(i, rows.n_columns);
            const int64_t cut = std::lower_bound(begin, end, column) - begin;
            cuts.push_back(std::max(cuts.back(), cut));
        }
        cuts.push_back(end - begin);
        return cuts;
    }

    const Rotated<T>& step_;
    const int64_t size_, n_ranges_;
    Buffer<T> sums_, x_;
};
