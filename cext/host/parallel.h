// Parallel calls: threads take blocks of work from a shared counter until none is left.
//
// The calling thread works too, and checks for Ctrl-C, also while it waits for the pool (crew.h).
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "host/crew.h"
#include "host/gil.h"

#ifdef __linux__
#include <sched.h>
#endif

namespace mfrank {

// Number of cores this process may use under taskset, containers and batch systems.
inline int usable_cores() {
#ifdef __linux__
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) return std::max(1, CPU_COUNT(&mask));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

constexpr int MOST_THREADS = 1024;  // as in mfrank/arrays/threads.py

// Number of threads that `n_threads` means: 0 is all usable cores.
inline int threads_meant(int n_threads) {
    return n_threads > 0 ? std::min(n_threads, MOST_THREADS) : usable_cores();
}

// The blocks 0, 1, ... of one call, handed out to its threads.
class Blocks {
   public:
    explicit Blocks(int64_t n_blocks)
        : n_blocks_(n_blocks),
          caller_(std::this_thread::get_id()),
          main_(in_main_thread() ? PyThreadState_Get() : nullptr) {}

    // Takes the next block; false if none is left or the call must stop.
    bool next(int64_t& block) {
        if (stopping()) return false;
        block = next_.fetch_add(1, std::memory_order_relaxed);
        return block < n_blocks_;
    }

    // Whether to stop early; kernels check this within long blocks. The caller notices Ctrl-C here.
    bool stopping() {
        if (main_ && std::this_thread::get_id() == caller_) check_signals();
        return stop_.load(std::memory_order_relaxed);
    }

    // Stops the call; its caller rethrows the first exception of any thread.
    void fail(std::exception_ptr error) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = error;
        stop_ = true;
    }

    void rethrow() {
        if (error_) std::rethrow_exception(error_);
    }

   private:
    void check_signals() {
        const auto now = std::chrono::steady_clock::now();
        if (now - last_look_ < std::chrono::milliseconds(100) || stop_) return;
        last_look_ = now;
        const HeldGil gil(main_);
        if (PyErr_CheckSignals() != 0)
            fail(std::make_exception_ptr(pybind11::error_already_set()));
    }

    const int64_t n_blocks_;
    const std::thread::id caller_;
    PyThreadState* const main_;  // the caller's state if it is the main thread; else null
    std::chrono::steady_clock::time_point last_look_ = std::chrono::steady_clock::now();
    std::atomic<int64_t> next_{0};
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::exception_ptr error_;
};

// Runs work(blocks) on up to n_threads threads (0: all usable cores) with the GIL released.
//
// `work` takes blocks with blocks.next() until it returns false; its local variables outside that
// loop are scratch of the thread. Its exceptions, and KeyboardInterrupt, reach the caller.
template <class Work>
void share(int64_t n_blocks, int n_threads, const Work& work) {
    prepare_to_throw();
    // Counting the usable cores takes longer than some calls.
    const int64_t helpers =
        n_blocks > 1 ? std::min<int64_t>(threads_meant(n_threads), n_blocks) - 1 : 0;
    Blocks blocks(n_blocks);
    const auto guarded = [&] {
        try {
            work(blocks);
        } catch (...) {
            blocks.fail(std::current_exception());
        }
    };
    {
        const ReleasedGil no_gil;
        Job job(guarded);
        if (helpers > 0) crew().offer(job, helpers);
        guarded();
        if (helpers > 0) crew().withdraw(job);
        for (int round = 0; job.running > 0; ++round) {
            blocks.stopping();
            if (round < 256) std::this_thread::yield();
            else std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    }
    blocks.rethrow();
}

}  // namespace mfrank
