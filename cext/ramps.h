// Sums over lists of a ramp f of differences: sum over the places j of weight_j f(score_j -
// threshold_t), and its slopes. A ramp is a value and a slope, of vectors or of single numbers.

// exp(x) to the last bits of double; what would overflow or vanish ends at the edge.
template <class V>
MFRANK_INLINE V exp_of(V x) {
    typedef int64_t Bits __attribute__((vector_size(sizeof(V))));
    const V edge = V{} + 708.0;
    x = x > edge ? edge : x < -edge ? -edge : x;
    // Added to this, a number is rounded to an integer, which its last bits then hold.
    const V magic = V{} + 0x1.8p52;
    const V shifted = x * 0x1.71547652b82fep+0 + magic, n = shifted - magic;
    const V r = x - n * 0x1.62e42fefa3800p-1 - n * 0x1.ef35793c76730p-45;  // ln 2 in two parts
    V sum = V{} + 1.0 / 6227020800.0;                                      // 1/13!
    for (int power = 13; power > 0; --power) {
        constexpr double FACTORIALS[] = {1,      1,       2,        6,         24,
                                         120,    720,     5040,     40320,     362880,
                                         3628800, 39916800, 479001600};
        sum = sum * r + 1.0 / FACTORIALS[power - 1];
    }
    const Bits exponent = ((Bits)shifted + 1023) << 52;
    return sum * (V)exponent;
}

template <class V>
MFRANK_INLINE V positive(V x) {
    return x > 0 ? x : V{};
}

struct SquaredHinge {};  // max(0, x)^2
struct Sigmoid {};       // 1 / (1 + exp(-x))
struct Softplus {};      // log(1 + exp(x))

template <class V>
MFRANK_INLINE void ramp_at(SquaredHinge, V x, V& value, V& slope) {
    const V lead = positive(x);
    value = lead * lead, slope = 2 * lead;
}

template <class V>
MFRANK_INLINE void ramp_at(Sigmoid, V x, V& value, V& slope) {
    const V e = exp_of(x > 0 ? -x : x), low = e / (1 + e);
    value = x > 0 ? 1 - low : low;
    slope = low * (1 - low);
}

template <class V>
MFRANK_INLINE void ramp_at(Softplus, V x, V& value, V& slope) {
    const V e = exp_of(x > 0 ? -x : x), low = e / (1 + e);
    // log(1 + e) = 2 artanh(s), s = e / (2 + e) <= 1/3
    const V s = e / (2 + e), square = s * s;
    V sum{};
    for (int odd = 33; odd > 0; odd -= 2) sum = sum * square + 1.0 / odd;
    value = positive(x) + 2 * s * sum;
    slope = x > 0 ? 1 - low : low;
}

// Up to W numbers from p on, 0 beyond them.
MFRANK_INLINE Vec<double> up_to(const double* p, int64_t count) {
    if (count >= W<double>) return loose(p);
    Vec<double> some{};
    std::memcpy(&some, p, count * sizeof *p);
    return some;
}

template <class Ramp>
static void ramp_sums(const RampTask& task, double* sums, double* slopes) {
    const int64_t n = task.n_places, m = task.n_thresholds;
    for_each_list(task.n_lists, task.n_threads, [&](int64_t b) {
        const double *scores = task.scores + b * n, *weights = task.weights + b * n;
        for (int64_t t = 0; t < m; ++t) {
            const double threshold = task.thresholds[b * m + t];
            Vec<double> sum{}, slope_sum{};
            for (int64_t j = 0; j < n; j += W<double>) {
                Vec<double> value, slope;
                const Vec<double> weight = up_to(weights + j, n - j);
                ramp_at(Ramp{}, up_to(scores + j, n - j) - threshold, value, slope);
                sum += weight * value, slope_sum += weight * slope;
            }
            sums[b * m + t] = sum_of<double>(sum);
            slopes[b * m + t] = sum_of<double>(slope_sum);
        }
    });
}

template <class Ramp>
static void ramp_pushes(const RampTask& task, const double* by_sums, double* to) {
    const int64_t n = task.n_places, m = task.n_thresholds;
    for_each_list(task.n_lists, task.n_threads, [&](int64_t b) {
        const double *scores = task.scores + b * n, *weights = task.weights + b * n;
        for (int64_t j = 0; j < n; j += W<double>) {
            Vec<double> pushed{};
            for (int64_t t = 0; t < m; ++t) {
                Vec<double> value, slope;
                const double threshold = task.thresholds[b * m + t];
                ramp_at(Ramp{}, up_to(scores + j, n - j) - threshold, value, slope);
                pushed += by_sums[b * m + t] * slope;
            }
            pushed *= up_to(weights + j, n - j);
            std::memcpy(to + b * n + j, &pushed, std::min(n - j, int64_t{W<double>}) * sizeof *to);
        }
    });
}

// sums[b, t], and slopes[b, t]: the sums of weight_j f'.
static void sum_ramps(const RampTask& task, double* sums, double* slopes) {
    switch (task.ramp) {
        case Ramp::squared_hinge: return ramp_sums<SquaredHinge>(task, sums, slopes);
        case Ramp::sigmoid: return ramp_sums<Sigmoid>(task, sums, slopes);
        case Ramp::softplus: return ramp_sums<Softplus>(task, sums, slopes);
    }
}

// to[b, j] = weight_j sum over the thresholds of by_sums f': the slopes by the scores.
static void push_ramps(const RampTask& task, const double* by_sums, double* to) {
    switch (task.ramp) {
        case Ramp::squared_hinge: return ramp_pushes<SquaredHinge>(task, by_sums, to);
        case Ramp::sigmoid: return ramp_pushes<Sigmoid>(task, by_sums, to);
        case Ramp::softplus: return ramp_pushes<Softplus>(task, by_sums, to);
    }
}
