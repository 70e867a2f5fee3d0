"""SmoothAP (Brown et al. 2020): average precision at smooth approximations of the ranks."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.arrays import Array, check_above_zero
from mfrank.losses.contract import Gradients, Lists, Loss, Memory


@dataclass(frozen=True)
class SmoothAP(Loss):
    """1 - mean_i (1 + sum_{positives j != i} S_ij) / (1 + sum_{all j != i} S_ij).

    i runs over the positives, and S_ij = sigmoid((h_j - h_i) / temperature).

    Parameters
    ----------
    temperature : float, default 0.01
        > 0. The default is the paper's, for cosine scores.
    """

    temperature: float = 0.01

    def __post_init__(self) -> None:
        check_above_zero(temperature=self.temperature)

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return n_positives * (n_positives + n_negatives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        factor = 1 / self.temperature
        positives_above = lists.sums.ramps(
            "sigmoid", factor * positives, lists.positives, factor * positives
        )
        negatives_above = lists.sums.ramps(
            "sigmoid", factor * negatives, lists.negatives, factor * positives
        )
        # 1 less the item's own term, sigmoid(0) = 0.5.
        among_positives = 0.5 + positives_above.sums
        among_all = among_positives + negatives_above.sums
        weights = lists.positive_weights
        loss = 1 - (weights * among_positives / among_all).sum(1)
        by_all = factor * weights * among_positives / among_all**2
        up, down = positives_above.gradients(by_all - factor * weights / among_all)
        behind, on_negatives = negatives_above.gradients(by_all)
        return Gradients(up + down + behind, on_negatives, loss)
