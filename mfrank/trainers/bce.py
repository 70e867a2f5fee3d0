"""Binary cross-entropy: a liked item scores above 0, another below."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.lists import Array, Lists
from mfrank.logistic import sigmoid, softplus
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["BCE"]


@dataclass(frozen=True)
class BCE(Loss):
    """Mean of log(1 + exp(-h_i)) over liked items plus that of log(1 + exp(h_j)) over others."""

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        on_likes, on_others = lists.like_shares, lists.other_shares
        loss = (on_likes * softplus(-likes)).sum(1) + (on_others * softplus(others)).sum(1)
        return Slopes(-on_likes * sigmoid(-likes), on_others * sigmoid(others), loss)
