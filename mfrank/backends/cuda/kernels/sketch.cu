// Sketches: queries and items rounded to float16, whose products tensor cores compute, and how far
// such an approximate score can be from the score.
//
// A query's factors q are scaled by a power of two of its own, those of all items i by a common one,
// so that the norms of (q, 1) and (i, b), with b the item's bias, are at most 2^7: products neither
// overflow nor lose much to subnormal numbers. Let u = 2^-11, K the columns of a sketch, all numbers
// be scaled, and r = |q| |i| + |b|, which bounds the sum of the K products' absolute values.
//
// 1. A number x becomes x (1 + d) + e with |d| <= u and |e| <= 2^-25. So the sum of the products of
//    rounded numbers is off by (2 u + u^2) r and, by sqrt(K) 2^7 as bound of the sum of the absolute
//    values of each side, by 2^-17 sqrt(K).
// 2. Tensor cores sum in float32, perhaps truncating: off by K 2^-22 r.
// 3. The result is rounded to float16: off by u r + 2^-25.
// 4. The score itself is a sum in float32 or float64: off by K 2^-23 r.
//
// Terms of higher order, and the roundings of doubles to float and of the bound itself, are within
// 2^-19 r and another 2^-17 sqrt(K). Altogether |approximate score - score| is at most
// (3 u + 2^-19 + K 2^-21) r + 2^-16 sqrt(K).
#include "block.cuh"
#include "half.cuh"

constexpr int MOST_EXPONENT = 7;
// Bounds of |q| |i| + |b|, not scaled, between which no score overflows, and none loses what counts
// to subnormal numbers. Beyond them the bound is unknown.
constexpr double LEAST_REACH = 1e-30, MOST_REACH = 1e37;

// The row's norm, to all lanes of the warp; infinity if it is not finite.
__device__ double norm_of(const T* row, Int k) {
    const int lane = int(threadIdx.x) % WARP;
    double largest = 0;
    for (Int j = lane; j < k; j += WARP) largest = fmax(largest, fabs(double(row[j])));
    for (int step = WARP / 2; step > 0; step /= 2)
        largest = fmax(largest, __shfl_xor_sync(ALL_LANES, largest, step));
    const double unit = largest > 0 ? largest : 1, per_unit = 1 / unit;
    double sum = 0;
    for (Int j = lane; j < k; j += WARP) sum += row[j] * per_unit * (row[j] * per_unit);
    const double norm = unit * sqrt(warp_sum(sum));
    return norm < INFINITE ? norm : INFINITE;  // also if it is NaN
}

// The power of two that makes a norm at most 2^MOST_EXPONENT.
__device__ int exponent_for(double norm) {
    if (!(norm > 0 && norm < INFINITE)) return 0;
    int exponent;
    frexp(norm, &exponent);
    return MOST_EXPONENT - exponent;
}

// Writes a row of k factors, `last` and zeros, `width` in all, scaled by a power of two.
__device__ void write_sketch(const T* row, Int k, T last, int exponent, Int width, Half* to) {
    for (Int j = threadIdx.x % WARP; j < width; j += WARP) {
        const T value = j < k ? row[j] : j == k ? last : T(0);
        to[j].bits = float_to_half(float(ldexp(value, exponent)));
    }
}

// Norms of rows; one warp per row, here and below.
extern "C" __global__ void __launch_bounds__(128)
norms(const T* rows, Int n, Int k, double* to) {
    const Int r = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (r >= n) return;
    const double norm = norm_of(rows + r * k, k);
    if (threadIdx.x % WARP == 0) to[r] = norm;
}

// Sketches of n items, followed by rows of NaN up to `stride` rows; scaled norms of the items with
// their biases, followed by zeros.
extern "C" __global__ void __launch_bounds__(128)
sketch_items(const T* items, Int n, Int k, const double* norms, const T* bias,
             const double* longest, const double* largest_bias, Int stride, Int width, Half* to,
             float* scaled_norms) {
    const Int i = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (i >= stride) return;
    const bool is_first = threadIdx.x % WARP == 0;
    if (i >= n) {
        if (is_first) scaled_norms[i] = 0;
        for (Int j = threadIdx.x % WARP; j < width; j += WARP) to[i * width + j] = NAN_HALF;
        return;
    }
    const int exponent = exponent_for(hypot(*longest, bias ? *largest_bias : 0.0));
    write_sketch(items + i * k, k, bias ? bias[i] : T(0), exponent, width, to + i * width);
    const double norm = bias ? hypot(norms[i], double(bias[i])) : norms[i];
    if (is_first) scaled_norms[i] = float(ldexp(norm, exponent));
}

// Sketches of n queries, and three numbers of each: twice the bound for all items, or infinity if
// none is known; the bound for one item by its scaled norm, a slope and a constant, by
// r <= |(q, 1)| |(i, b)|. `largest_bias` is null if there are no biases.
extern "C" __global__ void __launch_bounds__(128)
sketch_queries(const T* queries, Int n, Int k, const double* longest, const double* largest_bias,
               Int width, Half* to, float* bounds) {
    const Int q = (Int(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (q >= n) return;
    const double norm = norm_of(queries + q * k, k), bias = largest_bias ? *largest_bias : 0;
    const double whole_norm = largest_bias ? hypot(norm, 1.0) : norm;
    const int exponent = exponent_for(whole_norm);
    write_sketch(queries + q * k, k, T(largest_bias ? 1 : 0), exponent, width, to + q * width);
    if (threadIdx.x % WARP) return;
    const double relative = ldexp(3.0, -11) + ldexp(1.0, -19) + ldexp(double(width), -21);
    const double absolute = ldexp(sqrt(double(width)), -16);
    const double reach = norm * *longest + bias;
    const double scaled = ldexp(reach, exponent + exponent_for(hypot(*longest, bias)));
    const bool is_known = reach >= LEAST_REACH && reach <= MOST_REACH;  // false for NaN
    bounds[3 * q] = float(is_known ? 2 * (relative * scaled + absolute) : INFINITE);
    bounds[3 * q + 1] = float(relative * ldexp(whole_norm, exponent));
    bounds[3 * q + 2] = float(absolute);
}
