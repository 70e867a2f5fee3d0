// Releases Python's global lock (GIL) while kernels run, safely when the interpreter shuts down.
//
// The interpreter may finalize while a daemon thread runs a kernel. Before Python 3.14, a thread
// that then requests the GIL is terminated. If that unwinds the stack, C++ destructors release
// Python objects without the GIL, and a noexcept function aborts. So the thread blocks forever
// instead, as Python does itself from 3.14 on. Its arrays, and its stack, which other threads of
// its call may still use, stay valid until the process exits.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "host/crew.h"

namespace mfrank {

inline bool python_finalizes() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

[[noreturn]] inline void wait_forever() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

inline void take_gil(PyThreadState* own) {
    if (python_finalizes()) wait_forever();
    try {
        PyEval_RestoreThread(own);
    } catch (...) {  // The forced unwinding of this thread; C code throws nothing else.
        wait_forever();
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

// Takes the GIL back within the scope of a ReleasedGil of the same thread.
class HeldGil {
   public:
    explicit HeldGil(PyThreadState* own) { take_gil(own); }
    HeldGil(const HeldGil&) = delete;
    HeldGil& operator=(const HeldGil&) = delete;
    ~HeldGil() { PyEval_SaveThread(); }
};

// Whether this thread, which must be attached to Python, is the main thread, where Python runs
// signal handlers. After a fork, the forking thread becomes the main one. A free-threaded Python
// lets several threads in here at once: each that finds no answer for this process stores the same.
inline bool in_main_thread() {
    static std::atomic<int64_t> process{-1};
    static std::atomic<unsigned long> main_thread{0};
    if (process != process_id()) {
        const auto threading = pybind11::module_::import("threading");
        main_thread = threading.attr("main_thread")().attr("ident").cast<unsigned long>();
        process = process_id();  // last: who reads it finds the thread
    }
    return PyThread_get_thread_ident() == main_thread;
}

}  // namespace mfrank
