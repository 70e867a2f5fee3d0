"""LambdaRank (Burges et al. 2006): pairs weighted by the change of NDCG when swapped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array, check_above_zero
from mfrank.losses.contract import Gradients, Lists, Loss, Memory


@dataclass(frozen=True)
class LambdaRank(Loss):
    """Sum over pairs with G_i > G_j of |dNDCG_ij| log(1 + exp(steepness (h_j - h_i))).

    |dNDCG_ij| = |G_i - G_j| |1/log2(1 + r_i) - 1/log2(1 + r_j)| / Z at the current ranks r is
    treated as a constant. The gradients are not the gradients of any metric, so convergence is not
    guaranteed.

    Parameters
    ----------
    steepness : float, default 1.0
        Factor > 0 of the score differences.
    """

    steepness: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(steepness=self.steepness)

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return n_positives * (n_positives + n_negatives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        scores, width = np.concatenate([positives, negatives], axis=1), positives.shape[1]
        gradients, loss = lists.sums.pair_losses(
            scores, lists.gains, lists.filled, 1 / lists.ideal, self.steepness
        )
        return Gradients(gradients[:, :width], gradients[:, width:], loss)
