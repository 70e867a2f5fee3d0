"""Metrics of the first k places, and what they gain when one item passes another.

A metric sees of an item's gain what it is *worth* to it, x: the gain itself, or whether there is
any. With a weight w_p of each place p and a factor F_p that the worths above it make, it is

    M = sum over p <= k of w_p x_p F_p / whole.

Take item j out of a list and order the others. Where j's score rises past that of s, the one at
place p, the two swap places p and p + 1, what is above and below stays, and M jumps by

    J_jp = (x_j - x_s) F_p (w_p - w_{p+1}) / whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from mfrank.lists import Array

__all__ = ["METRICS", "Above", "TopMetric"]

Above = Literal["nothing", "count", "chance"]


class TopMetric(NamedTuple):
    """A metric.

    Attributes
    ----------
    worth : callable
        Worths of gains.
    whole : callable
        What is divided by, (worths (B, N), k) -> (B, 1).
    weight : callable
        Weights w of places (n,), from 1.
    above : {"nothing", "count", "chance"}
        F_p: 1; 1 + the worths above; or the product of 1 - x / whole above, which is the chance
        that a reader gets there whom each item keeps with chance x / whole.
    """

    worth: Callable[[Array], Array]
    whole: Callable[[Array, int], Array]
    weight: Callable[[Array], Array]
    above: Above

    def weights(self, n_places: int, k: int) -> Array:
        """Of so many places; 0 beyond k."""
        places = np.arange(1, n_places + 1)
        return np.where(places <= k, self.weight(places), 0.0)

    def value(self, ordered: Array, whole: Array, k: int) -> Array:
        """M (B,) of the worths (B, n) of the first places in order, at least k or all."""
        weights = np.asarray(self.weights(ordered.shape[1], k), like=ordered)
        value: Array = (weights * ordered * self._factors(ordered, whole)).sum(1) / whole[:, 0]
        return value

    def jump(self, own: Array, others: Array, whole: Array, k: int) -> Array:
        """J (B, n, P) of items of worths own (B, n, 1) at the first P of the others (B, n, P)."""
        weights = np.asarray(self.weights(others.shape[2] + 1, k), like=others)
        factors = self._factors(others, whole[:, :, None])
        jumps: Array = (own - others) * factors * (weights[:-1] - weights[1:]) / whole[:, :, None]
        return jumps

    def _factors(self, ordered: Array, whole: Array) -> Array:
        if self.above == "nothing":
            return np.ones_like(ordered)
        if self.above == "count":
            counts: Array = 1 + np.cumsum(ordered, axis=-1) - ordered
            return counts
        through = np.cumprod(1 - ordered / whole, axis=-1)
        reached: Array = np.concatenate(
            [np.ones_like(through[..., :1]), through[..., :-1]], axis=-1
        )
        return reached


def _gain(gains: Array) -> Array:
    return gains


def _liked(gains: Array) -> Array:
    return (gains > 0).astype(gains.dtype)


def _by_logarithm(places: Array) -> Array:
    weights: Array = 1 / np.log2(1 + places)
    return weights


def _alike(places: Array) -> Array:
    return np.ones(len(places))


def _inverse(places: Array) -> Array:
    return 1 / places


def _ideal(worths: Array, k: int) -> Array:
    """The largest discounted gain."""
    first = -np.sort(-worths, axis=1)[:, :k]
    places = np.arange(1, first.shape[1] + 1, like=first)
    ideal: Array = (first * _by_logarithm(places)).sum(1, keepdims=True)
    return ideal


def _count(worths: Array, k: int) -> Array:
    count: Array = worths.sum(1, keepdims=True)
    return count


def _one(worths: Array, k: int) -> Array:
    """A reader whom every like keeps: the reciprocal rank of the first."""
    return np.ones_like(worths[:, :1])


def _above_largest(worths: Array, k: int) -> Array:
    """Of the expected reciprocal rank (Chapelle et al. 2009)."""
    largest: Array = 1 + worths.max(axis=1, keepdims=True)
    return largest


METRICS = {
    "ndcg": TopMetric(_gain, _ideal, _by_logarithm, "nothing"),
    "recall": TopMetric(_liked, _count, _alike, "nothing"),
    "map": TopMetric(_liked, _count, _inverse, "count"),
    "mrr": TopMetric(_liked, _one, _inverse, "chance"),
    "err": TopMetric(_gain, _above_largest, _inverse, "chance"),
}
