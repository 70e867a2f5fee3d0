"""NeuralNDCG (Pobrotyn & Bialobrzeski 2021): NDCG of a list sorted softly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["NeuralNDCG"]


@dataclass(frozen=True)
class NeuralNDCG(Loss):
    """-sum_k (P G)_k / (Z log2(1 + k)), P a soft permutation of the list (NeuralSort).

    Row k of P is softmax_j(((n + 1 - 2 k) h_j - sum_l |h_j - h_l|) / temperature), which tends to
    the k-th largest item; columns and rows are then brought to sum 1 in turn (Sinkhorn). Memory
    grows with the square of the list: for samples only.

    Parameters
    ----------
    temperature : float, default 1.0
        Of the softmax (the authors').
    rounds : int, default 10
        Of Sinkhorn's scaling, >= 0 (the authors').
    """

    temperature: float = 1.0
    rounds: int = 10

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature}")
        if self.rounds < 0:
            raise ValueError(f"rounds must be at least 0, got {self.rounds}")

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        filled = np.concatenate([lists.likes, lists.others], axis=1)
        scores = np.where(filled, np.concatenate([likes, others], axis=1), 0)
        gains = np.concatenate([lists.gains, np.zeros(others.shape)], axis=1)
        places = np.arange(1, scores.shape[1] + 1)
        count = filled.sum(1)[:, None]
        there = (places <= count)[:, :, None] & filled[:, None, :]
        factors = count + 1 - 2 * places  # (B, n): of place k
        soft = self._soft_order(scores, factors, filled, there)
        steps, permutation = self._scaled(soft)
        worth = (places <= count) / np.log2(1 + places) / lists.ideal[:, None]
        loss = -np.einsum("bk,bkj,bj->b", worth, permutation, gains)
        back = -worth[:, :, None] * gains[:, None, :] * there
        for before, sums, axis in reversed(steps):
            back = back / sums - (back * before).sum(axis, keepdims=True) / sums**2
        by_logit = soft * (back - (back * soft).sum(2, keepdims=True)) / self.temperature
        by_distance = -by_logit.sum(1)
        pairs = filled[:, :, None] & filled[:, None, :]
        signs = np.sign(scores[:, :, None] - scores[:, None, :]) * pairs
        slope = np.einsum("bk,bkj->bj", factors, by_logit)
        slope += (signs * (by_distance[:, :, None] + by_distance[:, None, :])).sum(2)
        width = likes.shape[1]
        return Slopes(slope[:, :width], slope[:, width:], loss)

    def _soft_order(self, scores: Array, factors: Array, filled: Array, there: Array) -> Array:
        """Rows of softmax, 0 where there is no item or no place, shape (B, n, n)."""
        pairs = filled[:, :, None] & filled[:, None, :]
        distances = (np.abs(scores[:, :, None] - scores[:, None, :]) * pairs).sum(2)
        logits = factors[:, :, None] * scores[:, None, :] - distances[:, None, :]
        logits = np.where(there, logits / self.temperature, -np.inf)
        most = logits.max(axis=2, keepdims=True)
        powers = np.exp(logits - np.where(np.isfinite(most), most, 0))
        soft: Array = powers / np.where(there.any(2), powers.sum(2), 1)[:, :, None]
        return soft

    def _scaled(self, soft: Array) -> tuple[list[tuple[Array, Array, int]], Array]:
        """Each step of the scaling as what it began with, its sums, its axis; and the outcome."""
        steps, scaled = [], soft
        for axis in (1, 2) * self.rounds:
            sums = scaled.sum(axis, keepdims=True)
            sums = np.where(sums > 0, sums, 1)
            steps.append((scaled, sums, axis))
            scaled = scaled / sums
        return steps, scaled
