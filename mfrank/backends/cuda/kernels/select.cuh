// The k largest of many keys, by radix selection.

constexpr int DIGIT = 8, DIGITS = 1 << DIGIT;  // bits of a digit; its values, one thread for each

// Exclusive prefix sum over the block's threads; sets `total` to the full sum. `scratch` holds one
// number per warp.
__device__ int block_scan(int value, int* scratch, int& total) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int sum = value;
    for (int step = 1; step < WARP; step *= 2) {
        const int before = __shfl_up_sync(ALL_LANES, sum, step);
        if (lane >= step) sum += before;
    }
    __syncthreads();
    if (lane == WARP - 1) scratch[warp] = sum;
    __syncthreads();
    total = 0;
    int before = 0;
    for (int w = 0; w < int(blockDim.x) / WARP; ++w) {
        if (w == warp) before = total;
        total += scratch[w];
    }
    return before + sum - value;
}

// Selects the keys above `threshold` and the first `ties` keys that are equal to it.
template <class Key>
struct Cut {
    Key threshold;
    int ties;
};

template <class Key>
__device__ bool is_tie(Key key, Cut<Key> cut) {
    return key != 0 && key == cut.threshold;
}

// The cut that selects the k largest of n keys, or all of them if there are fewer; keys of 0 are
// ignored. `counts` holds DIGITS numbers, `scratch` one per warp and two more.
template <class Key, class KeyAt>
__device__ Cut<Key> find_cut(const KeyAt& key_at, Int n, int k, int* counts, int* scratch) {
    int* const found = scratch + DIGITS / WARP;
    Key prefix = 0, known = 0;
    for (int shift = int(sizeof(Key)) * 8 - DIGIT; shift >= 0; shift -= DIGIT) {
        __syncthreads();
        counts[threadIdx.x] = 0;
        __syncthreads();
        for (Int i = threadIdx.x; i < n; i += DIGITS) {
            const Key key = key_at(i);
            if (key != 0 && (key & known) == prefix)
                atomicAdd(counts + int(key >> shift & Key(DIGITS - 1)), 1);
        }
        __syncthreads();
        const int digit = DIGITS - 1 - int(threadIdx.x), count = counts[digit];
        int total;
        const int before = block_scan(count, scratch, total);
        if (total < k) return {0, 0};  // fewer keys; only at the first digit
        if (before < k && before + count >= k) found[0] = digit, found[1] = k - before;
        __syncthreads();
        prefix |= Key(found[0]) << shift;
        known |= Key(DIGITS - 1) << shift;
        k = found[1];
    }
    return {prefix, k};
}

// Calls put(place, i) for each selected key, with places in the order of i; returns their number.
template <class Key, class KeyAt, class Put>
__device__ int take(const KeyAt& key_at, Int n, Cut<Key> cut, int* scratch, const Put& put) {
    constexpr int EACH = 4;  // keys per thread and scan, to need fewer scans
    int above = 0, ties = 0;
    for (Int begin = 0; begin < n; begin += EACH * DIGITS) {
        const Int first = begin + EACH * Int(threadIdx.x);
        Key keys[EACH];
        int mine = 0;
#pragma unroll
        for (int s = 0; s < EACH; ++s) {
            keys[s] = first + s < n ? key_at(first + s) : Key(0);
            mine += int(keys[s] > cut.threshold) + (int(is_tie(keys[s], cut)) << 16);
        }
        int all;
        const int before = block_scan(mine, scratch, all);
        int above_here = above + (before & 0xffff), ties_here = ties + (before >> 16);
#pragma unroll
        for (int s = 0; s < EACH; ++s) {
            const bool tie = is_tie(keys[s], cut), taken = !tie || ties_here < cut.ties;
            const int place = above_here + (ties_here < cut.ties ? ties_here : cut.ties);
            if (taken && keys[s] != 0 && keys[s] >= cut.threshold) put(place, first + s);
            if (tie) ++ties_here;
            else if (keys[s] > cut.threshold) ++above_here;
        }
        above += all & 0xffff;
        ties += all >> 16;
    }
    return above + (ties < cut.ties ? ties : cut.ties);
}
