// Iterates x := base + scale (W x + left (right . x)) for the matrix of a random walk, by blocks.
//
// A block's rows are cut into chunks that do not depend on the number of threads. The sums of the
// chunks are added in order, so results do not depend on it either. A block of few chunks is
// iterated by one thread, a larger one by all threads together.

constexpr int64_t WALK_CHUNK = 1 << 14;  // Approximate number of products of a chunk.
constexpr int64_t WALK_TOGETHER = 8;     // Number of chunks from which threads share a block.
constexpr int64_t WALK_LONG = 64;        // Entries of a row from which four sums are faster.

// A row of W times one column of x. The CPU overlaps the additions of several short rows; long rows
// need independent sums to hide the latency of additions.
template <class T>
MFRANK_INLINE T row_product(const T* weights, const int32_t* at, int64_t n, const T* x) {
    T sums[4] = {};
    int64_t e = 0;
    if (n >= WALK_LONG)
        for (; e + 4 <= n; e += 4)
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) sums[i] += weights[e + i] * x[at[e + i]];
    T sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (; e < n; ++e) sum += weights[e] * x[at[e]];
    return sum;
}

// The terms of a chunk in the norm of the change and in right . x, for each of k columns.
struct WalkSums {
    double *__restrict total, *__restrict low, *__restrict high, *__restrict dot;

    static int64_t size(int64_t k) { return 4 * k; }
    WalkSums(double* memory, int64_t k)
        : total(memory), low(memory + k), high(memory + 2 * k), dot(memory + 3 * k) {}

    void clear(int64_t k) {
        std::fill_n(total, k, 0.0), std::fill_n(dot, k, 0.0);
        std::fill_n(low, k, std::numeric_limits<double>::infinity());
        std::fill_n(high, k, -std::numeric_limits<double>::infinity());
    }
};

// The iteration of one block.
template <class T>
class BlockWalk {
   public:
    // `scratch` has the shape of task.x; only the block's rows of both are accessed.
    BlockWalk(const WalkTask<T>& task, int64_t block, T* scratch)
        : task_(task), block_(block), from_(task.x), to_(scratch), dots_(task.k) {
        const int64_t *indptr = task.rows.indptr, end = task.blocks[block + 1];
        chunks_.push_back(task.blocks[block]);
        for (int64_t row = chunks_.back(), work = 0; row < end; ++row) {
            work += (indptr[row + 1] - indptr[row] + 2) * task.k;
            if (work >= WALK_CHUNK || row + 1 == end) chunks_.push_back(row + 1), work = 0;
        }
        sums_.resize(n_chunks() * WalkSums::size(task.k));
        if (task.right)
            for (int64_t row = task.blocks[block]; row < end; ++row)
                for (int64_t j = 0; j < task.k; ++j)
                    dots_[j] += double(task.right[row]) * task.x[row * task.k + j];
    }

    int64_t n_chunks() const { return static_cast<int64_t>(chunks_.size()) - 1; }

    // Computes one step for the rows of a chunk.
    void advance(int64_t chunk) {
        if (task_.k > 1) task_.spread ? advance_many<true>(chunk) : advance_many<false>(chunk);
        else task_.spread ? advance_one<true>(chunk) : advance_one<false>(chunk);
    }

    // Ends a step, after all its chunks; true if it was the last step.
    bool finish() {
        double change = 0;
        for (int64_t j = 0; j < task_.k; ++j) {
            double total = 0, dot = 0, low = sums(0).low[j], high = sums(0).high[j];
            for (int64_t c = 0; c < n_chunks(); ++c) {
                const WalkSums part = sums(c);
                total += part.total[j], dot += part.dot[j];
                low = std::min(low, part.low[j]), high = std::max(high, part.high[j]);
            }
            dots_[j] = dot;
            const double norm = task_.spread ? (high - low) / 2 : total;
            if (!(norm <= change)) change = norm;  // also if it is NaN
        }
        std::swap(from_, to_);
        task_.changes[block_] = change;
        const bool enough = task_.tolerance && change <= task_.tolerance[block_];
        if (++task_.steps[block_] < task_.n_steps && !enough) return false;
        const int64_t first = chunks_.front() * task_.k, size = chunks_.back() * task_.k - first;
        if (from_ != task_.x) std::copy_n(from_ + first, size, task_.x + first);
        return true;
    }

   private:
    WalkSums sums(int64_t chunk) {
        return {sums_.data() + chunk * WalkSums::size(task_.k), task_.k};
    }

    template <bool SPREAD>
    void advance_one(int64_t chunk) {
        const Csr<T>& rows = task_.rows;
        const T *const base = task_.base, *const left = task_.left, *const right = task_.right;
        const T *const from = from_, scale = task_.scale, dot = T(dots_[0]);
        double total = 0, next_dot = 0, low = std::numeric_limits<double>::infinity(), high = -low;
        for (int64_t row = chunks_[chunk]; row < chunks_[chunk + 1]; ++row) {
            const int64_t begin = rows.indptr[row];
            T product = row_product(rows.data + begin, rows.indices + begin,
                                    rows.indptr[row + 1] - begin, from);
            if (left) product += left[row] * dot;
            const T value = base[row] + scale * product;
            const double change = double(value) - from[row];
            if (SPREAD) low = std::min(low, change), high = std::max(high, change);
            else total += std::abs(change);
            if (right) next_dot += double(right[row]) * value;
            to_[row] = value;
        }
        const WalkSums part = sums(chunk);
        *part.total = total, *part.low = low, *part.high = high, *part.dot = next_dot;
    }

