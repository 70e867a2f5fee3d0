// Conjugate gradients, preconditioned with the row's diagonal D (row.cuh). One block per row, or,
// of long rows, one block for each part of a row's entries.
#include "block.cuh"
#include "fixed.cuh"
#include "gather.cuh"
#include "quads.cuh"
#include "row.cuh"
#if TILE
#include "registers.cuh"
#else
#include "staged.cuh"
#endif

// Of 256 threads, that share a processor: as many as leave each thread the registers that it needs.
constexpr int BLOCKS = TILE * sizeof(T) > 16 ? 1 : TILE ? 2 : 3;

// The vectors of a row's iteration, in shared or global memory, K each.
struct Iteration {
    double weight, ridge;
    const double* eigenvalues;
    Int k;
    double* scratch;  // one per warp
    T *inverse, *x, *residual, *direction;

    __device__ T diagonal(Int j) const { return diagonal_at(weight, ridge, eigenvalues, j); }

    // From `observed`, the sum of c_e f_e f_e' x, and the right-hand side. Returns the squared norms
    // of the right-hand side and of the residual.
    template <class Observed, class Right>
    __device__ void begin(const Observed& observed, const Right& right, double& size,
                          double& left) const {
        size = left = 0;
        for (Int j = threadIdx.x; j < k; j += blockDim.x) {
            const T b = right(j);
            residual[j] = b - (diagonal(j) * x[j] + observed(j));
            direction[j] = inverse[j] * residual[j];
            size += double(b) * double(inverse[j]) * double(b);
            left += double(residual[j]) * double(direction[j]);
        }
        size = block_sum(size, scratch);
        left = block_sum(left, scratch);
    }

    // One step, from `observed`, the sum of c_e f_e f_e' direction. False if there is no curvature.
    template <class Observed>
    __device__ bool step(const Observed& observed, double& left) const {
        double bend = 0;
        for (Int j = threadIdx.x; j < k; j += blockDim.x)
            bend += double(direction[j]) * double(diagonal(j) * direction[j] + observed(j));
        bend = block_sum(bend, scratch);
        if (!(bend > 0)) return false;
        const T length = T(left / bend);
        double next = 0;
        for (Int j = threadIdx.x; j < k; j += blockDim.x) {
            const T image = diagonal(j) * direction[j] + observed(j);
            x[j] += length * direction[j];
            residual[j] -= length * image;
            next += double(residual[j]) * double(inverse[j]) * double(residual[j]);
        }
        next = block_sum(next, scratch);
        const T momentum = T(next / left);
        for (Int j = threadIdx.x; j < k; j += blockDim.x)
            direction[j] = inverse[j] * residual[j] + momentum * direction[j];
        left = next;
        return true;
    }

    // Writes x, its gain 2 x'b - x'A x, and the status: UNFINISHED if the row must reach the
    // tolerance but has not.
    template <class Right>
    __device__ void finish(const Right& right, bool done, Int to_tolerance, T* out, double* gain,
                           unsigned char* status) const {
        double value = 0;
        for (Int j = threadIdx.x; j < k; j += blockDim.x) {
            value += double(x[j]) * (double(right(j)) + double(residual[j]));
            out[j] = x[j];
        }
        value = block_sum(value, scratch);
        if (threadIdx.x > 0) return;
        *gain = value;
        *status = !isfinite(value) ? IMPRECISE : done || !to_tolerance ? SOLVED : UNFINISHED;
    }
};

// The squared norm at which a row is done. Steps cannot reduce the rounding errors that remain from
// a distant start, and many steps amplify them.
__device__ double enough(double size, double left, double tolerance, Int to_tolerance) {
    return tolerance * tolerance * (!to_tolerance && left > size ? left : size);
}

// Iterates on r = rows[b] from starts[b], at most n_steps steps or, if that is not null, steps[b],
// which cost as much as an exact solution. `most` entries are staged at a time.
extern "C" __global__ void __launch_bounds__(256, BLOCKS)
iterate(const int* rows, const Int* indptr, Int first, const int* indices, const T* curvature,
        const T* pull, const double* weight, const double* ridge, const double* eigenvalues,
        const double* vector, const T* priors, const F* fixed, Int k, Int most, const T* starts,
        const int* steps, Int n_steps, double tolerance, Int to_tolerance, T* out, double* gain,
        unsigned char* status) {
    const Int r = rows[blockIdx.x];
    const Entries row(indptr, first, indices, curvature, pull, r);
    Int bytes = 0;
    const Products products(bytes, fixed, k, int(most));
    double* const scratch = shared_array<double>(bytes, blockDim.x / WARP);
    T* const inverse = shared_array<T>(bytes, k);
    T* const x = shared_array<T>(bytes, k);
    T* const residual = shared_array<T>(bytes, k);
    T* const direction = shared_array<T>(bytes, k);
    const Iteration of_row{weight[r], ridge[r], eigenvalues, k, scratch,
                           inverse,   x,        residual,    direction};
    invert_diagonal(weight[r], ridge[r], eigenvalues, k, inverse);
    for (Int j = threadIdx.x; j < k; j += blockDim.x)
        x[j] = inverse[j] > 0 ? starts[blockIdx.x * k + j] : T(0);
    const auto observed = [&](Int j) { return products.image(j); };
    const Background background(weight[r], ridge[r], vector, priors, k, r);
    const auto right = [&](Int j) { return background.at(j) + products.pull(j); };
    products.add<true>(row, x, false);
    double size, left;
    of_row.begin(observed, right, size, left);
    const double least = enough(size, left, tolerance, to_tolerance);
    const Int last = steps ? Int(steps[blockIdx.x]) : n_steps;
    bool done = !(left > least);
    for (Int step = 0; !done && step < last; ++step) {
        products.add<false>(row, direction, true);
        if (!of_row.step(observed, left)) break;
        done = !(left > least);
    }
    of_row.finish(right, done, to_tolerance, out + r * k, gain + r, status + r);
}

