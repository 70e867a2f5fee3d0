"""ListNet (Cao et al. 2007): the softmax of the scores against that of the relevances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists
from mfrank.shares import shares
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["ListNet"]


@dataclass(frozen=True)
class ListNet(Loss):
    """Cross-entropy of softmax(h) and softmax(y) over the list, y = log2(1 + gain).

    Other items have y = 0 and so a share of the target too: on long lists of few likes the loss
    mostly levels scores.
    """

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        scores = np.concatenate([likes, others], axis=1)
        filled = np.concatenate([lists.likes, lists.others], axis=1)
        nothing = np.zeros(others.shape, like=others)
        relevance = np.concatenate([np.log2(1 + lists.gains), nothing], axis=1)
        wanted = shares(relevance, filled, n_threads=lists.n_threads).values
        total, chances = shares(scores, filled, n_threads=lists.n_threads)
        slope = chances - wanted
        width = likes.shape[1]
        loss = total[:, 0] - (wanted * np.where(filled, scores, 0)).sum(1)
        return Slopes(slope[:, :width], slope[:, width:], loss)
