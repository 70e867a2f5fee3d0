// The best of a stream of scored items; ties go to the lower id.

template <class T>
struct Entry {
    T score;
    int32_t id;
};

template <class T>
MFRANK_INLINE bool worse(const Entry<T>& a, const Entry<T>& b) {
    return a.score < b.score || (a.score == b.score && a.id > b.id);
}

// The best entries so far: a heap with the worst of them at its root.
template <class T>
struct Best {
    Entry<T>* entries;
    int64_t capacity, size;
    T threshold;  // lower scores cannot enter

    bool accepts(const Entry<T>& entry) const {
        return size < capacity || worse(entries[0], entry);
    }

    void add(const Entry<T>& entry) {
        if (size < capacity) {
            entries[size++] = entry;
            if (size < capacity) return;
            heapify();
        } else {
            sink(0, size, entry);
        }
        threshold = entries[0].score;
    }

    // Best first; empties the heap.
    void write(int32_t* ids, T* scores) {
        if (size < capacity) heapify();
        while (size > 0) {
            --size;
            ids[size] = entries[0].id, scores[size] = entries[0].score;
            sink(0, size, entries[size]);
        }
    }

    void heapify() {
        for (int64_t hole = size / 2; hole-- > 0;) sink(hole, size, entries[hole]);
    }

    void sink(int64_t hole, int64_t n, const Entry<T> entry) {
        for (int64_t child = 2 * hole + 1; child < n; child = 2 * hole + 1) {
            if (child + 1 < n && worse(entries[child + 1], entries[child])) ++child;
            if (!worse(entries[child], entry)) break;
            entries[hole] = entries[child];
            hole = child;
        }
        entries[hole] = entry;
    }
};

// An empty heap on the given memory.
template <class T>
static Best<T> empty_best(Entry<T>* entries, int64_t capacity) {
    return {entries, capacity, 0, -std::numeric_limits<T>::infinity()};
}
