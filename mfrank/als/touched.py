"""Alternating half-steps of the rows of both sides that new interactions touch.

Other rows do not change; if old values have decayed, all rows are touched. Most touched entries
belong to rows with a long history, which new interactions hardly move. New rows need several
alternations, because each side learns from the other. So only the middle alternation solves all
touched rows; the others solve fresh rows, whose share of new interactions is at least ``FRESH``.
Fresh rows have few entries, however long the history is. Before the first alternation, all touched
users are solved for the old items.

Old users hold an item in place, because they were solved for its old factors. Users with a share of
at least ``FOLLOWING`` fresh items therefore follow these items: they count as fresh, even without
new interactions (:class:`mfrank.models.partial_fit.Delta` finds them).

With several alternations, items are extrapolated beyond their solutions by ``BEYOND`` times the
step from the previous solution, so fewer alternations suffice. This is the momentum of a fit
(:mod:`mfrank.als.engine`) with a constant weight. Users come last and are solved exactly for the
items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mfrank.als.biases import Biased, BiasedSteps, FixedSide
from mfrank.als.half_steps import Eigenbasis, HalfSteps
from mfrank.arrays import CSR, copy_rows, empty_aligned, read_only, single_threaded
from mfrank.backends import Backend, Factors, Gram, RowProblem, SolveOptions, Vector

# The rows of one side that an update reads and writes, in groups, apart from all other rows.
#
# Each group has its own basis, the last one in which it was solved or read. So a half-step rotates
# what it reads once and writes its rows in the basis in which it solves them; from the first
# half-step to the last, no row is copied from the side's table or back. Rows that are only read are
# rotated when they are copied, before they are first read.


SOLVED = 2
"""Number of groups whose rows are solved; the groups after them are only read."""


def groups_of(
    n_rows: int, solved: Sequence[NDArray[Any]], read: Sequence[NDArray[Any]]
) -> list[NDArray[np.int64]]:
    """Row numbers of each group: solved rows, then rows that are only read; each row once."""
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
    """Factors of a side's rows, group by group, and the Gram matrix of all rows of the side.

    Parameters
    ----------
    factors : shape (n, K)
        Factors of the side; must not change before :meth:`write`.
    weights : float64, shape (n,)
        Background weights of the side.
    groups : sequence of int64 arrays
        Row numbers: ``SOLVED`` groups of solved rows, then other groups.
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
        # On large pages: rows with a long history read much of it in random order.
        self._local: Factors = empty_aligned((len(self._numbers), width), factors.dtype)
        solved = self.numbers_of(SOLVED)
        copy_rows(factors, self._local[: len(solved)], solved, n_threads)
        self._bases = [read_only(np.eye(width))] * SOLVED  # of the groups copied so far
        still = weights.copy()
        still[solved] = 0
        self._still = backend.gram(factors, still, n_threads)
        self._weights = [weights[rows] for rows in groups[:SOLVED]]
        self._shares: list[Gram | None] = [None] * SOLVED
        self._solutions: list[tuple[Factors, NDArray[np.float64]] | None] = [None] * SOLVED

    def places(self, n: int) -> NDArray[np.int32]:
        """Position of each of the side's ``n`` rows in this table; arbitrary for absent rows."""
        places = np.zeros(n, dtype=np.int32)
        places[self._numbers] = np.arange(len(self._numbers), dtype=np.int32)
        return places

    def _rows(self, group: int) -> Factors:
        """Factors of a group, in its basis; a view."""
        return self._local[self._ends[group] : self._ends[group + 1]]

    def numbers_of(self, n_groups: int) -> NDArray[np.int64]:
        """Row numbers of the first groups, in the order of this table."""
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
        """Solve a group against ``fixed``, in the basis ``at``, and extrapolate by ``beyond``.

        ``beyond`` is a multiple of the step from the previous solution, or from the initial rows.
        """
        rows, how = self._rows(group), dict[str, Factors]()
        if prior is not None:
            how["prior"] = np.empty_like(rows)
            at.turn(self._backend, np.ascontiguousarray(prior), how["prior"], self._threads)
        before = None
        if beyond or options.solver != "cholesky":  # else it is not read
            before = self._solution_before(group, at)
        self._backend.solve_rows(problem, fixed, at.shared, rows, options, before, **how)
        self._bases[group], self._shares[group], self._solutions[group] = at.basis, None, None
        if beyond:
            self._solutions[group] = rows.copy(), at.basis
            rows += rows.dtype.type(beyond) * (rows - before)

    def write(self, factors: Factors) -> None:
        """Write the solved rows into the side's table."""
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


