// Scores at the places of lists, sums over the places, and Adam updates.
#include "block.cuh"
#include "gather.cuh"

// scores[b, i] = queries[b] . items[ids[b, i]], or negative squared distance; one warp per place.
extern "C" __global__ void __launch_bounds__(128)
score(const T* queries, const T* items, const Int* ids, Int n_lists, Int n_places, Int k,
      Int distances, T* scores) {
    const Int place = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (place >= n_lists * n_places) return;
    const T *const query = queries + place / n_places * k, *const item = items + ids[place] * k;
    T sum = 0;
    for (Int j = threadIdx.x % WARP; j < k; j += WARP) {
        const T apart = query[j] - item[j];
        sum += distances ? -apart * apart : query[j] * item[j];
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) scores[place] = sum;
}

// to[b] = sum of weights[e] rows[ids[e]] over e in [ends[b - 1], ends[b]), and totals[b], if not
// null, that of weights[e]; one block per sum.
extern "C" __global__ void __launch_bounds__(128)
sum_terms(const Int* ends, const Int* ids, const T* weights, const T* rows, Int k, T* to,
          T* totals) {
    Int bytes = 0;
    T* const sums = shared_array<T>(bytes, Columns(k).groups * k);
    const Int begin = blockIdx.x ? ends[blockIdx.x - 1] : 0, n = ends[blockIdx.x] - begin;
    for (Int j = threadIdx.x; j < Columns(k).groups * k; j += blockDim.x) sums[j] = 0;
    __syncthreads();
    add_rows(
        rows, k, n, [&](Int e) { return weights[begin + e]; },
        [&](Int e) { return ids[begin + e]; }, sums);
    __syncthreads();
    for (Int j = threadIdx.x; j < k; j += blockDim.x)
        to[Int(blockIdx.x) * k + j] = over_groups(sums, k, j);
    if (!totals || threadIdx.x >= WARP) return;
    T total = 0;
    for (Int e = threadIdx.x; e < n; e += WARP) total += weights[begin + e];
    total = warp_sum(total);
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

// Adam (Kingma & Ba 2015) for some rows of a table, whose update counts include this update.
extern "C" __global__ void __launch_bounds__(128)
adam(T* table, const Int* rows, const T* gradients, T* means, T* squares, const Int* updates,
     Int n_rows, Int k, double learning_rate, double decay_1, double decay_2, double epsilon) {
    const Int at = Int(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= n_rows * k) return;
    const Int row = rows[at / k], place = row * k + at % k;
    const double n = double(updates[row]);
    const T length = T(learning_rate / (1 - pow(decay_1, n)));
    const T spread = T(1 / sqrt(1 - pow(decay_2, n)));
    const T mean = T(decay_1) * means[place] + (1 - T(decay_1)) * gradients[at];
    const T square = T(decay_2) * squares[place] + (1 - T(decay_2)) * gradients[at] * gradients[at];
    means[place] = mean;
    squares[place] = square;
    table[place] -= length * mean / (spread * sqrt(square) + T(epsilon));
}
