// Random numbers by position: the n-th of a key is a function of both, so no thread waits for
// another's and every backend draws the same (mfrank/streams.py says the same in numpy).
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

// In [0, 1), 53 bits.
inline double random_unit(uint64_t key, uint64_t n) {
    return static_cast<double>(random_bits(key, n) >> 11) * 0x1.0p-53;
}

}  // namespace mfrank
