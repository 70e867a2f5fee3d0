"""SmoothAP (Brown et al. 2020): average precision at ranks that are smooth in the scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.amounts import check_above_zero
from mfrank.lists import Array, Lists
from mfrank.logistic import sigmoid
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["SmoothAP"]


@dataclass(frozen=True)
class SmoothAP(Loss):
    """1 - mean_i (1 + sum_{likes j != i} S_ij) / (1 + sum_{all j != i} S_ij).

    S_ij = sigmoid((h_j - h_i) / temperature).

    Parameters
    ----------
    temperature : float, default 0.01
        The paper's; for cosine scores.
    """

    temperature: float = 0.01

    def __post_init__(self) -> None:
        check_above_zero(temperature=self.temperature)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        scores = np.concatenate([likes, others], axis=1)
        filled = np.concatenate([lists.likes, lists.others], axis=1)
        width = likes.shape[1]
        above = sigmoid((scores[:, None, :] - likes[:, :, None]) / self.temperature)
        above = above * filled[:, None, :]
        above[:, np.arange(width), np.arange(width)] = 0
        among_likes, among_all = 1 + above[:, :, :width].sum(2), 1 + above.sum(2)
        weights = lists.like_shares
        loss = 1 - (weights * among_likes / among_all).sum(1)
        by_above = np.repeat((among_likes / among_all**2)[:, :, None], scores.shape[1], axis=2)
        by_above[:, :, :width] -= (1 / among_all)[:, :, None]
        slope = weights[:, :, None] * by_above * above * (1 - above) / self.temperature
        down = slope.sum(1)
        return Slopes(down[:, :width] - slope.sum(2), down[:, width:], loss)
