"""RankNet (Burges et al. 2005): every item above every less relevant one."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.lists import Array, Lists
from mfrank.pairs import mean_over_pairs
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["RankNet"]


@dataclass(frozen=True)
class RankNet(Loss):
    """Mean over pairs with G_i > G_j of log(1 + exp(h_j - h_i)).

    Where all gains are equal the pairs are those of likes with others, and this is BPR.
    """

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`."""
        return n_likes * (n_likes + n_others)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        return Slopes(*mean_over_pairs(lists, likes, others))
