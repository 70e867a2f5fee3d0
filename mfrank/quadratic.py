r"""One quadratic family behind every ALS objective, as numbers.

With scores s_xy = p_x . q_y (users x, items y, D the observed cells, r_xy their values) every
objective of :mod:`mfrank.objectives` is

    L(P, Q) =  sum_x sum_y a_x w_y (s_xy - z)^2                      background: every cell
             - kappa sum_x a_x (sum_y w_y s_xy)^2                    interaction (RGx only)
             + sum_{(x,y) in D} c_xy s_xy^2 - 2 d_xy s_xy + k_xy     what observed cells add
             + sum_x rho_x |p_x|^2 + sum_y sigma_y |q_y|^2           ridge

so that one side's optimum, the other side fixed, is a set of independent K x K systems. With
G = Q' W Q, m = Q' w, H = P' A P, h = P' a:

    (a_x (G - kappa m m') + sum_y c_xy q_y q_y' + rho_x I)   p_x = sum_y d_xy q_y + a_x z m
    (w_y H + sum_x c_xy p_x p_x' + sigma_y I) q_y = sum_x d_xy p_x + w_y (z h + kappa H t)

where t = sum_y w_y q_y couples the items when kappa > 0 (:mod:`mfrank.als` solves for it).
Engines and backends see these numbers and never ask which objective they came from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mfrank.csr import CSR

__all__ = ["CellTerm", "Counts", "Observed", "QuadraticObjective", "RowProblem", "Vector"]

Vector = NDArray[np.float64]

_ENTRIES_AT_ONCE = 1 << 20
"""Of which coefficients are kept at a time: what a fit holds besides its data stays small."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Observed items of each user (n_x) and observed users of each item (m_y), int64."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CellTerm:
    """A coefficient of observed cells, ``offset_x + slope |r_xy|``."""

    offset: Vector
    slope: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What observed cells add: c s^2 - 2 d s + k, where d and k hold for r > 0 only."""

    curvature: CellTerm
    pull: CellTerm
    constant: CellTerm

    def of_users(self, users: NDArray[Any]) -> Observed:
        """The same for some users, renumbered in the order given."""
        terms = (self.curvature, self.pull, self.constant)
        return Observed(*(CellTerm(term.offset[users], term.slope) for term in terms))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class RowProblem:
    """One half-step: for each row r the system

        (weight_r M + sum_e c_e f_e f_e' + ridge_r I) out_r = sum_e d_e f_e + weight_r v

    over its entries e, where f_e is the fixed factor of the entry's column, and the matrix M and
    vector v are shared by all rows (:class:`mfrank.backends.Shared`).

    Attributes
    ----------
    rows : CSR
        R rows of observed cells; users for the user step, items for the item step.
    weight, ridge : float64, shape (R,)
        Background weight (a_x or w_y) and ridge (rho_x or sigma_y) of each row.
    observed : Observed
        Its offsets belong to users: to the rows when ``users_are_rows``, else to the columns.
    users_are_rows : bool
        True in the user step.
    """  # noqa: D400 (the sentence is the equation)

    rows: CSR
    weight: Vector
    ridge: Vector
    observed: Observed
    users_are_rows: bool

    @property
    def curved(self) -> bool:
        """Whether observed cells have curvature; if not, M and the ridge are all of a matrix."""
        curvature = self.observed.curvature
        return curvature.slope != 0 or bool(np.any(curvature.offset))

    def part(self, rows: NDArray[Any]) -> tuple[RowProblem, NDArray[np.int32]]:
        """The problem of some rows over the columns that they use, and those columns."""
        whole = self.rows
        counts = whole.counts[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        entries = np.arange(indptr[-1]) + np.repeat(whole.indptr[rows] - indptr[:-1], counts)
        columns, indices = np.unique(whole.indices[entries], return_inverse=True)
        data = None if whole.data is None else whole.data[entries]
        csr = CSR(indptr, indices.astype(np.int32), data, len(columns))
        users = rows if self.users_are_rows else columns
        observed = self.observed.of_users(users)
        weight, ridge = self.weight[rows], self.ridge[rows]
        return RowProblem(csr, weight, ridge, observed, self.users_are_rows), columns

    def curvature(self) -> Vector:
        """Coefficients c of the entries, float64, shape (nnz,)."""
        return self._coefficients(self.observed.curvature)

    def pull(self) -> Vector:
        """Coefficients d of the entries, float64, shape (nnz,)."""
        return self._coefficients(self.observed.pull) * self.likes()

    def constant(self) -> Vector:
        """Coefficients k of the entries, float64, shape (nnz,)."""
        return self._coefficients(self.observed.constant) * self.likes()

    def likes(self) -> NDArray[np.bool_]:
        """Whether an entry is a like (r > 0), bool, shape (nnz,)."""
        if self.rows.data is None:
            return np.ones(len(self.rows.indices), dtype=bool)
        return np.asarray(self.rows.data > 0)

    def row_sums(self, term: CellTerm, *, likes_only: bool = False) -> Vector:
        """Sum of a cell term over the entries (or the likes) of each row, float64, shape (R,)."""
        sums = np.empty(self.rows.n_rows)
        for first, last in self.rows.blocks(_ENTRIES_AT_ONCE):
            cells = self._coefficients(term, first, last)
            begins = self.rows.indptr[first : last + 1]
            if likes_only and self.rows.data is not None:
                cells *= self.rows.data[begins[0] : begins[-1]] > 0
            running = np.concatenate([[0.0], np.cumsum(cells)])
            sums[first:last] = np.diff(running[begins - begins[0]])
        return sums

    def _coefficients(self, term: CellTerm, first: int = 0, last: int | None = None) -> Vector:
        """Of the entries of the rows from ``first`` to before ``last``, a new array."""
        begins = self.rows.indptr[first : None if last is None else last + 1]
        entries = slice(begins[0], begins[-1])
        if self.users_are_rows:
            offsets = np.repeat(term.offset[first:last], np.diff(begins))
        else:
            offsets = term.offset[self.rows.indices[entries]]
        if term.slope != 0:
            data = self.rows.data
            offsets += term.slope * (1.0 if data is None else np.abs(data[entries], dtype=float))
        return offsets


class QuadraticObjective(ABC):
    """An objective as data. A subclass states four things; the rest follows.

    The ridge is ``regularization * mass^nu``, where a row's mass is the weight of its cells,
    a_x sum(w) + sum_y c_xy for users and w_y sum(a) + sum_x c_xy for items: nu = 0 is a constant
    ridge, nu = 1 the frequency-scaled ridge of Rendle et al. (2022).
    """

    accepts_dislikes: ClassVar[bool] = False
    """Whether r < 0 has a meaning; if not, the engine refuses such data."""
    uses_values: ClassVar[bool] = False
    """Whether the size of r matters; if not, kernels are not handed the values."""

    regularization: float
    nu: float

    @abstractmethod
    def user_weights(self, n: NDArray[Any], n_items: int) -> Vector:
        """Background weight a_x of users with ``n`` observed items."""

    @abstractmethod
    def observed(self, n: NDArray[Any], n_items: int) -> Observed:
        """Coefficients of the observed cells of users with ``n`` observed items."""

    @property
    def target(self) -> float:
        """Background target z."""
        return 0.0

    def item_weights(self, m: NDArray[Any], counts: Counts) -> Vector:
        """Background weight w_y of items with ``m`` observed users; ``counts`` are the fit's."""
        return np.ones(len(m))

    def interaction(self, n_items: int) -> float:
        """Weight kappa of the squared score sum."""
        return 0.0

    def user_problem(self, user_items: CSR, counts: Counts) -> RowProblem:
        """The user step over the given rows, whose columns are the fit's items.

        In a fit the rows are all users; in a fold-in they are any users' rows.
        """
        n, n_items = user_items.counts, len(counts.items)
        weight, observed = self.user_weights(n, n_items), self.observed(n, n_items)
        total = float(self.item_weights(counts.items, counts).sum())
        return self._problem(user_items, weight, total, observed, users_are_rows=True)

    def item_problem(self, item_users: CSR, counts: Counts) -> RowProblem:
        """The item step over the given rows, whose columns are the fit's users."""
        n, n_items = counts.users, len(counts.items)
        weight, observed = self.item_weights(item_users.counts, counts), self.observed(n, n_items)
        total = float(self.user_weights(n, n_items).sum())
        return self._problem(item_users, weight, total, observed, users_are_rows=False)

    def _problem(
        self, rows: CSR, weight: Vector, total: float, observed: Observed, *, users_are_rows: bool
    ) -> RowProblem:
        if not self.uses_values and not self.accepts_dislikes:
            rows = rows.pattern()
        bare = RowProblem(rows, weight, np.empty(0), observed, users_are_rows)
        ridge = self.regularization * self._mass(bare, total) ** self.nu
        return RowProblem(rows, weight, ridge, observed, users_are_rows)

    def _mass(self, problem: RowProblem, total: float) -> Vector:
        """Weight of all cells of each row; ``total`` sums the other side's background weights."""
        mass = problem.weight * total
        if self.nu != 0:
            mass += problem.row_sums(problem.observed.curvature)
        return np.maximum(mass, 0.0)
