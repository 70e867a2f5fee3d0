// The table of all kernels by family, and the function that picks the table of this machine.
#pragma once

#include "host/isa.h"
#include "tasks/links.h"
#include "tasks/lists.h"
#include "tasks/losses.h"
#include "tasks/rows.h"
#include "tasks/topk.h"
#include "tasks/walks.h"

namespace mfrank {

template <class T>
struct Kernels {
    RowKernels<T> rows;
    ListKernels<T> lists;
    LossKernels<T> losses;
    TopKKernels<T> topk;
    WalkKernels<T> walks;
    LinksKernels links;
};

#ifdef MFRANK_X86
namespace avx512 {
template <class T>
Kernels<T> kernels();
}
namespace avx2 {
template <class T>
Kernels<T> kernels();
}
#endif
namespace baseline {
template <class T>
Kernels<T> kernels();
}

// The kernels of the chosen instruction set (host/isa.h).
template <class T>
Kernels<T> chosen_kernels() {
#ifdef MFRANK_X86
    if (chosen_isa() == Isa::avx512) return avx512::kernels<T>();
    if (chosen_isa() == Isa::avx2) return avx2::kernels<T>();
#endif
    chosen_isa();
    return baseline::kernels<T>();
}

}  // namespace mfrank
