// The table of the kernels in this folder.

template <class T>
static TopKKernels<T> topk_kernels() {
    TopKKernels<T> table{};
    table.top_k = top_k<T>;
    table.sketch = sketch<T>;
    return table;
}
