"""Logistic losses of pairs: each positive of a list against every item of a smaller gain."""

from __future__ import annotations

import numpy as np

from mfrank.arrays import Array
from mfrank.losses.sums.softmax_sums import sigmoid, softplus


def pair_losses(
    scores: Array,
    gains: Array,
    filled: Array,
    scales: Array | None = None,
    steepness: float = 1.0,
) -> tuple[Array, Array]:
    """See :meth:`mfrank.losses.sums.ListSums.pair_losses`."""
    width = gains.shape[1]
    gaps = _gain_gaps(scores, gains, filled)
    if scales is None:
        pairs = gaps > 0
        weights = pairs / pairs.sum((1, 2), keepdims=True).clip(1)
    else:
        weights = gaps * _discount_gaps(scores, filled, width) * scales[:, None, None]
    behind = steepness * (scores[:, None, :] - scores[:, :width, None])
    by_pair = steepness * weights * sigmoid(behind)
    gradients = by_pair.sum(1)
    gradients[:, :width] -= by_pair.sum(2)
    return gradients, (weights * softplus(behind)).sum((1, 2))


def _gain_gaps(scores: Array, gains: Array, filled: Array) -> Array:
    """max(G_i - G_j, 0) if both places are filled, else 0, shape (B, L, N)."""
    every = np.zeros_like(gains, shape=scores.shape)
    every[:, : gains.shape[1]] = gains
    gaps: Array = np.maximum(gains[:, :, None] - every[:, None, :], 0) * filled[:, None, :]
    return gaps


def _discount_gaps(scores: Array, filled: Array, width: int) -> Array:
    """Absolute differences of the discounts at the ranks of the scores, shape (B, L, N)."""
    best_first = np.argsort(np.where(filled, -scores, np.inf), axis=1, kind="stable")
    discounts = 1 / np.log2(2 + np.argsort(best_first, axis=1, kind="stable"))
    return np.abs(discounts[:, :width, None] - discounts[:, None, :])
