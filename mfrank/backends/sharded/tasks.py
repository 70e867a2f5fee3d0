"""The task of a block: one half-step of its rows.

Arrays that were sent may lie at any address, which kernels refuse, so that all pass ``readable``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import empty_aligned, readable
from mfrank.backends.float16 import rounded
from mfrank.backends.registry import choose
from mfrank.backends.row_problem import CellTerm, Observed, RowProblem, Shared, Vector
from mfrank.backends.sharded.arithmetic import Arithmetic, refuse_joined
from mfrank.backends.sharded.blocks import RoutedBlock
from mfrank.backends.solve_options import SolveOptions
from mfrank.backends.surface import Factors

__all__ = ["Coefficients", "HalfStep", "Sent", "solve"]


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
    """

    backend: str
    arithmetic: Arithmetic
    shared: Shared
    turn: NDArray[np.float64] | None
    options: SolveOptions
    has_values: bool
    users_are_rows: bool


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


class Sent(NamedTuple):
    """Factors on their way to a worker; if they are float16, they were divided by ``scale``."""

    factors: Factors
    scale: float
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, factors: Factors, scale: float | None) -> Self:
        """Factors as they are, or rounded to float16 for a scale."""
        sent = factors if scale is None else rounded(factors, scale)
        return cls(sent, 1.0 if scale is None else scale, factors.dtype)

    def received(self) -> Factors:
        """The factors as kernels can read them."""
        if self.factors.dtype == self.dtype:
            return readable(self.factors)
        wide: Factors = self.factors.astype(self.dtype) * self.dtype.type(self.scale)
        return wide


def solve(
    block: RoutedBlock,
    step: HalfStep,
    coefficients: Coefficients,
    fixed: Sent,
    start: Sent | None,
) -> tuple[Factors, Vector]:
    """Solve the rows of a block.

    Parameters
    ----------
    block : RoutedBlock, of R rows that touch T columns
    step : HalfStep
    coefficients : Coefficients
    fixed : Sent, shape (T, K) or (T + 1, K)
        Factors of the touched columns, and perhaps of one more.
    start : Sent, shape (R, K), or None
        Initial values of iterations.

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
    known = fixed.received()
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
    backend = choose(step.backend)
    return solved, backend.solve_rows(problem, known, shared, solved, step.options, begin, turn)


def _readable(array: NDArray[Any] | None) -> NDArray[Any] | None:
    return None if array is None else readable(array)


def _packed(vector: Vector) -> Vector:
    return vector[:1] if len(vector) and (vector == vector[0]).all() else vector


def _unpacked(vector: Vector, size: int) -> Vector:
    return np.full(size, vector[0]) if len(vector) == 1 else readable(vector)
