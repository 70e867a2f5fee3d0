// Scratch memory: aligned for every vector width, not initialized, grows but never shrinks.
#pragma once

#include <cstdint>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace mfrank {

template <class T>
class Buffer {
   public:
    Buffer() = default;
    explicit Buffer(int64_t size) { at_least(size); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { release(); }

    // Makes sure that `size` elements fit; growing loses the old contents.
    T* at_least(int64_t size) {
        if (size <= size_) return data_;
        release();
        const size_t alignment = alignment_of(size);
        const size_t bytes = (size * sizeof(T) + alignment - 1) / alignment * alignment;
        // Not std::aligned_alloc, which Windows and macOS 10.14 lack.
        data_ = static_cast<T*>(::operator new(bytes, std::align_val_t(alignment)));
#ifdef MADV_HUGEPAGE
        // On small pages, every row of a random gather costs a page walk.
        if (alignment == HUGE_PAGE) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
        size_ = size;
        return data_;
    }

    T* get() { return data_; }

   private:
    static constexpr size_t HUGE_PAGE = size_t{1} << 21;

    static size_t alignment_of(int64_t size) {
        return size * sizeof(T) < HUGE_PAGE ? 64 : HUGE_PAGE;
    }

    void release() {
        if (data_) ::operator delete(data_, std::align_val_t(alignment_of(size_)));
        data_ = nullptr, size_ = 0;
    }

    T* data_ = nullptr;
    int64_t size_ = 0;
};

}  // namespace mfrank
