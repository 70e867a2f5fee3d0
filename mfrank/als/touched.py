"""Alternating half-steps of some rows of both sides: those that new interactions touch.

All other rows stay; if old values have decayed, there are no others. Most touched entries belong to
rows with a long history, which new interactions hardly move; rows that are new themselves need
several alternations, because each side learns from the other. So only the alternation in the middle
solves all touched rows; the others solve the fresh rows: those of whose interactions at least the
share ``FRESH`` is new. They have few entries, however long the history is. Before the first, all
touched users are solved for the items as they were.

Old users hold an item where it was, because they were solved for its old factors. So users of whose
items at least the share ``FOLLOWING`` is fresh follow these items: they count as fresh, whether or
not they have new interactions (:class:`mfrank.models.delta.Delta` finds them).

Unless there is only one alternation, items go beyond their solutions by the share ``BEYOND`` of the
way from the previous solution, so that what one side learns reaches the other in fewer
alternations. This is the momentum of a fit (:mod:`mfrank.als.momentum`) with a constant weight.
Users come last, and are solved exactly for the items.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mfrank.als.biases import Biased, BiasedSteps, FixedSide
from mfrank.als.eigenbasis import Eigenbasis
from mfrank.als.half_steps import HalfSteps
from mfrank.als.working_table import SOLVED, WorkingTable, groups_of
from mfrank.arrays.csr import CSR
from mfrank.backends import Factors
from mfrank.backends.row_problem import RowProblem, Vector

__all__ = ["BEYOND", "FOLLOWING", "FRESH", "Tables", "TouchedRows", "alternate"]

FRESH = 0.15
"""Rows with at least this share of new interactions are solved in every alternation."""

FOLLOWING = 0.3
"""Users with at least this share of fresh items follow them."""

BEYOND = 0.5
"""Share of the way from the solution before by which items go beyond a solution."""

_STEPS = 2
"""Conjugate gradient steps of a row with a long history. One alone ranks noticeably worse."""


@dataclass(frozen=True, slots=True, eq=False)
class TouchedRows:
    """The rows of one side that are to be solved, each with all of its interactions.

    Attributes
    ----------
    numbers : int64, shape (R,)
        Their numbers among all rows of the side.
    entries : CSR, R rows
    fresh : bool, shape (R,)
        Whether a row takes part in every alternation.
    prior : shape (R, K), or None
        The means that features give the rows, if their side has features.
    """

    numbers: NDArray[np.int64]
    entries: CSR
    fresh: NDArray[np.bool_]
    prior: Factors | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """All factors of both sides, in numpy and in one basis, and all biases if the fit had biases.

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
    """Solve users, then ``alternations`` times items and users; return the number of rows solved.

    Parameters
    ----------
    half_steps : HalfSteps
        With the counts of all interactions, the new ones included.
    users, items : TouchedRows
    tables : Tables
        The touched rows are overwritten.
    alternations : int
        With 0, no items are solved.
    """
    of_users = _Group.split(users, half_steps.user_problem(users.entries))
    of_items = _Group.split(items, half_steps.item_problem(items.entries))
    solving = (_Plain if tables.user_biases is None else _WithBiases)(
        half_steps, tables, of_users, of_items
    )
    solved = solving.users(of_all=True, exact=not alternations)
    beyond = BEYOND if alternations > 1 else 0.0
    for turn in range(alternations):
        of_all = turn == alternations // 2
        solved += solving.items(of_all=of_all, beyond=beyond)
        solved += solving.users(of_all=of_all)
    solving.write()
    return solved


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Rows of one side that are solved together; their columns are all rows of the other."""

    numbers: NDArray[np.int64]
    problem: RowProblem
    prior: Factors | None

    @classmethod
    def split(cls, rows: TouchedRows, problem: RowProblem) -> _Groups:
        """The fresh rows, and the others."""
        return cls._part(rows, problem, rows.fresh), cls._part(rows, problem, ~rows.fresh)

    @classmethod
    def _part(cls, rows: TouchedRows, problem: RowProblem, chosen: NDArray[np.bool_]) -> Self:
        if chosen.all():
            return cls(rows.numbers, problem, rows.prior)
        places = np.flatnonzero(chosen)
        prior = None if rows.prior is None else rows.prior[places]
        return cls(rows.numbers[places], problem.cut(places), prior)


_Groups: TypeAlias = tuple[_Group, _Group]
"""The fresh rows of a side, and the others."""


class _Plain:
    """Half-steps without biases, in tables of the rows that they need."""

    def __init__(
        self, half_steps: HalfSteps, tables: Tables, users: _Groups, items: _Groups
    ) -> None:
        self._steps, self._tables = half_steps, tables
        self._of_users = self._table(tables.users, half_steps.user_weights, users, items)
        self._of_items = self._table(tables.items, half_steps.item_weights, items, users)
        self._users = _placed(users, self._of_items, len(tables.items))
        self._items = _placed(items, self._of_users, len(tables.users))

    def users(self, *, of_all: bool, exact: bool = True) -> int:
        """Solve the fresh users, or all, then the others exactly or nearly so; return how many."""
        at = self._steps.users_basis(self._tables.items, self._of_items.gram)
        return self._solve(
            self._of_users, self._users, self._of_items, at, of_all, beyond=0.0, exact=exact
        )

    def items(self, *, of_all: bool, beyond: float) -> int:
        """Solve the fresh items, or all, and go beyond the solutions."""
        coupled = self._steps.objective.interaction(len(self._tables.items)) != 0
        item_sum = self._of_items.gram.vector if coupled else None
        at = self._steps.items_basis(self._tables.users, item_sum, self._of_users.gram)
        return self._solve(
            self._of_items, self._items, self._of_users, at, of_all, beyond, exact=False
        )

    def write(self) -> None:
        """Write what was solved into the tables of all rows."""
        self._of_users.write(self._tables.users)
        self._of_items.write(self._tables.items)

    def _table(
        self, factors: Factors, weights: Vector, own: _Groups, others: _Groups
    ) -> WorkingTable:
        read = [group.problem.rows.indices for group in others]
        groups = groups_of(len(factors), [group.numbers for group in own], read)
        threads = self._steps.options.n_threads
        return WorkingTable(factors, weights, groups, self._steps.backend, threads)

    def _solve(
        self,
        own: WorkingTable,
        groups: _Groups,
        other: WorkingTable,
        at: Eigenbasis,
        of_all: bool,
        beyond: float,
        *,
        exact: bool,
    ) -> int:
        # The last group is read by rows with a long history only.
        fixed = other.turned(SOLVED + 1 + of_all, at)
        fresh, long = groups
        options, used = self._steps.options, fixed[: fresh.problem.rows.n_columns]
        own.solve(0, fresh.problem, used, at, options, fresh.prior, beyond)
        if not of_all:
            return len(fresh.numbers)
        if not exact:  # iterations start near the solution, and take less time
            options = replace(options, solver="auto", cg_steps=_STEPS)
        own.solve(1, long.problem, fixed, at, options, long.prior, beyond)
        return len(fresh.numbers) + len(long.numbers)


def _placed(groups: _Groups, table: WorkingTable, n_columns: int) -> _Groups:
    """The same rows, whose columns are rows of the other side's table."""
    places = table.places(n_columns)
    fresh, long = (
        replace(group, problem=group.problem.placed(places, table.numbers_of(n_groups)))
        for group, n_groups in zip(groups, (SOLVED + 1, SOLVED + 2), strict=True)
    )
    return fresh, long


