// Binary search in ascending lists.

#define NAN_BITS (0.0 / 0.0)

// The number of values of an ascending list that are below `value`.
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

// The number of values of an ascending list that are at most `value`.
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
