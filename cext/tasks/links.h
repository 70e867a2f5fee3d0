// Regressions between items: the arguments and the table of their kernels.
#pragma once

#include <cstdint>

#include "tasks/csr.h"

namespace mfrank {

// Each item's column of the users' rows R is predicted from the columns of a few other items:
// (G + ridge) b = G_j for the Gram matrix G = R'R between these items.
struct LinksTask {
    Csr<double> rows;       // R, columns ascending within a row
    Csr<double> users;      // R', whose data are not read
    Csr<double> near;       // for each item, those that predict it, ascending, and G_j
    const double* diagonal; // (n_items), of G + ridge
    const int32_t* place;   // (n_items), the place of an item in `common`; -1: it has none
    const double* common;   // (n_common, n_common), G between some items
    int64_t n_common;
    double* out;            // as near.data, written
    int64_t* failed;        // (n_items), written: 1 if G + ridge is not positive definite
    int n_threads;
};

struct LinksKernels {
    void (*regress)(const LinksTask&);
};

}  // namespace mfrank
