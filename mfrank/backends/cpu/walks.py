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
    """Gauss-Seidel over waves of nodes; float32 contributions until float64 is needed.

    Rounded to float32, a walk may go on changing by more than it may. So it has as many steps there
    as any walk should need, and goes on in float64.
    """
    rounding = (1 - alpha) / alpha * float(np.finfo(np.float32).eps) / 2
    coarsely = 4 * rounding if tolerance < 2 * rounding else tolerance
    tiny = float(np.finfo(np.float64).tiny)
    each = -np.log(max(1 - alpha, tiny))  # by which a step lowers the log of a change, at least
    enough = min(most, 50 + 2 * int(np.log(2 / max(coarsely * alpha, tiny)) / each))

    def sweep(
        begins: CSR, values: NDArray[np.float64] | None, within: float, steps: int
    ) -> Stationary:
        shape = begins.n_rows, begins.n_columns
        result = Stationary(np.empty(shape), np.empty(shape[0]), np.empty(shape[0], np.int64))
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
            values=result.values,
            errors=result.errors,
            steps=result.steps,
            rounded=values is None,
            n_threads=n_threads,
        )
        return result

    found = sweep(restarts, None, coarsely, enough)
    late = np.flatnonzero(
        (found.errors > tolerance) & (found.steps < most) | (coarsely > tolerance)
    )
    if len(late):
        entries: Any = restarts.data, restarts.indices, restarts.indptr
        theirs = sp.csr_array(entries, found.values.shape)[late]
        begins = restarts if len(late) == restarts.n_rows else CSR.from_scipy(theirs, np.float64)
        fine = sweep(begins, found.values[late], tolerance, most)
        found.values[late], found.errors[late] = fine.values, fine.errors
        found.steps[late] += fine.steps
    return found
