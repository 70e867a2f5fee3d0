// Four adjacent numbers, which a thread reads at once.

struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Quad {
    T v[4];
};

struct alignas(4 * sizeof(F) < 16 ? 4 * sizeof(F) : 16) FixedQuad {
    F v[4];
};

// Whether all rows of k fixed factors can be read in quads.
__device__ bool is_in_quads(const F* fixed, Int k) {
    return k % 4 == 0 && reinterpret_cast<unsigned long long>(fixed) % alignof(FixedQuad) == 0;
}

// The first `left` of four numbers, and zeros.
__device__ Quad load_quad(const F* from, Int left, bool in_quads) {
    Quad loaded = {};
    if (in_quads && left > 0) {
        const FixedQuad quad = *reinterpret_cast<const FixedQuad*>(from);
#pragma unroll
        for (int q = 0; q < 4; ++q) loaded.v[q] = T(quad.v[q]);
    } else {
#pragma unroll
        for (int q = 0; q < 4; ++q)
            if (q < left) loaded.v[q] = T(from[q]);
    }
    return loaded;
}