// A long row's state between launches.
struct State {
    double left, least;
    Int done;
};

// Sums over the entries [begins[p], ends[p]) of part p, of row owners[p] of the long rows:
// images[p] of c_e f_e f_e' x for that row's x and, if not null, pulls[p] of d_e f_e.
extern "C" __global__ void __launch_bounds__(256, BLOCKS)
sum_long(const int* owners, const Int* begins, const Int* ends, const int* indices,
         const T* curvature, const T* pull, const F* fixed, Int k, Int most, const T* x,
         const double* states, T* images, T* pulls) {
    const Int p = blockIdx.x, b = owners[p];
    if (!pulls && reinterpret_cast<const State*>(states)[b].done) return;
    Int bytes = 0;
    const Products products(bytes, fixed, k, int(most));
    T* const vector = shared_array<T>(bytes, k);
    const Entries part(begins[p], ends[p], indices, curvature, pull);
    for (Int j = threadIdx.x; j < k; j += blockDim.x) vector[j] = x[b * k + j];
    if (pulls) products.add<true>(part, vector, false);
    else products.add<false>(part, vector, false);
    for (Int j = threadIdx.x; j < k; j += blockDim.x) {
        images[p * k + j] = products.image(j);
        if (pulls) pulls[p * k + j] = products.pull(j);
    }
}

// One step of the long row b, r = rows[b], from its parts' images, or, for step -1, its beginning.
// Its vectors are x[b] (the start), residuals[b], directions[b] and rights[b]. After the step
// n_steps - 1, or steps[b] - 1 if `steps` is not null, or at the tolerance it is finished.
extern "C" __global__ void __launch_bounds__(256)
step_long(const int* rows, const Int* first_parts, const double* weight, const double* ridge,
          const double* eigenvalues, const double* vector, const T* priors, Int k, const T* images,
          const T* pulls, Int step, const int* steps, Int n_steps, double tolerance,
          Int to_tolerance, T* x, T* residuals, T* directions, T* rights, double* states, T* out,
          double* gain, unsigned char* status) {
    const Int b = blockIdx.x, r = rows[b];
    State& state = reinterpret_cast<State*>(states)[b];
    if (step >= 0 && state.done) return;
    Int bytes = 0;
    double* const scratch = shared_array<double>(bytes, blockDim.x / WARP);
    T* const inverse = shared_array<T>(bytes, k);
    T* const summed = shared_array<T>(bytes, k);
    const Iteration of_row{weight[r], ridge[r],  eigenvalues,       k,                 scratch,
                           inverse,   x + b * k, residuals + b * k, directions + b * k};
    T* const right = rights + b * k;
    const Background background(weight[r], ridge[r], vector, priors, k, r);
    invert_diagonal(weight[r], ridge[r], eigenvalues, k, inverse);
    const auto over_parts = [&](const T* of_parts, Int j) {
        T sum = 0;
        for (Int p = first_parts[b]; p < first_parts[b + 1]; ++p) sum += of_parts[p * k + j];
        return sum;
    };
    for (Int j = threadIdx.x; j < k; j += blockDim.x) {
        summed[j] = over_parts(images, j);
        if (step < 0) right[j] = background.at(j) + over_parts(pulls, j);
    }
    __syncthreads();
    const auto observed = [&](Int j) { return summed[j]; };
    const auto right_at = [&](Int j) { return right[j]; };
    double left = state.left, least = state.least;
    bool moves = true;
    if (step < 0) {
        double size;
        of_row.begin(observed, right_at, size, left);
        least = enough(size, left, tolerance, to_tolerance);
    } else {
        moves = of_row.step(observed, left);
    }
    const bool done = moves && !(left > least);
    const Int last = steps ? Int(steps[b]) : n_steps;
    const bool ends = done || !moves || step + 1 >= last;
    __syncthreads();  // all have read the state
    if (threadIdx.x == 0) state.left = left, state.least = least, state.done = ends;
    if (ends) of_row.finish(right_at, done, to_tolerance, out + r * k, gain + r, status + r);
}
