// Sums of gathered factors over a row's entries.

// How the threads of a block divide k columns: in `groups` of `width` threads. Each thread of a
// group sums one column (or every width-th), and the groups take the entries in turn.
struct Columns {
    __device__ explicit Columns(Int k) {
        width = k < Int(blockDim.x) ? int((k + WARP - 1) / WARP * WARP) : int(blockDim.x);
        groups = int(blockDim.x) / width;
        column = int(threadIdx.x) % width;
        group = int(threadIdx.x) / width;
    }
    int width, groups, column, group;
};

// sums[g k + j] += sum of coefficient(e) fixed[column(e), j] over entries e = g, g + groups, ...
// Threads beyond the last whole group do nothing.
template <class Factor, class Coefficient, class Column>
__device__ void add_rows(const Factor* fixed, Int k, Int n, const Coefficient& coefficient,
                         const Column& column, T* sums) {
    const Columns at(k);
    if (at.group >= at.groups) return;
    for (Int j = at.column; j < k; j += at.width) {
        T sum = 0;
        for (Int e = at.group; e < n; e += at.groups) {
            const T c = coefficient(e);
            if (c != 0) sum += c * T(fixed[column(e) * k + j]);
        }
        sums[at.group * k + j] += sum;
    }
}

// The sum over the groups at column j.
__device__ T over_groups(const T* sums, Int k, Int j) {
    const int groups = Columns(k).groups;
    T sum = 0;
    for (int g = 0; g < groups; ++g) sum += sums[g * k + j];
    return sum;
}
