// Sums over all rows or entries, in float64, in an order that is independent of the thread count.

constexpr int64_t SUM_CHUNK = 256;    // Rows that are summed in T before the sum goes to float64.
constexpr int64_t GRAM_STRIPE = 128;  // Columns of the Gram matrix per block of work.

// One block of work of the Gram matrix: the rows of one group, the columns of one stripe.
template <class T>
struct GramPart {
    const GramTask<T>& task;
    int64_t first_row, last_row, begin, end;  // columns [begin, end), end padded
    double *matrix, *vector;                  // (k, k) and (k), zero on entry
};

// Packs a chunk of rows, and the rows times their weights, into panels.
template <class T>
static void pack_weighted(const GramPart<T>& part, int64_t first, int64_t n, Panels<T> rows,
                          Panels<T> weighted) {
    const int64_t k = part.task.k, end = std::min(part.end, k);
    for (int64_t r = 0; r < n; ++r) {
        const T* row = part.task.factors + (first + r) * k;
        const double weight = part.task.weights[first + r];
        for (int64_t j = 0; j < end; j += NR<T>) {
            T *plain = rows.at(r, j), *scaled = weighted.at(r, j);
            for (int64_t l = 0; l < std::min<int64_t>(NR<T>, end - j); ++l) {
                plain[l] = row[j + l];
                scaled[l] = T(weight) * row[j + l];
            }
        }
        for (int64_t j = part.begin; j < end; ++j) part.vector[j] += weight * row[j];
    }
}

template <class T>
static void add_gram_part(const GramPart<T>& part, Buffer<T> (&scratch)[3], Blocks& blocks) {
    const int64_t size = Panels<T>::size(SUM_CHUNK, part.end), k = part.task.k;
    const Panels<T> rows{scratch[0].at_least(size), SUM_CHUNK};
    const Panels<T> weighted{scratch[1].at_least(size), SUM_CHUNK};
    const Panels<T> sum{scratch[2].at_least(Panels<T>::size(part.end, part.end)), part.end};
    std::fill_n(rows.data, size, T(0));
    std::fill_n(weighted.data, size, T(0));
    for (int64_t first = part.first_row; first < part.last_row; first += SUM_CHUNK) {
        if (blocks.stopping()) return;
        const int64_t n = std::min(SUM_CHUNK, part.last_row - first);
        pack_weighted(part, first, n, rows, weighted);
        std::fill_n(sum.at(0, part.begin), Panels<T>::size(part.end, part.end - part.begin), T(0));
        rank_update(sum, weighted, rows, n, part.begin, part.end);
        for (int64_t j = part.begin; j < std::min(part.end, k); j += NR<T>)
            for (int64_t i = 0; i < std::min(j + NR<T>, k); ++i) {
                const T* tile = sum.at(i, j);
                for (int64_t l = 0; l < std::min<int64_t>(NR<T>, std::min(part.end, k) - j); ++l)
                    part.matrix[i * k + j + l] += tile[l];
            }
    }
}

// F' diag(w) F and F' w. Each group of rows has a partial sum; these are added in order. More groups
// keep more threads busy, but their sums must stay small beside the factors.
template <class T>
static void gram(const GramTask<T>& task) {
    const int64_t k = task.k, partial = k * k + k;
    if (k == 0) return;
    const int64_t most = std::max<int64_t>(3, (int64_t{1} << 20) / partial);
    const int64_t groups = std::clamp<int64_t>(task.n_rows / 1024, 1, std::min<int64_t>(most, 32));
    const int64_t stripes = (k + GRAM_STRIPE - 1) / GRAM_STRIPE;
    std::vector<double> sums(groups * partial);
    share(groups * stripes, task.n_threads, [&](Blocks& blocks) {
        Buffer<T> scratch[3];
        for (int64_t block; blocks.next(block);) {
            const int64_t group = block / stripes, begin = block % stripes * GRAM_STRIPE;
            double* const matrix = sums.data() + group * partial;
            const int64_t end = padded<T>(std::min(begin + GRAM_STRIPE, k));
            add_gram_part(GramPart<T>{task, group * task.n_rows / groups,
                                      (group + 1) * task.n_rows / groups, begin, end, matrix,
                                      matrix + k * k},
                          scratch, blocks);
        }
    });
    for (int64_t group = 1; group < groups; ++group)
        for (int64_t i = 0; i < partial; ++i) sums[i] += sums[group * partial + i];
    for (int64_t i = 0; i < k; ++i)
        for (int64_t j = i; j < k; ++j)
            task.matrix[i * k + j] = task.matrix[j * k + i] = sums[i * k + j];
    std::copy_n(sums.data() + k * k, k, task.vector);
}

// Sum over one row's entries of c s^2 - 2 d s + k; d and k are 0 for dislikes (r < 0).
template <class T>
static double row_value(const ValueTask<T>& task, int64_t row, Blocks& blocks) {
    const Cells<T>& cells = task.cells;
    const T* left = task.row_factors + row * task.k;
    double sum = 0;
    for (int64_t e = cells.rows.indptr[row]; e < cells.rows.indptr[row + 1]; ++e) {
        if (e % 4096 == 0 && blocks.stopping()) return 0;
        const T* right = task.fixed + cells.rows.indices[e] * task.k;
        Vec<T> products{};
        int64_t j = 0;
        for (; j + W<T> <= task.k; j += W<T>) products += loose(left + j) * loose(right + j);
        double score = sum_of<T>(products);
        for (; j < task.k; ++j) score += double(left[j]) * right[j];
        const double value = cells.value(e), magnitude = std::abs(value);
        const int64_t user = cells.user(row, e);
        sum += cells.curvature.at(user, magnitude) * score * score;
        if (value > 0)
            sum += cells.constant.at(user, magnitude) - 2 * cells.pull.at(user, magnitude) * score;
        else if (cells.pull.of_dislikes != 0)
            sum += cells.constant.signed_at(user, value) -
                   2 * cells.pull.signed_at(user, value) * score;
    }
    return sum;
}

template <class T>
static double observed_value(const ValueTask<T>& task) {
    const int64_t n_rows = task.cells.rows.n_rows;
    const int64_t n_blocks = (n_rows + SUM_CHUNK - 1) / SUM_CHUNK;
    std::vector<double> sums(n_blocks);
    share(n_blocks, task.n_threads, [&](Blocks& blocks) {
        for (int64_t block; blocks.next(block);)
            for (int64_t r = block * SUM_CHUNK; r < std::min((block + 1) * SUM_CHUNK, n_rows); ++r)
                sums[block] += row_value(task, r, blocks);
    });
    double total = 0;
    for (double sum : sums) total += sum;
    return total;
}
