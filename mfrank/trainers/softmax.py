"""Softmax cross-entropy over the list, and over a sample of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.amounts import check_above_zero
from mfrank.lists import Array, Lists
from mfrank.logistic import softplus
from mfrank.scoring import Scores
from mfrank.shares import list_shares, shares
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["SampledSoftmax", "Softmax"]


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross-entropy of softmax(h) over the whole list and the gains as shares of their sum."""

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        targets = lists.gains / lists.gains.sum(1, keepdims=True)
        total, on_likes, on_others = list_shares(lists, likes, others)
        loss = total[:, 0] - (targets * likes).sum(1)
        return Slopes(on_likes - targets, on_others, loss)


@dataclass(frozen=True)
class SampledSoftmax(Loss):
    """Cross-entropy of each liked item alone against a sample of the others, corrected for it.

    z = h / temperature - log q, where q is how often an item was expected in the sample (Bengio &
    Senecal 2008); the mean over liked items of log(exp(z_i) + sum_j exp(z_j)) - z_i, with q_i = 1.

    Parameters
    ----------
    temperature : float, default 1.0
        What scores are divided by, > 0.
    """

    scores: ClassVar[Scores] = "cosine"

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(temperature=self.temperature)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        z = others if self.temperature == 1 else others / self.temperature
        total, chances = shares(z, lists.others, lists.log_chances, lists.n_threads)
        lead = total - likes / self.temperature
        weights = lists.like_shares
        missed = np.exp(-softplus(-lead))  # 1 - softmax of the like itself
        slope = weights * missed / self.temperature
        loss = (weights * softplus(lead)).sum(1)
        on_others = chances * slope.sum(1, keepdims=True).astype(chances.dtype, copy=False)
        return Slopes(-slope, on_others, loss)
