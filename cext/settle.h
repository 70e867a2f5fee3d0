// How threads share the work of settling.h: all on the same columns, or each on columns of its own.

constexpr int64_t CHUNKS_WORTH = 12;  // Of a wave, for each thread: less is not worth the wait.
constexpr std::chrono::microseconds LONG_WAIT{1000};
constexpr int64_t WORTH_LANES = 3;  // Columns from which on lanes abreast are faster.

// All threads on the same columns: a wave begins when every chunk of the one before is done. Where the
// machine is so busy that one waits for another's turn on a core, a single thread goes on alone.
template <class Z, int64_t K>
static void settle_together(const SettleTask& task, const WaveChunks& chunks, int64_t column) {
    using Clock = std::chrono::steady_clock;
    Settling<Z, K> settling(task, chunks, column);
    const int64_t n_chunks = chunks.size();
    const int64_t worth = n_chunks / (task.n_waves * CHUNKS_WORTH);
    const int n_threads = static_cast<int>(
        std::clamp<int64_t>(worth, 1, threads_meant(task.n_threads)));
    std::atomic<int64_t> chunks_done{0}, waves_done{0};
    std::atomic<bool> over{false}, crowded{false}, has_first{false};
    share(std::numeric_limits<int64_t>::max(), n_threads, [&](Blocks& blocks) {
        const bool stays = !has_first.exchange(true);
        for (int64_t block; (stays || !crowded) && blocks.next(block);) {
            const int64_t sweep = block / n_chunks, chunk = block % n_chunks;
            const int64_t wave = chunks.wave_of[chunk], before = sweep * task.n_waves + wave;
            const auto came = Clock::now();
            while (waves_done.load(std::memory_order_acquire) < before) {
                if (over || blocks.stopping()) return;
                if (Clock::now() - came > LONG_WAIT) crowded = true;
                std::this_thread::yield();
            }
            if (over) return;
            settling.advance(chunk);
            if (chunks_done.fetch_add(1, std::memory_order_acq_rel) + 1 <
                sweep * n_chunks + chunks.ends_of_wave[wave])
                continue;
            settling.publish(wave);
            if (settling.settled()) over = true;
            waves_done.store(before + 1, std::memory_order_release);
        }
    });
    settling.write();
}

// Each thread on columns of its own.
template <class Z>
static void settle_apart(const SettleTask& task, const WaveChunks& chunks) {
    share((task.starts.n_rows + LANES - 1) / LANES, task.n_threads, [&](Blocks& blocks) {
        for (int64_t block; blocks.next(block);) {
            Settling<Z, LANES> settling(task, chunks, block * LANES);
            while (!settling.settled())
                for (int64_t chunk = 0; chunk < chunks.size(); ++chunk) {
                    if (blocks.stopping()) return;
                    settling.advance(chunk);
                    const int64_t wave = chunks.wave_of[chunk];
                    if (chunk + 1 == chunks.ends_of_wave[wave]) settling.publish(wave);
                }
            settling.write();
        }
    });
}

template <class Z>
static void settle(const SettleTask& task) {
    const int64_t n_columns = task.starts.n_rows;
    const int threads = threads_meant(task.n_threads);
    std::fill_n(task.steps, n_columns, int64_t{0});
    if (task.rows.n_rows == 0) {
        std::fill_n(task.errors, n_columns, 0.0);
        return;
    }
    const WaveChunks chunks(task);
    if (n_columns > LANES * (threads - 1) && n_columns >= WORTH_LANES)
        return settle_apart<Z>(task, chunks);
    const int64_t abreast = n_columns < WORTH_LANES ? 1 : LANES;
    for (int64_t column = 0; column < n_columns; column += abreast)
        if (abreast == 1) settle_together<Z, 1>(task, chunks, column);
        else settle_together<Z, LANES>(task, chunks, column);
}
