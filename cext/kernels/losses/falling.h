// The places of a list by descending score, ties by place.

// Sorts scores as integers, which have a total order even if scores are NaN.
template <class T>
class Falling {
   public:
    explicit Falling(int64_t n_places) { keys_.reserve(n_places); }

    void clear() { keys_.clear(); }

    // Places must be added in ascending order.
    void add(int64_t place, T score) { keys_.push_back(key_of(score, place)); }

    void sort() {
        if constexpr (sizeof(T) == 4)
            if (keys_.size() >= MANY) return sort_by_digits();
        std::sort(keys_.begin(), keys_.end());
    }

    int64_t size() const { return keys_.size(); }

    int64_t operator[](int64_t rank) const {
        if constexpr (sizeof(T) == 4) return keys_[rank] & 0xffffffff;
        else return keys_[rank].second;
    }

   private:
    static constexpr size_t MANY = 64;  // number of keys from which a radix sort is faster

    // The inverted score, then the place; for float, both fit into one integer.
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    using Key = std::conditional_t<sizeof(T) == 4, uint64_t, std::pair<uint64_t, uint64_t>>;

    static Key key_of(T score, uint64_t place) {
        constexpr Bits SIGN = Bits{1} << (8 * sizeof(T) - 1);
        score += T(0);  // -0 ties with 0
        Bits bits;
        std::memcpy(&bits, &score, sizeof bits);
        bits = bits & SIGN ? bits : Bits(~bits ^ SIGN);
        if constexpr (sizeof(T) == 4) return uint64_t{bits} << 32 | place;
        else return {bits, place};
    }

    // A stable radix sort by the scores alone, which leaves ties in the order of their places.
    void sort_by_digits() {
        constexpr int DIGITS = 4;
        const auto digit = [](Key key, int d) { return key >> (32 + 8 * d) & 0xff; };
        uint32_t begins[DIGITS][256] = {};
        for (const Key key : keys_)
            for (int d = 0; d < DIGITS; ++d) ++begins[d][digit(key, d)];
        sorted_.resize(keys_.size());
        for (int d = 0; d < DIGITS; ++d) {
            if (begins[d][digit(keys_[0], d)] == keys_.size()) continue;  // all are equal
            uint32_t begin = 0;
            for (uint32_t& count : begins[d]) begin += std::exchange(count, begin);
            for (const Key key : keys_) sorted_[begins[d][digit(key, d)]++] = key;
            keys_.swap(sorted_);
        }
    }

    std::vector<Key> keys_, sorted_;
};
