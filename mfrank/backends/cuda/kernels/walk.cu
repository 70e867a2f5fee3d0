// Iteration of a random-walk matrix: x := base + scale (W x + left (right . x)) in each block.
#include "block.cuh"
#include "gather.cuh"

#define ENDLESS (1.0 / 0.0)

constexpr int FEW_COLUMNS = 8;  // up to which the lanes of a warp divide a row's entries

// One step of row i, one warp per row; columns of its block that have stopped keep their values.
extern "C" __global__ void __launch_bounds__(128)
advance(const Int* indptr, const int* indices, const T* data, const int* block, const bool* moving,
        const T* left, Int left_k, const double* dots, const T* base, double scale, const T* x,
        Int n_rows, Int k, T* next) {
    const Int i = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (i >= n_rows) return;
    const int lane = threadIdx.x % WARP;
    const bool alone = k > FEW_COLUMNS;  // each lane computes its own columns
    for (Int j = alone ? lane : 0; j < k; j += alone ? WARP : 1) {
        T sum = 0;
        for (Int e = indptr[i] + (alone ? 0 : lane); e < indptr[i + 1]; e += alone ? 1 : WARP)
            sum += data[e] * x[Int(indices[e]) * k + j];
        if (!alone) sum = warp_sum(sum);
        const Int place = Int(block[i]) * k + j;
        if (left) sum += left[i * left_k + (left_k > 1 ? j : 0)] * T(dots[place]);
        if (alone || lane == 0)
            next[i * k + j] = moving[place] ? base[i * k + j] + T(scale) * sum : x[i * k + j];
    }
}

// For the rows [begins[c], begins[c + 1]) of chunk c and each of k columns: the sum of absolute
// changes, the smallest and the largest change, and right . next. One block per chunk.
extern "C" __global__ void __launch_bounds__(128)
sum_chunks(const Int* begins, const T* x, const T* next, const T* right, Int k, double* sums) {
    const Columns at(k);
    Int bytes = 0;
    double* const parts = shared_array<double>(bytes, 4 * at.groups * k);
    for (Int j = at.column; at.group < at.groups && j < k; j += at.width) {
        double total = 0, low = ENDLESS, high = -ENDLESS, dot = 0;
        for (Int i = begins[blockIdx.x] + at.group; i < begins[blockIdx.x + 1]; i += at.groups) {
            const double value = next[i * k + j], change = value - double(x[i * k + j]);
            total += change < 0 ? -change : change;
            low = change < low ? change : low;
            high = change > high ? change : high;
            if (right) dot += double(right[i]) * value;
        }
        double* const part = parts + (at.group * k + j) * 4;
        part[0] = total, part[1] = low, part[2] = high, part[3] = dot;
    }
    __syncthreads();
    for (Int j = threadIdx.x; j < k; j += blockDim.x) {
        double all[4] = {0, ENDLESS, -ENDLESS, 0};
        for (int g = 0; g < at.groups; ++g) {
            const double* const part = parts + (g * k + j) * 4;
            all[0] += part[0], all[3] += part[3];
            all[1] = part[1] < all[1] ? part[1] : all[1];
            all[2] = part[2] > all[2] ? part[2] : all[2];
        }
        double* const to = sums + Int(blockIdx.x) * 4 * k + j;
        to[0] = all[0], to[k] = all[1], to[2 * k] = all[2], to[3 * k] = all[3];
    }
}

// The norm of the change, and right . next, of each column of each block b, from its chunks
// [begins[b], begins[b + 1]) in order. One thread per number.
extern "C" __global__ void __launch_bounds__(128)
add_chunks(const Int* begins, const double* sums, Int n_blocks, Int k, Int spread, double* norms,
           double* dots) {
    const Int at = Int(blockIdx.x) * blockDim.x + threadIdx.x, b = at / k, j = at % k;
    if (b >= n_blocks) return;
    double all[4] = {0, ENDLESS, -ENDLESS, 0};
    for (Int c = begins[b]; c < begins[b + 1]; ++c) {
        const double* const part = sums + c * 4 * k + j;
        all[0] += part[0], all[3] += part[3 * k];
        all[1] = part[k] < all[1] ? part[k] : all[1];
        all[2] = part[2 * k] > all[2] ? part[2 * k] : all[2];
    }
    norms[at] = spread ? (all[2] - all[1]) / 2 : all[0];
    dots[at] = all[3];
}
