// The kernels for AVX-512.
#include "kernels/before.h"

#ifdef MFRANK_X86
MFRANK_BEGIN_AVX512
namespace mfrank::avx512 {
constexpr int VECTOR_BYTES = 64;
#include "kernels/all.h"
}  // namespace mfrank::avx512
MFRANK_END_TARGET
#endif
