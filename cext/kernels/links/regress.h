// Ridge regressions of each item on a few others, by Cholesky factorizations of their Gram matrices.
//
// Entries of G between common items are read from a table. The others are sums over the users of
// the items that are not common, who are few.

class Regression {
   public:
    explicit Regression(const LinksTask& task)
        : task_(task), at_(task.rows.n_columns, -1), seen_(task.rows.n_rows, -1) {}

    // Writes the weights of one item; false if its matrix is not positive definite.
    bool solve(int64_t item) {
        const Csr<double>& near = task_.near;
        const int64_t first = near.indptr[item], n = near.indptr[item + 1] - first;
        const int32_t* const items = near.indices + first;
        const int64_t size = padded<double>(n);
        const Panels<double> gram{gram_.at_least(Panels<double>::size(size, size)), size};
        double* const x = vectors_.at_least(3 * size);
        std::fill_n(gram.data, Panels<double>::size(size, size), 0.0);
        std::fill_n(x, size, 0.0);
        std::copy_n(near.data + first, n, x);
        for (int64_t i = 0; i < n; ++i) at_[items[i]] = static_cast<int32_t>(i);
        for (int64_t j = 0; j < size; ++j)
            *gram.at(j, j) = j < n ? task_.diagonal[items[j]] : 1.0;
        read_common(gram, items, n);
        add_users(gram, items, n, item);
        for (int64_t i = 0; i < n; ++i) at_[items[i]] = -1;
        const bool positive = cholesky(gram, size, x + size);
        if (positive) solve_factored(gram, size, x + size, x, x + 2 * size);
        for (int64_t i = 0; i < n; ++i) task_.out[first + i] = positive ? x[i] : 0.0;
        return positive;
    }

   private:
    struct Member {
        int32_t at;
        bool common;
        double value;
    };

    void read_common(Panels<double> gram, const int32_t* items, int64_t n) {
        for (int64_t j = 0; j < n; ++j) {
            const int32_t own = task_.place[items[j]];
            if (own < 0) continue;
            const double* const row = task_.common + own * task_.n_common;
            for (int64_t i = 0; i < j; ++i)
                if (const int32_t other = task_.place[items[i]]; other >= 0)
                    *gram.at(i, j) = row[other];
        }
    }

    // Adds what users have in common of each pair of items, one of which at least is not common.
    void add_users(Panels<double> gram, const int32_t* items, int64_t n, int64_t item) {
        for (int64_t i = 0; i < n; ++i) {
            if (task_.place[items[i]] >= 0) continue;
            const int64_t end = task_.users.indptr[items[i] + 1];
            for (int64_t e = task_.users.indptr[items[i]]; e < end; ++e) {
                const int32_t user = task_.users.indices[e];
                if (std::exchange(seen_[user], item) == item) continue;
                add_user(gram, user);
            }
        }
    }

    void add_user(Panels<double> gram, int64_t user) {
        const Csr<double>& rows = task_.rows;
        members_.clear();
        for (int64_t e = rows.indptr[user]; e < rows.indptr[user + 1]; ++e) {
            const int32_t own = rows.indices[e];
            if (at_[own] < 0) continue;
            const Member member{at_[own], task_.place[own] >= 0, rows.data[e]};
            double* const column = gram.at(0, member.at);
            for (const Member& other : members_)
                if (!(member.common && other.common))
                    column[other.at * NR<double>] += other.value * member.value;
            members_.push_back(member);
        }
    }

    const LinksTask& task_;
    std::vector<int32_t> at_;    // by item: its place among those that predict, or -1
    std::vector<int64_t> seen_;  // by user: the last item for which they were added
    std::vector<Member> members_;
    Buffer<double> gram_, vectors_;
};

static void regress(const LinksTask& task) {
    for_each_list_by(task.near.n_rows, task.n_threads, [&] {
        return [&task, one = std::make_unique<Regression>(task)](int64_t item) {
            task.failed[item] = !one->solve(item);
        };
    });
}

static LinksKernels links_kernels() {
    return {regress};
}
