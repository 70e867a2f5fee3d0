"""The task of a block: one half-step of its rows.

Arrays that were sent may lie at any address, which kernels refuse, so that all pass ``readable``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import empty_aligned, readable
from mfrank.backends.registry import choose
from mfrank.backends.row_problem import CellTerm, Observed, RowProblem, Shared, Vector
from mfrank.backends.sharded.arithmetic import Arithmetic, refuse_joined
from mfrank.backends.sharded.blocks import RoutedBlock
from mfrank.backends.sharded.sent import Sent, taken
from mfrank.backends.solve_options import SolveOptions
from mfrank.backends.surface import Factors

__all__ = ["Coefficients", "HalfStep", "solve"]


@dataclass(frozen=True, slots=True, eq=False)
class HalfStep:
    """What all blocks of a half-step have in common.

    Attributes
    ----------
    backend : str
    arithmetic : Arithmetic
        That the worker must have.
    shared : Shared
    turn : shape (K, K), or None
    options : SolveOptions
    has_values, users_are_rows : bool
        Of the row problem.
    beyond : int32, shape (0,) or (1,)
        A fixed row that every block needs beside those that it touches.
    everywhere : bool
        Whether workers have all fixed factors, in pieces.
    """

    backend: str
    arithmetic: Arithmetic
    shared: Shared
    turn: NDArray[np.float64] | None
    options: SolveOptions
    has_values: bool
    users_are_rows: bool
    beyond: NDArray[np.int32]
    everywhere: bool

    def known(self, block: RoutedBlock, fixed: Sequence[Sent]) -> Factors:
        """Factors of the columns that a block touches, and of the one beyond."""
        if self.everywhere:
            return taken(fixed, np.concatenate([block.touched, self.beyond]))
        return fixed[0].received()


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """Those of a block's row problem; a vector of equal numbers is sent as one number."""

    weight: Vector
    ridge: Vector
    curvature: CellTerm
    pull: CellTerm

    @classmethod
    def of(cls, problem: RowProblem, rows: slice, columns: NDArray[Any]) -> Coefficients:
        """Those of the rows, which are over these columns."""
        users = rows if problem.users_are_rows else columns
        terms = (problem.observed.curvature, problem.observed.pull)
        cells = [CellTerm(_packed(term.offset[users]), term.slope) for term in terms]
        return cls(_packed(problem.weight[rows]), _packed(problem.ridge[rows]), *cells)

    def observed(self, n_users: int) -> Observed:
        """The cell terms; a half-step has no use for the constant one."""
        curvature, pull = (
            CellTerm(_unpacked(term.offset, n_users), term.slope)
            for term in (self.curvature, self.pull)
        )
        return Observed(curvature, pull, CellTerm(np.zeros(n_users)))


def solve(
    block: RoutedBlock,
    step: HalfStep,
    coefficients: Coefficients,
    start: Sent | None,
    prior: Sent | None,
    *fixed: Sent,
) -> tuple[Factors, Vector]:
    """Solve the rows of a block.

    Parameters
    ----------
    block : RoutedBlock, of R rows that touch T columns
    step : HalfStep
    coefficients : Coefficients
    start : Sent, shape (R, K), or None
        Initial values of iterations.
    prior : Sent, shape (R, K), or None
        Where the ridges pull to.
    *fixed : Sent
        Factors of the touched columns, and perhaps of one more, shape (T, K) or (T + 1, K); or, if
        they are everywhere, the pieces of all.

    Returns
    -------
    solved : shape (R, K)
    gain : float64, shape (R,)
        As ``Backend.solve_rows`` returns it.

    Raises
    ------
    RuntimeError
        The worker joined later, with another arithmetic.
    """
    refuse_joined(step.arithmetic)
    known = step.known(block, fixed)
    rows = block.rows(len(known), values=step.has_values)
    users = rows.n_rows if step.users_are_rows else rows.n_columns
    problem = RowProblem(
        rows,
        _unpacked(coefficients.weight, rows.n_rows),
        _unpacked(coefficients.ridge, rows.n_rows),
        coefficients.observed(users),
        step.users_are_rows,
    )
    solved = empty_aligned((rows.n_rows, known.shape[1]), known.dtype)
    solved[:] = 0
    shared = Shared(readable(step.shared.values), readable(step.shared.vector))
    begin, turn = (None, None) if start is None else (start.received(), _readable(step.turn))
    gain = choose(step.backend).solve_rows(
        problem,
        known,
        shared,
        solved,
        step.options,
        begin,
        turn,
        **({} if prior is None else {"prior": prior.received()}),
    )
    return solved, gain


def _readable(array: NDArray[Any] | None) -> NDArray[Any] | None:
    return None if array is None else readable(array)


def _packed(vector: Vector) -> Vector:
    return vector[:1] if len(vector) and (vector == vector[0]).all() else vector


def _unpacked(vector: Vector, size: int) -> Vector:
    return np.full(size, vector[0]) if len(vector) == 1 else readable(vector)
