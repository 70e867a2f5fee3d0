"""A loss of one's own, as docs/losses.md has it, in a module that can be imported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mfrank

Array = NDArray[np.floating]


@dataclass(frozen=True)
class OwnHinge(mfrank.Loss):
    """Mean over pairs of max(0, margin + h_j - h_i)."""

    margin: float = 1.0

    def gradients(
        self, lists: mfrank.Lists, positives: Array, negatives: Array, memory: dict[str, Array]
    ) -> mfrank.Gradients:
        pairs = lists.sums.ramps(
            "hinge", negatives, lists.negative_weights, positives - self.margin
        )
        by_positives, by_negatives = pairs.gradients(lists.positive_weights)
        loss = (lists.positive_weights * pairs.sums).sum(1)
        return mfrank.Gradients(by_positives, by_negatives, loss)
