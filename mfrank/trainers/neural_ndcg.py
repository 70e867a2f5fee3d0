"""NeuralNDCG (Pobrotyn & Bialobrzeski 2021): NDCG of a list sorted softly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.amounts import check_above_zero, check_count
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
        check_above_zero(temperature=self.temperature)
        check_count("rounds", self.rounds, 0)

    def numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.numbers`."""
        return (n_likes + n_others) ** 2

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        filled = lists.filled
        scores = np.where(filled, np.concatenate([likes, others], axis=1), 0)
        dtype = scores.dtype  # that of all arrays of n x n
        gains = np.concatenate([lists.gains, np.zeros(others.shape, like=others)], axis=1)
        gains = gains.astype(dtype, copy=False)
        places = np.arange(1, scores.shape[1] + 1, dtype=dtype, like=scores)
        count = filled.sum(1)[:, None].astype(dtype)
        there = (places <= count)[:, :, None] & filled[:, None, :]
        factors = count + 1 - 2 * places  # (B, n): of place k
        soft = self._soft_order(scores, factors, filled, there)
        worth = (places <= count) / np.log2(1 + places) / lists.ideal[:, None].astype(dtype)
        loss, back = self._scaled(soft, worth, gains)
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

    def _scaled(self, soft: Array, worth: Array, gains: Array) -> tuple[Array, Array]:
        """Loss of each list and its derivatives by the soft order S, (B,) and (B, n, n).

        Scaled, S is diag(u) S diag(v), with v = 1 / S'u and u = 1 / S v in turn. So all that is
        done to S are products with vectors, and its derivative is a sum of their outer products.
        """
        across = soft.swapaxes(1, 2)
        u, v = np.ones_like(gains, shape=(2, *gains.shape, 1))
        rounds = []
        for _ in range(self.rounds):
            before, v = u, _inverse(across @ u)
            u = _inverse(soft @ v)
            rounds.append((before, v, u))
        worth, gains = worth[:, :, None], gains[:, :, None]
        by_u, by_v = -worth * (soft @ (v * gains)), -gains * (across @ (u * worth))
        loss = (u * by_u).sum((1, 2))
        left, right = [-worth * u], [gains * v]
        for before, v, u in reversed(rounds):
            by_row = -by_u * u**2
            by_column = -(by_v + across @ by_row) * v**2
            by_u, by_v = soft @ by_column, np.zeros_like(v)
            left += [by_row, before]
            right += [v, by_column]
        return loss, np.concatenate(left, axis=2) @ np.concatenate(right, axis=2).swapaxes(1, 2)


def _inverse(sums: Array) -> Array:
    """1 / sums; 1 where there is nothing to scale."""
    inverse: Array = 1 / np.where(sums > 0, sums, 1)
    return inverse
