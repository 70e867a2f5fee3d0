"""SONG (Qiu et al. 2022): NDCG by stochastic compositional optimisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.amounts import check_above_zero
from mfrank.averages import averaged, check_decay
from mfrank.choices import check_choice
from mfrank.hinge_ranks import HingeRanks, discounted_gains
from mfrank.lists import Array, Lists
from mfrank.squared_hinges import hinge_numbers
from mfrank.trainers import Loss, Memory, Sizes, Slopes

__all__ = ["SONG"]


@dataclass(frozen=True)
class SONG(Loss):
    """-sum_i G_i / (Z_u log2(1 + N_u g_i)) over the likes of each user: at most its NDCG, negated.

    g_i is the smooth rank of :class:`mfrank.hinge_ranks.HingeRanks`, as a part of the list. Its
    estimate from a sample would bias the logarithm; a moving average of the estimates stands in for
    it, one number for each observed cell. Whole lists need none: there ``decay=1`` is the exact
    loss, without any memory, in O(N log N) a user.

    Parameters
    ----------
    decay : float, default 0.1
        Weight gamma_0 of a new estimate in the average, in (0, 1] (the paper's for MovieLens-20M).
    margin : float, default 1.0
        c > 0 of the squared hinge.
    pooled : bool, default False
        Estimate g by the mean of the whole sample, as the authors' code does. Likes are a far
        larger part of the sample than of the list, and score high: such ranks are too large, the
        more the better the model.
    from_zero : bool, default False
        Begin the averages at 0, as the authors do (the paper's Algorithm 1, by which the very first
        slopes would even be infinite). After v visits an average lacks (1 - decay)^v of itself, so
        that the slopes of cells that were seldom visited are many times too large.
    """

    decay: float = 0.1
    margin: float = 1.0
    pooled: bool = False
    from_zero: bool = False

    def __post_init__(self) -> None:
        check_decay(self.decay)
        check_above_zero(margin=self.margin)
        check_choice("pooled", self.pooled, (True, False))
        check_choice("from_zero", self.from_zero, (True, False))

    def memory(self, sizes: Sizes) -> Memory:
        """Mean g of each cell, NaN until its first estimate; nothing for a decay of 1."""
        if self.decay == 1:
            return {}
        return {"means": np.full(sizes.cells, 0.0 if self.from_zero else np.nan)}

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`."""
        return hinge_numbers(n_likes + n_others, n_likes)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        ranks = HingeRanks.of(lists, likes, others, self.margin, self.pooled)
        kept = memory.get("means")
        means = averaged(kept, lists.cells, ranks.means, self.decay, lists.likes)
        gained, by_mean = discounted_gains(lists, means)
        return Slopes(*ranks.slopes(by_mean), -gained.sum(1))
