"""BPR (Rendle et al. 2009): every liked item above every other."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.lists import Array, Lists
from mfrank.logistic import sigmoid, softplus
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["BPR"]


@dataclass(frozen=True)
class BPR(Loss):
    """Mean over pairs of a liked item i and another j of log(1 + exp(h_j - h_i)).

    RankNet (Burges et al. 2005) on binary relevance is the same loss.
    """

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        weights = lists.like_shares[:, :, None] * lists.other_shares[:, None, :]
        lead = others[:, None, :] - likes[:, :, None]
        slope = weights * sigmoid(lead)
        return Slopes(-slope.sum(2), slope.sum(1), (weights * softplus(lead)).sum((1, 2)))
