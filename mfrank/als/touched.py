"""Half-steps of some rows of both sides in turn: those that new interactions touch.

All other rows stay. Most touched entries belong to rows with a long history, which new interactions
hardly move; rows that are new themselves need several turns, as each side learns from the other. So
of the alternations only the one in the middle solves all touched rows, and the others those of
whose interactions at least ``FRESH`` are new: they have few entries, however long the history is.

The Gram matrices are computed afresh each time: that takes about twice as long as to copy the
factors, which an update does anyway, so that readers keep the old ones; and a matrix that is
updated by low rank drifts from its factors by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.als.biases import Biased, BiasedSteps, FixedSide
from mfrank.als.coupling import weighted_sum
from mfrank.als.eigenbasis import Eigenbasis, solve_in_own_basis
from mfrank.als.engine import HalfSteps
from mfrank.arrays.csr import CSR
from mfrank.backends import Backend, Factors
from mfrank.backends.row_problem import RowProblem
from mfrank.backends.solve_options import SolveOptions

__all__ = ["FRESH", "Tables", "TouchedRows", "alternate"]

FRESH = 0.15
"""Share of new interactions from which on a row is solved in every alternation.

On ten days of news (``bench/stream.py``) with 0.25 the day's new articles are ranked worse; with
0.1 no better, and it takes longer.
"""


@dataclass(frozen=True, slots=True, eq=False)
class TouchedRows:
    """The rows of one side that are to be solved, each with all of its interactions.

    Attributes
    ----------
    numbers : int64, shape (R,)
        Their numbers among all rows of the side.
    entries : CSR, R rows
    fresh : bool, shape (R,)
        Whether at least ``FRESH`` of the row's interactions are new.
    prior : shape (R, K), or None
        What the features of the rows tell, if their side has features.
    """

    numbers: NDArray[np.int64]
    entries: CSR
    fresh: NDArray[np.bool_]
    prior: Factors | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """All factors of both sides, in numpy and in one basis, and all biases if the fit had such.

    Attributes
    ----------
    users, items : shape (n_users, K) and (n_items, K)
    user_biases, item_biases : shape (n_users,) and (n_items,), or both None
    """

    users: Factors
    items: Factors
    user_biases: NDArray[np.floating] | None = None
    item_biases: NDArray[np.floating] | None = None


def alternate(
    half_steps: HalfSteps,
    users: TouchedRows,
    items: TouchedRows,
    tables: Tables,
    alternations: int,
) -> int:
    """Solve users, then ``alternations`` times items and users; return rows solved.

    Parameters
    ----------
    half_steps : HalfSteps
        With the counts of all interactions, the new ones included.
    users, items : TouchedRows
    tables : Tables
        The touched rows are overwritten.
    alternations : int
        With 0, all touched users are solved, and no items.
    """
    all_users = _Rows(users.numbers, half_steps.user_problem(users.entries), users.prior)
    all_items = _Rows(items.numbers, half_steps.item_problem(items.entries), items.prior)
    fresh_users, fresh_items = all_users.part(users.fresh), all_items.part(items.fresh)
    first = fresh_users if alternations else all_users
    _solve_users(half_steps, first, tables)
    solved = len(first.numbers)
    for turn in range(alternations):
        of_all = turn == alternations // 2
        some_users, some_items = (all_users, all_items) if of_all else (fresh_users, fresh_items)
        _solve_items(half_steps, some_items, tables)
        _solve_users(half_steps, some_users, tables)
        solved += len(some_users.numbers) + len(some_items.numbers)
    return solved


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of one side, and their systems, in which the columns are ``columns`` or all."""

    numbers: NDArray[np.int64]
    problem: RowProblem
    prior: Factors | None
    columns: NDArray[np.int32] | None = None

    def part(self, chosen: NDArray[np.bool_]) -> _Rows:
        """Some of the rows."""
        if chosen.all():
            return self
        places = np.flatnonzero(chosen)
        problem, columns = self.problem.part(places)
        prior = None if self.prior is None else self.prior[places]
        return _Rows(self.numbers[places], problem, prior, columns)

    def solve(self, backend: Backend, fixed: Factors, at: Eigenbasis, how: SolveOptions) -> Factors:
        """Solve the rows against all factors of the other side, whose basis is ``at``."""
        fixed = fixed if self.columns is None else fixed[self.columns]
        return solve_in_own_basis(backend, self.problem, fixed, at, how, self.prior)

    def solve_biased(self, steps: BiasedSteps, fixed: FixedSide) -> Biased:
        """The same with biases."""
        fixed = fixed if self.columns is None else fixed.of_columns(self.columns)
        return steps.solve(self.problem, fixed)


def _solve_users(half_steps: HalfSteps, rows: _Rows, tables: Tables) -> None:
    if tables.user_biases is not None and tables.item_biases is not None:
        steps = BiasedSteps(half_steps)
        fixed = steps.fixed_items(Biased(tables.items, tables.item_biases))
        solved = rows.solve_biased(steps, fixed)
        tables.users[rows.numbers] = solved.factors
        tables.user_biases[rows.numbers] = solved.biases
        return
    at = half_steps.users_basis(tables.items)
    tables.users[rows.numbers] = rows.solve(
        half_steps.backend, tables.items, at, half_steps.options
    )


def _solve_items(half_steps: HalfSteps, rows: _Rows, tables: Tables) -> None:
    if tables.user_biases is not None and tables.item_biases is not None:
        steps = BiasedSteps(half_steps)
        fixed = steps.fixed_users(Biased(tables.users, tables.user_biases))
        solved = rows.solve_biased(steps, fixed)
        tables.items[rows.numbers] = solved.factors
        tables.item_biases[rows.numbers] = solved.biases
        return
    item_sum = weighted_sum(half_steps.item_weights, tables.items)
    at = half_steps.items_basis(tables.users, item_sum)
    tables.items[rows.numbers] = rows.solve(
        half_steps.backend, tables.users, at, half_steps.options
    )
