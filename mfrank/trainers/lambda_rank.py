"""LambdaRank (Burges et al. 2006): pairs weighed by what swapping them changes in NDCG."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.amounts import check_above_zero
from mfrank.lists import Array, Lists
from mfrank.pairs import sums_over_swaps
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

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`."""
        return n_likes * (n_likes + n_others)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        return Slopes(*sums_over_swaps(lists, likes, others, self.steepness))
