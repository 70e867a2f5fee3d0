"""StochasticRank (Ustimenko & Prokhorenkova 2020): any ranking metric, smoothed by noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import (
    Array,
    check_above_zero,
    check_at_least_zero,
    check_choice,
    check_count,
    check_flags,
    key_of,
    shown,
)
from mfrank.errors import InputValueError
from mfrank.losses.contract import Gradients, Lists, Loss, Memory, Sizes, where_filled
from mfrank.losses.sums import NoisyScores
from mfrank.losses.sums.metric_jumps import METRICS


@dataclass(frozen=True)
class StochasticRank(Loss):
    """-E M(h - sigma mu y + sigma e), e standard normal, for a metric M at cutoff k.

    The gradients are estimated from one draw of the noise (:mod:`mfrank.losses.sums.written_out`).
    The estimate is unbiased, with far less variance than the score-function estimator.

    Jumps of M are right limits minus left limits, so they enter the gradients with a plus sign; the
    minus sign in the paper's Theorem 3 is an error. On sampled lists, the metric is of the sample.
    The paper's proof of global convergence requires scores that are linear in the parameters, which
    holds for factors only if users or items are fixed.

    Parameters
    ----------
    metric : {"ndcg", "recall", "map", "mrr", "err"}, default "ndcg"
        M: NDCG, recall, average precision, reciprocal rank, or expected reciprocal rank.
    k : int, default 10
        Number of top positions that count.
    noise : float, default 1.0
        sigma > 0.
    last_noise, annealing_batches : float and int, optional
        sigma changes geometrically from ``noise`` at the first batch to ``last_noise`` after
        ``annealing_batches`` batches, then stays constant. Large noise escapes local optima; small
        noise has less bias. By default, sigma is constant.
    shift : float, default 0.0
        mu >= 0: sigma mu y is subtracted from the scores of relevant items, y = log2(1 + gain), so
        that ties count as wrong orders (the paper's consistent smoothing).
    scale_free : bool, default False
        Project the gradients to be orthogonal to the scores, so that steps do not merely rescale
        the scores (the paper's SFA).
    rao_blackwell : bool, default True
        Also integrate over the mean noise of the other items instead of drawing it, which reduces
        the variance, as in CatBoost (whose formula is wrong for noise != 1).
    random_state : int, default 0
        Seed >= 0 of the noise.
    """

    metric: str = "ndcg"
    k: int = 10
    noise: float = 1.0
    last_noise: float | None = None
    annealing_batches: int | None = None
    shift: float = 0.0
    scale_free: bool = False
    rao_blackwell: bool = True
    random_state: int = 0

    def __post_init__(self) -> None:
        check_choice("metric", self.metric, METRICS)
        check_flags(scale_free=self.scale_free)
        check_flags(rao_blackwell=self.rao_blackwell)
        check_count("k", self.k, 1)
        check_above_zero(noise=self.noise)
        check_at_least_zero(shift=self.shift)
        check_count("random_state", self.random_state, 0)
        if self.last_noise is None and self.annealing_batches is None:
            return
        if self.last_noise is None or self.annealing_batches is None:
            raise InputValueError(
                "`last_noise` and `annealing_batches` go together, got "
                f"{shown(self.last_noise)} and {shown(self.annealing_batches)}:",
                "give both or neither",
            )
        check_above_zero(last_noise=self.last_noise)
        check_count("annealing_batches", self.annealing_batches, 1)

    @property
    def cutoff(self) -> int:
        """See :attr:`mfrank.losses.Loss.cutoff`."""
        return self.k

    def memory(self, sizes: Sizes) -> Memory:
        """Number of batches so far: part of the random key of each batch."""
        return {"batches": np.zeros(1, dtype=np.int64)}

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return (n_positives + n_negatives) * min(self.k, n_positives + n_negatives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`; the loss is -M at the drawn noise."""
        scores, width = np.concatenate([positives, negatives], axis=1), positives.shape[1]
        filled = lists.filled
        metric = METRICS[self.metric]
        values = np.zeros_like(scores)
        values[:, :width] = metric.worth(lists.gains)
        batches = int(memory["batches"][0])
        memory["batches"] += 1
        key, sigma = key_of(self.random_state, batches), self._sigma(batches)
        noise = lists.sums.normals(key, scores.shape, scores)
        centers = scores
        if self.shift:
            centers = scores.copy()
            centers[:, :width] -= sigma * self.shift * np.log2(1 + lists.gains)
        normalizer = metric.normalizer(values[:, :width], self.k)
        noisy = NoisyScores(centers, where_filled(filled, noise), sigma, values, normalizer, filled)
        gradients, value = lists.sums.smoothed(metric, self.k, noisy, share=self.rao_blackwell)
        if self.scale_free:
            gradients = _without_scale(gradients, scores, filled)
        return Gradients(-gradients[:, :width], -gradients[:, width:], -value)

    def _sigma(self, batches: int) -> float:
        """Sigma after so many batches."""
        if self.last_noise is None or self.annealing_batches is None:
            return self.noise
        progress = min(batches / self.annealing_batches, 1.0)
        return float(self.noise * (self.last_noise / self.noise) ** progress)


def _without_scale(gradients: Array, scores: Array, filled: Array) -> Array:
    """Gradients less their mean and, in lists of more than two items, their part along the scores.

    With two items nothing would be left.
    """
    count = filled.sum(1, keepdims=True)
    gradients = np.where(filled, gradients - gradients.sum(1, keepdims=True) / count, 0)
    mean = np.where(filled, scores, 0).sum(1, keepdims=True) / count
    along = np.where(filled, scores - mean, 0)
    length = np.sqrt((along**2).sum(1, keepdims=True)) + 0.01
    part = (gradients * along).sum(1, keepdims=True) / length**2
    return np.where(count > 2, gradients - part * along, gradients)
