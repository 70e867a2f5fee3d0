// The table of the kernels in this folder.

template <class T>
static RowKernels<T> row_kernels() {
    RowKernels<T> table{};
    table.solve_rows = solve_rows<T>;
    table.rotate = rotate<T>;
    table.extrapolate = extrapolate<T>;
    table.gram = gram<T>;
    table.observed_value = observed_value<T>;
    return table;
}
