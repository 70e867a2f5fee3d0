// The table of the kernels in this folder.

template <class T>
static LossKernels<T> loss_kernels() {
    LossKernels<T> table{};
    table.sum_ramps = sum_ramps<T>;
    table.push_ramps = push_ramps<T>;
    table.row_hinges = row_hinges<T>;
    table.sum_sorted_hinges = sum_sorted_hinges<T>;
    table.push_sorted_hinges = push_sorted_hinges<T>;
    table.pairs = pairs<T>;
    table.top_thresholds = top_thresholds<T>;
    table.softmax = softmax<T>;
    table.project = project<T>;
    table.normals = normals<T>;
    table.smoothed = smoothed<T>;
    table.soft_ndcg = soft_ndcg<T>;
    return table;
}
