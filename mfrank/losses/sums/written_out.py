"""The sums over lists in numpy's functions: the specification for all backends."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfrank.arrays import Array, random_normals
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
from mfrank.losses.sums.soft_ndcg import soft_ndcg
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
