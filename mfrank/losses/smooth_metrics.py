"""Smooth approximations of metrics: ApproxNDCG, SmoothAP, NeuralNDCG."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array, check_above_zero, check_count
from mfrank.losses.contract import Gradients, Lists, Loss, Memory


@dataclass(frozen=True)
class ApproxNDCG(Loss):
    """-sum_i G_i / (Z log2(1 + r_i)), r_i = 1 + sum_{j != i} sigmoid(sharpness (h_j - h_i)).

    NDCG at smooth approximations of the ranks (Qin, Liu & Li 2010).

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


@dataclass(frozen=True)
class SmoothAP(Loss):
    """1 - mean_i (1 + sum_{positives j != i} S_ij) / (1 + sum_{all j != i} S_ij).

    i runs over the positives, and S_ij = sigmoid((h_j - h_i) / temperature): one minus the average
    precision at smooth approximations of the ranks (Brown et al. 2020).

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


_LISTS_PER_THREAD = 4
"""The C++ extension has one soft permutation per thread in memory, not one per list; batches are
assumed to have at least this many lists per thread."""

_MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class NeuralNDCG(Loss):
    """-sum_k (P G)_k / (Z log2(1 + k)), P a soft permutation of the list (NeuralSort).

    NDCG of softly sorted lists (Pobrotyn & Bialobrzeski 2021). Row k of P is softmax_j(((n + 1 - 2
    k) h_j - sum_l |h_j - h_l|) / temperature), which selects the k-th largest item for temperature
    -> 0. Sinkhorn's scaling then normalizes columns and rows to sum 1, in turn. Memory is quadratic
    in the length of the list, for every list of a batch (for one list per thread in the C++
    extension), so lists must be samples.

    Parameters
    ----------
    temperature : float, default 1.0
        > 0, of the softmax. The default is the authors'.
    rounds : int, default 10
        Rounds of Sinkhorn's scaling, from 0 to 10,000; memory grows with them. The default is the
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
        return max(places, places**2 // _LISTS_PER_THREAD)

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
