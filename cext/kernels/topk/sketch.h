// Items compressed to one byte per factor. A search reads only these codes, a quarter of the memory
// of float32, to find the few items that may enter a query's list, and scores only those.
//
// Item i is approximately scale_i times its codes. Four codes form a word, the first in the lowest
// byte; the words of SKETCH_BLOCK items are interleaved. The score of a query of norm 1 is at most
// scale_i (query . codes) + room_i, where room_i is the norm of the quantization error plus a bound
// on rounding errors, of this estimate and of exact scores.

constexpr float CODE_UNIT = 1 << 24;  // factor of a code shifted to the top byte of its word
// Norms up to which no partial sum of a score overflows; longer items and queries are always
// scored.
constexpr double LONGEST_ITEM = 1e30, LONGEST_QUERY = 1e8;

// Computes the codes of one item within its block, its scale and its room.
template <class T>
static void sketch_item(const T* item, int64_t k, int8_t* codes, float& scale, float& room) {
    double largest = 0, square = 0, missed = 0;
    for (int64_t j = 0; j < k; ++j) {
        largest = std::max(largest, std::abs(double(item[j])));
        square += double(item[j]) * item[j];
    }
    const double unit = largest / 127, length = std::sqrt(square);
    const bool open = !(length <= LONGEST_ITEM);  // too long, or NaN
    const bool coded = !open && unit > 1e-30;     // else `scale` underflows, and room is the norm
    for (int64_t j = 0; j < k; ++j) {
        const double code = coded ? std::nearbyint(item[j] / unit) : 0;
        codes[(j / 4 * SKETCH_BLOCK) * 4 + j % 4] = static_cast<int8_t>(code);
        const double rest = item[j] - code * unit;
        missed += rest * rest;
    }
    const double eps = std::numeric_limits<float>::epsilon();
    const double left_out = std::sqrt(missed) * (1 + eps);
    const double rounding = 2 * double(k + 32) * eps * (length + left_out);
    scale = coded ? static_cast<float>(unit / CODE_UNIT) : 0.0f;
    room = std::numeric_limits<float>::infinity();
    if (!open) room = std::nextafter(static_cast<float>(left_out + rounding), room);
}

// codes (n_blocks, ceil(k / 4), SKETCH_BLOCK, 4) and scales, rooms (n_blocks, SKETCH_BLOCK) must be
// 0 on entry.
template <class T>
static void sketch(const T* items, int64_t n_items, int64_t k, int n_threads, int8_t* codes,
                   float* scales, float* rooms) {
    const int64_t words = (k + 3) / 4, n_blocks = (n_items + SKETCH_BLOCK - 1) / SKETCH_BLOCK;
    const int threads = threads_for(n_blocks, 16.0 * SKETCH_BLOCK * k, n_threads);
    for_each_list(n_blocks, threads, [=](int64_t block) {
        for (int64_t at = 0; at < std::min(SKETCH_BLOCK, n_items - block * SKETCH_BLOCK); ++at) {
            const int64_t i = block * SKETCH_BLOCK + at;
            sketch_item(items + i * k, k, codes + (block * words * SKETCH_BLOCK + at) * 4,
                        scales[i], rooms[i]);
        }
    });
}

// A query for sketches, split into its direction and its norm.
template <class T>
class SketchedQuery {
   public:
    SketchedQuery(const Sketch& sketch, const T* query, int64_t k, const T* bias)
        : sketch_(sketch), words_((k + 3) / 4), bias_(bias), unit_(words_ * 4) {
        double square = 0;
        for (int64_t j = 0; j < k; ++j) square += double(query[j]) * query[j];
        const double length = std::sqrt(square);
        length_ = length <= LONGEST_QUERY ? T(length) : std::numeric_limits<T>::infinity();
        for (int64_t j = 0; j < k; ++j)
            unit_[j] = length_ > 0 ? static_cast<float>(query[j] / length_) : 0.0f;
    }

    // Bit i of the result is set if item i of the block may score the threshold or more.
    uint32_t may_reach(int64_t block, int64_t n_items, T threshold) const {
        alignas(VECTOR_BYTES) float most[SKETCH_BLOCK];
        ceilings(block, most);
        const int64_t first = block * SKETCH_BLOCK;
        uint32_t may = 0;
        if (bias_ == nullptr) {
            for (int64_t i = 0; i < SKETCH_BLOCK; ++i)
                may |= length_ * most[i] < threshold ? 0 : uint32_t{1} << i;
        } else {
            for (int64_t i = 0; i < std::min(SKETCH_BLOCK, n_items - first); ++i)
                may |= length_ * most[i] + bias_[first + i] < threshold ? 0 : uint32_t{1} << i;
        }
        return may;
    }

   private:
    static constexpr int64_t PIECES = SKETCH_BLOCK / W<float>;
    static constexpr int64_t AHEAD = 4096;  // bytes
    typedef int32_t Words __attribute__((vector_size(VECTOR_BYTES), may_alias));

    void ceilings(int64_t block, float* most) const {
        constexpr int32_t TOP = -(1 << 24);
        const int8_t* codes = sketch_.codes + block * words_ * SKETCH_BLOCK * 4;
        Vec<float> even[PIECES] = {}, odd[PIECES] = {};
        for (const float* q = unit_.data(); q < unit_.data() + words_ * 4; q += 4)
#pragma GCC unroll 8
            for (int64_t p = 0; p < PIECES; ++p, codes += VECTOR_BYTES) {
                const Words four = *reinterpret_cast<const Words*>(codes);
                __builtin_prefetch(codes + AHEAD);
                even[p] += q[0] * __builtin_convertvector(four << 24, Vec<float>);
                odd[p] += q[1] * __builtin_convertvector((four << 16) & TOP, Vec<float>);
                even[p] += q[2] * __builtin_convertvector((four << 8) & TOP, Vec<float>);
                odd[p] += q[3] * __builtin_convertvector(four & TOP, Vec<float>);
            }
        for (int64_t p = 0; p < PIECES; ++p) {
            const int64_t first = block * SKETCH_BLOCK + p * W<float>;
            const Vec<float> near = (even[p] + odd[p]) * loose(sketch_.scales + first);
            vec(most + p * W<float>) = near + loose(sketch_.rooms + first);
        }
    }

    const Sketch& sketch_;
    int64_t words_;
    const T* bias_;
    T length_;
    std::vector<float> unit_;
};
