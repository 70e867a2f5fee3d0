// Counter-based random numbers: the n-th number of a stream is a function of the key and n. So
// threads do not wait for each other, and all backends draw the same numbers (in numpy:
// mfrank/arrays/random.py).
#pragma once

#include <cstdint>

namespace mfrank {

// SplitMix64 (Steele, Lea & Flood 2014) at position n of the stream `key`.
inline uint64_t random_bits(uint64_t key, uint64_t n) {
    uint64_t x = key + (n + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// Uniform in [0, 1), with 53 random bits.
inline double random_unit(uint64_t key, uint64_t n) {
    return static_cast<double>(random_bits(key, n) >> 11) * 0x1.0p-53;
}

}  // namespace mfrank
