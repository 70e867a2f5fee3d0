// Sampling of positives and negatives. Random numbers are a function of their position in a stream,
// so every backend draws the same.
#include "block.cuh"
#include "search.cuh"
#include "select.cuh"

typedef unsigned long long Bits;

// SplitMix64 (Steele, Lea & Flood 2014) at position n of the stream `key`.
__device__ Bits random_bits(Bits key, Bits n) {
    Bits x = key + (n + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// A number in [0, 1) with 53 random bits.
__device__ double random_unit(Bits key, Bits n) {
    return double(random_bits(key, n) >> 11) * 1.1102230246251565e-16;
}

// The entries of the row of users[b] with the smallest random numbers, ascending by these, padded
// with -1. `drawn` is a workspace of the size of `cells`. One block per list.
extern "C" __global__ void __launch_bounds__(DIGITS)
draw_positives(const Int* indptr, const Int* users, Int n_places, Int key, Int* drawn, Int* cells) {
    Int bytes = 0;
    int* const counts = shared_array<int>(bytes, DIGITS);
    int* const scratch = shared_array<int>(bytes, DIGITS / WARP + 4);
    const Int begin = indptr[users[blockIdx.x]], n = indptr[users[blockIdx.x] + 1] - begin;
    Int* const mine = drawn + Int(blockIdx.x) * n_places;
    Int* const to = cells + Int(blockIdx.x) * n_places;
    // find_cut selects the largest keys, hence complements. It ignores keys of 0, hence 1 instead.
    const auto key_at = [&](Int e) {
        const Bits complement = ~random_bits(Bits(key), Bits(begin + e));
        return complement == 0 ? Bits(1) : complement;
    };
    const Cut<Bits> cut = find_cut<Bits>(key_at, n, int(n_places), counts, scratch);
    const int taken = take<Bits>(key_at, n, cut, scratch, [&](int place, Int e) { mine[place] = e; });
    __syncthreads();
    for (int i = threadIdx.x; i < taken; i += DIGITS) {
        const Bits own = key_at(mine[i]);
        int place = 0;  // Entries ascend, so of equal numbers the first entry comes first.
        for (int j = 0; j < taken; ++j) {
            const Bits other = key_at(mine[j]);
            place += other > own || (other == own && j < i);
        }
        to[place] = begin + mine[i];
    }
    for (int i = taken + threadIdx.x; i < n_places; i += DIGITS) to[i] = -1;
}

// Items that are not in the users' rows, drawn with replacement, up to `rounds` tries per place;
// `filled` if a try succeeded. Items are equally likely if `cumulative` is null.
extern "C" __global__ void __launch_bounds__(128)
draw_negatives(const Int* indptr, const int* indices, Int n_items, const Int* users, Int n_lists,
            Int n_places, Int key, const double* cumulative, Int rounds, Int* items,
            bool* filled) {
    const Int place = Int(blockIdx.x) * blockDim.x + threadIdx.x;
    if (place >= n_lists * n_places) return;
    const Int user = users[place / n_places], n = indptr[user + 1] - indptr[user];
    const int* const row = indices + indptr[user];
    bool found = false;
    Int item = 0;
    for (Int round = 0; round < rounds && !found; ++round) {
        const double u = random_unit(Bits(key), Bits(place * rounds + round));
        item = cumulative ? upper_bound(cumulative, n_items, u) : Int(u * double(n_items));
        if (item > n_items - 1) item = n_items - 1;
        const Int at = lower_bound(row, n, int(item));
        found = at == n || row[at] != int(item);
    }
    items[place] = item;
    filled[place] = found;
}
