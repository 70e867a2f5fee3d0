// Filters: the scores of items that a query must not get become NaN.
//
// Scores are in T or, compiled with -DHALF, in float16. Column i of a row of `stride` scores is item
// shelf[begin + i], `shelf` ascending, or item begin + i if `shelf` is null.
#include "block.cuh"
#include "fixed.cuh"
#include "search.cuh"

#ifdef HALF
__device__ F not_a_score() { return {NAN_HALF.bits}; }
#else
__device__ F not_a_score() { return F(NAN_BITS); }
#endif

// Removes query q's list, the ascending indices[begins[q]:ends[q]]. One block per query.
extern "C" __global__ void __launch_bounds__(128)
drop_listed(const Int* begins, const Int* ends, const int* indices, const int* shelf, Int begin,
            Int n_items, Int stride, F* scores) {
    const Int q = blockIdx.x;
    for (Int e = begins[q] + threadIdx.x; e < ends[q]; e += blockDim.x) {
        Int at = Int(indices[e]) - begin;
        if (shelf) {
            at = lower_bound(shelf + begin, n_items, indices[e]);
            if (at == n_items || shelf[begin + at] != indices[e]) continue;
        }
        if (at >= 0 && at < n_items) scores[q * stride + at] = not_a_score();
    }
}

// Removes all items that are not in query q's list. A grid of blocks of items by queries.
extern "C" __global__ void __launch_bounds__(128)
keep_listed(const Int* begins, const Int* ends, const int* indices, const int* shelf, Int begin,
            Int n_items, Int stride, F* scores) {
    const Int q = blockIdx.y, at = Int(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= n_items) return;
    const int item = shelf ? shelf[begin + at] : int(begin + at);
    const int* const row = indices + begins[q];
    const Int n = ends[q] - begins[q], found = lower_bound(row, n, item);
    if (found == n || row[found] != item) scores[q * stride + at] = not_a_score();
}
