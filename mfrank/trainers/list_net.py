"""ListNet (Cao et al. 2007): the softmax of the scores against that of the relevances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists, count_filled, where_filled
from mfrank.shares import list_shares
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
        relevance = np.log2(1 + lists.gains)
        most = relevance.max(axis=1, keepdims=True)
        worth, of_other = np.exp(relevance - most) * lists.likes, np.exp(-most)
        whole = worth.sum(1, keepdims=True) + of_other * count_filled(lists.others)
        wanted, of_other = worth / whole, (of_other / whole).astype(others.dtype, copy=False)
        total, on_likes, on_others = list_shares(lists, likes, others)
        others = where_filled(lists.others, others)
        loss = total[:, 0] - (wanted * likes).sum(1) - of_other[:, 0] * others.sum(1)
        return Slopes(on_likes - wanted, where_filled(lists.others, on_others - of_other), loss)
