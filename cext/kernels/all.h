// All kernels of one instruction set: cext/<set>.cpp includes this file in a namespace that defines
// VECTOR_BYTES. The headers below have no "#pragma once" and do not include each other, so their
// order here matters.

#include "kernels/linalg/vectors.h"
#include "kernels/linalg/dense.h"
#include "kernels/linalg/cholesky.h"
#include "kernels/linalg/lanes.h"
#include "kernels/linalg/rotate.h"
#include "kernels/linalg/extrapolate.h"
#include "kernels/linalg/sums.h"
#include "kernels/linalg/weighted_sums.h"

#include "kernels/rows/gather.h"
#include "kernels/rows/row.h"
#include "kernels/rows/row_solver.h"
#include "kernels/rows/slabs.h"
#include "kernels/rows/short_rows.h"
#include "kernels/rows/heavy_rows.h"
#include "kernels/rows/solve_rows.h"
#include "kernels/rows/table.h"

#include "kernels/lists/draw.h"
#include "kernels/lists/list_scores.h"
#include "kernels/lists/list_sums.h"
#include "kernels/lists/adam.h"
#include "kernels/lists/sphere.h"
#include "kernels/lists/table.h"

#include "kernels/topk/sketch.h"
#include "kernels/topk/best.h"
#include "kernels/topk/item_tile.h"
#include "kernels/topk/topk.h"
#include "kernels/topk/table.h"

#include "kernels/losses/ramps.h"
#include "kernels/losses/row_hinges.h"
#include "kernels/losses/sorted_hinges.h"
#include "kernels/losses/falling.h"
#include "kernels/losses/pairs.h"
#include "kernels/losses/top_thresholds.h"
#include "kernels/losses/softmax.h"
#include "kernels/losses/simplex.h"
#include "kernels/losses/normals.h"
#include "kernels/losses/smoothing.h"
#include "kernels/losses/soft_order.h"
#include "kernels/losses/soft_ndcg.h"
#include "kernels/losses/table.h"

#include "kernels/links/regress.h"

#include "kernels/walks/walk.h"
#include "kernels/walks/sweeps.h"
#include "kernels/walks/stationary.h"
#include "kernels/walks/table.h"

template <class T>
Kernels<T> kernels() {
    return {row_kernels<T>(), list_kernels<T>(), loss_kernels<T>(), topk_kernels<T>(),
            walk_kernels<T>(), links_kernels()};
}

template Kernels<float> kernels<float>();
template Kernels<double> kernels<double>();
