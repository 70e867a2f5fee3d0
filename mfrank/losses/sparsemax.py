"""The sparsemax loss (Martins & Astudillo 2016): a softmax that is exactly 0 far from the top."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array
from mfrank.losses.contract import Gradients, Lists, Loss, Memory


@dataclass(frozen=True)
class Sparsemax(Loss):
    """Mean over positives i of (sum_S (h^2 - t^2) + 1) / 2 - h_i.

    sparsemax(h) = max(h - t, 0) is the projection of the scores onto the simplex, and S is its
    support. The gradient of a negative outside S is 0. The loss is 0 if a list has one positive
    whose score exceeds all negatives by at least 1.
    """

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        scores = np.concatenate([positives, negatives], axis=1)
        tops, values, points = lists.sums.project(scores, lists.filled)
        width, targets = positives.shape[1], lists.positive_weights
        mean = (targets * np.where(lists.positives, positives - tops, 0)).sum(1)
        return Gradients(points[:, :width] - targets, points[:, width:], values - mean)
