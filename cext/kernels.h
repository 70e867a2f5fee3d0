// Every kernel, for one instruction set: module.cpp includes this once for each, in a namespace
// that defines VECTOR_BYTES.
#include "vectors.h"
#include "dense.h"
#include "cholesky.h"
#include "gather.h"
#include "row.h"
#include "row_solver.h"
#include "lanes.h"
#include "slabs.h"
#include "short_rows.h"
#include "rotate.h"
#include "heavy_rows.h"
#include "solve_rows.h"
#include "sums.h"
#include "draw.h"
#include "weighted_sums.h"
#include "list_scores.h"
#include "list_sums.h"
#include "adam.h"
#include "sphere.h"
#include "ramps.h"
#include "row_hinges.h"
#include "sorted_hinges.h"
#include "falling.h"
#include "pairs.h"
#include "top_thresholds.h"
#include "softmax.h"
#include "simplex.h"
#include "walk.h"
#include "settling.h"
#include "settle.h"
#include "sketch.h"
#include "best.h"
#include "item_tile.h"
#include "topk.h"
#include "normals.h"
#include "smoothing.h"
#include "soft_order.h"
#include "soft_ndcg.h"

template <class T>
static Kernels<T> kernels() {
    return {solve_rows<T>, rotate<T>, gram<T>, observed_value<T>, top_k<T>, sketch<T>, score<T>,
            sum_items<T>, sum_queries<T>, sum_queries_of_lists<T>, adam<T>, sum_ramps<T>,
            push_ramps<T>, row_hinges<T>, sum_sorted_hinges<T>, push_sorted_hinges<T>, pairs<T>,
            top_thresholds<T>, softmax<T>, project<T>, normals<T>, smoothed<T>, soft_ndcg<T>,
            walk<T>, settle<T>, slide<T>, pull<T>, confine<T>, draw_likes, draw_others};
}
