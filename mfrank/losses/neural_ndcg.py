"""NeuralNDCG (Pobrotyn & Bialobrzeski 2021): NDCG of softly sorted lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array, check_above_zero, check_count
from mfrank.losses.contract import Gradients, Lists, Loss, Memory

_LISTS = 4
_MOST_ROUNDS = 10_000
"""The C++ extension has one soft permutation per thread in memory, not one per list; batches are
assumed to have at least this many lists per thread."""


@dataclass(frozen=True)
class NeuralNDCG(Loss):
    """-sum_k (P G)_k / (Z log2(1 + k)), P a soft permutation of the list (NeuralSort).

    Row k of P is softmax_j(((n + 1 - 2 k) h_j - sum_l |h_j - h_l|) / temperature), which selects
    the k-th largest item for temperature -> 0. Sinkhorn's scaling then normalizes columns and rows
    to sum 1, in turn. Memory is quadratic in the length of the list, for every list of a batch (for
    one list per thread in the C++ extension), so lists must be samples.

    Parameters
    ----------
    temperature : float, default 1.0
        > 0, of the softmax. The default is the authors'.
    rounds : int, default 10
        Rounds of Sinkhorn's scaling, from 0 to 10,000, each of which is kept. The default is the
        authors'.
    """

    temperature: float = 1.0
    rounds: int = 10

    def __post_init__(self) -> None:
        check_above_zero(temperature=self.temperature)
        check_count("rounds", self.rounds, 0, _MOST_ROUNDS)

    def largest_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_array`."""
        places = n_positives + n_negatives
        return max(places, places**2 // _LISTS)

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`: one soft permutation per list."""
        return (n_positives + n_negatives) ** 2

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        scores, width = np.concatenate([positives, negatives], axis=1), positives.shape[1]
        gradients, loss = lists.sums.soft_ndcg(
            scores, lists.filled, lists.gains, lists.ideal, self.temperature, self.rounds
        )
        return Gradients(gradients[:, :width], gradients[:, width:], loss)
