"""NDCG of softly sorted lists: NeuralSort (Grover et al. 2019) with Sinkhorn's scaling."""

from __future__ import annotations

import numpy as np

from mfrank.arrays import Array, contracted


def soft_ndcg(
    scores: Array,
    filled: Array,
    gains: Array,
    ideal_dcg: Array,
    temperature: float,
    rounds: int,
) -> tuple[Array, Array]:
    """-sum_k (P G)_k / (Z log2(1 + k)), see :meth:`mfrank.losses.sums.ListSums.soft_ndcg`.

    Row k of P is softmax_j(((n + 1 - 2 k) h_j - sum_l |h_j - h_l|) / temperature); columns and rows
    are then normalized to sum 1 in turn, ``rounds`` times. The n x n arrays of all lists are in
    memory at once.
    """
    scores = np.where(filled, scores, 0)
    dtype = scores.dtype  # of all n x n arrays
    all_gains = np.zeros_like(scores)
    all_gains[:, : gains.shape[1]] = gains
    places = np.arange(1, scores.shape[1] + 1, dtype=dtype, like=scores)
    count = filled.sum(1)[:, None].astype(dtype)
    there = (places <= count)[:, :, None] & filled[:, None, :]
    factors = count + 1 - 2 * places  # n + 1 - 2 k, (B, n)
    pairs = filled[:, :, None] & filled[:, None, :]
    apart = (scores[:, :, None] - scores[:, None, :]) * pairs
    logits = factors[:, :, None] * scores[:, None, :] - np.abs(apart).sum(2)[:, None, :]
    soft = _softmax(np.where(there, logits / temperature, -np.inf))
    discounts = (places <= count) / np.log2(1 + places) / ideal_dcg[:, None].astype(dtype)
    loss, back = _scaled(soft, discounts, all_gains, rounds)
    by_logit = soft * (back - (back * soft).sum(2, keepdims=True)) / temperature
    by_distance = -by_logit.sum(1)
    gradients = contracted("bk,bkj->bj", factors, by_logit)
    gradients += (np.sign(apart) * (by_distance[:, :, None] + by_distance[:, None, :])).sum(2)
    return gradients, loss


def _softmax(logits: Array) -> Array:
    """Softmax along the last axis (B, n, n); 0 at padding."""
    most = logits.max(axis=2, keepdims=True)
    powers = np.exp(logits - np.where(most > -np.inf, most, 0))
    sums = powers.sum(2, keepdims=True)
    soft: Array = powers / np.where(sums == 0, 1, sums)
    return soft


def _scaled(soft: Array, discounts: Array, gains: Array, n_rounds: int) -> tuple[Array, Array]:
    """Loss of each list (B,), and its derivatives by the soft permutation S (B, n, n).

    The scaled S is diag(u) S diag(v), with v = 1 / S'u and u = 1 / S v in turn. As S only occurs in
    products with vectors, the derivative is a sum of outer products of vectors.
    """
    across = soft.swapaxes(1, 2)
    u, v = np.ones_like(gains, shape=(2, *gains.shape, 1))
    rounds = []
    for _ in range(n_rounds):
        before, v = u, _inverse(across @ u)
        u = _inverse(soft @ v)
        rounds.append((before, v, u))
    discounts, gains = discounts[:, :, None], gains[:, :, None]
    by_u, by_v = -discounts * (soft @ (v * gains)), -gains * (across @ (u * discounts))
    loss = (u * by_u).sum((1, 2))
    left, right = [-discounts * u], [gains * v]
    for before, v, u in reversed(rounds):
        by_row = -by_u * u**2
        by_column = -(by_v + across @ by_row) * v**2
        by_u, by_v = soft @ by_column, np.zeros_like(v)
        left += [by_row, before]
        right += [v, by_column]
    return loss, np.concatenate(left, axis=2) @ np.concatenate(right, axis=2).swapaxes(1, 2)


def _inverse(sums: Array) -> Array:
    """1 / sums, 1 for sums of 0."""
    inverse: Array = 1 / np.where(sums > 0, sums, 1)
    return inverse
