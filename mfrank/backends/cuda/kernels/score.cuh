// The score of a query and an item. Every kernel adds the products of their factors one after the
// other, in the order of the factors, and ends here: so a pair's score has the same bits wherever
// it is computed.

// The sum of the products, plus the bias; -0 becomes 0.
__device__ T with_bias(T sum, const T* bias, Int item) {
    return sum + (bias ? bias[item] : T(0));
}
