// Python's lock, let go while kernels work, by threads that may find Python gone when they want it.
//
// The interpreter may end while a daemon thread is in here, which then never gets the lock again.
// Python before 3.14 ends a thread that asks for it. Where that unwinds the stack, C++ would drop
// Python's objects without the lock, and abort where nothing may be thrown. So the thread waits here
// for ever, as Python itself has it from 3.14 on: the arrays it holds, and its stack, which other
// threads of its call may still use, last until the process is gone.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "crew.h"

namespace mfrank {

inline bool python_ends() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

[[noreturn]] inline void wait_for_ever() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

inline void take_gil(PyThreadState* own) {
    if (python_ends()) wait_for_ever();
    try {
        PyEval_RestoreThread(own);
    } catch (...) {  // The end of the thread; C throws nothing else.
        wait_for_ever();
    }
}

class ReleasedGil {
   public:
    ReleasedGil() : own_(PyEval_SaveThread()) {}
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;
    ~ReleasedGil() { take_gil(own_); }

   private:
    PyThreadState* const own_;
};

// Within a ReleasedGil of the same thread.
class HeldGil {
   public:
    explicit HeldGil(PyThreadState* own) { take_gil(own); }
    HeldGil(const HeldGil&) = delete;
    HeldGil& operator=(const HeldGil&) = delete;
    ~HeldGil() { PyEval_SaveThread(); }
};

// Whether Python would run signal handlers in this thread, which holds the lock. A fork makes
// another thread the main one.
inline bool in_main_thread() {
    static int64_t process = -1;
    static unsigned long main_thread = 0;
    if (process != process_id()) {
        const auto threading = pybind11::module_::import("threading");
        main_thread = threading.attr("main_thread")().attr("ident").cast<unsigned long>();
        process = process_id();
    }
    return PyThread_get_thread_ident() == main_thread;
}

}  // namespace mfrank
