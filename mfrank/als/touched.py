"""Half-steps of some rows of both sides in turn: those that new interactions touch.

All other rows stay. Most touched entries belong to rows with a long history, which new interactions
hardly move; rows that are new themselves need several turns, as each side learns from the other. So
of the alternations only the one in the middle solves all touched rows, and the others those of
whose interactions at least ``FRESH`` are new: they have few entries, however long the history is.

The Gram matrices are computed once, and then follow the rows that change, by low rank. The next
update computes them anew, so that rounding errors do not add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mfrank.als.biases import Biased, BiasedSteps, FixedSide
from mfrank.als.coupling import weighted_sum
from mfrank.als.eigenbasis import Eigenbasis, solve_in_own_basis
from mfrank.als.engine import HalfSteps
from mfrank.arrays.csr import CSR
from mfrank.backends import Factors
from mfrank.backends.row_problem import Gram, RowProblem

__all__ = ["FRESH", "Tables", "TouchedRows", "alternate"]

FRESH = 0.15
"""Share of new interactions from which on a row is solved in every alternation.

On ten days of news (``bench/stream.py``) the next day's ranking loses several standard errors with
0.25, one with this; 0.1 gains less than half of one, and takes 8% longer.
"""


_SPARED = 3
"""Of so many times the rows that change, the Gram matrix is sooner computed anew."""


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
    biased = tables.user_biases is not None
    solving = _WithBiases(half_steps, tables) if biased else _Plain.of(half_steps, tables)
    solving.users(first)
    solved = len(first.numbers)
    for turn in range(alternations):
        of_all = turn == alternations // 2
        some_users, some_items = (all_users, all_items) if of_all else (fresh_users, fresh_items)
        solving.items(some_items)
        solving.users(some_users)
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


@dataclass(eq=False)
class _Followed:
    """A side's factors, and their Gram matrix as rows change."""

    factors: Factors
    gram_of: Callable[..., Gram]
    _gram: Gram | None = None

    @property
    def gram(self) -> Gram:
        if self._gram is None:
            self._gram = self.gram_of(self.factors)
        return self._gram

    def put(self, rows: NDArray[np.int64], solved: Factors) -> None:
        """Overwrite some rows."""
        if self._gram is not None and _SPARED * len(rows) < len(self.factors):
            before, after = self.gram_of(self.factors[rows], rows), self.gram_of(solved, rows)
            matrix = self._gram.matrix + (after.matrix - before.matrix)
            self._gram = Gram(matrix, self._gram.vector + (after.vector - before.vector))
        else:
            self._gram = None
        self.factors[rows] = solved


@dataclass(frozen=True, eq=False)
class _Plain:
    """Half-steps of some rows."""

    half_steps: HalfSteps
    of_users: _Followed
    of_items: _Followed

    @classmethod
    def of(cls, half_steps: HalfSteps, tables: Tables) -> Self:
        return cls(
            half_steps,
            _Followed(tables.users, half_steps.user_gram),
            _Followed(tables.items, half_steps.item_gram),
        )

    def users(self, rows: _Rows) -> None:
        fixed = self.of_items
        at = self.half_steps.users_basis(fixed.factors, fixed.gram)
        self.of_users.put(rows.numbers, self._solved(rows, fixed.factors, at))

    def items(self, rows: _Rows) -> None:
        fixed = self.of_users
        item_sum = None
        if self.half_steps.objective.interaction(len(self.of_items.factors)):
            item_sum = weighted_sum(self.half_steps.item_weights, self.of_items.factors)
        at = self.half_steps.items_basis(fixed.factors, item_sum, fixed.gram)
        self.of_items.put(rows.numbers, self._solved(rows, fixed.factors, at))

    def _solved(self, rows: _Rows, fixed: Factors, at: Eigenbasis) -> Factors:
        if rows.columns is not None:
            fixed = fixed[rows.columns]
        backend, options = self.half_steps.backend, self.half_steps.options
        return solve_in_own_basis(backend, rows.problem, fixed, at, options, rows.prior)


class _WithBiases:
    """Half-steps of some rows with their biases."""

    def __init__(self, half_steps: HalfSteps, tables: Tables) -> None:
        assert tables.user_biases is not None
        assert tables.item_biases is not None
        self._steps = BiasedSteps(half_steps)
        self._users = Biased(tables.users, tables.user_biases)
        self._items = Biased(tables.items, tables.item_biases)

    def users(self, rows: _Rows) -> None:
        self._put(rows, self._steps.fixed_items(self._items), self._users)

    def items(self, rows: _Rows) -> None:
        self._put(rows, self._steps.fixed_users(self._users), self._items)

    def _put(self, rows: _Rows, fixed: FixedSide, out: Biased) -> None:
        if rows.columns is not None:
            fixed = fixed.of_columns(rows.columns)
        solved = self._steps.solve(rows.problem, fixed)
        out.factors[rows.numbers] = solved.factors
        out.biases[rows.numbers] = solved.biases
