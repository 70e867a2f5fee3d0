// A thread pool that starts fast enough to parallelize calls of a tenth of a millisecond.
//
// Not OpenMP, because GNU's hangs in a forked child, its idle threads spin next to BLAS, and it
// must be linked. A thread that has finished its part polls for the next call for SPIN_TIME,
// yielding its core, then sleeps, and exits after IDLE_TIMEOUT. A call does not wait for threads
// that have not woken up yet: on a busy machine the caller does all the work itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace mfrank {

// Takes the memory that a thread's first exception needs, while there is some: if there is none left
// when std::bad_alloc is thrown, glibc ends the process. False if there is none even now.
inline bool prepare_to_throw() {
    void* const volatile tried = std::malloc(4096);
    if (!tried) return false;
    std::free(tried);
    static_cast<void>(std::current_exception());
    return true;
}

// Work that threads of the pool run together with the caller.
struct Job {
    explicit Job(std::function<void()> given) : work(std::move(given)) {}
    const std::function<void()> work;
    int64_t seats = 0;                // number of threads that may still join
    std::atomic<int64_t> running{0};  // number of threads that have joined and not yet left
};

class Crew {
    // Time between two calls in one descent step; waking a sleeping thread takes about as long.
    static constexpr std::chrono::microseconds SPIN_TIME{200};
    static constexpr std::chrono::seconds IDLE_TIMEOUT{1};

   public:
    // Lets up to `seats` threads join, and starts threads if too few are idle.
    void offer(Job& job, int64_t seats) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            job.seats = seats;
            open_.push_back(&job);
            ++n_open_;
            try {
                for (; idle_ < seats; ++idle_) std::thread([this] { serve(); }).detach();
            } catch (const std::system_error&) {  // The limit of threads: go on with those we have.
            }
        }
        for (int64_t seat = 0; seat < seats; ++seat) wake_.notify_one();
    }

    // Lets no further thread join.
    void withdraw(Job& job) {
        const std::lock_guard<std::mutex> lock(mutex_);
        open_.erase(std::remove(open_.begin(), open_.end(), &job), open_.end());
        n_open_ = open_.size();
    }

   private:
    void serve() {
        const bool ready = prepare_to_throw();
        std::unique_lock<std::mutex> lock(mutex_);
        while (ready && wake_.wait_for(lock, IDLE_TIMEOUT, [this] { return !open_.empty(); })) {
            Job& job = *open_.back();
            if (--job.seats == 0) open_.pop_back();
            n_open_ = open_.size();
            --idle_, ++job.running;
            lock.unlock();
            job.work();
            --job.running;  // The last access to the job: its caller may destroy it now.
            spin();
            lock.lock();
            ++idle_;
        }
        --idle_;
    }

    void spin() const {
        const auto end = std::chrono::steady_clock::now() + SPIN_TIME;
        while (n_open_ == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<Job*> open_;
    std::atomic<int64_t> n_open_{0};  // size of open_, readable without the lock
    int64_t idle_ = 0;
};

inline int64_t process_id() {
#if defined(__unix__) || defined(__APPLE__)
    return getpid();
#else
    return 0;  // Processes do not fork here.
#endif
}

// The pool of this process. A forked child gets a new one: it has none of its parent's threads, and
// the parent's locks may be held by a thread that does not exist there. Pools are never destroyed,
// because their threads may outlive main.
inline Crew& crew() {
    struct Owned {
        const int64_t process;
        Crew crew;
    };
    static std::atomic<Owned*> current{nullptr};
    Owned* found = current.load();
    while (!found || found->process != process_id()) {
        Owned* const made = new Owned{process_id(), {}};
        if (current.compare_exchange_strong(found, made)) return made->crew;
        delete made;
    }
    return found->crew;
}

}  // namespace mfrank
