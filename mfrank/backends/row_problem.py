"""A half-step of ALS: independent linear systems, one per row, that every backend solves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR

Vector = NDArray[np.float64]

_ENTRIES_AT_ONCE = 1 << 20
"""Entries whose coefficients are computed at a time, to limit the memory of temporary arrays."""

_FEW = 0.25
"""Entries per column below which sorting finds the distinct columns faster than a table."""


@dataclass(frozen=True, slots=True, eq=False)
class CellTerm:
    """A coefficient of observed cells, ``offset_x + slope |r_xy|``; offsets (n_users,).

    A pull or a constant counts ``of_dislikes`` times for dislikes, r < 0: by default not at all.
    """

    offset: Vector
    slope: float = 0.0
    of_dislikes: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ObservedLoss:
    """Loss of observed cells with score s: c s^2 - 2 d s + k.

    ``curvature`` is c, ``pull`` is d, ``constant`` is k; the last two are 0 for dislikes, r < 0,
    unless their terms have a multiple for these.
    """

    curvature: CellTerm
    pull: CellTerm
    constant: CellTerm

    def of_users(self, users: NDArray[Any]) -> ObservedLoss:
        """The same for some users, renumbered in the given order."""
        terms = (self.curvature, self.pull, self.constant)
        return ObservedLoss(*(replace(term, offset=term.offset[users]) for term in terms))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class RowProblem:
    """One half-step: for each row r the system

        (weight_r M + sum_e c_e f_e f_e' + ridge_r I) out_r = sum_e d_e f_e + weight_r v

    over its entries e, where f_e is the fixed factor of the entry's column, and the matrix M and
    the vector v are the same for all rows (:class:`Shared`). Features of the rows add ridge_r times
    their prior to the right-hand side (:mod:`mfrank.als.feature_priors`).

    Attributes
    ----------
    rows : CSR
        R rows of observed cells; users for the user step, items for the item step.
    weight, ridge : float64, shape (R,)
        Background weight (a_x or w_y) and ridge (rho_x or sigma_y) of each row.
    observed : Observed
        Its offsets are indexed by user: by row if ``users_are_rows``, else by column.
    users_are_rows : bool
        True in the user step.
    """  # noqa: D400 (the sentence is the equation)

    rows: CSR
    weight: Vector
    ridge: Vector
    observed: ObservedLoss
    users_are_rows: bool

    @property
    def curved(self) -> bool:
        """Whether any observed cell has curvature; if not, matrices are weight_r M + ridge_r I."""
        curvature = self.observed.curvature
        return curvature.slope != 0 or bool(np.any(curvature.offset))

    def part(self, rows: NDArray[Any]) -> tuple[RowProblem, NDArray[np.int32]]:
        """The problem of some rows, restricted to the columns they use, and those columns."""
        return self.cut(rows).on_used_columns()

    def cut(self, rows: NDArray[Any]) -> RowProblem:
        """The problem of some rows, among all columns."""
        whole = self.rows
        counts = whole.counts[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        entries = np.arange(indptr[-1]) + np.repeat(whole.indptr[rows] - indptr[:-1], counts)
        data = None if whole.data is None else whole.data[entries]
        csr = CSR(indptr, whole.indices[entries], data, whole.n_columns)
        observed = self.observed.of_users(rows) if self.users_are_rows else self.observed
        weight, ridge = self.weight[rows], self.ridge[rows]
        return RowProblem(csr, weight, ridge, observed, self.users_are_rows)

    def placed(self, places: NDArray[np.int32], columns: NDArray[np.int64]) -> RowProblem:
        """The same rows among ``columns`` alone, in that order: column c is at ``places[c]``."""
        whole = self.rows
        rows = CSR(whole.indptr, places[whole.indices], whole.data, len(columns))
        observed = self.observed if self.users_are_rows else self.observed.of_users(columns)
        return RowProblem(rows, self.weight, self.ridge, observed, self.users_are_rows)

    def on_used_columns(self) -> tuple[RowProblem, NDArray[np.int32]]:
        """The problem restricted to the columns that its rows use, and those columns."""
        whole = self.rows
        if whole.n_rows == 1:  # its columns are distinct already
            columns, indices = whole.indices, np.arange(len(whole.indices), dtype=np.int32)
        else:
            columns, indices = _renumbered(whole.indices, whole.n_columns)
        rows = CSR(whole.indptr, indices, whole.data, len(columns))
        observed = self.observed if self.users_are_rows else self.observed.of_users(columns)
        return RowProblem(rows, self.weight, self.ridge, observed, self.users_are_rows), columns

    def curvature(self) -> Vector:
        """Coefficients c of the entries, float64, shape (nnz,)."""
        return self._coefficients(self.observed.curvature)

    def pull(self) -> Vector:
        """Coefficients d of the entries, float64, shape (nnz,)."""
        pull: Vector = self._coefficients(self.observed.pull) * self.signs(self.observed.pull)
        return pull

    def constant(self) -> Vector:
        """Coefficients k of the entries, float64, shape (nnz,)."""
        constant = self.observed.constant
        found: Vector = self._coefficients(constant) * self.signs(constant)
        return found

    def signs(self, term: CellTerm, entries: slice = slice(None)) -> NDArray[Any]:
        """How often a term counts for each entry: 1, or its multiple for dislikes."""
        if self.rows.data is None:
            return np.ones(len(self.rows.indices[entries]))
        likes: NDArray[Any] = np.asarray(self.rows.data[entries] > 0)
        return np.where(likes, 1.0, term.of_dislikes) if term.of_dislikes else likes

    def row_sums(self, term: CellTerm, *, signed: bool = False) -> Vector:
        """Sum of a cell term over each row's entries, by signs or all alike, float64, (R,)."""
        if term.slope == 0 and not (signed and self.rows.data is not None):
            if self.users_are_rows:
                return term.offset * self.rows.counts
            if len(term.offset) and np.all(term.offset == term.offset[0]):
                alike: Vector = term.offset[0] * self.rows.counts
                return alike
        sums = np.empty(self.rows.n_rows)
        for first, last in self.rows.blocks(_ENTRIES_AT_ONCE):
            cells = self._coefficients(term, first, last)
            begins = self.rows.indptr[first : last + 1]
            if signed:
                cells *= self.signs(term, slice(begins[0], begins[-1]))
            running = np.zeros(len(cells) + 1)
            cells.cumsum(out=running[1:])
            ends = running[begins - begins[0]]
            sums[first:last] = ends[1:] - ends[:-1]
        return sums

    def _coefficients(self, term: CellTerm, first: int = 0, last: int | None = None) -> Vector:
        """Coefficients of the entries in rows ``first:last``, as a new array."""
        begins = self.rows.indptr[first : None if last is None else last + 1]
        entries = slice(begins[0], begins[-1])
        if self.users_are_rows:
            offsets = term.offset[first:last].repeat(begins[1:] - begins[:-1])
        else:
            offsets = term.offset[self.rows.indices[entries]]
        if term.slope != 0:
            data = self.rows.data
            offsets += term.slope * (1.0 if data is None else np.abs(data[entries], dtype=float))
        return offsets


def _renumbered(
    columns: NDArray[np.int32], n_columns: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The distinct columns, ascending, and for each entry the place of its column among them."""
    if len(columns) < _FEW * n_columns:  # sorting is faster than a table of all columns
        used, places = np.unique(columns, return_inverse=True)
        return used, places.astype(np.int32)
    number = np.zeros(n_columns, dtype=np.int32)
    number[columns] = 1
    used = np.flatnonzero(number).astype(np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return used, number[columns]


@dataclass(frozen=True, slots=True, eq=False)
class Gram:
    """F' diag(w) F as ``matrix`` (K, K) and F' w as ``vector`` (K,), float64."""

    matrix: NDArray[np.float64]
    vector: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """M and v of a half-step, the same for all rows, in the eigenbasis of M; float64.

    Attributes
    ----------
    values : shape (K,)
        Eigenvalues of M, ascending, >= 0; eigenvalues at the level of rounding are exactly 0.
    vector : shape (K,)
        v.
    """

    values: NDArray[np.float64]
    vector: NDArray[np.float64]


# Float64 least squares, for rows that the factors' dtype cannot solve precisely enough.


def alike(
    problem: RowProblem, rows: NDArray[np.int64], fixed: NDArray[Any], shared: Shared
) -> list[NDArray[np.int64]]:
    """Divide the rows by whether they have factors where the shared matrix is 0.

    The joint solution of rows depends on whether any of them has such factors. After the division,
    the bits of a row do not depend on other rows.
    """
    n_null = int(np.count_nonzero(shared.values == 0))
    if not len(rows) or not n_null:
        return [rows] if len(rows) else []
    part, columns = problem.part(rows)
    reaching = np.asarray(fixed[columns, :n_null].any(axis=1))
    of_rows = np.repeat(np.arange(len(rows)), part.rows.counts)
    reach = np.bincount(of_rows, reaching[part.rows.indices], len(rows)) > 0
    return [some for some in (rows[reach], rows[~reach]) if len(some)]


def in_float64(problem: RowProblem) -> RowProblem:
    """The problem with its values converted to float64."""
    if problem.rows.data is None:
        return problem
    return replace(problem, rows=replace(problem.rows, data=problem.rows.data.astype(np.float64)))


def minimum_norm(
    problem: RowProblem,
    r: int,
    fixed: NDArray[np.float64],
    shared: Shared,
    prior: NDArray[Any] | None = None,
) -> tuple[NDArray[np.float64], float]:
    """Minimum-norm solution (K,) and gain of row ``r``, by least squares."""
    one, columns = problem.part(np.array([r]))
    observed = fixed[columns][one.rows.indices]
    matrix = (observed.T * one.curvature()) @ observed
    matrix[np.diag_indices_from(matrix)] += one.weight[0] * shared.values + one.ridge[0]
    right = observed.T @ one.pull() + one.weight[0] * shared.vector
    if prior is not None:
        right += one.ridge[0] * prior[r]
    solution = np.linalg.lstsq(matrix, right)[0]
    return solution, float(2 * solution @ right - solution @ matrix @ solution)
