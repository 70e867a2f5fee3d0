"""The sparsemax loss (Martins & Astudillo 2016): a softmax that gives up on distant items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists
from mfrank.simplex import project
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
        scores = np.concatenate([likes, others], axis=1)
        tops, values, shares = project(scores, lists.filled, lists.n_threads)
        width, targets = likes.shape[1], lists.like_shares
        wanted = (targets * np.where(lists.likes, likes - tops, 0)).sum(1)
        return Slopes(shares[:, :width] - targets, shares[:, width:], values - wanted)
