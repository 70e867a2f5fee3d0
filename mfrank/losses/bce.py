"""Binary cross-entropy: positives score above 0, negatives below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays import Array
from mfrank.losses.contract import Gradients, Lists, Loss, Memory


@dataclass(frozen=True)
class BCE(Loss):
    """Mean over positives of log(1 + exp(-h_i)) plus mean over negatives of log(1 + exp(h_j))."""

    decomposes: ClassVar[bool] = True

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        one = np.ones_like(positives, shape=(len(positives), 1))
        above = lists.sums.ramps("softplus", negatives, lists.negative_weights, 0 * one)
        below = lists.sums.ramps("softplus", -positives, lists.positive_weights, 0 * one)
        loss = below.sums[:, 0] + above.sums[:, 0]
        return Gradients(-below.gradients(one)[1], above.gradients(one)[1], loss)
