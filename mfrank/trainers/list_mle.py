"""ListMLE (Xia et al. 2008): the likelihood of an order under the Plackett-Luce model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.amounts import check_count
from mfrank.lists import Array, Lists
from mfrank.logistic import log_sums_so_far
from mfrank.shares import shares
from mfrank.streams import key_of, random_units
from mfrank.trainers import Loss, Memory, Sizes, Slopes

__all__ = ["ListMLE"]


@dataclass(frozen=True)
class ListMLE(Loss):
    """-log of the chance to draw the likes first, the most relevant before the others.

    One item after the other is drawn without replacement with chances softmax(h). Likes of equal
    gains have no order: every batch shuffles them, so that none is asked of the scores. Nor have
    other items, whose draws are left out.

    Parameters
    ----------
    random_state : int, default 0
        Seed of the shuffling.
    """

    random_state: int = 0

    def __post_init__(self) -> None:
        check_count("random_state", self.random_state, 0)

    def memory(self, sizes: Sizes) -> Memory:
        """How many batches have been shuffled."""
        return {"batches": np.zeros(1, dtype=np.int64)}

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        key = key_of(self.random_state, int(memory["batches"][0]))
        memory["batches"] += 1
        places = np.arange(lists.gains.size, like=lists.gains).reshape(lists.gains.shape)
        shuffled = places[:, :1] + np.argsort(random_units(key, places), axis=1, kind="stable")
        by_gain = np.argsort(-np.take(lists.gains, shuffled), axis=1, kind="stable")
        order = np.take(shuffled, places[:, :1] + by_gain)  # of all places, list after list
        filled = np.take(lists.likes, order)
        scores = np.where(filled, np.take(likes, order), -np.inf)
        # Log of the sum over what is left at each draw: the likes from there on and all others.
        rest, of_others = shares(others, lists.others, n_threads=lists.n_threads)
        left = np.logaddexp(log_sums_so_far(scores[:, ::-1])[:, ::-1], rest)
        loss = np.where(filled, left - np.where(filled, scores, 0), 0).sum(1)
        # Log of the sum over the draws up to each of 1 / what was left.
        chances = log_sums_so_far(np.where(filled, -left, -np.inf))
        ordered = np.where(filled, np.exp(np.minimum(scores + chances, 700)) - 1, 0)
        slope = np.empty(likes.size, likes.dtype, like=likes)
        slope[order] = ordered
        drawn_before = np.exp(np.minimum(rest + chances[:, -1:], 700)).astype(of_others.dtype)
        return Slopes(slope.reshape(likes.shape), of_others * drawn_before, loss)
