// The best scores of each row.
#include "block.cuh"
#include "search.cuh"
#include "select.cuh"

template <int BYTES>
struct KeyOf;
template <>
struct KeyOf<4> {
    typedef unsigned Key;
    __device__ static Key bits(float score) { return __float_as_uint(score); }
};
template <>
struct KeyOf<8> {
    typedef unsigned long long Key;
    __device__ static Key bits(double score) { return Key(__double_as_longlong(score)); }
};

typedef KeyOf<int(sizeof(T))>::Key Key;

// A key that ascends with the score and is equal for 0 and -0; 0 for NaN.
__device__ Key key_of(T score) {
    if (isnan(score)) return 0;
    const Key sign = Key(1) << (8 * sizeof(T) - 1), bits = KeyOf<int(sizeof(T))>::bits(score + T(0));
    return bits & sign ? ~bits : bits | sign;
}

// The k best of n scores of row b and their places, ascending by place; ties go to the first place.
// Padded with place -1 and score NaN.
extern "C" __global__ void __launch_bounds__(DIGITS)
select_best(const T* scores, Int n, Int k, int* places, T* best) {
    Int bytes = 0;
    int* const counts = shared_array<int>(bytes, DIGITS);
    int* const scratch = shared_array<int>(bytes, DIGITS / WARP + 4);
    const T* const row = scores + Int(blockIdx.x) * n;
    int* const to = places + Int(blockIdx.x) * k;
    T* const best_to = best + Int(blockIdx.x) * k;
    const auto key_at = [&](Int i) { return key_of(row[i]); };
    const Cut<Key> cut = find_cut<Key>(key_at, n, int(k), counts, scratch);
    const int taken = take<Key>(key_at, n, cut, scratch, [&](int place, Int i) {
        to[place] = int(i);
        best_to[place] = row[i];
    });
    for (Int place = taken + threadIdx.x; place < k; place += DIGITS)
        to[place] = -1, best_to[place] = T(NAN_BITS);
}
