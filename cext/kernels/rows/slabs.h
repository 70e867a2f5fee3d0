// The scaled factors X = F D^-1/2 of the entries of W rows, one row in each lane, and products with
// X.

template <class T>
class Slabs {
   public:
    // Number of columns that are gathered, transposed and multiplied at a time.
    static constexpr int64_t DEPTH = 128;

    explicit Slabs(Table<T> fixed) : fixed_(fixed), k_(fixed.stride) {}

    // Selects the entries: n per lane. `columns` are the rows of the fixed factors, those of lane l
    // from l * stride on.
    void select(const int32_t* columns, int64_t stride, int64_t n) {
        columns_ = columns, stride_ = stride, n_ = n;
        x_.at_least(n * k_ * W<T>);
    }

    // Gathers X and, if `products`, adds the lower triangle of X X' to a.
    void gather(const Vec<T>* scale, bool products, Triangle<T> a) {
        const int64_t n_blocks = n_ / SIDE;
        for (int64_t at = 0; at < k_; at += DEPTH) {
            const int64_t depth = depth_at(at);
            gather_slab(at, depth, scale + at);
            const Vec<T>* x = slab(at);
            for (int64_t i = 0, fetched = 0; products && i < n_blocks; ++i)
                for (int64_t j = 0; j <= i; ++j) {
                    fetched = prefetch_next(at + DEPTH, fetched, n_blocks);
                    add_products<1, T>(a.block(i, j), x + i * SIDE * depth, x + j * SIDE * depth,
                                       depth, 1);
                }
        }
    }

    // to += X' coefficients
    void add_entries(const Vec<T>* coefficients, Vec<T>* to) {
        constexpr int TOGETHER = 4;
        for (int64_t at = 0; at < k_; at += DEPTH) {
            const int64_t depth = depth_at(at);
            for (int64_t k = 0; k < depth; k += TOGETHER) {
                const Vec<T>* x = slab(at) + k;
                Vec<T> sums[TOGETHER] = {};
                for (int64_t e = 0; e < n_; ++e, x += depth)
#pragma GCC unroll 4
                    for (int s = 0; s < TOGETHER; ++s) sums[s] += coefficients[e] * x[s];
                for (int s = 0; s < TOGETHER; ++s) to[at + k + s] += sums[s];
            }
        }
    }

    // to -= diag(root) X g
    void subtract_projections(const Vec<T>* root, const Vec<T>* g, Vec<T>* to) {
        for (int64_t e = 0; e < n_; e += SIDE) {
            Vec<T> sums[SIDE] = {};
            for (int64_t at = 0; at < k_; at += DEPTH) {
                const int64_t depth = depth_at(at);
                const Vec<T>* x = slab(at) + e * depth;
                for (int64_t k = 0; k < depth; ++k)
#pragma GCC unroll 4
                    for (int s = 0; s < SIDE; ++s) sums[s] += x[s * depth + k] * g[at + k];
            }
            for (int s = 0; s < SIDE; ++s) to[e + s] -= root[e + s] * sums[s];
        }
    }

   private:
    int32_t column(int64_t lane, int64_t entry) const { return columns_[lane * stride_ + entry]; }

    int64_t depth_at(int64_t at) const { return std::min(DEPTH, k_ - at); }

    // The slab that begins at column `at`: its columns for the first entry, then the next one.
    Vec<T>* slab(int64_t at) { return &vec(x_.get()) + at * n_; }

    void gather_slab(int64_t at, int64_t depth, const Vec<T>* scale) {
        Vec<T>* to = slab(at);
        for (int64_t e = 0; e < n_; ++e) {
            const T* rows[W<T>];
            for (int l = 0; l < W<T>; ++l) rows[l] = fixed_.row(column(l, e)) + at;
            for (int64_t k = 0; k < depth; k += W<T>, to += W<T>) {
                Vec<T> tile[W<T>];
                load_transposed<T>(rows, k, tile);
#pragma GCC unroll 16
                for (int l = 0; l < W<T>; ++l) to[l] = tile[l] * scale[k + l];
            }
        }
    }

    // Prefetches a part of the next slab, such that the blocks together fetch all of it.
    int64_t prefetch_next(int64_t at, int64_t first, int64_t n_blocks) const {
        if (at >= k_) return 0;
        const int64_t share = 2 * SIDE * W<T> / (n_blocks + 1) + 1;
        const int64_t last = std::min(n_ * W<T>, first + share);
        for (int64_t i = first; i < last; ++i)
            prefetch(fixed_.row(column(i % W<T>, i / W<T>)) + at, depth_at(at));
        return last;
    }

    const Table<T> fixed_;
    const int64_t k_;
    const int32_t* columns_ = nullptr;
    int64_t stride_ = 0;
    int64_t n_ = 0;  // A multiple of SIDE.
    Buffer<T> x_;
};
