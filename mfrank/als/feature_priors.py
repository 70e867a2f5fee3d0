"""Features of users and items as the mean to which their ridge pulls.

With features f_x of users and g_y of items, and matrices U and V of feature weights, the ridge of
:mod:`mfrank.als.objectives` becomes

    sum_x rho_x |p_x - U' f_x|^2 + tau |U|^2 + sum_y sigma_y |q_y - V' g_y|^2 + upsilon |V|^2

so p_x is U' f_x, from its features, plus a part of its own. The objective is minimized over P, Q, U
and V. Rows still have closed-form solutions: rho_x U' f_x and sigma_y V' g_y are added to their
right-hand sides. With P fixed, U solves a ridge regression of the users' factors on their features,
with row weights rho_x:

    (F' R F + tau I) U = F' R P,    R = diag(rho)

Each epoch takes a few conjugate gradient steps from the previous weights. No step raises the
objective; with thousands of features, more steps would cost more than the rest of the epoch. The
matrix is never formed, because there may be many features. tau is a multiple of the mean of rho.

A row without interactions is not part of the objective if its side has features. Its factors are U'
f_x, which the other rows determine. In the objective, the background (0 everywhere in such a row)
would be learned as the taste of its features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR, beside, on_host, single_threaded
from mfrank.backends import Backend, Factors, RowProblem, Vector
from mfrank.store import FactorStore, pack, weights_of

_MOST_STEPS = 5  # per epoch; the next epoch continues, and each step lowers the objective
_TOLERANCE = {"float32": 1e-6, "float64": 1e-12}

Matrix = NDArray[np.float64]


def without_empty_rows(problem: RowProblem) -> RowProblem:
    """The problem, modified so that the solution of a row without entries is exactly its prior."""
    empty = problem.rows.counts == 0
    weight, ridge = np.where(empty, 0.0, problem.weight), np.where(empty, 1.0, problem.ridge)
    return replace(problem, weight=weight, ridge=ridge)


class FeaturePrior:
    """The feature weights of one side during a fit, in the basis of its factors.

    Parameters
    ----------
    features : csr_array, float64, shape (R, F)
    problem : RowProblem
        The side's systems, after :func:`without_empty_rows`.
    regularization : float
        Ridge of the feature weights, relative to the mean ridge of the rows.
    factors : shape (R, K)
        Only their width, dtype and device are read; the weights are on the same device.
    backend : Backend
    """

    def __init__(
        self,
        features: sp.csr_array,
        problem: RowProblem,
        regularization: float,
        factors: Factors,
        backend: Backend,
    ) -> None:
        empty = problem.rows.counts == 0
        ridge = np.where(empty, 0.0, problem.ridge)
        self._own = regularization * float(ridge.sum()) / max(1, int((~empty).sum()))
        diagonal = ridge @ features.multiply(features) + self._own
        self.empty, self._solved, self._ridge, self._diagonal = (
            beside(each, factors)
            for each in (np.flatnonzero(empty), problem.ridge, ridge, diagonal)
        )
        self._product_of, self._dtype = backend.sparse_product, factors.dtype
        self._features, self._transposed = (
            CSR.from_scipy(sp.csr_array(each), np.float64) for each in (features, features.T)
        )
        self.weights: Matrix = np.zeros((features.shape[1], factors.shape[1]), like=factors)

    def turn(self, basis: Matrix) -> None:
        """Rotate the weights as the factors are rotated."""
        with single_threaded():
            self.weights = self.weights @ beside(basis, self.weights)

    def means(self) -> Factors:
        """The mean that features give each row, shape (R, K), in the dtype of the factors."""
        return self._product_of(self._features, self.weights).astype(self._dtype, copy=False)

    def regress(self, factors: Factors) -> None:
        """Fit the weights to factors (R, K), by conjugate gradients from the current weights."""
        weighted = self._ridge[:, None] * factors.astype(np.float64)
        right = self._product_of(self._transposed, weighted)
        residual = right - self._product(self.weights)
        goal = _TOLERANCE[self._dtype.name] * np.linalg.norm(right)
        inverse = 1 / self._diagonal[:, None]
        direction, power = np.zeros_like(residual), np.ones_like(residual[0])
        for _ in range(_MOST_STEPS):
            if np.linalg.norm(residual) <= goal:
                break
            improved = inverse * residual
            previous, power = power, np.einsum("fk,fk->k", residual, improved)
            direction = improved + _ratio(power, previous) * direction
            applied = self._product(direction)
            length = _ratio(power, np.einsum("fk,fk->k", direction, applied))
            self.weights = self.weights + length * direction
            residual -= length * applied

    def penalty(self, factors: Factors) -> float:
        """Both ridge terms of the objective at some factors: of the rows and of the weights."""
        apart = factors.astype(np.float64) - self._product_of(self._features, self.weights)
        return float(self._ridge @ np.einsum("rk,rk->r", apart, apart)) + self._of_weights()

    def constant(self) -> float:
        """The penalty if all factors are 0; then rows without interactions have a ridge, too."""
        means = self.means().astype(np.float64)
        return float(self._solved @ np.einsum("rk,rk->r", means, means)) + self._of_weights()

    def _of_weights(self) -> float:
        return self._own * float(np.einsum("fk,fk->", self.weights, self.weights))

    def _product(self, weights: Matrix) -> Matrix:
        images = self._ridge[:, None] * self._product_of(self._features, weights)
        product: Matrix = self._product_of(self._transposed, images) + self._own * weights
        return product


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of users and items, as a fit reads them.

    Attributes
    ----------
    users, items : csr_array, float64, shape (n_users, F) and (n_items, G), or None
    regularization : float
        Ridge of the feature weights, relative to the mean ridge of the rows.
    start : FactorStore or None
        Warm start of the weights, for sides with the same number of features; otherwise weights
        begin at 0.
    columns : mapping of str to uint8
        Encodings of table columns, as extras of a store.
    """

    users: sp.csr_array | None
    items: sp.csr_array | None
    regularization: float
    start: FactorStore | None = None
    columns: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)

    @property
    def sides(self) -> frozenset[str]:
        """Which of the sides "user" and "item" have features."""
        each = {"user": self.users, "item": self.items}
        return frozenset(side for side, features in each.items() if features is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Priors:
    """The feature weights of both sides of a fit; None where a side has no features."""

    users: FeaturePrior | None = None
    items: FeaturePrior | None = None
    columns: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        features: Features | None,
        users: RowProblem,
        items: RowProblem,
        like: Factors,
        backend: Backend,
    ) -> Self:
        """The initial weights; ``like`` are factors on the backend's device."""
        if features is None:
            return cls()
        of_users, of_items = (
            None
            if rows is None
            else FeaturePrior(rows, problem, features.regularization, like, backend)
            for rows, problem in ((features.users, users), (features.items, items))
        )
        made = cls(of_users, of_items, features.columns)
        for name, side in (("user", made.users), ("item", made.items)):
            known = None if features.start is None else weights_of(features.start, name)
            if side is not None and known is not None and known.shape == side.weights.shape:
                side.weights = beside(known, like)
        return made

    def user_means(self) -> Factors | None:
        """The means that features give users, shape (n_users, K)."""
        return None if self.users is None else self.users.means()

    def item_means(self) -> Factors | None:
        """The means that features give items, shape (n_items, K)."""
        return None if self.items is None else self.items.means()

    def regress_users(self, factors: Factors) -> None:
        """Fit the weights of users to their factors."""
        if self.users is not None:
            self.users.regress(factors)

    def regress_items(self, factors: Factors) -> None:
        """Fit the weights of items to their factors; items without interactions become the mean."""
        if self.items is not None:
            self.items.regress(factors)
            factors[self.items.empty] = self.items.means()[self.items.empty]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The weights and means of both sides, as extras of a store."""
        arrays: dict[str, NDArray[Any]] = dict(self.columns)
        for name, side in (("user", self.users), ("item", self.items)):
            if side is not None:
                arrays |= pack(name, on_host(side.weights), on_host(side.means()))
        return arrays

    def penalty(self, item_factors: Factors) -> float:
        """The priors' part of the objective at user factors 0."""
        users = 0.0 if self.users is None else self.users.constant()
        return users + (0.0 if self.items is None else self.items.penalty(item_factors))

    def turn(self, basis: Matrix) -> None:
        """Rotate all weights as the factors are rotated."""
        for side in (self.users, self.items):
            if side is not None:
                side.turn(basis)


def towards(prior: Factors | None) -> dict[str, Factors]:
    """The argument ``prior`` of ``Backend.solve_rows``; left out if None: backends may lack it."""
    return {} if prior is None else {"prior": prior}


def _ratio(numerator: Vector, denominator: Vector) -> Any:
    has_some = denominator > 0
    return np.where(has_some, numerator / np.where(has_some, denominator, 1), 0)
