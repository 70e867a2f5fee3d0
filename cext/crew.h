// Threads that wait for work, so that a call of a tenth of a millisecond can be shared too.
//
// Not OpenMP: a forked child may share work (GNU's OpenMP hangs there), no idle thread spins beside
// BLAS, and nothing is linked. A thread that has done its part looks for the next call for a moment,
// yielding its core to whoever wants it, then sleeps, and ends when nothing comes for a second. Who
// does not wake in time for a call is not waited for: on a busy machine the caller does it all.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace mfrank {

// What some threads are to run beside the caller.
struct Job {
    explicit Job(std::function<void()> given) : work(std::move(given)) {}
    const std::function<void()> work;
    int64_t seats = 0;                // for threads that may still join
    std::atomic<int64_t> running{0};  // that have joined and not yet left
};

class Crew {
    // Between two calls of one step of a descent; to wake a sleeping thread takes about as long.
    static constexpr std::chrono::microseconds MOMENT{200};
    static constexpr std::chrono::seconds PATIENCE{1};

   public:
    // Lets up to so many threads join, started where too few are there.
    void offer(Job& job, int64_t seats) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            job.seats = seats;
            open_.push_back(&job);
            ++n_open_;
            try {
                for (; idle_ < seats; ++idle_) std::thread([this] { serve(); }).detach();
            } catch (const std::system_error&) {  // No more to be had: those that are there do it.
            }
        }
        for (int64_t seat = 0; seat < seats; ++seat) news_.notify_one();
    }

    // Lets nobody join any more.
    void withdraw(Job& job) {
        const std::lock_guard<std::mutex> lock(mutex_);
        open_.erase(std::remove(open_.begin(), open_.end(), &job), open_.end());
        n_open_ = open_.size();
    }

   private:
    void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (news_.wait_for(lock, PATIENCE, [this] { return !open_.empty(); })) {
            Job& job = *open_.back();
            if (--job.seats == 0) open_.pop_back();
            n_open_ = open_.size();
            --idle_, ++job.running;
            lock.unlock();
            job.work();
            --job.running;  // The last word on a job: its caller may go on and drop it.
            look_around();
            lock.lock();
            ++idle_;
        }
        --idle_;
    }

    void look_around() const {
        const auto end = std::chrono::steady_clock::now() + MOMENT;
        while (n_open_ == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }

    std::mutex mutex_;
    std::condition_variable news_;
    std::vector<Job*> open_;
    std::atomic<int64_t> n_open_{0};  // their number, to be read without the lock
    int64_t idle_ = 0;
};

inline int64_t process_id() {
#if defined(__unix__) || defined(__APPLE__)
    return getpid();
#else
    return 0;  // No process forks here.
#endif
}

// The crew of this process. A forked child has none of the threads of its parent, and locks as a
// thread that is no more may have left them: it gets a crew of its own. None is ever destroyed, as
// its threads may outlive main.
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
