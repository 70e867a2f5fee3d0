// Products with the observed part of a row's matrix, from fixed factors staged in shared memory: a
// row of up to `most` entries is read once.

struct Products {
    __device__ Products(Int& bytes, const F* fixed, Int k, int most)
        : fixed(fixed), k(k), line((k + 3) / 4 % 2 ? (k + 3) / 4 * 4 : (k + 3) / 4 * 4 + 4),
          most(most), in_quads(is_in_quads(fixed, k)) {
        rows = shared_array<T>(bytes, most * line);
        projections = shared_array<T>(bytes, most);
        padded = shared_array<T>(bytes, line);
        images = shared_array<T>(bytes, Columns(k).groups * k);
        pulls = shared_array<T>(bytes, Columns(k).groups * k);
    }

    // Sums over a row's entries: `image` of c_e f_e f_e' x and, if WITH_PULLS, `pull` of d_e f_e.
    // All threads must call it. `again`: the row is that of the last call.
    template <bool WITH_PULLS>
    __device__ void add(const Entries& row, const T* x, bool again) const {
        const bool are_staged = again && row.n <= most;
        const Columns at(k);
        __syncthreads();
        for (Int j = threadIdx.x; j < at.groups * k; j += blockDim.x) {
            images[j] = 0;
            if (WITH_PULLS) pulls[j] = 0;
        }
        for (Int j = threadIdx.x; j < line; j += blockDim.x) padded[j] = j < k ? x[j] : T(0);
        for (Int begin = 0; begin < row.n; begin += most) {
            const int n = row.n - begin < most ? int(row.n - begin) : most;
            __syncthreads();
            if (!are_staged) {
                stage(row.columns + begin, n);
                __syncthreads();
            }
            project(row.curvature + begin, n);
            __syncthreads();
            for (Int j = at.column; at.group < at.groups && j < k; j += at.width) {
                T sum = 0, pulled = 0;
#pragma unroll 4
                for (int e = at.group; e < n; e += at.groups) {
                    const T factor = rows[e * line + j];
                    sum += projections[e] * factor;
                    if (WITH_PULLS) pulled += row.pull[begin + e] * factor;
                }
                images[at.group * k + j] += sum;
                if (WITH_PULLS) pulls[at.group * k + j] += pulled;
            }
        }
        __syncthreads();
    }

    __device__ T image(Int j) const { return over_groups(images, k, j); }
    __device__ T pull(Int j) const { return over_groups(pulls, k, j); }

private:
    const F* fixed;
    Int k;
    Int line;  // Stride of `rows`, an odd number of quads, so that 8 rows' quads differ in banks.
    int most;
    bool in_quads;
    T *rows, *projections, *padded, *images, *pulls;  // the last two by groups of threads (gather.cuh)

    __device__ void stage(const int* columns, int n) const {
        constexpr int EACH = 4;  // loads under way at a time
        const int quads = int((k + 3) / 4);
        int lanes = 1;  // adjacent threads for an entry
        while (lanes < WARP && lanes < quads) lanes *= 2;
        const int first = int(threadIdx.x) / lanes, step = int(blockDim.x) / lanes;
        for (int j = int(threadIdx.x) % lanes * 4; j < 4 * quads; j += 4 * lanes)
            for (int some = first; some < n; some += EACH * step) {
                Quad loaded[EACH];
#pragma unroll
                for (int s = 0; s < EACH; ++s) {
                    const int e = some + s * step;
                    if (e < n)
                        loaded[s] = load_quad(fixed + Int(columns[e]) * k + j, k - j, in_quads);
                }
#pragma unroll
                for (int s = 0; s < EACH; ++s) {
                    const int e = some + s * step;
                    if (e < n) *reinterpret_cast<Quad*>(rows + e * line + j) = loaded[s];
                }
            }
    }

    // projections[e] := c_e f_e' x, by as many adjacent threads for each entry as there are for all.
    __device__ void project(const T* curvature, int n) const {
        int each = 1;
        while (each < 8 && 2 * each * n <= int(blockDim.x)) each *= 2;
        const int quads = int((k + 3) / 4), part = int(threadIdx.x) % each;
        for (int begin = 0; begin < n; begin += int(blockDim.x) / each) {
            const int e = begin + int(threadIdx.x) / each;
            T sum = 0;
            for (int g = part; e < n && g < quads; g += each) {
                const Quad f = *reinterpret_cast<const Quad*>(rows + e * line + 4 * g);
                const Quad v = *reinterpret_cast<const Quad*>(padded + 4 * g);
#pragma unroll
                for (int q = 0; q < 4; ++q) sum += f.v[q] * v.v[q];
            }
            for (int lane = each / 2; lane > 0; lane /= 2)
                sum += __shfl_xor_sync(ALL_LANES, sum, lane);
            if (e < n && part == 0) projections[e] = curvature[e] * sum;
        }
    }
};
