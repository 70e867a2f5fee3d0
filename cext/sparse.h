// Products of a sparse matrix and a dense one, and of two dense ones at some places only.

constexpr int64_t PRODUCT_ROWS = 64;  // Rows of a task.
constexpr int ABREAST_SUMS = 8;       // Vectors of a row that are summed in registers together.

// to[0, COUNT vectors) = sum over the entries of c f, from column `at` on.
template <int COUNT, class T>
MFRANK_INLINE void sum_columns(const ProductTask<T>& task, int64_t begin, int64_t end, int64_t at,
                               T* to) {
    const Csr<T>& rows = task.rows;
    Vec<T> sums[COUNT] = {};
    for (int64_t e = begin; e < end; ++e) {
        if (e + PREFETCH_AHEAD < end)
            prefetch(task.fixed + rows.indices[e + PREFETCH_AHEAD] * task.k + at, COUNT * W<T>);
        const T* f = task.fixed + rows.indices[e] * task.k + at;
        const T c = rows.data ? rows.data[e] : T(1);
#pragma GCC unroll 8
        for (int v = 0; v < COUNT; ++v) sums[v] += c * loose(f + v * W<T>);
    }
    for (int v = 0; v < COUNT; ++v) std::memcpy(to + v * W<T>, &sums[v], sizeof sums[v]);
}

template <class T>
static void product_row(const ProductTask<T>& task, int64_t row) {
    const Csr<T>& rows = task.rows;
    const int64_t begin = rows.indptr[row], end = rows.indptr[row + 1], k = task.k;
    T* const to = task.out + row * k;
    int64_t at = 0;
    for (; at + ABREAST_SUMS * W<T> <= k; at += ABREAST_SUMS * W<T>)
        sum_columns<ABREAST_SUMS>(task, begin, end, at, to + at);
    for (; at + W<T> <= k; at += W<T>) sum_columns<1>(task, begin, end, at, to + at);
    for (; at < k; ++at) {
        T sum = 0;
        for (int64_t e = begin; e < end; ++e)
            sum += (rows.data ? rows.data[e] : T(1)) * task.fixed[rows.indices[e] * k + at];
        to[at] = sum;
    }
}

// out = rows fixed
template <class T>
static void product(const ProductTask<T>& task) {
    const int64_t n = task.rows.n_rows;
    share((n + PRODUCT_ROWS - 1) / PRODUCT_ROWS, task.n_threads, [&](Blocks& blocks) {
        for (int64_t block; blocks.next(block);)
            for (int64_t r = block * PRODUCT_ROWS; r < std::min((block + 1) * PRODUCT_ROWS, n); ++r)
                product_row(task, r);
    });
}

template <class T>
MFRANK_INLINE T loose_dot(const T* a, const T* b, int64_t k) {
    Vec<T> products{};
    int64_t j = 0;
    for (; j + W<T> <= k; j += W<T>) products += loose(a + j) * loose(b + j);
    T sum = sum_of<T>(products);
    for (; j < k; ++j) sum += a[j] * b[j];
    return sum;
}

// out[b, i] = queries[b] . items[ids[b, i]]
template <class T>
static void score(const ScoreTask<T>& task) {
    const int64_t k = task.k, n = task.n_ids;
    share(task.n_queries, task.n_threads, [&](Blocks& blocks) {
        for (int64_t b; blocks.next(b);) {
            const T* query = task.queries + b * k;
            const int64_t* ids = task.ids + b * n;
            for (int64_t i = 0; i < n; ++i) {
                if (i + PREFETCH_AHEAD < n) prefetch(task.items + ids[i + PREFETCH_AHEAD] * k, k);
                task.out[b * n + i] = loose_dot(query, task.items + ids[i] * k, k);
            }
        }
    });
}
