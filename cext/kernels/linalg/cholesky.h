// Left-looking Cholesky factorization A = U'U of a matrix in panels, by strips of MR rows, and the
// triangular solves.

// Factors the MR x MR block in place; `inverse` becomes 1 / diagonal. False: not positive definite.
template <class T>
static bool factor_block(T (&t)[MR][MR], T* inverse) {
    T pivot[MR];
    for (int i = 0; i < MR; ++i) {
        pivot[i] = t[i][i];
        if (!(pivot[i] > 0)) return false;
        const T reciprocal = 1 / pivot[i];  // The square root comes later, off the critical path.
#pragma GCC unroll 8
        for (int p = i + 1; p < MR; ++p) {
            const T factor = t[i][p] * reciprocal;
            for (int j = 0; j < MR; ++j) t[p][j] -= factor * t[i][j];
        }
    }
    for (int i = 0; i < MR; ++i) inverse[i] = 1 / std::sqrt(pivot[i]);
    for (int i = 0; i < MR; ++i)
        for (int j = 0; j < MR; ++j) t[i][j] *= inverse[i];
    return true;
}

// One tile of the left-looking factor: subtract the product of the rows above, then divide by the
// diagonal block, which the first tile of a strip of rows (`offset` >= 0) contains and factors.
template <int N, class T>
static bool factor_tile(T* tile, const T* above, const T* column, int64_t depth, int64_t offset,
                        T (&block)[MR][MR], T* inverse) {
    Vec<T> acc[MR][N];
    load<N>(acc, tile, NR<T>);
    add_outer<-1, N>(acc, above, NR<T>, 1, column, depth);
    if (offset >= 0) {
        store<N>(acc, tile, NR<T>);
        for (int i = 0; i < MR; ++i)
            for (int j = 0; j < MR; ++j) block[i][j] = tile[i * NR<T> + offset + j];
        if (!factor_block(block, inverse)) return false;
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
        for (int p = 0; p < i; ++p)
#pragma GCC unroll 4
            for (int v = 0; v < N; ++v) acc[i][v] -= block[p][i] * acc[p][v];
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) acc[i][v] *= inverse[i];
    }
    store<N>(acc, tile, NR<T>);
    return true;
}

// Factors a = U'U in place, upper blocks only; n is a multiple of MR. False: not positive definite.
template <class T>
static bool cholesky(Panels<T> a, int64_t n, T* inverse_diagonal) {
    T block[MR][MR];
    for (int64_t i = 0; i < n; i += MR)
        for (int64_t j = i / NR<T> * NR<T>; j < n; j += NR<T>) {
            const Span<T> span(i, j, n);
            const int64_t offset = j <= i ? i - span.first : -1;
            T *tile = a.at(i, span.first), *column = a.at(0, span.first), *above = a.at(0, i);
            T* const inverse = inverse_diagonal + i;
            const bool positive =
                span.whole ? factor_tile<NV>(tile, above, column, i, offset, block, inverse)
                           : factor_tile<1>(tile, above, column, i, offset, block, inverse);
            if (!positive) return false;
        }
    return true;
}

// y = U'^-1 x by strips of MR rows. Overwrites x, which is 0 from n to the end of its last vector.
template <class T>
static void solve_lower(Panels<T> u, int64_t n, const T* inverse_diagonal, T* x, T* y) {
    for (int64_t i = 0; i < n; i += MR) {
        const T* strip = u.at(i, i);
        for (int a = 0; a < MR; ++a) {
            y[i + a] = x[i + a] * inverse_diagonal[i + a];
            for (int b = a + 1; b < MR; ++b) x[i + b] -= y[i + a] * strip[a * NR<T> + b];
        }
        for (int64_t j = (i + MR) / W<T> * W<T>; j < n; j += W<T>) {
            const T* column = u.at(i, j);
            Vec<T> rest = vec(x + j);
#pragma GCC unroll 8
            for (int a = 0; a < MR; ++a) rest -= y[i + a] * vec(column + a * NR<T>);
            vec(x + j) = rest;
        }
    }
}

// x = U^-1 y by strips of MR rows, last strip first.
template <class T>
static void solve_upper(Panels<T> u, int64_t n, const T* inverse_diagonal, const T* y, T* x) {
    std::fill_n(x, padded<T>(n), T(0));  // Unsolved entries add 0 to the sums below.
    for (int64_t i = n - MR; i >= 0; i -= MR) {
        Vec<T> sums[MR] = {};
        for (int64_t j = (i + MR) / W<T> * W<T>; j < n; j += W<T>) {
            const T* column = u.at(i, j);
#pragma GCC unroll 8
            for (int a = 0; a < MR; ++a) sums[a] += vec(column + a * NR<T>) * vec(x + j);
        }
        const T* strip = u.at(i, i);
        for (int a = MR - 1; a >= 0; --a) {
            T rest = y[i + a] - sum_of<T>(sums[a]);
            for (int b = MR - 1; b > a; --b) rest -= strip[a * NR<T> + b] * x[i + b];
            x[i + a] = rest * inverse_diagonal[i + a];
        }
    }
}

// x = (U'U)^-1 x; `y` is scratch.
template <class T>
static void solve_factored(Panels<T> u, int64_t n, const T* inverse_diagonal, T* x, T* y) {
    solve_lower(u, n, inverse_diagonal, x, y);
    solve_upper(u, n, inverse_diagonal, y, x);
}
