"""Walks until they no longer change, by the C++ extension."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.arrays import ext as _ext
from mfrank.backends.surface import Factors
from mfrank.backends.walks import Chain, Moves, Stationary, Until, Walked


def walk(
    chain: Chain,
    base: Factors,
    start: Factors,
    scale: float,
    until: Until,
    n_threads: int = 0,
) -> Walked:
    """Iterate block by block, a large block with all threads."""
    n_blocks = len(chain.blocks) - 1
    walked = Walked(start.copy(), np.empty(n_blocks), np.empty(n_blocks, dtype=np.int64))
    _ext.walk(
        rows=(chain.rows.indptr, chain.rows.indices, chain.rows.data),
        blocks=chain.blocks,
        left=chain.left,
        right=chain.right,
        base=base,
        scale=scale,
        x=walked.values,
        n_steps=until.steps,
        tolerance=until.tolerance,
        spread=until.norm == "spread",
        changes=walked.changes,
        steps=walked.steps,
        n_threads=n_threads,
    )
    return walked


def stationary(
    moves: Moves,
    restarts: CSR,
    alpha: float,
    tolerance: float,
    most: int,
    n_threads: int = 0,
) -> Stationary:
    """Gauss-Seidel over waves of nodes; float32 contributions until float64 is needed."""
    rounding = (1 - alpha) / alpha * float(np.finfo(np.float32).eps) / 2
    shape = restarts.n_rows, restarts.n_columns

    def sweep(begin: NDArray[np.float64] | None, *, rounded: bool, within: float) -> Stationary:
        result = Stationary(np.empty(shape), np.empty(shape[0]), np.empty(shape[0], np.int64))
        _ext.stationary(
            rows=(moves.rows.indptr, moves.rows.indices, moves.rows.data),
            shares=(1 - alpha) * moves.shares,
            waves=moves.waves,
            order=moves.order,
            place=moves.place,
            starts=(restarts.indptr, restarts.indices, restarts.data),
            begin=begin,
            keep=1 - alpha,
            tolerance=within,
            n_steps=most,
            values=result.values,
            errors=result.errors,
            steps=result.steps,
            rounded=rounded,
            n_threads=n_threads,
        )
        return result

    if tolerance >= 2 * rounding:
        return sweep(None, rounded=True, within=tolerance)
    coarse = sweep(None, rounded=True, within=4 * rounding)
    fine = sweep(coarse.values, rounded=False, within=tolerance)
    return fine._replace(steps=coarse.steps + fine.steps)
