// The kernels for AVX2.
#include "kernels/before.h"

#ifdef MFRANK_X86
MFRANK_BEGIN_AVX2
namespace mfrank::avx2 {
constexpr int VECTOR_BYTES = 32;
#include "kernels/all.h"
}  // namespace mfrank::avx2
MFRANK_END_TARGET
#endif
