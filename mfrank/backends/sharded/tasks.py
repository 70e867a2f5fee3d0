"""The tasks of a half-step: to solve the rows of a block, and to sum a part of long rows.

Arrays that were sent may lie at any address, which kernels refuse, so all pass ``readable``.
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

__all__ = ["Coefficients", "Step", "solve", "sum_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What all blocks of a half-step have in common.

    Attributes
    ----------
    backend : str
    arithmetic : Arithmetic
        The arithmetic that the worker must have.
    shared : Shared
    turn : shape (K, K), or None
    options : SolveOptions
    has_values, users_are_rows, curved : bool
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
    curved: bool
    beyond: NDArray[np.int32]
    everywhere: bool

    def problem(self, block: RoutedBlock, coefficients: Coefficients, n_columns: int) -> RowProblem:
        """The row problem of a block, on a worker with the arithmetic that the fit began with.

        Raises
        ------
        RuntimeError
            The worker joined later, with another one.
        """
        refuse_joined(self.arithmetic)
        rows = block.rows(n_columns, values=self.has_values)
        users = rows.n_rows if self.users_are_rows else rows.n_columns
        return RowProblem(
            rows,
            _unpacked(coefficients.weight, rows.n_rows),
            _unpacked(coefficients.ridge, rows.n_rows),
            coefficients.observed(users),
            self.users_are_rows,
        )

    def known(self, block: RoutedBlock, fixed: Sequence[Sent]) -> Factors:
        """Factors of the columns that a block touches, and of the one beyond."""
        if self.everywhere:
            return taken(fixed, np.concatenate([block.touched, self.beyond]))
        known = fixed[0].received()
        if len(known) != len(block.touched) + len(self.beyond):
            raise RuntimeError(
                f"cluster: a block touches {len(block.touched)} columns, but the engine told of "
                f"{len(known) - len(self.beyond)}; use another engine, or cluster=None"
            )
        return known


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """Coefficients of a block's row problem; a vector of equal numbers is sent as one number."""

    weight: Vector
    ridge: Vector
    curvature: CellTerm
    pull: CellTerm

    @classmethod
    def of(
        cls, problem: RowProblem, rows: slice | NDArray[Any], columns: NDArray[Any]
    ) -> Coefficients:
        """The coefficients of the rows over these columns."""
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
    step: Step,
    coefficients: Coefficients,
    start: Sent | None,
    prior: Sent | None,
    *fixed: Sent,
) -> tuple[Factors, Vector]:
    """Solve the rows of a block.

    Parameters
    ----------
    block : RoutedBlock, of R rows that touch T columns
    step : Step
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
    known = step.known(block, fixed)
    problem = step.problem(block, coefficients, len(known))
    solved = empty_aligned((problem.rows.n_rows, known.shape[1]), known.dtype)
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


def sum_rows(
    block: RoutedBlock, step: Step, coefficients: Coefficients, *fixed: Sent
) -> NDArray[Any]:
    """Sums over the entries of a block, for each of its rows (``Backend.SUMS``).

    Parameters and errors are those of :func:`solve`.
    """
    known = step.known(block, fixed)
    problem = step.problem(block, coefficients, len(known))
    row_sums = choose(step.backend).SUMS
    assert row_sums is not None  # asked of the backend by whoever made the task
    return row_sums.sum_rows(problem, known, step.options.n_threads, curved=step.curved)


def _readable(array: NDArray[Any] | None) -> NDArray[Any] | None:
    return None if array is None else readable(array)


def _packed(vector: Vector) -> Vector:
    return vector[:1] if len(vector) and (vector == vector[0]).all() else vector


def _unpacked(vector: Vector, size: int) -> Vector:
    return np.full(size, vector[0]) if len(vector) == 1 else readable(vector)
