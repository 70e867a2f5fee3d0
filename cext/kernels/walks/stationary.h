// Stationary distributions by the sweeps of sweeps.h. Threads share the columns or split them.

constexpr int64_t CHUNKS_PER_THREAD = 12;  // Of a wave; fewer are not worth the waiting.
constexpr std::chrono::microseconds LONG_WAIT{1000};
constexpr int64_t MIN_LANE_COLUMNS = 3;  // Number of columns from which lanes are faster.

// All threads on the same columns: a wave begins when all chunks of the previous wave are done. If
// a thread waits so long that another one must be without a core, the first thread goes on alone.
template <class Z, int64_t K>
static void sweep_together(const StationaryTask& task, const WaveChunks& chunks, int64_t column) {
    using Clock = std::chrono::steady_clock;
    Sweeps<Z, K> sweeps(task, chunks, column);
    const int64_t n_chunks = chunks.size();
    const int64_t useful = n_chunks / (task.n_waves * CHUNKS_PER_THREAD);
    const int n_threads = static_cast<int>(
        std::clamp<int64_t>(useful, 1, threads_meant(task.n_threads)));
    std::atomic<int64_t> chunks_done{0}, waves_done{0};
    std::atomic<bool> done{false}, crowded{false}, first_taken{false};
    share(std::numeric_limits<int64_t>::max(), n_threads, [&](Blocks& blocks) {
        const bool is_first = !first_taken.exchange(true);
        for (int64_t block; (is_first || !crowded) && blocks.next(block);) {
            const int64_t sweep = block / n_chunks, chunk = block % n_chunks;
            const int64_t wave = chunks.wave_of[chunk], before = sweep * task.n_waves + wave;
            const auto arrived = Clock::now();
            while (waves_done.load(std::memory_order_acquire) < before) {
                if (done || blocks.stopping()) return;
                if (Clock::now() - arrived > LONG_WAIT) crowded = true;
                std::this_thread::yield();
            }
            if (done) return;
            sweeps.advance(chunk);
            if (chunks_done.fetch_add(1, std::memory_order_acq_rel) + 1 <
                sweep * n_chunks + chunks.ends_of_wave[wave])
                continue;
            sweeps.publish(wave);
            if (sweeps.converged()) done = true;
            waves_done.store(before + 1, std::memory_order_release);
        }
    });
    sweeps.write();
}

// Each thread on its own columns.
template <class Z>
static void sweep_apart(const StationaryTask& task, const WaveChunks& chunks) {
    share((task.starts.n_rows + LANES - 1) / LANES, task.n_threads, [&](Blocks& blocks) {
        for (int64_t block; blocks.next(block);) {
            Sweeps<Z, LANES> sweeps(task, chunks, block * LANES);
            while (!sweeps.converged())
                for (int64_t chunk = 0; chunk < chunks.size(); ++chunk) {
                    if (blocks.stopping()) return;
                    sweeps.advance(chunk);
                    const int64_t wave = chunks.wave_of[chunk];
                    if (chunk + 1 == chunks.ends_of_wave[wave]) sweeps.publish(wave);
                }
            sweeps.write();
        }
    });
}

template <class Z>
static void stationary(const StationaryTask& task) {
    const int64_t n_columns = task.starts.n_rows;
    const int threads = threads_meant(task.n_threads);
    std::fill_n(task.steps, n_columns, int64_t{0});
    if (task.rows.n_rows == 0) {
        std::fill_n(task.errors, n_columns, 0.0);
        return;
    }
    const WaveChunks chunks(task);
    if (n_columns > LANES * (threads - 1) && n_columns >= MIN_LANE_COLUMNS)
        return sweep_apart<Z>(task, chunks);
    const int64_t abreast = n_columns < MIN_LANE_COLUMNS ? 1 : LANES;
    for (int64_t column = 0; column < n_columns; column += abreast)
        if (abreast == 1) sweep_together<Z, 1>(task, chunks, column);
        else sweep_together<Z, LANES>(task, chunks, column);
}
