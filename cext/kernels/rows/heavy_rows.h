// Exact solution of rows with very many entries, one after the other: all threads sum the matrix of
// the same row. Its entries are cut into PARTS parts whose sums are added in order, so that results
// do not depend on the thread count.

constexpr int64_t HEAVY = int64_t{1} << 15, PARTS = 8;

template <class T>
class HeavyRows {
   public:
    explicit HeavyRows(const Rotated<T>& step)
        : step_(step),
          k_(step.fixed.stride),
          size_(Panels<T>::size(k_, k_)),
          sums_(PARTS * (size_ + k_)),
          x_(k_) {}

    // Whether a row of n entries is heavy and solved exactly.
    static bool includes(const Rotated<T>& step, int64_t n) {
        return n >= HEAVY && step.curved && !iterates(step.task.options, n, step.fixed.stride);
    }

    // Solves the row into out; if T is not precise enough, appends it to `failed` instead.
    void solve(int64_t row, std::vector<int64_t>& failed) {
        const HalfStep<T>& task = step_.task;
        const int64_t n = task.cells.rows.indptr[row + 1] - task.cells.rows.indptr[row];
        const int64_t length = (n / PARTS + CHUNK) / CHUNK * CHUNK;
        share(PARTS, task.options.n_threads, [&](Blocks& blocks) {
            RowSolver<T> solver(step_, blocks);
            for (int64_t part; blocks.next(part);) {
                const int64_t begin = std::min(part * length, n);
                solver.sum(row, begin, std::min(begin + length, n), matrix(part), right(part));
            }
        });
        Blocks none(0);
        RowSolver<T> solver(step_, none);
        std::vector<const T*> matrices, rights;
        for (int64_t part = 0; part < PARTS; ++part) {
            matrices.push_back(matrix(part).data);
            rights.push_back(right(part));
        }
        if (solver.solve_summed(row, matrices, rights, x_.get(), task.gain[row]))
            std::copy_n(x_.get(), task.k, task.out + row * task.k);
        else failed.push_back(row);
    }

   private:
    Panels<T> matrix(int64_t part) { return {sums_.get() + part * size_, k_}; }
    T* right(int64_t part) { return sums_.get() + PARTS * size_ + part * k_; }

    const Rotated<T>& step_;
    const int64_t k_, size_;  // K padded; size of a matrix
    Buffer<T> sums_, x_;
};