class _WithBiases:
    """Half-steps with biases, in the tables of all rows."""

    def __init__(
        self, half_steps: HalfSteps, tables: Tables, users: _Groups, items: _Groups
    ) -> None:
        assert tables.user_biases is not None
        assert tables.item_biases is not None
        self._steps = BiasedSteps(half_steps)
        self._of_users = Biased(tables.users, tables.user_biases)
        self._of_items = Biased(tables.items, tables.item_biases)
        self._users, self._items = users, items
        self._solutions: dict[int, Biased] = {}

    def users(self, *, of_all: bool, exact: bool = True) -> int:
        """Solve the fresh users, or all, exactly in either case; return how many."""
        fixed = self._steps.fixed_items(self._of_items)
        return self._solve(self._of_users, self._users[: 1 + of_all], fixed, 0.0)

    def items(self, *, of_all: bool, beyond: float) -> int:
        """Solve the fresh items, or all, and go beyond the solutions."""
        fixed = self._steps.fixed_users(self._of_users)
        return self._solve(self._of_items, self._items[: 1 + of_all], fixed, beyond)

    def write(self) -> None:
        """Nothing is left to write: rows were solved where they are."""

    def _solve(self, own: Biased, groups: Any, fixed: FixedSide, beyond: float) -> int:
        for number, group in enumerate(groups):
            problem, columns = group.problem.on_used_columns()
            solved, at = self._steps.solve(problem, fixed.of_columns(columns)), group.numbers
            before = Biased(own.factors[at], own.biases[at])
            if beyond:
                before, self._solutions[number] = self._solutions.get(number, before), solved
            for out, new, old in (
                (own.factors, solved.factors, before.factors),
                (own.biases, solved.biases, before.biases),
            ):
                out[at] = new + new.dtype.type(beyond) * (new - old)
        return sum(len(group.numbers) for group in groups)
