"""RankNet (Burges et al. 2005): every item above every less relevant one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists
from mfrank.logistic import sigmoid, softplus
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["RankNet"]


@dataclass(frozen=True)
class RankNet(Loss):
    """Mean over pairs with G_i > G_j of log(1 + exp(h_j - h_i)).

    Where all gains are equal the pairs are those of likes with others, and this is BPR.
    """

    def numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.numbers`."""
        return n_likes * (n_likes + n_others)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        beside = np.broadcast_to(lists.others[:, None, :], (*likes.shape, others.shape[1]))
        above = (lists.gains[:, :, None] > lists.gains[:, None, :]) & lists.likes[:, None, :]
        wins = np.concatenate([above, beside & lists.likes[:, :, None]], axis=2)
        lead = np.concatenate([likes, others], axis=1)[:, None, :] - likes[:, :, None]
        weights = wins / wins.sum((1, 2), keepdims=True).clip(1)
        slope = weights * sigmoid(lead)
        down, width = slope.sum(1), likes.shape[1]
        loss = (weights * softplus(lead)).sum((1, 2))
        return Slopes(down[:, :width] - slope.sum(2), down[:, width:], loss)
