"""Sums over lists of a ramp of differences, the inner loop of most ranking losses.

    sums[b, t] = sum over the places j of weight_bj f(score_bj - threshold_bt)

for f a hinge, a squared one, a sigmoid or a softplus, with their slopes by scores and thresholds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np

from mfrank import native
from mfrank.lists import Array
from mfrank.logistic import sigmoid, softplus

__all__ = ["NativeRamps", "PairwiseRamps", "Ramp", "Ramps", "ramps"]

Ramp = Literal["hinge", "squared_hinge", "sigmoid", "softplus"]


class Ramps(Protocol):
    """The sums, and what follows from slopes in them.

    Attributes
    ----------
    sums : shape (B, T)
    slope_sums : shape (B, T)
        Sums over the places of weight_j f'(score_j - threshold_t).
    """

    sums: Array
    slope_sums: Array

    def slopes(self, by_sums: Array) -> tuple[Array, Array]:
        """Derivatives by thresholds (B, T) and by scores (B, N), from those by the sums."""


def ramps(
    ramp: Ramp, scores: Array, weights: Array, thresholds: Array, n_threads: int = 1
) -> Ramps:
    """Sums of a ramp, in the C++ extension where it is and the arrays are numpy's.

    Parameters
    ----------
    ramp : {"hinge", "squared_hinge", "sigmoid", "softplus"}
        max(0, x), max(0, x)^2, 1 / (1 + exp(-x)), or log(1 + exp(x)).
    scores, weights : float, shape (B, N)
        Sums are in the dtype of the scores. A place of weight 0 is padding.
    thresholds : float, shape (B, T)
    n_threads : int
        0 takes every core this process may use.
    """
    if native.takes(scores):
        return NativeRamps(ramp, scores, weights, thresholds, n_threads)
    return PairwiseRamps(ramp, scores, weights, thresholds)


class NativeRamps:
    """Every threshold against every place, in the C++ extension, without an array of pairs."""

    def __init__(
        self, ramp: Ramp, scores: Array, weights: Array, thresholds: Array, n_threads: int = 1
    ) -> None:
        self._ramp, self._n_threads = ramp, n_threads
        self._dtype = np.result_type(scores, thresholds, np.float32)
        self._scores, self._weights, self._thresholds = (
            np.ascontiguousarray(array, dtype=self._dtype)
            for array in (scores, weights, thresholds)
        )
        self.sums: Array = np.empty(thresholds.shape, self._dtype)
        self.slope_sums: Array = np.empty(thresholds.shape, self._dtype)
        native.ext.sum_ramps(
            ramp,
            self._scores,
            self._weights,
            self._thresholds,
            self.sums,
            self.slope_sums,
            self._n_threads,
        )

    def slopes(self, by_sums: Array) -> tuple[Array, Array]:
        """See :class:`Ramps`."""
        by_sums = np.ascontiguousarray(by_sums, dtype=self._dtype)
        by_scores = np.empty(self._scores.shape, self._dtype)
        native.ext.push_ramps(
            self._ramp,
            self._scores,
            self._weights,
            self._thresholds,
            by_sums,
            by_scores,
            self._n_threads,
        )
        return -by_sums * self.slope_sums, by_scores


class PairwiseRamps:
    """Every threshold against every place, as it is written: O(N T) of time and memory a row."""

    def __init__(self, ramp: Ramp, scores: Array, weights: Array, thresholds: Array) -> None:
        values, self._slopes = _RAMPS[ramp](scores[:, None, :] - thresholds[:, :, None])
        self._weights = weights
        self.sums: Array = np.einsum("btn,bn->bt", values, weights)
        self.slope_sums: Array = np.einsum("btn,bn->bt", self._slopes, weights)

    def slopes(self, by_sums: Array) -> tuple[Array, Array]:
        """See :class:`Ramps`."""
        by_scores = self._weights * np.einsum("btn,bt->bn", self._slopes, by_sums)
        return -by_sums * self.slope_sums, by_scores


def _hinge(x: Array) -> tuple[Array, Array]:
    return np.maximum(x, 0), (x > 0).astype(x.dtype)


def _squared_hinge(x: Array) -> tuple[Array, Array]:
    lead = np.maximum(x, 0)
    return lead**2, 2 * lead


def _sigmoid(x: Array) -> tuple[Array, Array]:
    low = sigmoid(-np.abs(x))
    return np.where(x > 0, 1 - low, low), low * (1 - low)


def _softplus(x: Array) -> tuple[Array, Array]:
    return softplus(x), sigmoid(x)


_RAMPS: dict[Ramp, Callable[[Array], tuple[Array, Array]]] = {
    "hinge": _hinge,
    "squared_hinge": _squared_hinge,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
}
"""Values and slopes."""
