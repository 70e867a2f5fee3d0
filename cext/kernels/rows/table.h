// The table of the kernels in this folder.

template <class T>
static RowKernels<T> row_kernels() {
    RowKernels<T> table{};
    table.solve_rows = solve_rows<T>;
    table.summed_from = [](const SolveOptions& options, int64_t k, bool curved) {
        return summed_from(options, padded<T>(k), curved);
    };
    table.sums_size = sums_size<T>;
    table.sum_rows = sum_rows<T>;
    table.solve_summed = solve_summed<T>;
    table.rotate = rotate<T>;
    table.extrapolate = extrapolate<T>;
    table.gram = gram<T>;
    table.observed_value = observed_value<T>;
    return table;
}
