"""Ranking metrics at a cutoff k, and their jumps when one item passes another.

An item's value x in a metric is its gain, or 1 if its gain is above 0. With a weight w_p of each
place p and a factor F_p that depends on the values of the items above it, the metric is

    M = sum over p <= k of w_p x_p F_p / normalizer.

Remove item j from a list and sort the other items. When j's score rises above that of s, the item
at place p, the two swap places p and p + 1, all other items keep theirs, and M jumps by

    J_jp = (x_j - x_s) F_p (w_p - w_{p+1}) / normalizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from mfrank.arrays import Array

Above = Literal["nothing", "count", "chance"]


class TopMetric(NamedTuple):
    """A ranking metric.

    Attributes
    ----------
    worth : callable
        Maps gains to values x, elementwise.
    normalizer : callable
        Maps values (B, N) and k to the normalizer (B, 1).
    weight : callable
        Maps places (n,), counted from 1, to weights w.
    above : {"nothing", "count", "chance"}
        F_p: 1; 1 + the sum of the values above p; or the product of 1 - x / normalizer above p, the
        probability that a reader who stops at an item with probability x / normalizer reaches p.
    """

    worth: Callable[[Array], Array]
    normalizer: Callable[[Array, int], Array]
    weight: Callable[[Array], Array]
    above: Above

    def weights(self, n_places: int, k: int) -> Array:
        """Weights of the first ``n_places`` places, 0 beyond k."""
        places = np.arange(1, n_places + 1)
        return np.where(places <= k, self.weight(places), 0.0)

    def value(self, ordered: Array, normalizer: Array, k: int) -> Array:
        """M (B,), from the values (B, n) of the first n places in order; n >= k, or all places."""
        weights = np.asarray(self.weights(ordered.shape[1], k), like=ordered)
        terms = weights * ordered * self._factors(ordered, normalizer)
        value: Array = terms.sum(1) / normalizer[:, 0]
        return value

    def jump(self, own: Array, others: Array, normalizer: Array, k: int) -> Array:
        """J (B, n, P) of items of values ``own`` (B, n, 1) past the first P of the others."""
        weights = np.asarray(self.weights(others.shape[2] + 1, k), like=others)
        factors = self._factors(others, normalizer[:, :, None])
        drops = weights[:-1] - weights[1:]
        jumps: Array = (own - others) * factors * drops / normalizer[:, :, None]
        return jumps

    def _factors(self, ordered: Array, normalizer: Array) -> Array:
        if self.above == "nothing":
            return np.ones_like(ordered)
        if self.above == "count":
            counts: Array = 1 + np.cumsum(ordered, axis=-1) - ordered
            return counts
        through = np.cumprod(1 - ordered / normalizer, axis=-1)
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
    """Largest possible discounted gain at k."""
    first = -np.sort(-worths, axis=1)[:, :k]
    places = np.arange(1, first.shape[1] + 1, like=first)
    ideal: Array = (first * _by_logarithm(places)).sum(1, keepdims=True)
    return ideal


def _count(worths: Array, k: int) -> Array:
    count: Array = worths.sum(1, keepdims=True)
    return count


def _one(worths: Array, k: int) -> Array:
    """The reader stops at the first positive: M is its reciprocal rank."""
    return np.ones_like(worths[:, :1])


def _above_largest(worths: Array, k: int) -> Array:
    """Normalizer of the expected reciprocal rank (Chapelle et al. 2009)."""
    largest: Array = 1 + worths.max(axis=1, keepdims=True)
    return largest


METRICS = {
    "ndcg": TopMetric(_gain, _ideal, _by_logarithm, "nothing"),
    "recall": TopMetric(_liked, _count, _alike, "nothing"),
    "map": TopMetric(_liked, _count, _inverse, "count"),
    "mrr": TopMetric(_liked, _one, _inverse, "chance"),
    "err": TopMetric(_gain, _above_largest, _inverse, "chance"),
}
