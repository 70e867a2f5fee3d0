// CUDA's words for g++: kernels run on the host, one block after the other, each thread a fibre.
//
// Fibres change only where a thread waits, one warp running ahead of the others, the first or, with
// `reversed`, the last: what comes out may not depend on it. Shared memory is poisoned before each block, and followed by a guard.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__
#define __restrict__ __restrict
#define __launch_bounds__(...)

struct Dim {
    unsigned x, y, z;
};

static Dim threadIdx, blockIdx, blockDim, gridDim;
alignas(64) unsigned char shared_bytes[1 << 19];

namespace emulated {

constexpr int MOST_THREADS = 1024, WARP = 32;
constexpr size_t STACK = 128 << 10, GUARD = 256;

// Threads that wait for each other.
struct Group {
    int first, size, arrived;
};

struct Fibre {
    void* at[5];  // of __builtin_setjmp, which costs a tenth of setjmp
    ucontext_t context;
    bool waits, done, born;
};

static Fibre fibres[MOST_THREADS];
static void* host[5];
static ucontext_t host_context;
static int current, n_threads, n_done;
static bool reversed, stuck;
static Group block, warps[MOST_THREADS / WARP];
static uint64_t slots[2][MOST_THREADS];
static unsigned char parity[MOST_THREADS];
static void (*body)(void*);
static void* body_args;

[[noreturn]] __attribute__((noinline)) void leave();

inline void live() {
    for (;;) {
        body(body_args);
        fibres[current].done = true;
        ++n_done;
        if (__builtin_setjmp(fibres[current].at) == 0) leave();
    }
}

[[noreturn]] __attribute__((noinline)) void enter(int fibre) {
    current = fibre;
    threadIdx.x = fibre;
    Fibre& f = fibres[fibre];
    if (f.born) __builtin_longjmp(f.at, 1);
    f.born = true;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = malloc(STACK);
    f.context.uc_stack.ss_size = STACK;
    makecontext(&f.context, live, 0);
    setcontext(&f.context);
    abort();
}

// Enters the next of `n` threads from `first` on that need not wait, if there is one.
inline void enter_next(int first, int n) {
    int next = current - first;
    for (int i = 0; i < n; ++i) {
        next = (next + (reversed ? n - 1 : 1)) % n;
        if (!fibres[first + next].waits && !fibres[first + next].done) enter(first + next);
    }
}

// To the next thread that need not wait, or home. One of the same warp goes first: so a warp gets
// as far ahead of the others as the barriers let it, the first warp or, reversed, the last.
void leave() {
    if (n_done < n_threads) {
        enter_next(current / WARP * WARP, WARP);
        enter_next(0, n_threads);
        stuck = true;
    }
    __builtin_longjmp(host, 1);
}

// Until all of the group are here.
__attribute__((noinline)) inline void wait(Group& group) {
    if (++group.arrived == group.size) {
        group.arrived = 0;
        for (int i = 0; i < group.size; ++i) fibres[group.first + i].waits = false;
        return;
    }
    Fibre& f = fibres[current];
    f.waits = true;
    if (__builtin_setjmp(f.at) == 0) leave();
}

// False where threads wait for others that will never come.
__attribute__((noinline)) inline bool run_block() {
    n_done = 0, stuck = false;
    block = {0, n_threads, 0};
    for (int w = 0; w < n_threads / WARP; ++w) warps[w] = {w * WARP, WARP, 0};
    for (int i = 0; i < n_threads; ++i) fibres[i].waits = fibres[i].done = false;
    if (__builtin_setjmp(host) == 0) enter(reversed ? n_threads - 1 : 0);
    return !stuck;
}

// 0, or what went wrong: 1 a barrier that not all threads reach, 2 shared memory overrun, 3 a grid
// that no GPU takes, or with more threads than the kernel's launch bounds.
// In dims[5] it leaves how many bytes of its shared memory a block has written at most.
inline int run_grid(int most_threads, long long* dims, void (*with)(void*), void* args) {
    gridDim = {unsigned(dims[0]), unsigned(dims[1]), 1};
    n_threads = int(dims[2]);
    blockDim = {unsigned(n_threads), 1, 1};
    const size_t shared = size_t(dims[3]);
    reversed = dims[4] != 0;
    body = with, body_args = args;
    if (n_threads > most_threads || n_threads > MOST_THREADS || n_threads % WARP) return 3;
    if (shared + GUARD > sizeof shared_bytes) return 3;
    size_t used = 0;
    for (unsigned y = 0; y < gridDim.y; ++y)
        for (unsigned i = 0; i < gridDim.x; ++i) {
            blockIdx = {reversed ? gridDim.x - 1 - i : i, y, 0};
            memset(shared_bytes, 0xFF, shared + GUARD);
            if (!run_block()) return 1;
            for (size_t b = shared; b < shared + GUARD; ++b)
                if (shared_bytes[b] != 0xFF) return 2;
            for (size_t b = shared; b > used; --b)
                if (shared_bytes[b - 1] != 0xFF) used = b;
        }
    dims[5] = (long long)(used);
    return 0;
}

template <class... A>
struct Call {
    void (*kernel)(A...);
    void** args;
    template <size_t... I>
    void run(std::index_sequence<I...>) const {
        kernel(*static_cast<A*>(args[I])...);
    }
    static void body(void* self) {
        static_cast<Call*>(self)->run(std::index_sequence_for<A...>());
    }
};

template <class... A>
int launch(void (*kernel)(A...), int most_threads, long long* dims, void** args) {
    Call<A...> call{kernel, args};
    return run_grid(most_threads, dims, Call<A...>::body, &call);
}

inline Group& warp() { return warps[current / WARP]; }

// What a lane of the warp gives. Slots alternate, so that nobody waits until all have read.
template <class V>
V exchange(V value, int lane) {
    static_assert(sizeof(V) <= 8);
    uint64_t* const here = slots[parity[current] ^= 1];
    std::memcpy(&here[current], &value, sizeof value);
    wait(warp());
    V got;
    std::memcpy(&got, &here[current / WARP * WARP + (lane & (WARP - 1))], sizeof got);
    return got;
}

}  // namespace emulated

