// Passes over a row's entries: coefficients of the objective, and sums over gathered factors.

constexpr int64_t PREFETCH_AHEAD = 8;
constexpr int GROUP = 4;  // Gathered rows that share one pass over the vector.

template <class T>
MFRANK_INLINE void prefetch(const T* row, int64_t n) {
    for (int64_t j = 0; j < n; j += int64_t(64 / sizeof(T))) __builtin_prefetch(row + j);
}

// Rows of a factor matrix, padded to `stride` columns with zeros.
template <class T>
struct Table {
    const T* data;
    int64_t stride;
    const T* row(int64_t r) const { return data + r * stride; }
};

// Prefetches the rows of the group that begins PREFETCH_AHEAD entries after `at`.
template <class T>
MFRANK_INLINE void prefetch_group(Table<T> table, const int32_t* columns, int64_t at, int64_t n) {
    const int64_t first = at + PREFETCH_AHEAD, last = std::min(first + GROUP, n);
    for (int64_t e = first; e < last; ++e) prefetch(table.row(columns[e]), table.stride);
}

// The rows of GROUP entries from `at` on; if fewer are left, the last one is repeated.
template <class T>
MFRANK_INLINE void group_rows(Table<T> table, const int32_t* columns, int64_t at, int64_t n,
                              const T* (&rows)[GROUP]) {
    for (int g = 0; g < GROUP; ++g) rows[g] = table.row(columns[std::min(at + g, n - 1)]);
}

// x += sum_e coefficient_e f_e
template <class T>
static void add_rows(Table<T> table, const int32_t* columns, const T* coefficients, int64_t n,
                     T* x) {
    const T* rows[GROUP];
    for (int64_t e = 0; e < n; e += GROUP) {
        prefetch_group(table, columns, e, n);
        group_rows(table, columns, e, n, rows);
        T c[GROUP];
        for (int g = 0; g < GROUP; ++g) c[g] = e + g < n ? coefficients[e + g] : T(0);
        for (int64_t j = 0; j < table.stride; j += W<T>)
            vec(x + j) += (c[0] * vec(rows[0] + j) + c[1] * vec(rows[1] + j)) +
                          (c[2] * vec(rows[2] + j) + c[3] * vec(rows[3] + j));
    }
}

// y += sum_e coefficient_e f_e (f_e . x)
template <class T>
static void add_projections(Table<T> table, const int32_t* columns, const T* coefficients,
                            int64_t n, const T* x, T* y) {
    const T* rows[GROUP];
    for (int64_t e = 0; e < n; e += GROUP) {
        prefetch_group(table, columns, e, n);
        group_rows(table, columns, e, n, rows);
        Vec<T> sums[GROUP] = {};
        for (int64_t j = 0; j < table.stride; j += W<T>) {
            const Vec<T> xj = vec(x + j);
            for (int g = 0; g < GROUP; ++g) sums[g] += vec(rows[g] + j) * xj;
        }
        T c[GROUP];
        sums_of<T>(sums, c);
        for (int g = 0; g < GROUP; ++g) c[g] = e + g < n ? coefficients[e + g] * c[g] : T(0);
        for (int64_t j = 0; j < table.stride; j += W<T>)
            vec(y + j) += (c[0] * vec(rows[0] + j) + c[1] * vec(rows[1] + j)) +
                          (c[2] * vec(rows[2] + j) + c[3] * vec(rows[3] + j));
    }
}

template <class T>
static T dot(const T* a, const T* b, int64_t n) {
    Vec<T> sum{};
    for (int64_t j = 0; j < n; j += W<T>) sum += vec(a + j) * vec(b + j);
    return sum_of<T>(sum);
}

// Writes c_e and d_e of a row's entries [begin, begin + n).
template <class T>
static void load_cells(const Cells<T>& cells, int64_t row, int64_t begin, int64_t n, T* curvature,
                       T* pull) {
    const CellTerm c = cells.curvature, d = cells.pull;
    if (!cells.users_are_rows && !cells.users_are_alike) {
        for (int64_t e = 0; e < n; ++e) {
            const double value = cells.value(begin + e), magnitude = std::abs(value);
            const int64_t user = cells.user(row, begin + e);
            curvature[e] = T(c.at(user, magnitude));
            pull[e] = T(d.signed_at(user, value));
        }
        return;
    }
    const double c0 = c.offset[cells.users_are_rows ? row : 0];
    const double d0 = d.offset[cells.users_are_rows ? row : 0];
    if (!cells.rows.data) {
        std::fill_n(curvature, n, T(c0 + c.slope));
        std::fill_n(pull, n, T(d0 + d.slope));
        return;
    }
    const T* data = cells.rows.data + begin;
    for (int64_t e = 0; e < n; ++e) {
        const double value = data[e], magnitude = std::abs(value);
        curvature[e] = T(c0 + c.slope * magnitude);
        const double size = d0 + d.slope * magnitude;
        pull[e] = T(value > 0 ? size : d.of_dislikes * size);
    }
}
