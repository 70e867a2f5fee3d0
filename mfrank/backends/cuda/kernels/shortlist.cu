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

// A key that ascends with the number; 0 for NaN.
__device__ Key key_of(float number) {
    if (isnan(number)) return 0;
    const unsigned bits = float_to_half(number);
    return Key(bits & 0x8000u ? ~bits : bits | 0x8000u);
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

// Lists the places of approximate scores of at least the k-th largest minus `room`, or of all that
// are not NaN if there are fewer than k, in any order; returns how many there are, and lists at most
// LONGEST of them. A thread keeps the maximum of its vectors of scores, DIGITS vectors apart: the
// k-th largest maximum is at most the k-th largest score, and only few threads' vectors need be read
// again.
__device__ int shortlist(const Eight* row, Int n_vectors, int k, float room, int* counts,
                         int* scratch, int* numbers, int* places) {
    float most = float(NAN_BITS);
#pragma unroll 4
    for (Int v = threadIdx.x; v < n_vectors; v += DIGITS) {
        const Eight eight = row[v];
#pragma unroll
        for (int s = 0; s < 8; ++s) most = fmaxf(most, half_to_float(eight.v[s].bits));
    }
    if (threadIdx.x < 2) numbers[threadIdx.x] = 0;
    const Key mine = key_of(most);
    const Key kth = find_cut<Key>([&](Int) { return mine; }, DIGITS, k, counts, scratch).threshold;
    const float least = kth ? number_of(kth) - room : -float(INFINITE);
    int* const columns = counts;
    if (most >= least) columns[atomicAdd(numbers, 1)] = int(threadIdx.x);
    __syncthreads();
    for (int c = int(threadIdx.x) / WARP; c < numbers[0]; c += DIGITS / WARP)
        for (Int v = columns[c] + DIGITS * Int(threadIdx.x % WARP); v < n_vectors;
             v += DIGITS * WARP) {
            const Eight eight = row[v];
#pragma unroll
            for (int s = 0; s < 8; ++s) {
                if (!(half_to_float(eight.v[s].bits) >= least)) continue;
                const int at = atomicAdd(numbers + 1, 1);
                if (at < LONGEST) places[at] = int(8 * v) + s;
            }
        }
    __syncthreads();
    return numbers[1];
}

// The k best items of each query and their scores, best first, ties by the lower place; padded with
// -1 and NaN. Items are rows of `items`, or shelf[row], `shelf` ascending, if it is not null.
// `unfinished` is set where the shortlist would be too long or the room is unknown. One block per
// query, whose approximate scores are a row of `stride`, a multiple of 8.
extern "C" __global__ void __launch_bounds__(DIGITS)
best_of_shortlist(const Half* approximate, Int stride, const float* rooms, const T* queries,
                  const T* items, const T* bias, const int* shelf, Int n_factors, Int k, int* ids,
                  T* scores, bool* unfinished) {
    Int bytes = 0;
    int* const counts = shared_array<int>(bytes, DIGITS);
    int* const scratch = shared_array<int>(bytes, DIGITS / WARP + 4);
    int* const numbers = shared_array<int>(bytes, 2);
    int* const places = shared_array<int>(bytes, LONGEST);
    T* const exact = shared_array<T>(bytes, LONGEST);
    const Int q = blockIdx.x;
    const Eight* const row = reinterpret_cast<const Eight*>(approximate + q * stride);
    const bool is_known = rooms[q] < float(INFINITE);
    const int n = is_known ? shortlist(row, stride / 8, int(k), rooms[q], counts, scratch, numbers,
                                       places)
                           : LONGEST + 1;
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
