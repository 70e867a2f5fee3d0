// Standard normal numbers by position: two from each pair of uniform numbers (Box & Muller 1958),
// as in mfrank/arrays/random.py.

typedef int64_t WideBits __attribute__((vector_size(VECTOR_BYTES)));

// log(x) of normal numbers x > 0, accurate to the last bits.
MFRANK_INLINE Vec<double> log_of(Vec<double> x) {
    constexpr int MANTISSA = 52, LAST_ODD = 23;
    constexpr double MAGIC = 0x1.8p52;  // adding an integer to its bits adds the same number to it
    const WideBits root_half = (WideBits)(Vec<double>{} + 0x1.6a09e667f3bcdp-1);
    // x = 2^n m with m in [sqrt(1/2), sqrt(2))
    const WideBits bits = (WideBits)x, n = (bits - root_half) >> MANTISSA;
    const Vec<double> m = (Vec<double>)(bits - (n << MANTISSA));
    const Vec<double> power = (Vec<double>)((WideBits)(Vec<double>{} + MAGIC) + n) - MAGIC;
    // log(m) = 2 artanh(s)
    const Vec<double> s = (m - 1) / (m + 1), square = s * s;
    Vec<double> sum{};
    for (int odd = LAST_ODD; odd > 0; odd -= 2) sum = sum * square + 1.0 / odd;
    return power * 0x1.62e42fefa39efp-1 + 2 * s * sum;
}

// Cosine and sine of the angle 2 pi turns, for turns in [0, 1).
MFRANK_INLINE void on_circle(Vec<double> turns, Vec<double>& cosine, Vec<double>& sine) {
    constexpr double MAGIC = 0x1.8p52, RIGHT_ANGLE = 0x1.921fb54442d18p+0;
    // The angle is a multiple of a quarter turn plus x, at most an eighth turn to either side.
    const Vec<double> shifted = 4 * turns + MAGIC;
    const Vec<double> x = RIGHT_ANGLE * (4 * turns - (shifted - MAGIC)), square = -x * x;
    Vec<double> even = Vec<double>{} + 1, odd = Vec<double>{} + 1;
    for (int k = 16; k > 0; k -= 2) {
        even = even * (square * (1.0 / (k * (k - 1)))) + 1;
        odd = odd * (square * (1.0 / (k * (k + 1)))) + 1;
    }
    odd *= x;
    const WideBits quarter = (WideBits)shifted;
    const WideBits swap = (quarter & 1) == 1;
    const Vec<double> along = swap ? odd : even, across = swap ? even : odd;
    cosine = ((quarter + 1) & 2) == 2 ? -along : along;
    sine = (quarter & 2) == 2 ? -across : across;
}

// Writes out[0, n); number i of the first half and number i of the second half come from the same
// pair of uniform numbers.
template <class T>
static void normals(uint64_t key, int64_t n, int n_threads, T* out) {
    constexpr int64_t BLOCK = 512;
    const int64_t pairs = (n + 1) / 2, n_blocks = (pairs + BLOCK - 1) / BLOCK;
    share(n_blocks, threads_for(n_blocks, 64.0 * BLOCK, n_threads), [=](Blocks& blocks) {
        alignas(VECTOR_BYTES) double lengths[BLOCK], turns[BLOCK], sines[BLOCK];
        for (int64_t block; blocks.next(block);) {
            const int64_t first = block * BLOCK, count = std::min(BLOCK, pairs - first);
            for (int64_t i = 0; i < BLOCK; ++i) lengths[i] = 1 - random_unit(key, first + i);
            for (int64_t i = 0; i < BLOCK; ++i) turns[i] = random_unit(key, pairs + first + i);
            for (int64_t i = 0; i < BLOCK; i += W<double>)
                vec(lengths + i) = -2 * log_of(vec(lengths + i));
            for (int64_t i = 0; i < BLOCK; ++i) lengths[i] = std::sqrt(lengths[i]);
            for (int64_t i = 0; i < BLOCK; i += W<double>) {
                Vec<double> cosine, sine;
                on_circle(vec(turns + i), cosine, sine);
                vec(turns + i) = vec(lengths + i) * cosine;
                vec(sines + i) = vec(lengths + i) * sine;
            }
            for (int64_t i = 0; i < count; ++i) out[first + i] = T(turns[i]);
            for (int64_t i = 0; i < std::min(count, n - pairs - first); ++i)
                out[pairs + first + i] = T(sines[i]);
        }
    });
}
