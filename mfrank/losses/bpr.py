"""BPR (Rendle et al. 2009): every positive above every negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mfrank.arrays import Array
from mfrank.losses.contract import Gradients, Lists, Loss, Memory


@dataclass(frozen=True)
class BPR(Loss):
    """Mean over pairs of a positive i and a negative j of log(1 + exp(h_j - h_i)).

    RankNet (Burges et al. 2005) on binary relevance is the same loss.
    """

    decomposes: ClassVar[bool] = True

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return n_positives * n_negatives

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        pairs = lists.sums.ramps("softplus", negatives, lists.negative_weights, positives)
        on_positives, on_negatives = pairs.gradients(lists.positive_weights)
        return Gradients(on_positives, on_negatives, (lists.positive_weights * pairs.sums).sum(1))
