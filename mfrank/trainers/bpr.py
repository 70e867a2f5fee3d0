"""BPR (Rendle et al. 2009): every liked item above every other."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.lists import Array, Lists
from mfrank.ramps import ramps
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["BPR"]


@dataclass(frozen=True)
class BPR(Loss):
    """Mean over pairs of a liked item i and another j of log(1 + exp(h_j - h_i)).

    RankNet (Burges et al. 2005) on binary relevance is the same loss.
    """

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`."""
        return n_likes * n_others

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        pairs = ramps("softplus", others, lists.other_shares, likes, lists.n_threads)
        on_likes, on_others = pairs.slopes(lists.like_shares)
        return Slopes(on_likes, on_others, (lists.like_shares * pairs.sums).sum(1))
