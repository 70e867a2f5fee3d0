// The kernels for any machine.
#include "kernels/before.h"

namespace mfrank::baseline {
constexpr int VECTOR_BYTES = 16;
#include "kernels/all.h"
}  // namespace mfrank::baseline
