// Sums over a row's entries of gathered factors.

// How the threads of a block share k columns: `width` of them a column each (or every width-th of
// more columns), in `groups` that take turns at the entries.
struct Columns {
    __device__ explicit Columns(Int k) {
        width = k < Int(blockDim.x) ? int((k + WARP - 1) / WARP * WARP) : int(blockDim.x);
        groups = int(blockDim.x) / width;
        column = int(threadIdx.x) % width;
        group = int(threadIdx.x) / width;
    }
    int width, groups, column, group;
};

// sums[g k + j] += over the entries e = g, g + groups, ... of coefficient(e) fixed[column(e), j].
// Where the groups are not as many as the block's width has room for, the threads left over rest.
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

// The groups' sums, at column j.
__device__ T over_groups(const T* sums, Int k, Int j) {
    const int groups = Columns(k).groups;
    T sum = 0;
    for (int g = 0; g < groups; ++g) sum += sums[g * k + j];
    return sum;
}
