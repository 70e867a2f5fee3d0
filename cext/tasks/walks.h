// Random walks: the arguments and the table of their kernels.
#pragma once

#include <cstdint>

#include "tasks/csr.h"

namespace mfrank {

// Backend.walk: x := base + scale (W x + left (right . x)) in each block, until it converges.
template <class T>
struct WalkTask {
    Csr<T> rows;             // W; a block's entries lie in the columns of the block
    const T *left, *right;   // (n, left_k) and (n), or both null
    int64_t left_k;          // 1: the same for all columns of x; K: one per column
    const int64_t* blocks;   // (n_blocks + 1), first row of each block, and the end
    int64_t n_blocks;
    const T* base;           // (n, K)
    T scale;
    int64_t k;
    T* x;                    // (n, K), the start on entry, the result on exit
    int64_t n_steps;
    const double* tolerance; // (n_blocks), change at which a block stops; null: take all steps
    bool spread;             // norm of a change: (largest - smallest) / 2, else the 1-norm
    double* changes;         // (n_blocks), written: norm of the last step's change
    int64_t* steps;          // (n_blocks), written: number of steps taken
    int n_threads;
};

// Backend.stationary: the stationary distribution for each row of `starts`, into a row of `values`.
// Rows of the matrix are nodes in the order of the waves; see Moves in mfrank/backends/arguments.py.
struct StationaryTask {
    Csr<double> rows;       // the edges to each node; `data` are their weights, null: all 1
    const double* shares;   // (n), keep * probability of an edge of weight 1; 0: no edges, restarts
    const int64_t* waves;   // (n_waves + 1), first row of each wave, and the end
    int64_t n_waves;
    const int64_t *order, *place;  // (n), the node of each row, and the row of each node
    Csr<double> starts;     // restart distributions, a row each, by nodes
    const double* begin;    // (n_columns, n), first iterates by nodes; null: the restarts
    double keep;            // 1 - alpha, the probability of no restart
    double tolerance;       // bound on the 1-norm of the error at which a column stops
    int64_t n_steps;        // maximum number of sweeps
    double *values, *errors;  // (n_columns, n) and (n_columns), written
    int64_t* steps;         // (n_columns), written: number of sweeps
    int n_threads;
};

// The kernels of one instruction set and one type.
template <class T>
struct WalkKernels {
    void (*walk)(const WalkTask<T>&);
    void (*stationary)(const StationaryTask&);  // gathers values that are rounded to T
};

}  // namespace mfrank
