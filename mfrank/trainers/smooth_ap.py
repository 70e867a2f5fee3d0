"""SmoothAP (Brown et al. 2020): average precision at ranks that are smooth in the scores."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.amounts import check_above_zero
from mfrank.lists import Array, Lists
from mfrank.ramps import ramps
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

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`."""
        return n_likes * (n_likes + n_others)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        cold = 1 / self.temperature
        likes_above = ramps("sigmoid", cold * likes, lists.likes, cold * likes, lists.n_threads)
        others_above = ramps("sigmoid", cold * others, lists.others, cold * likes, lists.n_threads)
        # A like itself counts a half in its own sum.
        among_likes = 0.5 + likes_above.sums
        among_all = among_likes + others_above.sums
        weights = lists.like_shares
        loss = 1 - (weights * among_likes / among_all).sum(1)
        by_all = cold * weights * among_likes / among_all**2
        up, down = likes_above.slopes(by_all - cold * weights / among_all)
        behind, on_others = others_above.slopes(by_all)
        return Slopes(up + down + behind, on_others, loss)
