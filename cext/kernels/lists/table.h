// The table of the kernels in this folder.

template <class T>
static ListKernels<T> list_kernels() {
    ListKernels<T> table{};
    table.score = score<T>;
    table.sum_items = sum_items<T>;
    table.sum_queries = sum_queries<T>;
    table.sum_queries_of_lists = sum_queries_of_lists<T>;
    table.adam = adam<T>;
    table.tangent = tangent<T>;
    table.ball_gradients = ball_gradients<T>;
    table.project_rows = project_rows<T>;
    table.draw_positives = draw_positives;
    table.draw_negatives = draw_negatives;
    return table;
}
