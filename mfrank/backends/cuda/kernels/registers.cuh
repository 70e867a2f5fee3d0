// Products with the observed part of a row's matrix, from fixed factors in registers: adjacent lanes
// hold an entry's between the two uses that a product makes of them.

constexpr int QUADS = TILE;  // of each lane, WARP lanes for an entry
constexpr int AT_ONCE = QUADS < 4 ? 4 / QUADS : 1;  // entries whose factors are under way

struct Products {
    __device__ Products(Int& bytes, const F* fixed, Int k, int)
        : fixed(fixed), k(k), in_quads(is_in_quads(fixed, k)) {
        of_warps = shared_array<T>(bytes, blockDim.x / WARP * k);
        images = shared_array<T>(bytes, k);
        pulls = shared_array<T>(bytes, k);
    }

    // Sums over a row's entries: `image` of c_e f_e f_e' x, x in shared memory, and, if WITH_PULLS,
    // `pull` of d_e f_e. All threads must call it. A thread may ask only for the numbers
    // threadIdx.x, threadIdx.x + blockDim.x, ..., without waiting for the others.
    template <bool WITH_PULLS>
    __device__ void add(const Entries& row, const T* x, bool) const {
        __syncthreads();  // x is complete, and the last sums are read
        const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        const int step = int(blockDim.x) / WARP, n = int(row.n);
        Quad v[QUADS], sum[QUADS] = {}, pulled[QUADS] = {};
#pragma unroll
        for (int g = 0; g < QUADS; ++g)
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const int j = column(lane, g) + q;
                v[g].v[q] = j < k ? x[j] : T(0);
            }
        for (int begin = warp; begin < n; begin += AT_ONCE * step) {
            Quad f[AT_ONCE][QUADS];
#pragma unroll
            for (int s = 0; s < AT_ONCE; ++s) {
                const int e = begin + s * step;
                const F* const from = fixed + (e < n ? Int(row.columns[e]) : Int(0)) * k;
#pragma unroll
                for (int g = 0; g < QUADS; ++g) {
                    const int j = column(lane, g);
                    f[s][g] = load_quad(from + j, e < n ? k - j : Int(0), in_quads);
                }
            }
#pragma unroll
            for (int s = 0; s < AT_ONCE; ++s) {
                const int e = begin + s * step;
                T product = 0;
#pragma unroll
                for (int g = 0; g < QUADS; ++g)
#pragma unroll
                    for (int q = 0; q < 4; ++q) product += f[s][g].v[q] * v[g].v[q];
                product = warp_sum(product);
                const T c = e < n ? row.curvature[e] * product : T(0);
                const T d = WITH_PULLS && e < n ? row.pull[e] : T(0);
#pragma unroll
                for (int g = 0; g < QUADS; ++g)
#pragma unroll
                    for (int q = 0; q < 4; ++q) {
                        sum[g].v[q] += c * f[s][g].v[q];
                        if (WITH_PULLS) pulled[g].v[q] += d * f[s][g].v[q];
                    }
            }
        }
        put(sum, images);
        if (!WITH_PULLS) return;
        __syncthreads();
        put(pulled, pulls);
    }

    __device__ T image(Int j) const { return images[j]; }
    __device__ T pull(Int j) const { return pulls[j]; }

private:
    __device__ int column(int lane, int quad) const { return 4 * (lane + quad * WARP); }

    // to := the sum over all warps.
    __device__ void put(const Quad (&sum)[QUADS], T* to) const {
        const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
        for (int g = 0; g < QUADS; ++g)
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const int j = column(lane, g) + q;
                if (j < k) of_warps[warp * k + j] = sum[g].v[q];
            }
        __syncthreads();
        for (Int j = threadIdx.x; j < k; j += blockDim.x) {
            T total = 0;
            for (int w = 0; w < int(blockDim.x) / WARP; ++w) total += of_warps[w * k + j];
            to[j] = total;
        }
    }

    const F* fixed;
    Int k;
    bool in_quads;
    T *of_warps, *images, *pulls;  // k each, of the first for each warp
};
