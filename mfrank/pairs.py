"""Logistic losses of pairs: each like of a list against every place of a smaller gain."""

from __future__ import annotations

import numpy as np

from mfrank import native
from mfrank.lists import Array, Lists
from mfrank.logistic import sigmoid, softplus

__all__ = ["PairSums", "mean_over_pairs", "sums_over_swaps"]

PairSums = tuple[Array, Array, Array]
"""Slopes by likes (B, L) and by others (B, M), and losses (B,)."""


def mean_over_pairs(lists: Lists, likes: Array, others: Array) -> PairSums:
    """Mean over pairs with G_i > G_j of log(1 + exp(h_j - h_i))."""
    if native.takes(likes):
        return _native(lists, likes, others, None, 1.0)
    wins = _leads_of_gains(lists) > 0
    weights = wins / wins.sum((1, 2), keepdims=True).clip(1)
    return _summed(likes, others, weights, 1.0)


def sums_over_swaps(lists: Lists, likes: Array, others: Array, steepness: float) -> PairSums:
    """Sum over pairs with G_i > G_j of |dNDCG_ij| log(1 + exp(steepness (h_j - h_i))).

    dNDCG_ij is what swapping the two changes in NDCG, at the ranks of the scores as they are.
    """
    if native.takes(likes):
        return _native(lists, likes, others, 1 / lists.ideal, steepness)
    scores = np.concatenate([likes, others], axis=1)
    best_first = np.argsort(np.where(lists.filled, -scores, np.inf), axis=1, kind="stable")
    discounts = 1 / np.log2(2 + np.argsort(best_first, axis=1, kind="stable"))
    moved = np.abs(discounts[:, : likes.shape[1], None] - discounts[:, None, :])
    changes = _leads_of_gains(lists) * moved / lists.ideal[:, None, None]
    return _summed(likes, others, changes, steepness)


def _leads_of_gains(lists: Lists) -> Array:
    """G_i - G_j where that is positive and both places are filled, else 0: (B, L, L + M)."""
    gains = np.concatenate([lists.gains, np.zeros(lists.others.shape, like=lists.gains)], axis=1)
    leads = np.maximum(lists.gains[:, :, None] - gains[:, None, :], 0)
    there: Array = leads * lists.filled[:, None, :]
    return there


def _summed(likes: Array, others: Array, weights: Array, steepness: float) -> PairSums:
    scores, width = np.concatenate([likes, others], axis=1), likes.shape[1]
    lead = steepness * (scores[:, None, :] - likes[:, :, None])
    slope = steepness * weights * sigmoid(lead)
    down = slope.sum(1)
    loss = (weights * softplus(lead)).sum((1, 2))
    return down[:, :width] - slope.sum(2), down[:, width:], loss


def _native(
    lists: Lists, likes: Array, others: Array, scales: Array | None, steepness: float
) -> PairSums:
    scores, width = np.concatenate([likes, others], axis=1), likes.shape[1]
    dtype = np.result_type(scores, np.float32)
    slopes, losses = np.empty(scores.shape, dtype), np.empty(len(scores), dtype)
    one = np.ones((len(scores), 1), dtype)
    native.ext.pairs(
        np.ascontiguousarray(scores, dtype),
        np.ascontiguousarray(lists.gains, dtype),
        lists.weigh(one, one, dtype),
        None if scales is None else np.ascontiguousarray(scales, np.float64),
        steepness,
        slopes,
        losses,
        lists.n_threads,
    )
    return slopes[:, :width], slopes[:, width:], losses
