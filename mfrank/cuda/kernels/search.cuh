// Searches in ascending lists.

#define NAN_BITS (0.0 / 0.0)

// Where a value is in a list of n ascending ones, or would be.
template <class V>
__device__ Int lower_bound(const V* list, Int n, V value) {
    Int low = 0;
    while (n > 0) {
        const Int half = n / 2;
        if (list[low + half] < value) low += half + 1, n -= half + 1;
        else n = half;
    }
    return low;
}

// How many of n ascending values are not above the value.
template <class V>
__device__ Int upper_bound(const V* list, Int n, V value) {
    Int low = 0;
    while (n > 0) {
        const Int half = n / 2;
        if (value < list[low + half]) n = half;
        else low += half + 1, n -= half + 1;
    }
    return low;
}
