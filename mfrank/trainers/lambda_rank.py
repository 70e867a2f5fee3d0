"""LambdaRank (Burges et al. 2006): pairs weighed by what swapping them changes in NDCG."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.amounts import check_above_zero
from mfrank.lists import Array, Lists
from mfrank.logistic import sigmoid, softplus
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["LambdaRank"]


@dataclass(frozen=True)
class LambdaRank(Loss):
    """Sum over pairs with G_i > G_j of |dNDCG_ij| log(1 + exp(steepness (h_j - h_i))).

    |dNDCG_ij| = |G_i - G_j| |1/log2(1 + r_i) - 1/log2(1 + r_j)| / Z at the current ranks r, taken
    for a constant: the slopes are no derivative of any metric, and no descent is promised.

    Parameters
    ----------
    steepness : float, default 1.0
        Of the logistic function, > 0.
    """

    steepness: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(steepness=self.steepness)

    def numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.numbers`."""
        return n_likes * (n_likes + n_others)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        scores = np.concatenate([likes, others], axis=1)
        weights = self._changes(lists, scores)
        lead = self.steepness * (scores[:, None, :] - likes[:, :, None])
        slope = self.steepness * weights * sigmoid(lead)
        down, width = slope.sum(1), likes.shape[1]
        loss = (weights * softplus(lead)).sum((1, 2))
        return Slopes(down[:, :width] - slope.sum(2), down[:, width:], loss)

    @staticmethod
    def _changes(lists: Lists, scores: Array) -> Array:
        """|dNDCG| of each like and each item of a smaller gain, shape (B, L, L + M)."""
        filled = lists.filled
        gains = np.concatenate([lists.gains, np.zeros(lists.others.shape, like=scores)], axis=1)
        best_first = np.argsort(np.where(filled, -scores, np.inf), axis=1, kind="stable")
        ranks = 1 + np.argsort(best_first, axis=1, kind="stable")
        discounts = 1 / np.log2(1 + ranks)
        width = lists.gains.shape[1]
        gained = np.maximum(lists.gains[:, :, None] - gains[:, None, :], 0)
        moved = np.abs(discounts[:, :width, None] - discounts[:, None, :])
        changes: Array = gained * moved * filled[:, None, :] / lists.ideal[:, None, None]
        return changes
