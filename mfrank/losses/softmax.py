"""Softmax cross-entropy over complete lists, and over samples of the negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays import Array, check_above_zero
from mfrank.losses.contract import Gradients, Lists, Loss, Memory, Scores
from mfrank.losses.sums.softmax_sums import list_softmax, softplus


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross-entropy of the gains, normalized to sum 1, and softmax(h) over the whole list."""

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        targets = lists.gains / lists.gains.sum(1, keepdims=True)
        total, on_positives, on_negatives = list_softmax(lists, positives, negatives)
        loss = total[:, 0] - (targets * positives).sum(1)
        return Gradients(on_positives - targets, on_negatives, loss)


@dataclass(frozen=True)
class SampledSoftmax(Loss):
    """Cross-entropy of each positive against sampled negatives, corrected for the sampling.

    The mean over positives i of log(exp(z_i) + sum_j exp(z_j)) - z_i, with j over negatives, z = h
    / temperature - log q, q_i = 1, and q_j the expected number of draws of j (Bengio & Senecal
    2008).

    Parameters
    ----------
    temperature : float, default 1.0
        Divides the scores, > 0.
    """

    scores: ClassVar[Scores] = "cosine"
    decomposes: ClassVar[bool] = True

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(temperature=self.temperature)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        z = negatives if self.temperature == 1 else negatives / self.temperature
        total, probabilities = lists.sums.softmax(z, lists.negatives, lists.log_expected_counts)
        lead = total - positives / self.temperature
        weights = lists.positive_weights
        missed = np.exp(-softplus(-lead))  # 1 - softmax of the positive
        by_lead = weights * missed / self.temperature
        loss = (weights * softplus(lead)).sum(1)
        probabilities *= by_lead.sum(1, keepdims=True).astype(probabilities.dtype, copy=False)
        return Gradients(-by_lead, probabilities, loss)
