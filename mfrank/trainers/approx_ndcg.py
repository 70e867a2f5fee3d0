"""ApproxNDCG (Qin, Liu & Li 2010): NDCG at ranks that are smooth in the scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.amounts import check_above_zero
from mfrank.lists import Array, Lists
from mfrank.ramps import ramps
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["ApproxNDCG"]


@dataclass(frozen=True)
class ApproxNDCG(Loss):
    """-sum_i G_i / (Z log2(1 + r_i)), r_i = 1 + sum_{j != i} sigmoid(sharpness (h_j - h_i)).

    Parameters
    ----------
    sharpness : float, default 1.0
        The larger, the nearer r_i to the rank. The default is that of the SONG authors' code.
    """

    sharpness: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(sharpness=self.sharpness)

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`."""
        return n_likes * (n_likes + n_others)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        scores = np.concatenate([likes, others], axis=1)
        filled = lists.filled
        width, pace = likes.shape[1], self.sharpness
        above = ramps("sigmoid", pace * scores, filled, pace * likes, lists.n_threads)
        places = 2 + above.sums - 0.5  # 1 + rank: a like itself counts a half in its own sum
        worth = lists.gains / lists.ideal[:, None]
        loss = -(worth / np.log2(places)).sum(1)
        by_rank = worth / (np.log(2) * places * np.log2(places) ** 2)
        on_likes, on_all = above.slopes(pace * by_rank)
        return Slopes(on_likes + on_all[:, :width], on_all[:, width:], loss)
