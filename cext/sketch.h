// Items at a byte a factor: a quarter of the memory tells which few may enter the list of a query,
// and only these are scored.
//
// Compiled once per instruction set, after vectors.h. Item i is nearly scale_i times its codes, of
// which four stand in a word, the first lowest, and the words of BLOCK items side by side. No score
// of a query of length 1 is above scale_i (query . codes) + room_i: room is the length of what the
// codes leave out, and what rounding may add, here and where scores are exact.

constexpr float CODE_UNIT = 1 << 24;  // a code at the top of its word is so many times itself
// Lengths up to which no sum on the way to a score overflows; what is longer is always scored.
constexpr double LONGEST_ITEM = 1e30, LONGEST_QUERY = 1e8;

// The words of a block, and what an item's codes leave out.
template <class T>
static void sketch_item(const T* item, int64_t k, int8_t* codes, float& scale, float& room) {
    double largest = 0, square = 0, missed = 0;
    for (int64_t j = 0; j < k; ++j) {
        largest = std::max(largest, std::abs(double(item[j])));
        square += double(item[j]) * item[j];
    }
    const double unit = largest / 127, length = std::sqrt(square);
    const bool open = !(length <= LONGEST_ITEM);  // or no number
    const bool coded = !open && unit > 1e-30;     // which floats hold; else all of it is room
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

// codes: (n_blocks, ceil(k / 4), SKETCH_BLOCK, 4), zero on entry; scales, rooms: (n_blocks,
// SKETCH_BLOCK), zero on entry.
template <class T>
static void sketch(const T* items, int64_t n_items, int64_t k, int n_threads, int8_t* codes,
                   float* scales, float* rooms) {
    const int64_t words = (k + 3) / 4, n_blocks = (n_items + SKETCH_BLOCK - 1) / SKETCH_BLOCK;
    const int threads = threads_worth(n_blocks, 16.0 * SKETCH_BLOCK * k, n_threads);
    for_each_list(n_blocks, threads, [=](int64_t block) {
        for (int64_t at = 0; at < std::min(SKETCH_BLOCK, n_items - block * SKETCH_BLOCK); ++at) {
            const int64_t i = block * SKETCH_BLOCK + at;
            sketch_item(items + i * k, k, codes + (block * words * SKETCH_BLOCK + at) * 4,
                        scales[i], rooms[i]);
        }
    });
}

// A query as sketches meet it: of length 1, and its length.
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

    // Bit i of the result: item i of the block may score the threshold or more.
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
