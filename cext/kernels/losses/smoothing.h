// Gradients of a metric of the first places, smoothed by noise; see written_out.py and
// metric_jumps.py in mfrank/losses/sums.
//
// All items beyond the first places can pass the same items. A jump is linear in an item's worth,
// so the gradient of such an item is a sum of densities with two coefficients per place. Only the
// gradients of the first items need the levels without the item itself.

template <class T>
class Smoothed {
   public:
    explicit Smoothed(const SmoothedTask<T>& task)
        : task_(task), noisy_(task.n_places), middles_(task.n_places), heap_(task.n_levels + 1),
          first_(task.n_levels + 1), heights_(task.n_levels + 1), levels_(task.n_levels),
          still_(task.n_levels), rise_(task.n_levels) {}

    void operator()(int64_t b, T* gradients, T* value) {
        const int64_t n = task_.n_places, m = task_.n_levels;
        worths_ = task_.worths + b * n, whole_ = task_.whole[b];
        const T scale = add_noise(b);
        find_first();
        const T unit = scale / std::sqrt(T(2 * M_PI)) / whole_;
        set_levels(m, unit);
        sum_densities(scale, gradients + b * n);
        T gained = 0;
        for (int64_t place = 0; place <= m; ++place)
            gained += task_.weights[place] * worth(place) * factor_.next(worth(place), whole_);
        *value = gained / whole_;
        for (int64_t own = 0; own < m; ++own) {
            set_levels(own, unit);
            const int64_t j = first_[own];
            T sum = 0;
            for (int64_t p = 0; p < m; ++p) {
                const T apart = (levels_[p] - middles_[j]) * scale;
                sum += (still_[p] + worths_[j] * rise_[p]) * std::exp(T(-0.5) * apart * apart);
            }
            gradients[b * n + j] = sum;
        }
        for (int64_t j = 0; j < n; ++j)
            if (!task_.filled[b * n + j]) gradients[b * n + j] = 0;
    }

   private:
    // Computes noisy scores and the means of the items' densities. Returns 1 / standard deviation.
    T add_noise(int64_t b) {
        const int64_t n = task_.n_places;
        const T *centers = task_.centers + b * n, *noise = task_.noise + b * n;
        const bool* filled = task_.filled + b * n;
        int64_t count = 0;
        for (int64_t j = 0; j < n; ++j) count += filled[j];
        for (int64_t j = 0; j < n; ++j)
            noisy_[j] = filled[j] ? centers[j] + task_.sigma * noise[j] : LOWEST;
        if (!task_.share) {
            std::copy_n(centers, n, middles_.data());
            return 1 / task_.sigma;
        }
        Vec<T> sums{};
        for (int64_t j = 0; j < n; j += W<T>) sums += up_to(noise + j, n - j);
        const T all = sum_of<T>(sums), besides = T(std::max<int64_t>(count - 1, 1));
        const T part = task_.sigma / besides;
        for (int64_t j = 0; j < n; ++j) middles_[j] = centers[j] + part * (all - noise[j]);
        return 1 / (task_.sigma * std::sqrt(count / besides));
    }

    // Finds the items of the first places. NaN counts as the lowest score.
    void find_first() {
        Best<T> best{heap_.data(), task_.n_levels + 1, 0, LOWEST};
        for (int64_t j = 0; j < task_.n_places; ++j) {
            const T score = noisy_[j];
            if (score < best.threshold) continue;
            const Entry<T> entry{score == score ? score : LOWEST, static_cast<int32_t>(j)};
            if (best.accepts(entry)) best.add(entry);
        }
        best.write(first_.data(), heights_.data());
    }

    T worth(int64_t place) const { return worths_[first_[place]]; }

    // Sets the levels and coefficients of the first places, without the item at place `left_out`.
    void set_levels(int64_t left_out, T unit) {
        factor_ = {task_.above, 1};
        for (int64_t p = 0; p < task_.n_levels; ++p) {
            const int64_t place = p + (p >= left_out);
            const T x = worth(place);
            levels_[p] = heights_[place];
            rise_[p] = factor_.next(x, whole_) * (task_.weights[p] - task_.weights[p + 1]) * unit;
            still_[p] = -x * rise_[p];
        }
        factor_ = {task_.above, 1};
    }

    void sum_densities(T scale, T* to) const {
        const int64_t n = task_.n_places;
        for (int64_t j = 0; j < n; j += W<T>) {
            const Vec<T> middle = up_to(middles_.data() + j, n - j);
            const Vec<T> worth = up_to(worths_ + j, n - j);
            Vec<T> sum{};
            for (int64_t p = 0; p < task_.n_levels; ++p) {
                const Vec<T> apart = (levels_[p] - middle) * scale;
                sum += (still_[p] + worth * rise_[p]) * exp_of<T>(T(-0.5) * apart * apart);
            }
            std::memcpy(to + j, &sum, std::min(n - j, int64_t{W<T>}) * sizeof *to);
        }
    }

    // The factor F_p of metric_jumps.py, updated from place to place.
    struct Factor {
        Above above;
        T value;

        // Returns the factor of the current place and adds its worth for the next one.
        T next(T worth, T whole) {
            const T now = value;
            if (above == Above::count) value += worth;
            else if (above == Above::chance) value *= 1 - worth / whole;
            return now;
        }
    };

    static constexpr T LOWEST = -std::numeric_limits<T>::infinity();
    const SmoothedTask<T>& task_;
    std::vector<T> noisy_, middles_;
    std::vector<Entry<T>> heap_;
    std::vector<int32_t> first_;
    std::vector<T> heights_, levels_, still_, rise_;
    const T* worths_ = nullptr;
    T whole_ = 1;
    Factor factor_{Above::nothing, 1};
};

template <class T>
static void smoothed(const SmoothedTask<T>& task, T* gradients, T* values) {
    const double each = 16.0 * task.n_places * std::max<int64_t>(task.n_levels, 4);
    for_each_list_by(task.n_lists, threads_for(task.n_lists, each, task.n_threads), [&] {
        return [&, list = Smoothed<T>(task)](int64_t b) mutable { list(b, gradients, values + b); };
    });
}
