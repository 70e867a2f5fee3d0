"""The ALS objectives: frozen dataclasses that state their weights, each from its paper.

The family they belong to, and the letters used here, are in :mod:`mfrank.quadratic`. An objective
is added by adding a class to this file; nothing else changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mfrank.amounts import check_at_least_zero, is_number
from mfrank.choices import check_choice
from mfrank.quadratic import CellTerm, Counts, Observed, QuadraticObjective, RowProblem, Vector

__all__ = ["EALS", "IALS", "RG2", "RGX", "WRMF", "RG2Sampled", "RGXPrinted"]


@dataclass(frozen=True, kw_only=True)
class WRMF(QuadraticObjective):
    """Weighted regularized matrix factorization (Hu, Koren & Volinsky 2008).

    L = sum_{x,y} C_xy (p_xy - s_xy)^2 + ridge, with C = 1 and p = 0 where nothing was observed.
    A value r < 0 is a dislike, as in implicit: p = 0 with the confidence of |r|.

    Parameters
    ----------
    alpha : float, default 1.0
        Scale of the confidence, >= 0.
    regularization : float, default 0.01
        Ridge, >= 0; the default is implicit's.
    nu : float, default 0.0
        Exponent of the ridge's frequency scaling; 0 is the paper's constant ridge.
    confidence : {"alpha*r", "1+alpha*r"}, default "alpha*r"
        Confidence C of an observed r > 0: implicit's convention, or the paper's.
    """

    accepts_dislikes: ClassVar[bool] = True
    uses_values: ClassVar[bool] = True

    alpha: float = 1.0
    regularization: float = 0.01
    nu: float = 0.0
    confidence: Literal["alpha*r", "1+alpha*r"] = "alpha*r"

    def __post_init__(self) -> None:
        check_at_least_zero(alpha=self.alpha, regularization=self.regularization, nu=self.nu)
        check_choice("confidence", self.confidence, ("alpha*r", "1+alpha*r"))

    def user_weights(self, n: NDArray[Any], n_items: int) -> Vector:
        return np.ones(len(n))

    def observed(self, n: NDArray[Any], n_items: int) -> Observed:
        base = 1.0 if self.confidence == "1+alpha*r" else 0.0
        confidence = _same(n, base, self.alpha)
        return Observed(_same(n, base - 1, self.alpha), confidence, confidence)


@dataclass(frozen=True, kw_only=True)
class IALS(QuadraticObjective):
    """Implicit ALS with an unobserved weight and a frequency-scaled ridge (Rendle et al. 2022).

    L = sum_{(x,y) in D} (1 - s_xy)^2 + alpha0 sum_{x,y} s_xy^2
      + lambda sum_x (n_x + alpha0 N)^nu |p_x|^2 + lambda sum_y (m_y + alpha0 M)^nu |q_y|^2

    Values are not read: an interaction is an interaction.

    Parameters
    ----------
    alpha0 : float, default 0.1
        Weight of every cell, observed or not, >= 0.
    regularization : float, default 0.003
        lambda, >= 0. Both defaults are the centre of the paper's search range.
    nu : float, default 1.0
        Exponent of the ridge's frequency scaling, the paper's; few-item users and many factors
        often ask for 0.5 to 0.75.
    """

    alpha0: float = 0.1
    regularization: float = 0.003
    nu: float = 1.0

    def __post_init__(self) -> None:
        check_at_least_zero(alpha0=self.alpha0, regularization=self.regularization, nu=self.nu)

    def user_weights(self, n: NDArray[Any], n_items: int) -> Vector:
        return np.full(len(n), self.alpha0)

    def observed(self, n: NDArray[Any], n_items: int) -> Observed:
        one = _same(n, 1.0)
        return Observed(one, one, one)


@dataclass(frozen=True, kw_only=True)
class EALS(QuadraticObjective):
    """ALS with popularity-weighted negatives (He et al. 2016, Eqs. 7 and 8).

    L = sum_{(x,y) in D} (1 - s_xy)^2 + c0 sum_{x,y} w_y s_xy^2 + ridge,
    w_y = m_y^exponent / sum_y m_y^exponent

    As in :class:`IALS` the background covers observed cells too; the paper leaves them out, which
    changes their weight from 1 to 1 + c0 w_y and keeps every row's matrix cheap to factorise.

    Parameters
    ----------
    c0 : float, default 512.0
        Total weight of one user's background, >= 0 (the paper's value on Yelp).
    exponent : float, default 0.5
        How far popularity counts, >= 0; 0 is a uniform background (the paper's value is 0.5).
    regularization : float, default 0.01
        Ridge, >= 0 (the paper's value).
    nu : float, default 0.0
        Exponent of the ridge's frequency scaling; 0 is the paper's constant ridge.
    """

    c0: float = 512.0
    exponent: float = 0.5
    regularization: float = 0.01
    nu: float = 0.0

    def __post_init__(self) -> None:
        check_at_least_zero(
            c0=self.c0, exponent=self.exponent, regularization=self.regularization, nu=self.nu
        )

    def user_weights(self, n: NDArray[Any], n_items: int) -> Vector:
        return np.full(len(n), self.c0)

    def item_weights(self, m: NDArray[Any], counts: Counts) -> Vector:
        powers = counts.items.astype(np.float64) ** self.exponent
        return np.asarray(m.astype(np.float64) ** self.exponent / max(powers.sum(), 1.0))

    def observed(self, n: NDArray[Any], n_items: int) -> Observed:
        one = _same(n, 1.0)
        return Observed(one, one, one)


@dataclass(frozen=True, kw_only=True)
class RG2(QuadraticObjective):
    """RG-squared: the softmax ranking loss to second order, squared form (Eq. 16 of the RG paper).

    L = sum_{(x,y) in D} -s_xy + alpha (1 - s_xy)^2
      + sum_x n_x/(2N) sum_y (s_xy + 1)^2 + ridge

    alpha = 0 is the pure loss of the paper; alpha > 0 is the form its authors tuned (their code
    adds a squared loss on the positives) and ranks clearly better.

    Parameters
    ----------
    alpha : float, default 0.05
        Extra weight of the positives, >= 0 (best of a grid on MovieLens-1M).
    regularization : float, default 0.07
        lambda, >= 0 (best of the same grid).
    nu : float, default 1.0
        Exponent of the ridge's frequency scaling, the paper's.
    ridge : {"own", "authors"}, default "own"
        The mass that the ridge scales with. ``"own"``: each row's own, n_x/2 + alpha n_x and
        sum(n)/2N + alpha m_y. ``"authors"``: as their code, n_x/2 + alpha N and
        sum(n)/2N + alpha M, as if the positive weight lay on every cell; ranks worse.
    """

    alpha: float = 0.05
    regularization: float = 0.07
    nu: float = 1.0
    ridge: Literal["own", "authors"] = "own"

    def __post_init__(self) -> None:
        check_at_least_zero(alpha=self.alpha, regularization=self.regularization, nu=self.nu)
        check_choice("ridge", self.ridge, ("own", "authors"))

    @property
    def target(self) -> float:
        return -1.0

    def user_weights(self, n: NDArray[Any], n_items: int) -> Vector:
        return n / (2.0 * max(n_items, 1))

    def observed(self, n: NDArray[Any], n_items: int) -> Observed:
        return Observed(_same(n, self.alpha), _same(n, 0.5 + self.alpha), _same(n, self.alpha))

    def _mass(self, problem: RowProblem, total: float) -> Vector:
        if self.ridge == "own":
            return super()._mass(problem, total)
        return problem.weight * total + self.alpha * problem.rows.n_columns


@dataclass(frozen=True, kw_only=True)
class RGX(RG2):
    """RG-interactive: the softmax ranking loss to second order, exact.

    L = L_RG2 - sum_x n_x/(2N^2) (sum_y s_xy)^2

    The term taken off RG2 is what the softmax's second-order expansion has and RG2 drops: the
    background is each user's *centred* scores. It couples the items through the sum of their
    factors; the item step stays closed-form through one K x K system (:mod:`mfrank.als`).
    :class:`RGXPrinted` is the form the paper prints, a different loss.

    Parameters
    ----------
    alpha, regularization, nu, ridge
        As in :class:`RG2`.
    """

    def interaction(self, n_items: int) -> float:
        return 1.0 / max(n_items, 1)


@dataclass(frozen=True, kw_only=True)
class RGXPrinted(RG2):
    """RG-interactive as printed and coded by its authors (Eqs. 31 and 38 of the RG paper).

    L = L_RG2 - beta sum_x n_x/(2N) sum_y s_xy^2   (up to a constant)

    Eq. 31 writes the interaction (sum_y s_xy)^2 as P_x Q'Q P_x', which is sum_y s_xy^2: the Gram
    matrix is merely scaled by 1 - beta. That is not the second-order expansion of the softmax;
    :class:`RGX` is.

    Parameters
    ----------
    beta : float, default 0.1
        Weight of the interaction, 0 <= beta < 1 (the authors' value).
    alpha, regularization, nu, ridge
        As in :class:`RG2`.
    """

    beta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (is_number(self.beta) and 0 <= self.beta < 1):
            raise ValueError(f"beta must be in [0, 1), got {self.beta!r}")

    @property
    def target(self) -> float:
        return -1.0 / (1.0 - self.beta)

    def user_weights(self, n: NDArray[Any], n_items: int) -> Vector:
        return (1.0 - self.beta) * super().user_weights(n, n_items)

    def _mass(self, problem: RowProblem, total: float) -> Vector:
        # The interaction takes nothing off the weights that the ridge scales with.
        return super()._mass(problem, total / (1.0 - self.beta))


@dataclass(frozen=True, kw_only=True)
class RG2Sampled(QuadraticObjective):
    """RG-squared of the sampled softmax in expectation, ``negatives`` a positive (Eqs. 18, 19).

    L = sum_{x,y} W_xy (S_xy - s_xy)^2 + ridge,  S = N/n_x - 1 if observed, else -1,
    W = n_x if observed, else n_x (negatives + 1)/N

    Parameters
    ----------
    negatives : int, default 200
        Negatives a positive is compared with, from 0 to N - 1 (the paper's ratio on
        MovieLens-10M to its sampled softmax baseline).
    regularization : float, default 0.07
        lambda, >= 0.
    nu : float, default 1.0
        Exponent of the ridge's frequency scaling, the paper's.
    """

    negatives: int = 200
    regularization: float = 0.07
    nu: float = 1.0

    def __post_init__(self) -> None:
        check_at_least_zero(
            negatives=self.negatives, regularization=self.regularization, nu=self.nu
        )

    @property
    def target(self) -> float:
        return -1.0

    def user_weights(self, n: NDArray[Any], n_items: int) -> Vector:
        return n * self._sampled_part(n_items)

    def observed(self, n: NDArray[Any], n_items: int) -> Observed:
        n = n.astype(np.float64)
        background = self.user_weights(n, n_items)
        # n_x (N/n_x - 1)^2, the cell's own constant, less the background's a_x z^2.
        constant = n * (n_items / np.maximum(n, 1.0) - 1.0) ** 2 - background
        return Observed(
            CellTerm(n - background), CellTerm(n_items - n + background), CellTerm(constant)
        )

    def _sampled_part(self, n_items: int) -> float:
        if self.negatives >= n_items:
            raise ValueError(
                f"negatives must be less than the number of items, {n_items}; got {self.negatives}"
            )
        return (self.negatives + 1) / n_items


def _same(n: NDArray[Any], value: float, slope: float = 0.0) -> CellTerm:
    return CellTerm(np.full(len(n), value), slope)
