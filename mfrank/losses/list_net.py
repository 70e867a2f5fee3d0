"""ListNet (Cao et al. 2007): cross-entropy of softmaxes of relevances and scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array
from mfrank.losses.contract import Gradients, Lists, Loss, Memory, count_filled, where_filled
from mfrank.losses.sums.softmax_sums import list_softmax


@dataclass(frozen=True)
class ListNet(Loss):
    """Cross-entropy of the target softmax(y) and softmax(h) over the list, y = log2(1 + gain).

    Negatives have y = 0, hence targets above 0. On long lists with few positives, the loss
    therefore mostly makes scores equal.
    """

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        relevance = np.log2(1 + lists.gains)
        most = relevance.max(axis=1, keepdims=True)
        powers, of_negative = np.exp(relevance - most) * lists.positives, np.exp(-most)
        denominator = powers.sum(1, keepdims=True) + of_negative * count_filled(lists.negatives)
        targets, of_negative = (
            powers / denominator,
            (of_negative / denominator).astype(negatives.dtype, copy=False),
        )
        total, on_positives, on_negatives = list_softmax(lists, positives, negatives)
        negatives = where_filled(lists.negatives, negatives)
        loss = total[:, 0] - (targets * positives).sum(1) - of_negative[:, 0] * negatives.sum(1)
        return Gradients(
            on_positives - targets, where_filled(lists.negatives, on_negatives - of_negative), loss
        )
