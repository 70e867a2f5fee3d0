// Chooses the instruction set of the kernels once, by the processor or by MFRANK_ISA.
//
// Kernel headers are compiled once per instruction set, each time inside a namespace and under a
// target pragma, so one binary runs everywhere and no compiler flag ties it to one machine. There
// are two forms of the pragma because GCC and clang ignore each other's. Standard headers must be
// included before these pragmas; otherwise their inline functions would be compiled for the wrong
// machine.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define MFRANK_X86 1
#define MFRANK_PRAGMA(...) _Pragma(#__VA_ARGS__)
#if defined(__clang__)
#define MFRANK_BEGIN_AVX512    \
    MFRANK_PRAGMA(clang attribute push( \
        __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw"))), apply_to = function))
#define MFRANK_BEGIN_AVX2 \
    MFRANK_PRAGMA(clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function))
#define MFRANK_END_TARGET MFRANK_PRAGMA(clang attribute pop)
#else
#define MFRANK_BEGIN_AVX512         \
    MFRANK_PRAGMA(GCC push_options) \
    MFRANK_PRAGMA(GCC target("avx512f,avx512vl,avx512dq,avx512bw"))
#define MFRANK_BEGIN_AVX2 MFRANK_PRAGMA(GCC push_options) MFRANK_PRAGMA(GCC target("avx2,fma"))
#define MFRANK_END_TARGET MFRANK_PRAGMA(GCC pop_options)
#endif
#endif

namespace mfrank {

// The baseline is what the compiler may use on every processor of the kind, by vectors of 16 bytes:
// SSE2 on x86-64, NEON on arm64.
#if defined(MFRANK_X86)
constexpr const char *BASELINE = "baseline", *CHOICES = "avx512, avx2 or baseline";
#elif defined(__aarch64__)
constexpr const char *BASELINE = "neon", *CHOICES = BASELINE;
#else
constexpr const char *BASELINE = "baseline", *CHOICES = BASELINE;
#endif

enum class Isa { baseline, avx2, avx512 };

inline const char* name_of(Isa isa) {
    switch (isa) {
        case Isa::avx512: return "avx512";
        case Isa::avx2: return "avx2";
        default: return BASELINE;
    }
}

inline bool runs_here(Isa isa) {
#ifdef MFRANK_X86
    __builtin_cpu_init();
    if (isa == Isa::avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    if (isa == Isa::avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return isa == Isa::baseline;
}

inline Isa choose_isa() {
    const char* requested = std::getenv("MFRANK_ISA");
    const bool forced = requested != nullptr && *requested != '\0';
    for (Isa isa : {Isa::avx512, Isa::avx2, Isa::baseline}) {
        if (forced && requested != std::string(name_of(isa))) continue;
        if (runs_here(isa)) return isa;
        if (forced)
            throw std::invalid_argument("MFRANK_ISA=" + std::string(requested) +
                                        ": this machine cannot run it; unset MFRANK_ISA");
    }
    throw std::invalid_argument("MFRANK_ISA must be " + std::string(CHOICES) + "; got '" +
                                requested + "'");
}

// If MFRANK_ISA cannot be used, every call throws, not only the first.
inline Isa chosen_isa() {
    static const Isa chosen = choose_isa();
    return chosen;
}

}  // namespace mfrank
