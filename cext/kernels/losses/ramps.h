// Sums of a ramp function f over the places j, sum_j weight_j f(score_j - threshold_t), and
// gradients.

// Constants of the exponential function of a type.
template <class T>
struct Exponential;
template <>
struct Exponential<double> {
    static constexpr double EDGE = 708, MAGIC = 0x1.8p52;
    static constexpr double LOG_2_HIGH = 0x1.62e42fefa3800p-1, LOG_2_LOW = 0x1.ef35793c76730p-45;
    static constexpr int TERMS = 13, MANTISSA = 52, BIAS = 1023, LAST_ODD = 33;
};
template <>
struct Exponential<float> {
    static constexpr float EDGE = 87, MAGIC = 0x1.8p23f;
    static constexpr float LOG_2_HIGH = 0x1.62e400p-1f, LOG_2_LOW = 0x1.7f7d1cp-20f;
    static constexpr int TERMS = 7, MANTISSA = 23, BIAS = 127, LAST_ODD = 15;
};

// exp(x), accurate to the last bits of T; x is clipped to +-EDGE, so that nothing overflows.
template <class T>
MFRANK_INLINE Vec<T> exp_of(Vec<T> x) {
    using E = Exponential<T>;
    typedef LaneOf<T> Bits __attribute__((vector_size(VECTOR_BYTES)));
    constexpr double FACTORIALS[] = {1,    1,     2,      6,       24,       120,       720,
                                     5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800};
    const Vec<T> edge = Vec<T>{} + E::EDGE;
    x = x > edge ? edge : x < -edge ? -edge : x;
    // Adding MAGIC rounds a number to an integer, which is then in the last bits of the sum.
    const Vec<T> shifted = x * T(0x1.71547652b82fep+0) + E::MAGIC, n = shifted - E::MAGIC;
    const Vec<T> r = x - n * E::LOG_2_HIGH - n * E::LOG_2_LOW;
    Vec<T> sum = Vec<T>{} + T(1 / FACTORIALS[E::TERMS]);
    for (int power = E::TERMS - 1; power >= 0; --power) sum = sum * r + T(1 / FACTORIALS[power]);
    return sum * (Vec<T>)(((Bits)shifted + E::BIAS) << E::MANTISSA);
}

template <class T>
MFRANK_INLINE Vec<T> positive(Vec<T> x) {
    return x > 0 ? x : Vec<T>{};
}

struct Hinge {};         // max(0, x)
struct SquaredHinge {};  // max(0, x)^2
struct Sigmoid {};       // 1 / (1 + exp(-x))
struct Softplus {};      // log(1 + exp(x))

template <class Ramp>
constexpr bool IS_EXPONENTIAL = std::is_same_v<Ramp, Sigmoid> || std::is_same_v<Ramp, Softplus>;

template <class T>
MFRANK_INLINE void ramp_at(Hinge, Vec<T> x, Vec<T>& value, Vec<T>& slope) {
    value = positive<T>(x), slope = x > 0 ? Vec<T>{} + 1 : Vec<T>{};
}

template <class T>
MFRANK_INLINE void ramp_at(SquaredHinge, Vec<T> x, Vec<T>& value, Vec<T>& slope) {
    const Vec<T> lead = positive<T>(x);
    value = lead * lead, slope = 2 * lead;
}

template <class T>
MFRANK_INLINE void ramp_at(Sigmoid, Vec<T> x, Vec<T>& value, Vec<T>& slope) {
    const Vec<T> e = exp_of<T>(x > 0 ? -x : x), low = e / (1 + e);
    value = x > 0 ? 1 - low : low;
    slope = low * (1 - low);
}

// log((1 + s) / (1 - s)), 0 <= s <= 1/3: log(1 + e) for s = e / (2 + e), 0 <= e <= 1.
template <class T>
MFRANK_INLINE Vec<T> twice_artanh(Vec<T> s) {
    const Vec<T> square = s * s;
    Vec<T> sum{};
    for (int odd = Exponential<T>::LAST_ODD; odd > 0; odd -= 2) sum = sum * square + T(1.0 / odd);
    return 2 * s * sum;
}

template <class T>
MFRANK_INLINE void ramp_at(Softplus, Vec<T> x, Vec<T>& value, Vec<T>& slope) {
    const Vec<T> e = exp_of<T>(x > 0 ? -x : x);
    // One division for both e / (1 + e) and e / (2 + e), as it takes as long as all the rest.
    const Vec<T> both = e / ((1 + e) * (2 + e)), low = both * (2 + e);
    value = positive<T>(x) + twice_artanh<T>(both * (1 + e));  // log(1 + e)
    slope = x > 0 ? 1 - low : low;
}

