"""RankNet (Burges et al. 2005): every item above every less relevant one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array
from mfrank.losses.contract import Gradients, Lists, Loss, Memory


@dataclass(frozen=True)
class RankNet(Loss):
    """Mean over pairs with G_i > G_j of log(1 + exp(h_j - h_i)).

    If all gains are equal, the pairs are all (positive, negative) pairs, and this is BPR.
    """

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return n_positives * (n_positives + n_negatives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        scores, width = np.concatenate([positives, negatives], axis=1), positives.shape[1]
        gradients, loss = lists.sums.pair_losses(scores, lists.gains, lists.filled)
        return Gradients(gradients[:, :width], gradients[:, width:], loss)
