// Momentum: solved rows are moved on from the solution before, which is known by the rows that it was
// moved on to and by how far.

// To the nearest, ties to even. Not a number stays in the row that it is added to.
MFRANK_INLINE uint16_t halved(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
MFRANK_INLINE float halved(double value) { return float(value); }

MFRANK_INLINE float widened(uint16_t half) {
    const uint32_t bits = uint32_t(half) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
MFRANK_INLINE double widened(float half) { return half; }

template <class T>
static void extrapolate(const ExtrapolateTask<T>& task) {
    const int64_t k = task.k, n_rows = task.n_rows;
    Buffer<T> storage(2 * Panels<T>::size(k, k));
    const Panels<T> basis{storage.get(), k}, turn{storage.get() + Panels<T>::size(k, k), k};
    pack(task.basis, k, k, false, basis);
    pack(task.turn, k, k, false, turn);
    share((n_rows + ROTATE_ROWS - 1) / ROTATE_ROWS, task.n_threads, [&](Blocks& blocks) {
        Buffer<T> wide(ROTATE_ROWS * k), moved(ROTATE_ROWS * k), last(ROTATE_ROWS * k);
        for (int64_t block; blocks.next(block);) {
            const int64_t first = block * ROTATE_ROWS, n = std::min(ROTATE_ROWS, n_rows - first);
            Half<T>* const displacement = task.displacements + first * k;
            T* const solved = task.solved + first * k;
            T *const w = wide.get(), *const m = moved.get(), *const l = last.get();
            for (int64_t i = 0; i < n * k; ++i) w[i] = widened(displacement[i]);
            multiply(w, k, n, turn, k, m, k, k);
            multiply(task.before + first * k, k, n, basis, k, l, k, k);
            for (int64_t i = 0; i < n * k; ++i) {
                displacement[i] = halved(task.weight * (solved[i] - l[i] + m[i]));
                solved[i] += widened(displacement[i]);
            }
        }
    });
}