// The W numbers from p on, or only `count` of them and then zeros.
template <class T>
MFRANK_INLINE Vec<T> up_to(const T* p, int64_t count) {
    if (count >= W<T>) return loose(p);
    Vec<T> some{};
    std::memcpy(&some, p, count * sizeof *p);
    return some;
}

// The scores and thresholds of a list and, if not null, their exponentials (`raised`).
template <class T>
struct Ramped {
    const T *scores, *weights, *thresholds;
    int64_t n, m;  // places and thresholds
    const T *raised = nullptr, *raised_thresholds = nullptr;
};

// The ramp's value and slope at score - threshold t, for the scores from place j on.
template <class Ramp, class T>
MFRANK_INLINE void ramp_at(Ramp, const Ramped<T>& list, int64_t j, int64_t t, Vec<T>& value,
                           Vec<T>& slope) {
    ramp_at<T>(Ramp{}, up_to(list.scores + j, list.n - j) - list.thresholds[t], value, slope);
}

// The same from the exponentials of scores and thresholds.
template <class Ramp>
struct Raised {};

template <class T>
MFRANK_INLINE void ramp_at(Raised<Sigmoid>, const Ramped<T>& list, int64_t j, int64_t t,
                           Vec<T>& value, Vec<T>& slope) {
    const Vec<T> score = up_to(list.raised + j, list.n - j);
    const T threshold = list.raised_thresholds[t];
    const Vec<T> part = 1 / (score + threshold);
    value = score * part, slope = value * (threshold * part);
}

template <class T>
MFRANK_INLINE void ramp_at(Raised<Softplus>, const Ramped<T>& list, int64_t j, int64_t t,
                           Vec<T>& value, Vec<T>& slope) {
    const Vec<T> score = up_to(list.raised + j, list.n - j);
    const Vec<T> threshold = Vec<T>{} + list.raised_thresholds[t], both = score + threshold;
    const Vec<T> low = score < threshold ? score : threshold, more = both + (both - low);
    // One division for both score / both and low / more, as above.
    const Vec<T> part = 1 / (both * more);
    slope = score * (part * more);
    const Vec<T> x = up_to(list.scores + j, list.n - j) - list.thresholds[t];
    value = positive<T>(x) + twice_artanh<T>(low * (part * both));
}

template <class Ramp, class T>
MFRANK_INLINE void ramp_sums(const Ramped<T>& list, T* sums, T* gradients) {
    for (int64_t t = 0; t < list.m; ++t) {
        Vec<T> sum{}, slope_sum{};
        for (int64_t j = 0; j < list.n; j += W<T>) {
            Vec<T> value, slope;
            const Vec<T> weight = up_to(list.weights + j, list.n - j);
            ramp_at(Ramp{}, list, j, t, value, slope);
            sum += weight * value, slope_sum += weight * slope;
        }
        sums[t] = sum_of<T>(sum);
        gradients[t] = sum_of<T>(slope_sum);
    }
}

template <class Ramp, class T>
MFRANK_INLINE void ramp_pushes(const Ramped<T>& list, const T* by_sums, T* to) {
    for (int64_t j = 0; j < list.n; j += W<T>) {
        Vec<T> pushed{};
        for (int64_t t = 0; t < list.m; ++t) {
            Vec<T> value, slope;
            ramp_at(Ramp{}, list, j, t, value, slope);
            pushed += by_sums[t] * slope;
        }
        pushed *= up_to(list.weights + j, list.n - j);
        std::memcpy(to + j, &pushed, std::min(list.n - j, int64_t{W<T>}) * sizeof *to);
    }
}

// Calls work(Raised<Ramp>{}, list) with the exponentials of a list: n + m exponentials in place of
// n m. Calls work(Ramp{}, list) if that saves nothing or the scores are too far apart for it.
template <class Ramp, class T>
class ByExponentials {
    static constexpr T REACH = std::is_same_v<T, float> ? 40 : 300;  // e^(2 REACH) is finite
   public:
    template <class Work>
    void operator()(Ramped<T> list, const Work& work) {
        T low = list.n ? list.scores[0] : 0, high = low;
        widen(list.scores, list.n, low, high), widen(list.thresholds, list.m, low, high);
        if (list.m < 2 || !(high - low < 2 * REACH)) return work(Ramp{}, list);
        raised_.resize(list.n + list.m);
        list.raised = raised_.data(), list.raised_thresholds = raised_.data() + list.n;
        const T middle = low + (high - low) / 2;
        raise(list.scores, list.n, middle, raised_.data());
        raise(list.thresholds, list.m, middle, raised_.data() + list.n);
        work(Raised<Ramp>{}, list);
    }

