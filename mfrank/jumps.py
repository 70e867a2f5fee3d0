"""Metrics of the first k places, and what they gain when one item passes another.

A metric sees of an item's gain what it is *worth* to it, x: the gain itself, or whether there is
any. ``whole`` (B, 1) is what it divides by, of the worths (B, L) of all that a list holds.

Take item j out of a list and order the others: ``others`` holds the worths of the first of them.
Where j's score rises past the one at place p (from 1), the two swap places p and p + 1, and the
metric jumps by J_jp, which is linear in x_j. Jumps take ``own`` (B, n, 1), the x_j of some items,
``others`` (B, n, P), whole and k, and give J (B, n, P); values take the worths (B, n) of the first
places in order, at least k or all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mfrank.lists import Array

__all__ = ["METRICS", "TopMetric"]


class TopMetric(NamedTuple):
    """A metric.

    Attributes
    ----------
    worth : callable
        Worths of gains.
    whole : callable
        (worths (B, L), k) -> (B, 1).
    value : callable
        (worths in order (B, n), whole (B, 1), k) -> (B,).
    jump : callable
        (own (B, n, 1), others (B, n, P), whole (B, 1), k) -> (B, n, P).
    """

    worth: Callable[[Array], Array]
    whole: Callable[[Array, int], Array]
    value: Callable[[Array, Array, int], Array]
    jump: Callable[[Array, Array, Array, int], Array]


def ndcg(ordered: Array, whole: Array, k: int) -> Array:
    """Discounted gain of the first k over the largest that there could be."""
    return _discounted(ordered, k) / whole[:, 0]


def ndcg_jump(own: Array, others: Array, whole: Array, k: int) -> Array:
    """(G_j - G_s) (w_p - w_{p+1}), w_p = [p <= k] / log2(1 + p) over the ideal."""
    places = np.arange(1, others.shape[2] + 2, like=others)
    discounts = np.where(places <= k, 1 / np.log2(1 + places), 0).astype(others.dtype)
    weights = (discounts[:-1] - discounts[1:]) / whole[:, :, None]
    changes: Array = (own - others) * weights
    return changes


def recall(ordered: Array, whole: Array, k: int) -> Array:
    """Part of the likes that is among the first k."""
    value: Array = ordered[:, :k].sum(1) / whole[:, 0]
    return value


def recall_jump(own: Array, others: Array, whole: Array, k: int) -> Array:
    """(y_j - y_s) / N+ at p = k, where one item comes in and another goes out."""
    at_the_end = np.arange(1, others.shape[2] + 1, like=others) == k
    changes: Array = (own - others) * at_the_end / whole[:, :, None]
    return changes


def average_precision(ordered: Array, whole: Array, k: int) -> Array:
    """Sum over likes among the first k of the precision at their places, over all likes."""
    places = np.arange(1, ordered.shape[1] + 1, like=ordered)
    precision = ordered * (places <= k) * np.cumsum(ordered, axis=1) / places
    value: Array = precision.sum(1) / whole[:, 0]
    return value


def average_precision_jump(own: Array, others: Array, whole: Array, k: int) -> Array:
    """(y_j - y_s) (c + 1) / N+ ([p <= k] / p - [p + 1 <= k] / (p + 1)), c likes above both."""
    places = np.arange(1, others.shape[2] + 1, like=others)
    above = np.cumsum(others, axis=2) - others
    heights = (places <= k) / places - (places + 1 <= k) / (places + 1)
    changes: Array = (own - others) * (above + 1) * heights / whole[:, :, None]
    return changes


def cascade(ordered: Array, whole: Array, k: int) -> Array:
    """Expected 1 / place where a reader stops, with chance x / whole at each item; 0 beyond k."""
    chances = ordered / whole
    through = np.cumprod(1 - chances, axis=1)
    reached = np.concatenate([np.ones_like(through[:, :1]), through[:, :-1]], axis=1)
    places = np.arange(1, chances.shape[1] + 1, like=chances)
    value: Array = (reached * chances * (places <= k) / places).sum(1)
    return value


def cascade_jump(own: Array, others: Array, whole: Array, k: int) -> Array:
    """R (w_p (r_j - r_s) + w_{p+1} ((1 - r_j) r_s - (1 - r_s) r_j)), R the chance to get there."""
    own, others = own / whole[:, :, None], others / whole[:, :, None]
    places = np.arange(1, others.shape[2] + 2, like=others)
    weights = np.where(places <= k, 1 / places, 0)
    through = np.cumprod(1 - others, axis=2)
    reached = np.concatenate([np.ones_like(through[:, :, :1]), through[:, :, :-1]], axis=2)
    swapped = (1 - own) * others - (1 - others) * own
    changes: Array = reached * (weights[:-1] * (own - others) + weights[1:] * swapped)
    return changes


def _gain(gains: Array) -> Array:
    return gains


def _liked(gains: Array) -> Array:
    return (gains > 0).astype(gains.dtype)


def _discounted(ordered: Array, k: int) -> Array:
    first = ordered[:, :k]
    value: Array = (first / np.log2(2 + np.arange(first.shape[1], like=first))).sum(1)
    return value


def _ideal(worths: Array, k: int) -> Array:
    return _discounted(-np.sort(-worths, axis=1), k)[:, None]


def _count(worths: Array, k: int) -> Array:
    count: Array = worths.sum(1, keepdims=True)
    return count


def _one(worths: Array, k: int) -> Array:
    """What the first like ends is a reciprocal rank."""
    return np.ones_like(worths[:, :1])


def _above_largest(worths: Array, k: int) -> Array:
    """Of the expected reciprocal rank (Chapelle et al. 2009)."""
    largest: Array = 1 + worths.max(axis=1, keepdims=True)
    return largest


METRICS = {
    "ndcg": TopMetric(_gain, _ideal, ndcg, ndcg_jump),
    "recall": TopMetric(_liked, _count, recall, recall_jump),
    "map": TopMetric(_liked, _count, average_precision, average_precision_jump),
    "mrr": TopMetric(_liked, _one, cascade, cascade_jump),
    "err": TopMetric(_gain, _above_largest, cascade, cascade_jump),
}
