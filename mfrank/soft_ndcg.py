"""NDCG of softly sorted lists: NeuralSort (Grover et al. 2019), scaled by Sinkhorn's rounds."""

from __future__ import annotations

import numpy as np

from mfrank import native
from mfrank.lists import Array, Lists

__all__ = ["SoftSums", "soft_ndcg"]

SoftSums = tuple[Array, Array, Array]
"""Slopes by likes (B, L) and by others (B, M), and losses (B,)."""


def soft_ndcg(
    lists: Lists, likes: Array, others: Array, temperature: float, rounds: int
) -> SoftSums:
    """-sum_k (P G)_k / (Z log2(1 + k)), in the C++ extension where it is.

    Row k of P is softmax_j(((n + 1 - 2 k) h_j - sum_l |h_j - h_l|) / temperature); columns and rows
    are then brought to sum 1 in turn, ``rounds`` times.

    Parameters
    ----------
    lists : Lists
    likes, others : float, shape (B, L) and (B, M)
        Scores h.
    temperature : float
        > 0
    rounds : int
        >= 0
    """
    scores, width = np.concatenate([likes, others], axis=1), likes.shape[1]
    if native.takes(scores):
        slope, loss = _native(lists, scores, temperature, rounds)
    else:
        slope, loss = _written_out(lists, scores, temperature, rounds)
    return slope[:, :width], slope[:, width:], loss


def _written_out(
    lists: Lists, scores: Array, temperature: float, rounds: int
) -> tuple[Array, Array]:
    """The same in numpy's functions, slopes (B, n) and losses (B,); all arrays of n x n at once."""
    filled = lists.filled
    scores = np.where(filled, scores, 0)
    dtype = scores.dtype  # that of all arrays of n x n
    gains = np.zeros_like(scores)
    gains[:, : lists.gains.shape[1]] = lists.gains
    places = np.arange(1, scores.shape[1] + 1, dtype=dtype, like=scores)
    count = filled.sum(1)[:, None].astype(dtype)
    there = (places <= count)[:, :, None] & filled[:, None, :]
    factors = count + 1 - 2 * places  # (B, n): of place k
    pairs = filled[:, :, None] & filled[:, None, :]
    apart = (scores[:, :, None] - scores[:, None, :]) * pairs
    logits = factors[:, :, None] * scores[:, None, :] - np.abs(apart).sum(2)[:, None, :]
    soft = _softmax(np.where(there, logits / temperature, -np.inf))
    worth = (places <= count) / np.log2(1 + places) / lists.ideal[:, None].astype(dtype)
    loss, back = _scaled(soft, worth, gains, rounds)
    by_logit = soft * (back - (back * soft).sum(2, keepdims=True)) / temperature
    by_distance = -by_logit.sum(1)
    slope = np.einsum("bk,bkj->bj", factors, by_logit)
    slope += (np.sign(apart) * (by_distance[:, :, None] + by_distance[:, None, :])).sum(2)
    return slope, loss


def _softmax(logits: Array) -> Array:
    """Of rows (B, n, n); 0 where there is no item or no place."""
    most = logits.max(axis=2, keepdims=True)
    powers = np.exp(logits - np.where(most > -np.inf, most, 0))
    sums = powers.sum(2, keepdims=True)
    soft: Array = powers / np.where(sums == 0, 1, sums)
    return soft


def _scaled(soft: Array, worth: Array, gains: Array, n_rounds: int) -> tuple[Array, Array]:
    """Loss of each list and its derivatives by the soft order S, (B,) and (B, n, n).

    Scaled, S is diag(u) S diag(v), with v = 1 / S'u and u = 1 / S v in turn. So all that is
    done to S are products with vectors, and its derivative is a sum of their outer products.
    """
    across = soft.swapaxes(1, 2)
    u, v = np.ones_like(gains, shape=(2, *gains.shape, 1))
    rounds = []
    for _ in range(n_rounds):
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


def _native(lists: Lists, scores: Array, temperature: float, rounds: int) -> tuple[Array, Array]:
    dtype = np.result_type(scores, np.float32)
    slope, loss = np.empty(scores.shape, dtype), np.empty(len(scores), dtype)
    native.ext.soft_ndcg(
        np.ascontiguousarray(scores, dtype),
        lists.filled,
        np.ascontiguousarray(lists.gains, dtype),
        np.ascontiguousarray(lists.ideal, np.float64),
        temperature,
        rounds,
        slope,
        loss,
        lists.n_threads,
    )
    return slope, loss
