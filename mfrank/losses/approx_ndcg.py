"""ApproxNDCG (Qin, Liu & Li 2010): NDCG at smooth approximations of the ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array, check_above_zero
from mfrank.losses.contract import Gradients, Lists, Loss, Memory


@dataclass(frozen=True)
class ApproxNDCG(Loss):
    """-sum_i G_i / (Z log2(1 + r_i)), r_i = 1 + sum_{j != i} sigmoid(sharpness (h_j - h_i)).

    Parameters
    ----------
    sharpness : float, default 1.0
        The larger, the closer r_i is to the rank. The default is from the SONG authors' code.
    """

    sharpness: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(sharpness=self.sharpness)

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return n_positives * (n_positives + n_negatives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        scores = np.concatenate([positives, negatives], axis=1)
        filled = lists.filled
        width, factor = positives.shape[1], self.sharpness
        above = lists.sums.ramps("sigmoid", factor * scores, filled, factor * positives)
        places = 2 + above.sums - 0.5  # 1 + r_i, less the item's own term, sigmoid(0) = 0.5
        gains = lists.gains / lists.ideal[:, None]
        loss = -(gains / np.log2(places)).sum(1)
        by_rank = gains / (np.log(2) * places * np.log2(places) ** 2)
        on_positives, on_all = above.gradients(factor * by_rank)
        return Gradients(on_positives + on_all[:, :width], on_all[:, width:], loss)