FRESH = 0.15
"""Rows with at least this share of new interactions are solved in every alternation."""

FOLLOWING = 0.3
"""Users with at least this share of fresh items follow them."""

BEYOND = 0.5
"""Fraction of the step from the previous solution by which items are extrapolated."""

_STEPS = 2
"""Conjugate gradient steps of a row with a long history. One alone ranks noticeably worse."""


@dataclass(frozen=True, slots=True, eq=False)
class TouchedRows:
    """The rows of one side to solve, each with all of its interactions.

    Attributes
    ----------
    numbers : int64, shape (R,)
        Row numbers within the side.
    entries : CSR, R rows
    fresh : bool, shape (R,)
        Whether a row takes part in every alternation.
    prior : shape (R, K), or None
        Means of the rows from features, if the side has features.
    """

    numbers: NDArray[np.int64]
    entries: CSR
    fresh: NDArray[np.bool_]
    prior: Factors | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WorkingTables:
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
    tables: WorkingTables,
    alternations: int,
) -> int:
    """Solve users, then ``alternations`` times items and users; return the number of solved rows.

    Parameters
    ----------
    half_steps : HalfSteps
        Half-steps with the counts of all interactions, including the new ones.
    users, items : TouchedRows
    tables : WorkingTables
        The touched rows are overwritten.
    alternations : int
        With 0, no items are solved.
    """
    of_users = _Group.split(users, half_steps.user_problem(users.entries))
    of_items = _Group.split(items, half_steps.item_problem(items.entries))
    solving = (_WithoutBiases if tables.user_biases is None else _WithBiases)(
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


class _WithoutBiases:
    """Half-steps without biases, in tables of the rows that they need."""

    def __init__(
        self, half_steps: HalfSteps, tables: WorkingTables, users: _Groups, items: _Groups
    ) -> None:
        self._steps, self._tables = half_steps, tables
        self._of_users = self._table(tables.users, half_steps.user_weights, users, items)
        self._of_items = self._table(tables.items, half_steps.item_weights, items, users)
        self._users = _placed(users, self._of_items, len(tables.items))
        self._items = _placed(items, self._of_users, len(tables.users))

    def users(self, *, of_all: bool, exact: bool = True) -> int:
        """Solve the fresh users, or all, with the others exact or nearly so; return how many."""
        at = self._steps.users_basis(self._tables.items, self._of_items.gram)
        return self._solve(
            self._of_users, self._users, self._of_items, at, of_all, beyond=0.0, exact=exact
        )

    def items(self, *, of_all: bool, beyond: float) -> int:
        """Solve the fresh items, or all, and extrapolate them."""
        coupled = self._steps.objective.interaction(len(self._tables.items)) != 0
        item_sum = self._of_items.gram.vector if coupled else None
        at = self._steps.items_basis(self._tables.users, item_sum, self._of_users.gram)
        return self._solve(
            self._of_items, self._items, self._of_users, at, of_all, beyond, exact=False
        )

    def write(self) -> None:
        """Write the solutions into the tables of all rows."""
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
        # Only rows with a long history read the last group.
        fixed = other.turned(SOLVED + 1 + of_all, at)
        fresh, long = groups
        options, used = self._steps.options, fixed[: fresh.problem.rows.n_columns]
        own.solve(0, fresh.problem, used, at, options, fresh.prior, beyond)
        if not of_all:
            return len(fresh.numbers)
        if not exact:  # iterations start near the solution, so they are faster
            options = replace(options, solver="auto", cg_steps=_STEPS)
        own.solve(1, long.problem, fixed, at, options, long.prior, beyond)
        return len(fresh.numbers) + len(long.numbers)


def _placed(groups: _Groups, table: WorkingTable, n_columns: int) -> _Groups:
    """The same rows, with columns numbered as the rows of the other side's table."""
    places = table.places(n_columns)
    fresh, long = (
        replace(group, problem=group.problem.placed(places, table.numbers_of(n_groups)))
        for group, n_groups in zip(groups, (SOLVED + 1, SOLVED + 2), strict=True)
    )
    return fresh, long


class _WithBiases:
    """Half-steps with biases, in the tables of all rows."""

    def __init__(
        self, half_steps: HalfSteps, tables: WorkingTables, users: _Groups, items: _Groups
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
        """Solve the fresh items, or all, and extrapolate them."""
        fixed = self._steps.fixed_users(self._of_users)
        return self._solve(self._of_items, self._items[: 1 + of_all], fixed, beyond)

    def write(self) -> None:
        """Do nothing: rows were solved in place."""

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
