// A row's system in the eigenbasis of the shared matrix, where that matrix is diagonal:
//
//     (D + sum_e c_e f_e f_e') x = w v + ridge prior + sum_e d_e f_e,    D = w lambda + ridge

// A row is left to a wider type if the rounding of T would affect its solution: if the largest of D
// is more than MOST_SPREAD times the smallest, or if the norm of the scaled matrix exceeds
// MOST_GROWTH.
constexpr double MOST_SPREAD = sizeof(T) == 4 ? 1e7 : 1e13;
constexpr double MOST_GROWTH = sizeof(T) == 4 ? 2e3 : 1e12;

constexpr int SOLVED = 0, IMPRECISE = 1, UNFINISHED = 2;

struct Entries {
    // Those of row r, which begin at indptr[r] - first.
    __device__ Entries(const Int* indptr, Int first, const int* indices, const T* curvature,
                       const T* pull, Int r)
        : Entries(indptr[r] - first, indptr[r + 1] - first, indices, curvature, pull) {}

    __device__ Entries(Int begin, Int end, const int* indices, const T* curvature, const T* pull)
        : n(end - begin), columns(indices + begin), curvature(curvature + begin),
          pull(pull + begin) {}

    Int n;
    const int* columns;
    const T *curvature, *pull;
};

// What a row's right-hand side has beside its entries' part: w v + ridge prior. `prior` is the
// row's, or null.
struct Background {
    // Of row r; `priors` has a row for each, or is null.
    __device__ Background(double weight, double ridge, const double* vector, const T* priors, Int k,
                          Int r)
        : weight(weight), ridge(ridge), vector(vector), prior(priors ? priors + r * k : nullptr) {}

    __device__ T at(Int j) const {
        const T shared = T(weight) * T(vector[j]);
        return prior ? shared + T(ridge) * prior[j] : shared;
    }

    double weight, ridge;
    const double* vector;
    const T* prior;
};

// Values of a row's D up to this one count as 0.
__device__ T diagonal_floor(double weight, double ridge, const double* eigenvalues, Int k) {
    return T((weight * eigenvalues[k - 1] + ridge) * double(k) * 2.220446049250313e-16);
}

__device__ T diagonal_at(double weight, double ridge, const double* eigenvalues, Int j) {
    return T(weight) * T(eigenvalues[j]) + T(ridge);
}

// inverse := 1/D, or 0 where D counts as 0; by all threads.
__device__ void invert_diagonal(double weight, double ridge, const double* eigenvalues, Int k,
                                T* inverse) {
    const T floor = diagonal_floor(weight, ridge, eigenvalues, k);
    for (Int j = threadIdx.x; j < k; j += blockDim.x) {
        const T diagonal = diagonal_at(weight, ridge, eigenvalues, j);
        inverse[j] = diagonal > floor ? 1 / diagonal : T(0);
    }
}

// Whether T is precise enough for D in the directions of the entries' factors, which are all but
// the first `untouched`.
__device__ bool is_sound(double weight, double ridge, const double* eigenvalues, Int k,
                         Int untouched) {
    if (untouched == k) return true;
    const double largest = weight * eigenvalues[k - 1] + ridge;
    const double smallest = weight * eigenvalues[untouched] + ridge;
    return largest > 0 && smallest * MOST_SPREAD >= largest;
}
