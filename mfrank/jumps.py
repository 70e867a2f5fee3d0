"""Metrics of the first k places, and what they gain when one item passes another.

Take item j out of a list and order the others: ``others`` holds the gains of the first of them.
Where j's score rises past the one at place p (from 1), the two swap places p and p + 1, and the
metric jumps by J_jp. Jumps take ``gains`` (B, n) of the lists, ``own`` (B, n, 1), the gain of each
item j, ``others`` (B, n, P) and k, and give J (B, n, P); values take the gains (B, n) in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mfrank.lists import Array

__all__ = ["METRICS", "TopMetric"]


class TopMetric(NamedTuple):
    """A metric: its value of ordered gains (B,), and its jumps (B, n, P)."""

    value: Callable[[Array, int], Array]
    jump: Callable[[Array, Array, Array, int], Array]


def ndcg(ordered: Array, k: int) -> Array:
    """Discounted gain of the first k over the largest that there could be."""
    value: Array = _discounted(ordered, k) / _ideal(ordered, k)
    return value


def ndcg_jump(gains: Array, own: Array, others: Array, k: int) -> Array:
    """(G_j - G_s) (w_p - w_{p+1}), w_p = [p <= k] / log2(1 + p) over the ideal."""
    places = np.arange(1, others.shape[2] + 2, like=others)
    discounts = np.where(places <= k, 1 / np.log2(1 + places), 0)
    weights = (discounts[:-1] - discounts[1:]) / _ideal(gains, k)[:, None, None]
    changes: Array = (own - others) * weights
    return changes


def recall(ordered: Array, k: int) -> Array:
    """Part of the likes that is among the first k."""
    value: Array = (ordered[:, :k] > 0).sum(1) / (ordered > 0).sum(1)
    return value


def recall_jump(gains: Array, own: Array, others: Array, k: int) -> Array:
    """(y_j - y_s) / N+ at p = k, where one item comes in and another goes out."""
    at_the_end = np.arange(1, others.shape[2] + 1, like=others) == k
    changes: Array = _likes(own, others) * at_the_end / _n_likes(gains)
    return changes


def average_precision(ordered: Array, k: int) -> Array:
    """Sum over likes among the first k of the precision at their places, over all likes."""
    liked = ordered > 0
    places = np.arange(1, ordered.shape[1] + 1, like=ordered)
    precision = liked * (places <= k) * np.cumsum(liked, axis=1) / places
    value: Array = precision.sum(1) / liked.sum(1)
    return value


def average_precision_jump(gains: Array, own: Array, others: Array, k: int) -> Array:
    """(y_j - y_s) (c + 1) / N+ ([p <= k] / p - [p + 1 <= k] / (p + 1)), c likes above both."""
    places = np.arange(1, others.shape[2] + 1, like=others)
    liked = (others > 0).astype(others.dtype)
    above = np.cumsum(liked, axis=2) - liked
    heights = (places <= k) / places - (places + 1 <= k) / (places + 1)
    changes: Array = _likes(own, others) * (above + 1) * heights / _n_likes(gains)
    return changes


def reciprocal_rank(ordered: Array, k: int) -> Array:
    """1 / place of the first like, 0 where it is beyond k."""
    return _cascade((ordered > 0).astype(ordered.dtype), k)


def reciprocal_rank_jump(gains: Array, own: Array, others: Array, k: int) -> Array:
    """A cascade that the first like ends: 1 / p of its place."""
    return _cascade_jump((own > 0).astype(own.dtype), (others > 0).astype(others.dtype), k)


def expected_reciprocal_rank(ordered: Array, k: int) -> Array:
    """ERR (Chapelle et al. 2009): a cascade that an item ends with chance G / (1 + largest G)."""
    return _cascade(ordered / (1 + ordered.max(axis=1, keepdims=True)), k)


def expected_reciprocal_rank_jump(gains: Array, own: Array, others: Array, k: int) -> Array:
    """As the reciprocal rank's, with the chances of ERR."""
    most = 1 + gains.max(axis=1)[:, None, None]
    return _cascade_jump(own / most, others / most, k)


def _cascade(chances: Array, k: int) -> Array:
    """Expected 1 / place where a reader stops who goes down the list, 0 beyond k."""
    through = np.cumprod(1 - chances, axis=1)
    reached = np.concatenate([np.ones_like(through[:, :1]), through[:, :-1]], axis=1)
    places = np.arange(1, chances.shape[1] + 1, like=chances)
    value: Array = (reached * chances * (places <= k) / places).sum(1)
    return value


def _cascade_jump(own: Array, others: Array, k: int) -> Array:
    """R (w_p (r_j - r_s) + w_{p+1} ((1 - r_j) r_s - (1 - r_s) r_j)), R the chance to get there."""
    places = np.arange(1, others.shape[2] + 2, like=others)
    weights = np.where(places <= k, 1 / places, 0)
    through = np.cumprod(1 - others, axis=2)
    reached = np.concatenate([np.ones_like(through[:, :, :1]), through[:, :, :-1]], axis=2)
    swapped = (1 - own) * others - (1 - others) * own
    changes: Array = reached * (weights[:-1] * (own - others) + weights[1:] * swapped)
    return changes


def _discounted(ordered: Array, k: int) -> Array:
    first = ordered[:, :k]
    value: Array = (first / np.log2(2 + np.arange(first.shape[1], like=first))).sum(1)
    return value


def _ideal(gains: Array, k: int) -> Array:
    return _discounted(-np.sort(-gains, axis=1), k)


def _likes(own: Array, others: Array) -> Array:
    """y_j - y_s."""
    return (own > 0).astype(own.dtype) - (others > 0)


def _n_likes(gains: Array) -> Array:
    count: Array = (gains > 0).sum(1)[:, None, None]
    return count


METRICS = {
    "ndcg": TopMetric(ndcg, ndcg_jump),
    "recall": TopMetric(recall, recall_jump),
    "map": TopMetric(average_precision, average_precision_jump),
    "mrr": TopMetric(reciprocal_rank, reciprocal_rank_jump),
    "err": TopMetric(expected_reciprocal_rank, expected_reciprocal_rank_jump),
}
