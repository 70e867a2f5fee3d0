"""Rows with very many entries, by sums over ranges of columns; see :class:`RowSums`.

It is how :func:`~mfrank.backends.cpu.half_step.solve_rows` solves them, too
(``cext/kernels/rows/heavy_rows.h``), with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.native import ext as _ext
from mfrank.backends.cpu.half_step import HalfStep, Unsolved, cells_of, solve_unsolved
from mfrank.backends.cpu.half_step import summed_from as summed_from
from mfrank.backends.row_problem import RowProblem, Shared, Vector
from mfrank.backends.solve_options import SolveOptions
from mfrank.backends.surface import Factors

__all__ = ["column_ranges", "solve_summed", "sum_rows", "summed_from"]


def column_ranges(n_columns: int) -> NDArray[np.int64]:
    """See :meth:`mfrank.backends.surface.RowSums.column_ranges`."""
    return _ext.column_ranges(n_columns)


def sum_rows(
    problem: RowProblem, fixed: Factors, n_threads: int = 0, *, curved: bool
) -> NDArray[Any]:
    """See :meth:`mfrank.backends.surface.RowSums.sum_rows`."""
    return _ext.sum_rows(**cells_of(problem), fixed=fixed, curved=curved, n_threads=n_threads)


def solve_summed(
    problem: RowProblem,
    rows: NDArray[np.int64],
    sums: NDArray[Any],
    fixed: Factors,
    shared: Shared,
    out: Factors,
    gain: Vector,
    options: SolveOptions,
    start: Factors,
    turn: NDArray[np.float64] | None = None,
    *,
    prior: Factors | None = None,
) -> None:
    """See :meth:`mfrank.backends.surface.RowSums.solve_summed`."""
    solved, gains = np.empty((len(rows), fixed.shape[1]), fixed.dtype), np.empty(len(rows))
    failed = _ext.solve_summed(
        sums=sums,
        curved=problem.curved,
        weight=problem.weight[rows],
        ridge=problem.ridge[rows],
        fixed=fixed,
        eigenvalues=shared.values,
        vector=shared.vector,
        prior=None if prior is None else prior[rows],
        out=solved,
        gain=gains,
        n_threads=options.n_threads,
    )
    out[rows], gain[rows] = solved, gains
    if turn is not None:
        turn = np.ascontiguousarray(turn, dtype=fixed.dtype)
    step = HalfStep(problem, fixed, shared, prior, out, gain, options)
    solve_unsolved(step, Unsolved(rows[failed], start[failed], turn))