    template <bool SPREAD>
    void advance_many(int64_t chunk) {
        const int64_t k = task_.k;
        WalkSums part = sums(chunk);
        part.clear(k);
        for (int64_t row = chunks_[chunk]; row < chunks_[chunk + 1]; ++row) {
            T* __restrict const to = to_ + row * k;
            product(row, to);
            const T *const was = from_ + row * k, *const base = task_.base + row * k;
            const T scale = task_.scale;
            for (int64_t j = 0; j < k; ++j) {
                to[j] = base[j] + scale * to[j];
                const double change = double(to[j]) - was[j];
                if (SPREAD) {
                    part.low[j] = change < part.low[j] ? change : part.low[j];
                    part.high[j] = change > part.high[j] ? change : part.high[j];
                } else {
                    part.total[j] += std::abs(change);
                }
            }
            if (!task_.right || task_.right[row] == 0) continue;
            const double right = task_.right[row];
            for (int64_t j = 0; j < k; ++j) part.dot[j] += right * to[j];
        }
    }

    // to = W x + left (right . x), one row, all columns.
    void product(int64_t row, T* __restrict to) const {
        const int64_t k = task_.k, begin = task_.rows.indptr[row];
        const int64_t n = task_.rows.indptr[row + 1] - begin;
        const T *const weights = task_.rows.data + begin, *const from = from_;
        const int32_t* const at = task_.rows.indices + begin;
        weighted_sum(
            [=](const auto& add) {
                for (int64_t e = 0; e < n; ++e) add(weights[e], from + at[e] * k);
            },
            k, to);
        if (!task_.left) return;
        const T* const left = task_.left + row * task_.left_k;
        if (task_.left_k == 1 && *left == 0) return;
        for (int64_t j = 0; j < k; ++j) to[j] += left[task_.left_k == 1 ? 0 : j] * T(dots_[j]);
    }

    const WalkTask<T>& task_;
    const int64_t block_;
    T *from_, *to_;
    std::vector<double> dots_;     // right . x of each column
    std::vector<int64_t> chunks_;  // first row of each chunk, and the end
    std::vector<double> sums_;     // WalkSums of each chunk
};

// All threads on one block: a step begins when all chunks of the previous step are done.
template <class T>
static void walk_together(BlockWalk<T>& walk, const WalkTask<T>& task) {
    const int64_t n_chunks = walk.n_chunks();
    std::atomic<int64_t> chunks_done{0}, steps_done{0};
    std::atomic<bool> over{false};
    const int n_threads =
        static_cast<int>(std::min<int64_t>(threads_meant(task.n_threads), n_chunks));
    share(task.n_steps * n_chunks, n_threads, [&](Blocks& blocks) {
        for (int64_t block; blocks.next(block);) {
            const int64_t step = block / n_chunks;
            while (steps_done.load(std::memory_order_acquire) < step) {
                if (over || blocks.stopping()) return;
                std::this_thread::yield();
            }
            if (over) return;
            walk.advance(block % n_chunks);
            if (chunks_done.fetch_add(1, std::memory_order_acq_rel) + 1 < (step + 1) * n_chunks)
                continue;
            if (walk.finish()) over = true;
            steps_done.store(step + 1, std::memory_order_release);
        }
    });
}

template <class T>
static void walk(const WalkTask<T>& task) {
    Buffer<T> scratch(task.rows.n_rows * task.k);
    std::vector<int64_t> small;
    for (int64_t block = 0; block < task.n_blocks; ++block) {
        task.steps[block] = 0, task.changes[block] = std::numeric_limits<double>::infinity();
        if (task.n_steps == 0) continue;
        const int64_t first = task.blocks[block], last = task.blocks[block + 1];
        const int64_t entries = task.rows.indptr[last] - task.rows.indptr[first];
        if ((entries + 2 * (last - first)) * task.k < WALK_TOGETHER * WALK_CHUNK) {
            small.push_back(block);
            continue;
        }
        BlockWalk<T> alone(task, block, scratch.get());
        walk_together(alone, task);
    }
    const int64_t n_small = static_cast<int64_t>(small.size());
    share((n_small + LISTS_AT_ONCE - 1) / LISTS_AT_ONCE, task.n_threads, [&](Blocks& blocks) {
        int64_t advanced = 0;
        for (int64_t group; blocks.next(group);) {
            const int64_t end = std::min(n_small, (group + 1) * LISTS_AT_ONCE);
            for (int64_t i = group * LISTS_AT_ONCE; i < end; ++i) {
                BlockWalk<T> one(task, small[i], scratch.get());
                do
                    for (int64_t chunk = 0; chunk < one.n_chunks(); ++chunk) {
                        if (++advanced % 64 == 0 && blocks.stopping()) return;
                        one.advance(chunk);
                    }
                while (!one.finish());
            }
        }
    });
}
