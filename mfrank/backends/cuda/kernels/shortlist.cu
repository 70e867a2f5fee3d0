// The best items of each query: a shortlist by approximate scores (sketch.cu), ranked by scores.
#include "block.cuh"
#include "half.cuh"
#include "search.cuh"
#include "select.cuh"
#include "score.cuh"

constexpr int LONGEST = 1024;                 // items on a shortlist
constexpr int PIECE = 16 / int(sizeof(T));    // factors read at a time

struct alignas(16) Eight {
    Half v[8];
};

struct alignas(16) Factors {
    T v[PIECE];
};

typedef unsigned short Key;

// A key that ascends with the number, rounded down to float16; 0 for NaN.
__device__ Key key_of(float number) {
    if (isnan(number)) return 0;
    const unsigned bits = float_to_half(number);
    const Key key = Key(bits & 0x8000u ? ~bits : bits | 0x8000u);
    return half_to_float(bits) > number ? key - 1 : key;
}

__device__ float number_of(Key key) {
    return half_to_float((unsigned short)(key & 0x8000u ? key & 0x7fffu : ~unsigned(key)));
}

__device__ T dot(const T* query, const T* item, Int k, bool in_pieces) {
    T sum = 0;
    if (in_pieces) {
#pragma unroll 8
        for (Int j = 0; j < k; j += PIECE) {
            const Factors q = *reinterpret_cast<const Factors*>(query + j);
            const Factors i = *reinterpret_cast<const Factors*>(item + j);
#pragma unroll
            for (int s = 0; s < PIECE; ++s) sum += q.v[s] * i.v[s];
        }
    } else {
        for (Int j = 0; j < k; ++j) sum += query[j] * item[j];
    }
    return sum;
}

// Between what bounds, added to its approximation, a score is: by one bound for all items, where the
// lower one is left out and its width added to the upper one, or by the items' norms.
struct Uniform {
    float room;
    __device__ float below(Int) const { return 0; }
    __device__ float above(Int) const { return room; }
};

struct ByNorm {
    const float* norms;
    float most, slope, constant;
    __device__ float below(Int item) const { return fminf(most, slope * norms[item] + constant); }
    __device__ float above(Int item) const { return below(item); }
};

struct Scratch {
    int *counts, *of_cut, *numbers;
};

// Lists the places of items that may be among the best k, in any order; returns how many there are,
// and lists at most LONGEST of them. A thread keeps the largest lower bound of a score in its
// vectors, which are DIGITS vectors apart. The k-th largest of these is below the k-th best score:
// items stay whose upper bound is not below it. Only few threads' vectors have any, since none
// exceeds the thread's largest lower bound by more than `room`.
template <class Margin>
__device__ int shortlist(const Eight* row, Int n_vectors, int k, const Margin& margin, float room,
                         const Scratch& scratch, int* places) {
    int *const numbers = scratch.numbers, *const columns = scratch.counts;
    float most = float(NAN_BITS);
#pragma unroll 4
    for (Int v = threadIdx.x; v < n_vectors; v += DIGITS) {
        const Eight eight = row[v];
#pragma unroll
        for (int s = 0; s < 8; ++s)
            most = fmaxf(most, half_to_float(eight.v[s].bits) - margin.below(8 * v + s));
    }
    if (threadIdx.x < 2) numbers[threadIdx.x] = 0;
    const Key mine = key_of(most);
    const Key kth =
        find_cut<Key>([&](Int) { return mine; }, DIGITS, k, scratch.counts, scratch.of_cut).threshold;
    const float least = kth ? number_of(kth) : -float(INFINITE);  // -infinity: fewer than k
    if (most + room >= least) columns[atomicAdd(numbers, 1)] = int(threadIdx.x);
    __syncthreads();
    bool is_full = false;
    for (int c = int(threadIdx.x) / WARP; c < numbers[0]; c += DIGITS / WARP)
        for (Int v = columns[c] + DIGITS * Int(threadIdx.x % WARP); v < n_vectors && !is_full;
             v += DIGITS * WARP) {
            const Eight eight = row[v];
#pragma unroll
            for (int s = 0; s < 8; ++s) {
                if (!(half_to_float(eight.v[s].bits) + margin.above(8 * v + s) >= least)) continue;
                const int at = atomicAdd(numbers + 1, 1);
                if (at < LONGEST) places[at] = int(8 * v) + s;
                else is_full = true;
            }
        }
    __syncthreads();
    return numbers[1];
}

// The k best items of each query and their scores, best first, ties by the lower place; padded with
// -1 and NaN. Items are rows of `items`, or shelf[row], `shelf` ascending, if it is not null.
// `unfinished` is set where the shortlist would be too long or no bound is known. One block per
// query, whose approximate scores are a row of `stride`, a multiple of 8; `bounds` and `norms` are
// as sketch.cu writes them.
extern "C" __global__ void __launch_bounds__(DIGITS)
best_of_shortlist(const Half* approximate, Int stride, const float* bounds, const float* norms,
                  const T* queries, const T* items, const T* bias, const int* shelf, Int n_factors,
                  Int k, int* ids, T* scores, bool* unfinished) {
    Int bytes = 0;
    int* const counts = shared_array<int>(bytes, DIGITS);
    int* const of_cut = shared_array<int>(bytes, DIGITS / WARP + 4);
    const Scratch scratch = {counts, of_cut, shared_array<int>(bytes, 2)};
    int* const places = shared_array<int>(bytes, LONGEST);
    T* const exact = shared_array<T>(bytes, LONGEST);
    const Int q = blockIdx.x;
    const Eight* const row = reinterpret_cast<const Eight*>(approximate + q * stride);
    const float room = bounds[3 * q];
    int n = LONGEST + 1;
    if (room < float(INFINITE)) {
        n = shortlist(row, stride / 8, int(k), Uniform{room}, room, scratch, places);
        if (n > LONGEST) {  // items of one large norm widen the margin of all
            __syncthreads();  // until all have read the number
            const ByNorm margin = {norms, room / 2, bounds[3 * q + 1], bounds[3 * q + 2]};
            n = shortlist(row, stride / 8, int(k), margin, room, scratch, places);
        }
    }
    if (threadIdx.x == 0) unfinished[q] = n > LONGEST;
    if (n > LONGEST) return;

    const T* const query = queries + q * n_factors;
    const bool in_pieces = n_factors % PIECE == 0 && Int(queries) % 16 == 0 && Int(items) % 16 == 0;
    for (int c = threadIdx.x; c < n; c += DIGITS) {
        const Int item = places[c];
        exact[c] = with_bias(dot(query, items + item * n_factors, n_factors, in_pieces), bias, item);
    }
    __syncthreads();
    for (int c = threadIdx.x; c < n; c += DIGITS) {
        const T score = exact[c];
        const int place = places[c];
        Int rank = 0;
        for (int o = 0; o < n; ++o)
            rank += exact[o] > score || (exact[o] == score && places[o] < place);
        if (rank >= k) continue;
        ids[q * k + rank] = shelf ? shelf[place] : place;
        scores[q * k + rank] = score;
    }
    for (Int rank = n + Int(threadIdx.x); rank < k; rank += DIGITS)
        ids[q * k + rank] = -1, scores[q * k + rank] = T(NAN_BITS);
}