   private:
    static void widen(const T* x, int64_t n, T& low, T& high) {
        Vec<T> lows = Vec<T>{} + low, highs = Vec<T>{} + high;
        int64_t j = 0;
        for (; j + W<T> <= n; j += W<T>) {
            const Vec<T> v = loose(x + j);
            lows = lows <= v ? lows : v, highs = highs >= v ? highs : v;
        }
        for (int lane = 0; lane < W<T>; ++lane)
            low = low <= lows[lane] ? low : lows[lane],
            high = high >= highs[lane] ? high : highs[lane];
        for (; j < n; ++j) low = low <= x[j] ? low : x[j], high = high >= x[j] ? high : x[j];
    }

    static void raise(const T* x, int64_t n, T middle, T* to) {
        for (int64_t j = 0; j < n; j += W<T>) {
            const Vec<T> e = exp_of<T>(up_to(x + j, n - j) - middle);
            std::memcpy(to + j, &e, std::min(n - j, int64_t{W<T>}) * sizeof *to);
        }
    }

    std::vector<T> raised_;
};

// Calls work(ramp, list, b) for all lists b.
template <class Ramp, class T, class Work>
static void for_each_ramped(const RampTask<T>& task, const Work& work) {
    const int64_t n = task.n_places, m = task.n_thresholds;
    const int threads = threads_for(task.n_lists, 16.0 * n * m, task.n_threads);
    for_each_list_by(task.n_lists, threads, [&] {
        return [&, by_exponentials = ByExponentials<Ramp, T>()](int64_t b) mutable {
            const auto run = [&work, b](auto ramp, const Ramped<T>& list) { work(ramp, list, b); };
            const Ramped<T> list{task.scores + b * n, task.weights + b * n,
                                 task.thresholds + b * m, n, m};
            if constexpr (IS_EXPONENTIAL<Ramp>) by_exponentials(list, run);
            else run(Ramp{}, list);
        };
    });
}

template <class Ramp, class T>
static void sum_ramps_of(const RampTask<T>& task, T* sums, T* gradients) {
    for_each_ramped<Ramp>(task, [=](auto ramp, const Ramped<T>& list, int64_t b) {
        ramp_sums<decltype(ramp)>(list, sums + b * list.m, gradients + b * list.m);
    });
}

template <class Ramp, class T>
static void push_ramps_of(const RampTask<T>& task, const T* by_sums, T* to) {
    for_each_ramped<Ramp>(task, [=](auto ramp, const Ramped<T>& list, int64_t b) {
        ramp_pushes<decltype(ramp)>(list, by_sums + b * list.m, to + b * list.n);
    });
}

// sums[b, t] = sum_j weight_j f(score_j - threshold_t), and gradients[b, t] the same with f'.
template <class T>
static void sum_ramps(const RampTask<T>& task, T* sums, T* gradients) {
    switch (task.ramp) {
        case Ramp::hinge: return sum_ramps_of<Hinge>(task, sums, gradients);
        case Ramp::squared_hinge: return sum_ramps_of<SquaredHinge>(task, sums, gradients);
        case Ramp::sigmoid: return sum_ramps_of<Sigmoid>(task, sums, gradients);
        case Ramp::softplus: return sum_ramps_of<Softplus>(task, sums, gradients);
    }
}

// to[b, j] = weight_j sum_t by_sums[b, t] f'(score_j - threshold_t): gradients by the scores, from
// gradients by the sums.
template <class T>
static void push_ramps(const RampTask<T>& task, const T* by_sums, T* to) {
    switch (task.ramp) {
        case Ramp::hinge: return push_ramps_of<Hinge>(task, by_sums, to);
        case Ramp::squared_hinge: return push_ramps_of<SquaredHinge>(task, by_sums, to);
        case Ramp::sigmoid: return push_ramps_of<Sigmoid>(task, by_sums, to);
        case Ramp::softplus: return push_ramps_of<Softplus>(task, by_sums, to);
    }
}
