// Cholesky solves of W small positive definite systems at once, one in each lane of the vectors.
//
// No operation crosses lanes, and the terms of every sum are added in a fixed order. So a system's
// solution depends neither on its neighbors nor on its padding, rows of the identity that only add
// zeros.

constexpr int SIDE = 4;  // Matrices are cut into SIDE x SIDE blocks of vectors.
constexpr int BLOCK = SIDE * SIDE;
// Number of a block's columns processed together, as many as fit in the registers.
constexpr int ABREAST = MANY_REGISTERS ? SIDE : SIDE / 2;

// Lower triangle in blocks, stored by rows of blocks.
template <class T>
struct Triangle {
    Vec<T>* data;
    Vec<T>* block(int64_t i, int64_t j) const { return data + (i * (i + 1) / 2 + j) * BLOCK; }
    static int64_t size(int64_t n_blocks) { return n_blocks * (n_blocks + 1) / 2 * BLOCK; }
};

// block += SIGN left right'. Both factors have SIDE rows and `pieces` pieces of `depth` columns,
// SIDE * depth vectors apart.
template <int SIGN, class T>
MFRANK_INLINE void add_products(Vec<T>* block, const Vec<T>* left, const Vec<T>* right,
                                int64_t depth, int64_t pieces) {
    for (int first = 0; first < SIDE; first += ABREAST) {
        Vec<T> acc[SIDE][ABREAST];
#pragma GCC unroll 4
        for (int a = 0; a < SIDE; ++a)
#pragma GCC unroll 4
            for (int b = 0; b < ABREAST; ++b) acc[a][b] = block[a * SIDE + first + b];
        const Vec<T>*l = left, *r = right + first * depth;
        for (int64_t piece = 0; piece < pieces; ++piece) {
            for (int64_t k = 0; k < depth; ++k)
#pragma GCC unroll 4
                for (int a = 0; a < SIDE; ++a)
#pragma GCC unroll 4
                    for (int b = 0; b < ABREAST; ++b) {
                        if (SIGN > 0) acc[a][b] += l[a * depth + k] * r[b * depth + k];
                        else acc[a][b] -= l[a * depth + k] * r[b * depth + k];
                    }
            l += SIDE * depth, r += SIDE * depth;
        }
#pragma GCC unroll 4
        for (int a = 0; a < SIDE; ++a)
#pragma GCC unroll 4
            for (int b = 0; b < ABREAST; ++b) block[a * SIDE + first + b] = acc[a][b];
    }
}

template <class T>
MFRANK_INLINE Vec<T> square_root(const Vec<T>& v) {
    alignas(VECTOR_BYTES) T lanes[W<T>];
    vec(lanes) = v;
    for (int l = 0; l < W<T>; ++l) lanes[l] = std::sqrt(lanes[l]);
    return vec(lanes);
}

// Factors a diagonal block in place; `inverse` becomes 1 / its diagonal. A pivot that is not
// positive leads to values that are not finite.
template <class T>
MFRANK_INLINE void factor_diagonal(Vec<T>* block, Vec<T>* inverse) {
#pragma GCC unroll 4
    for (int p = 0; p < SIDE; ++p) {
        inverse[p] = T(1) / square_root<T>(block[p * SIDE + p]);
#pragma GCC unroll 4
        for (int a = p + 1; a < SIDE; ++a) block[a * SIDE + p] *= inverse[p];
#pragma GCC unroll 4
        for (int a = p + 1; a < SIDE; ++a)
#pragma GCC unroll 4
            for (int b = p + 1; b <= a; ++b)
                block[a * SIDE + b] -= block[a * SIDE + p] * block[b * SIDE + p];
    }
}

// block := block U^-1, where U' is the factored diagonal block of the same columns.
template <class T>
MFRANK_INLINE void divide_by_diagonal(Vec<T>* block, const Vec<T>* diagonal,
                                      const Vec<T>* inverse) {
#pragma GCC unroll 4
    for (int b = 0; b < SIDE; ++b)
#pragma GCC unroll 4
        for (int a = 0; a < SIDE; ++a) {
            Vec<T> rest = block[a * SIDE + b];
#pragma GCC unroll 4
            for (int p = 0; p < b; ++p) rest -= block[a * SIDE + p] * diagonal[b * SIDE + p];
            block[a * SIDE + b] = rest * inverse[b];
        }
}

// Left-looking factorization a = L L' in place, by columns of blocks.
template <class T>
static void factor_lanes(Triangle<T> a, int64_t n_blocks, Vec<T>* inverse) {
    for (int64_t j = 0; j < n_blocks; ++j)
        for (int64_t i = j; i < n_blocks; ++i) {
            Vec<T>* const block = a.block(i, j);
            add_products<-1, T>(block, a.block(i, 0), a.block(j, 0), SIDE, j);
            if (i == j) factor_diagonal<T>(block, inverse + j * SIDE);
            else divide_by_diagonal<T>(block, a.block(j, j), inverse + j * SIDE);
        }
}

// x := (L L')^-1 x
template <class T>
static void solve_lanes(Triangle<T> l, int64_t n_blocks, const Vec<T>* inverse, Vec<T>* x) {
    for (int64_t i = 0; i < n_blocks; ++i) {
        Vec<T> part[SIDE];
        for (int a = 0; a < SIDE; ++a) part[a] = x[i * SIDE + a];
        const Vec<T>* row = l.block(i, 0);
        for (int64_t j = 0; j < i; ++j, row += BLOCK)
#pragma GCC unroll 4
            for (int b = 0; b < SIDE; ++b)
#pragma GCC unroll 4
                for (int a = 0; a < SIDE; ++a) part[a] -= row[a * SIDE + b] * x[j * SIDE + b];
        for (int a = 0; a < SIDE; ++a) {
            for (int b = 0; b < a; ++b) part[a] -= row[a * SIDE + b] * part[b];
            x[i * SIDE + a] = part[a] *= inverse[i * SIDE + a];
        }
    }
    for (int64_t i = n_blocks - 1; i >= 0; --i) {
        Vec<T> part[SIDE];
        for (int a = 0; a < SIDE; ++a) part[a] = x[i * SIDE + a];
        for (int64_t j = n_blocks - 1; j > i; --j) {
            const Vec<T>* block = l.block(j, i);
#pragma GCC unroll 4
            for (int b = SIDE - 1; b >= 0; --b)
#pragma GCC unroll 4
                for (int a = 0; a < SIDE; ++a) part[a] -= block[b * SIDE + a] * x[j * SIDE + b];
        }
        const Vec<T>* block = l.block(i, i);
        for (int a = SIDE - 1; a >= 0; --a) {
            for (int b = SIDE - 1; b > a; --b) part[a] -= block[b * SIDE + a] * part[b];
            x[i * SIDE + a] = part[a] *= inverse[i * SIDE + a];
        }
    }
}
