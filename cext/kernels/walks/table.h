// The table of the kernels in this folder.

template <class T>
static WalkKernels<T> walk_kernels() {
    WalkKernels<T> table{};
    table.walk = walk<T>;
    table.stationary = stationary<T>;
    return table;
}
