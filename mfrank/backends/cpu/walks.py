"""Walks until they no longer change, by the C++ extension."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.arrays import ext as _ext
from mfrank.backends.arguments import Factors
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
    """Gauss-Seidel over waves of nodes, with float32 contributions until float64 is needed.

    Rounded to float32, a walk may keep changing by more than the tolerance. So in float32 it gets
    only as many steps as it should need; the rest are in float64.
    """
    rounding = (1 - alpha) / alpha * float(np.finfo(np.float32).eps) / 2
    coarse_tolerance = 4 * rounding if tolerance < 2 * rounding else tolerance
    tiny = float(np.finfo(np.float64).tiny)
    decay = -np.log(max(1 - alpha, tiny))  # of the log of a change in each step, at least
    enough = min(most, 50 + 2 * int(np.log(2 / max(coarse_tolerance * alpha, tiny)) / decay))

    def sweep(
        begins: CSR, values: NDArray[np.float64] | None, within: float, steps: int
    ) -> Stationary:
        shape = begins.n_rows, begins.n_columns
        swept = Stationary(np.empty(shape), np.empty(shape[0]), np.empty(shape[0], np.int64))
        _ext.stationary(
            rows=(moves.rows.indptr, moves.rows.indices, moves.rows.data),
            shares=(1 - alpha) * moves.shares,
            waves=moves.waves,
            order=moves.order,
            place=moves.place,
            starts=(begins.indptr, begins.indices, begins.data),
            begin=values,
            keep=1 - alpha,
            tolerance=within,
            n_steps=steps,
            values=swept.values,
            errors=swept.errors,
            steps=swept.steps,
            rounded=values is None,
            n_threads=n_threads,
        )
        return swept

    result = sweep(restarts, None, coarse_tolerance, enough)
    unfinished = np.flatnonzero(
        (result.errors > tolerance) & (result.steps < most) | (coarse_tolerance > tolerance)
    )
    if len(unfinished):
        begins = restarts
        if len(unfinished) < restarts.n_rows:
            entries: Any = restarts.data, restarts.indices, restarts.indptr
            every = sp.csr_array(entries, result.values.shape)
            begins = CSR.from_scipy(every[unfinished], np.float64)
        fine = sweep(begins, result.values[unfinished], tolerance, most)
        result.values[unfinished], result.errors[unfinished] = fine.values, fine.errors
        result.steps[unfinished] += fine.steps
    return result
