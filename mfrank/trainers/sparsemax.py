"""The sparsemax loss (Martins & Astudillo 2016): a softmax that gives up on distant items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["Sparsemax"]


@dataclass(frozen=True)
class Sparsemax(Loss):
    """Mean over likes i of  (sum_S (h^2 - t^2) + 1) / 2 - h_i.

    sparsemax(h) = max(h - t, 0) is the projection of the scores to the simplex, S where it is not
    0. An item that is far enough behind has no slope at all. The loss is 0 where the only like is 1
    ahead of all others.
    """

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        filled = lists.filled
        scores = np.where(filled, np.concatenate([likes, others], axis=1), -np.inf)
        best = scores.max(axis=1, keepdims=True)
        scores = np.where(filled, scores - best, -np.inf)  # Only differences count.
        threshold = self._threshold(scores)
        shares = np.maximum(scores - threshold, 0)
        kept = np.where(shares > 0, scores**2 - threshold**2, 0).sum(1)
        width, targets = likes.shape[1], lists.like_shares
        wanted = (targets * np.where(lists.likes, scores[:, :width], 0)).sum(1)
        return Slopes(shares[:, :width] - targets, shares[:, width:], (kept + 1) / 2 - wanted)

    @staticmethod
    def _threshold(scores: Array) -> Array:
        """T with sum max(scores - t, 0) = 1 in each row, shape (B, 1)."""
        falling = -np.sort(-scores, axis=1)
        sums = np.cumsum(np.where(np.isfinite(falling), falling, 0), axis=1)
        places = np.arange(1, scores.shape[1] + 1, like=scores)
        inside = np.isfinite(falling) & (
            1 + places * np.where(np.isfinite(falling), falling, 0) > sums
        )
        n_inside = inside.sum(axis=1, keepdims=True).clip(1)  # none only of what is not a number
        threshold: Array = (np.take_along_axis(sums, n_inside - 1, axis=1) - 1) / n_inside
        return threshold
