"""The sums over lists in numpy's functions: the specification for all backends."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfrank.arrays import Array, contracted, random_normals
from mfrank.losses.contract import count_filled
from mfrank.losses.sums import NoisyScores
from mfrank.losses.sums.metric_jumps import TopMetric
from mfrank.losses.sums.ramps import (
    PairwiseRamps,
    pair_losses,
    row_hinges,
    squared_hinges,
    top_thresholds,
)
from mfrank.losses.sums.softmax_sums import project, softmax

# Gradients of a metric smoothed by normal noise in the scores, from one draw of the noise.
#
# Given the drawn noisy scores of all other items, the expected metric is differentiable in the
# score of item j. Its derivative is the sum over the other items of the metric's jump when j
# passes one (:mod:`mfrank.losses.sums.metric_jumps`), times the probability density of j's noisy
# score at the noisy score of that item (Ustimenko & Prokhorenkova 2020, Theorem 3).


def smoothed(metric: TopMetric, k: int, noisy: NoisyScores, *, share: bool) -> tuple[Array, Array]:
    """See :meth:`mfrank.losses.sums.ListSums.smoothed`."""
    n_levels = min(k, noisy.centers.shape[1] - 1)
    scores = np.where(noisy.filled, noisy.centers + noisy.sigma * noisy.noise, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    # The p-th of the other items is at place p, or at p + 1 if that is below j.
    places = np.arange(n_levels, like=rank)
    at = places + (places >= rank[:, :, None])
    passed = np.take_along_axis(order[:, None, :], at, axis=2)
    levels = np.take_along_axis(scores[:, None, :], passed, axis=2)
    values = np.take_along_axis(noisy.worths[:, None, :], passed, axis=2)
    jumps = metric.jump(noisy.worths[:, :, None], values, noisy.normalizer, k)
    shared, spread = _shared_noise(noisy) if share else (0.0, np.ones_like(noisy.normalizer))
    spread = (noisy.sigma * spread)[:, :, None]
    apart = (levels - (noisy.centers + noisy.sigma * shared)[:, :, None]) / spread
    density = np.exp(-0.5 * apart**2) / (np.sqrt(2 * np.pi) * spread)
    gradients = np.where(noisy.filled, (jumps * density).sum(2), 0)
    ordered = np.take_along_axis(noisy.worths, order, axis=1)
    return gradients, metric.value(ordered, noisy.normalizer, k)


def _shared_noise(noisy: NoisyScores) -> tuple[Array, Array]:
    """Mean noise of all other items (B, N), and standard deviation (B, 1) of what is integrated.

    That is the item's own noise less the mean noise of the n - 1 others, of variance 1 + 1 /
    (n - 1). Both are in units of sigma.
    """
    count = count_filled(noisy.filled)
    n_others = np.maximum(count - 1, 1)
    shared = (noisy.noise.sum(1, keepdims=True) - noisy.noise) / n_others
    return shared, np.sqrt(count / n_others)


# NDCG of softly sorted lists: NeuralSort (Grover et al. 2019) with Sinkhorn's scaling.


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


class WrittenOut:
    """:class:`mfrank.losses.sums.ListSums` for the arrays of any library with numpy's interface."""

    holds_pairs: ClassVar[bool] = True

    ramps = staticmethod(PairwiseRamps)
    squared_hinges = staticmethod(squared_hinges)
    row_hinges = staticmethod(row_hinges)
    pair_losses = staticmethod(pair_losses)
    softmax = staticmethod(softmax)
    project = staticmethod(project)
    smoothed = staticmethod(smoothed)
    soft_ndcg = staticmethod(soft_ndcg)
    top_thresholds = staticmethod(top_thresholds)
    normals = staticmethod(random_normals)


WRITTEN_OUT = WrittenOut()
