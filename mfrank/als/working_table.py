"""The rows of one side that an update reads and writes, in groups, apart from all other rows.

Each group is in a basis of its own, the last one that it was solved or read in. So a half-step
rotates what it reads once and writes its rows in the basis in which it solves them, and between the
first half-step and the last no row is copied out of the side's table or back into it. Rows that are
only read are rotated when they are copied out, before they are first read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.als.eigenbasis import Eigenbasis
from mfrank.arrays.in_parts import copy_rows
from mfrank.arrays.placement import empty_aligned
from mfrank.arrays.read_only import read_only
from mfrank.arrays.threads import single_threaded
from mfrank.backends import Backend, Factors
from mfrank.backends.row_problem import Gram, RowProblem, Vector
from mfrank.backends.solve_options import SolveOptions

__all__ = ["SOLVED", "WorkingTable", "groups_of"]

SOLVED = 2
"""Number of groups whose rows are solved; the groups after them are only read."""


def groups_of(
    n_rows: int, solved: Sequence[NDArray[Any]], read: Sequence[NDArray[Any]]
) -> list[NDArray[np.int64]]:
    """Row numbers of each group: those solved, then those that are read besides, each row once."""
    left, groups = np.ones(n_rows, dtype=bool), list[NDArray[np.int64]]()
    for rows in solved:
        groups.append(rows)
        left[rows] = False
    for columns in read:
        used = np.zeros(n_rows, dtype=bool)
        used[columns] = True
        groups.append(np.flatnonzero(used & left))
        left &= ~used
    return groups


class WorkingTable:
    """Factors of a side's rows, group after group, and the Gram matrix of all of the side's rows.

    Parameters
    ----------
    factors : shape (n, K)
        The side's; must not change before :meth:`write`.
    weights : float64, shape (n,)
        Its background weights.
    groups : sequence of int64 arrays
        Row numbers: ``SOLVED`` groups that are solved, then others.
    backend : Backend
    n_threads : int
    """

    def __init__(
        self,
        factors: Factors,
        weights: Vector,
        groups: Sequence[NDArray[np.int64]],
        backend: Backend,
        n_threads: int,
    ) -> None:
        self._backend, self._threads, width = backend, n_threads, factors.shape[1]
        self._factors = factors
        self._ends = np.cumsum([0, *map(len, groups)])
        self._numbers = np.concatenate(groups)
        # On large pages, as rows with a long history read much of it, in no order.
        self._local: Factors = empty_aligned((len(self._numbers), width), factors.dtype)
        solved = self.numbers_of(SOLVED)
        copy_rows(factors, self._local[: len(solved)], solved, n_threads)
        self._bases = [read_only(np.eye(width))] * SOLVED  # of those that were copied
        still = weights.copy()
        still[solved] = 0
        self._still = backend.gram(factors, still, n_threads)
        self._weights = [weights[rows] for rows in groups[:SOLVED]]
        self._shares: list[Gram | None] = [None] * SOLVED
        self._solutions: list[tuple[Factors, NDArray[np.float64]] | None] = [None] * SOLVED

    def places(self, n: int) -> NDArray[np.int32]:
        """Where each of the side's ``n`` rows lies here; meaningless for rows that do not."""
        places = np.zeros(n, dtype=np.int32)
        places[self._numbers] = np.arange(len(self._numbers), dtype=np.int32)
        return places

    def _rows(self, group: int) -> Factors:
        """Factors of a group, in its basis; a view."""
        return self._local[self._ends[group] : self._ends[group + 1]]

    def numbers_of(self, n_groups: int) -> NDArray[np.int64]:
        """Row numbers of the first groups, as they lie here."""
        return self._numbers[: self._ends[n_groups]]

    @property
    def gram(self) -> Gram:
        """The Gram matrix of all rows of the side, in the basis of the side's table."""
        matrix, vector = self._still.matrix, self._still.vector
        for group in range(SOLVED):
            share = self._share(group)
            matrix, vector = matrix + share.matrix, vector + share.vector
        return Gram(matrix, vector)

    def turned(self, n_groups: int, at: Eigenbasis) -> Factors:
        """The first groups, turned into a basis, in the backend's memory; a view on the host."""
        known = len(self._bases)
        for group, basis in enumerate(self._bases[:n_groups]):
            rows = self._rows(group)
            self._rotate(rows, _turn(basis, at), rows)
        for group in range(known, n_groups):
            numbers = self._numbers[self._ends[group] : self._ends[group + 1]]
            rows = self._rows(group)
            self._backend.rotate(self._factors, at.basis, 0, rows, self._threads, numbers)
        self._bases[:n_groups] = [at.basis] * n_groups
        return self._backend.place(self._local[: self._ends[n_groups]])

    def solve(
        self,
        group: int,
        problem: RowProblem,
        fixed: Factors,
        at: Eigenbasis,
        options: SolveOptions,
        prior: Factors | None,
        beyond: float,
    ) -> None:
        """Solve a group against ``fixed``, in the basis ``at``, and go ``beyond`` the solution.

        ``beyond`` is a share of the way from the previous solution, or from where the rows began.
        """
        rows, how = self._rows(group), dict[str, Factors]()
        if prior is not None:
            how["prior"] = np.empty_like(rows)
            at.turn(self._backend, np.ascontiguousarray(prior), how["prior"], self._threads)
        before = None
        if beyond or options.solver != "cholesky":  # else nothing reads it
            before = self._solution_before(group, at)
        self._backend.solve_rows(problem, fixed, at.shared, rows, options, before, **how)
        self._bases[group], self._shares[group], self._solutions[group] = at.basis, None, None
        if beyond:
            self._solutions[group] = rows.copy(), at.basis
            rows += rows.dtype.type(beyond) * (rows - before)

    def write(self, factors: Factors) -> None:
        """Write the rows that were solved into the side's table."""
        for group in range(SOLVED):
            rows, numbers = self._rows(group), self._numbers[self._ends[group] :]
            back = np.empty_like(rows)
            self._rotate(rows, np.ascontiguousarray(self._bases[group].T), back)
            factors[numbers[: len(rows)]] = back

    def _solution_before(self, group: int, at: Eigenbasis) -> Factors:
        """The last solution of a group, in a basis; before the first, its rows."""
        rows, basis = self._solutions[group] or (self._rows(group), self._bases[group])
        turned = np.empty_like(rows)
        self._rotate(rows, _turn(basis, at), turned)
        return turned

    def _rotate(self, rows: Factors, basis: NDArray[np.float64], out: Factors) -> None:
        self._backend.rotate(rows, basis, 0, out, self._threads)

    def _share(self, group: int) -> Gram:
        share = self._shares[group]
        if share is None:
            turned = self._backend.gram(self._rows(group), self._weights[group], self._threads)
            basis = self._bases[group]
            with single_threaded():
                share = Gram(basis @ turned.matrix @ basis.T, basis @ turned.vector)
            self._shares[group] = share
        return share


def _turn(basis: NDArray[np.float64], at: Eigenbasis) -> NDArray[np.float64]:
    """The matrix (K, K) that rotates rows from one basis into another."""
    with single_threaded():
        return np.ascontiguousarray(basis.T @ at.basis)
