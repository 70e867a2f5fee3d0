"""Sums over lists of a ramp of score differences, the inner loop of most ranking losses.

    sums[b, t] = sum over the places j of weight_bj f(score_bj - threshold_bt)

where f is a hinge, squared hinge, sigmoid or softplus, and their gradients.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mfrank.arrays.placement import Array
from mfrank.losses.sums import Ramp
from mfrank.losses.sums.logistic import sigmoid, softplus

__all__ = ["PairwiseRamps"]


class PairwiseRamps:
    """All differences at once, as the equation reads: O(N T) time and memory per list."""

    def __init__(self, ramp: Ramp, scores: Array, weights: Array, thresholds: Array) -> None:
        values, self._slopes = _RAMPS[ramp](scores[:, None, :] - thresholds[:, :, None])
        self._weights = weights
        self.sums: Array = np.einsum("btn,bn->bt", values, weights)
        self.slope_sums: Array = np.einsum("btn,bn->bt", self._slopes, weights)

    def gradients(self, by_sums: Array) -> tuple[Array, Array]:
        """See :class:`mfrank.losses.sums.Ramps`."""
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
"""Values and slopes of each ramp, as functions of x."""
