"""SONG (Qiu et al. 2022): NDCG by stochastic compositional optimisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.averages import averaged
from mfrank.hinge_ranks import HingeRanks
from mfrank.lists import Array, Lists
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["SONG"]


@dataclass(frozen=True)
class SONG(Loss):
    """-sum_i G_i / (Z_u log2(1 + N_u g_i)) over the likes of each user: at most its NDCG, negated.

    g_i is the smooth rank of :class:`mfrank.hinge_ranks.HingeRanks`, as a part of the list. Its
    estimate from a sample would bias the logarithm; a moving average of the estimates stands in for
    it, one number for each observed cell. (From 0, as printed, slopes would begin infinite.)

    Parameters
    ----------
    decay : float, default 0.1
        Weight gamma_0 of a new estimate in the average, in (0, 1] (the paper's for MovieLens-20M).
    margin : float, default 1.0
        c > 0 of the squared hinge.
    """

    decay: float = 0.1
    margin: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay must be in (0, 1], got {self.decay}")
        if not self.margin > 0:
            raise ValueError(f"margin must be above 0, got {self.margin}")

    def memory(self, n_cells: int, n_users: int) -> Memory:
        """Mean g of each cell; NaN until its first estimate."""
        return {"means": np.full(n_cells, np.nan)}

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        ranks = HingeRanks.of(lists, likes, others, self.margin)
        filled, n_items = lists.likes, lists.n_items[:, None]
        means = averaged(memory["means"], lists.cells, ranks.means, self.decay, filled)
        places = 1 + n_items * means
        # The sampled likes stand for all.
        worth = lists.gains / lists.ideal[:, None] * lists.like_shares * lists.n_likes[:, None]
        by_mean = worth * n_items / (np.log(2) * places * np.log2(places) ** 2)
        return Slopes(*ranks.slopes(by_mean), -(worth / np.log2(places)).sum(1))