inline void __syncthreads() { emulated::wait(emulated::block); }
inline void __syncwarp(unsigned = ~0u) { emulated::wait(emulated::warp()); }

template <class V>
V __shfl_xor_sync(unsigned, V value, int mask) {
    return emulated::exchange(value, (emulated::current & 31) ^ mask);
}

template <class V>
V __shfl_sync(unsigned, V value, int lane) {
    return emulated::exchange(value, lane);
}

template <class V>
V __shfl_up_sync(unsigned, V value, int step) {
    const int lane = emulated::current & 31;
    return emulated::exchange(value, lane < step ? lane : lane - step);
}

inline unsigned __ballot_sync(unsigned, int predicate) {
    uint64_t* const here = emulated::slots[emulated::parity[emulated::current] ^= 1];
    here[emulated::current] = predicate != 0;
    emulated::wait(emulated::warp());
    unsigned mask = 0;
    for (int l = 0; l < 32; ++l) mask |= unsigned(here[emulated::current / 32 * 32 + l]) << l;
    return mask;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

template <class V>
V atomicAdd(V* at, V value) {
    const V before = *at;
    *at += value;
    return before;
}

inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline long long __double_as_longlong(double value) {
    long long bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// IEEE's binary16, of which x86 without F16C knows nothing: the exponent's bias is mended by a product.
inline float half_to_float(unsigned short bits) {
    const bool is_finite = (bits & 0x7c00) != 0x7c00;
    const uint32_t moved = uint32_t(bits & 0x7fff) << 13 | (is_finite ? 0 : 0x7f800000u);
    float value;
    std::memcpy(&value, &moved, sizeof value);
    if (is_finite) value *= 0x1p112f;
    return bits & 0x8000 ? -value : value;
}

// Rounds to nearest, ties to even.
inline unsigned short float_to_half(float value) {
    const unsigned short sign = std::signbit(value) ? 0x8000 : 0;
    const float size = std::fabs(value);
    if (std::isnan(value)) return 0x7fff;
    if (size >= 65520.0f) return sign | 0x7c00;
    int exponent;
    std::frexp(size, &exponent);  // size is below 2^exponent
    if (exponent < -13 || size == 0) exponent = -13;  // subnormal
    const float units = std::nearbyint(std::ldexp(size, 11 - exponent));
    return sign | (unsigned((exponent + 13) << 10) + unsigned(units));
}

using std::isfinite;
using std::isnan;
