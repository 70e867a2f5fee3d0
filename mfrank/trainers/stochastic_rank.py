"""StochasticRank (Ustimenko & Prokhorenkova 2020): any ranking metric, smoothed by noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.amounts import check_above_zero, check_at_least_zero, check_count
from mfrank.choices import check_choice
from mfrank.jumps import METRICS
from mfrank.lists import Array, Lists, where_filled
from mfrank.smoothing import Draw, smoothed
from mfrank.streams import key_of, random_normals
from mfrank.trainers import Loss, Memory, Sizes, Slopes

__all__ = ["StochasticRank"]


@dataclass(frozen=True)
class StochasticRank(Loss):
    """-E M(h - noise mu y + noise e), e standard normal, for a metric M of the first k places.

    The slopes (:mod:`mfrank.smoothing`) are those of one draw of the noise: unbiased, and far less
    spread than the score function's estimate.

    A jump of M is right minus left, so slopes of M add with a plus: the minus of the paper's
    Theorem 3 is spurious. Samples of lists smooth the metric of the sample, not that of the list.
    The paper's global convergence needs scores linear in the parameters: with factors that holds
    for one side at a time only.

    Parameters
    ----------
    metric : {"ndcg", "recall", "map", "mrr", "err"}, default "ndcg"
        M.
    k : int, default 10
        Places that count.
    noise : float, default 1.0
        sigma > 0.
    last_noise, annealing_batches : float and int, optional
        sigma falls (or rises) geometrically from ``noise`` at the first batch to ``last_noise``
        after that many, and stays there. Much noise finds the right order among wrong ones that are
        stable, little noise takes its bias away. By default sigma is constant.
    shift : float, default 0.0
        mu >= 0: relevant items are held back by noise mu y, y = log2(1 + gain), so that ties come
        out for the worse (the paper's consistent smoothing).
    scale_free : bool, default False
        Take out of the slopes what only scales the scores (the paper's SFA).
    rao_blackwell : bool, default True
        Integrate the noise that all others share too, in place of drawing it: less spread, as
        CatBoost does (where it is wrong for noise != 1).
    random_state : int, default 0
        Seed of the noise.
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
        check_choice("scale_free", self.scale_free, (True, False))
        check_choice("rao_blackwell", self.rao_blackwell, (True, False))
        check_count("k", self.k, 1)
        check_above_zero(noise=self.noise)
        check_at_least_zero(shift=self.shift)
        check_count("random_state", self.random_state, 0)
        if self.last_noise is None and self.annealing_batches is None:
            return
        if self.last_noise is None or self.annealing_batches is None:
            raise ValueError(
                "last_noise and annealing_batches go together: both for noise that changes, or "
                f"neither; got {self.last_noise} and {self.annealing_batches}"
            )
        check_above_zero(last_noise=self.last_noise)
        check_count("annealing_batches", self.annealing_batches, 1)

    def memory(self, sizes: Sizes) -> Memory:
        """How many batches have drawn noise."""
        return {"batches": np.zeros(1, dtype=np.int64)}

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`."""
        return (n_likes + n_others) * min(self.k, n_likes + n_others)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`; the loss is that of the draw."""
        scores, width = np.concatenate([likes, others], axis=1), likes.shape[1]
        filled = lists.filled
        metric = METRICS[self.metric]
        worths = np.zeros_like(scores)
        worths[:, :width] = metric.worth(lists.gains)
        batches = int(memory["batches"][0])
        memory["batches"] += 1
        key, sigma = key_of(self.random_state, batches), self._noise_after(batches)
        noise = random_normals(key, scores.shape, scores, lists.n_threads)
        centres = scores
        if self.shift:
            centres = scores.copy()
            centres[:, :width] -= sigma * self.shift * np.log2(1 + lists.gains)
        whole = metric.whole(worths[:, :width], self.k)
        draw = Draw(centres, where_filled(filled, noise), sigma, worths, whole, filled)
        slope, value = smoothed(
            metric, self.k, draw, share=self.rao_blackwell, n_threads=lists.n_threads
        )
        if self.scale_free:
            slope = _without_scale(slope, scores, filled)
        return Slopes(-slope[:, :width], -slope[:, width:], -value)

    def _noise_after(self, batches: int) -> float:
        """Sigma of the batch that so many came before."""
        if self.last_noise is None or self.annealing_batches is None:
            return self.noise
        share = min(batches / self.annealing_batches, 1.0)
        return float(self.noise * (self.last_noise / self.noise) ** share)


def _without_scale(slope: Array, scores: Array, filled: Array) -> Array:
    """Slopes without their mean and their part along the scores, where these are more than two."""
    count = filled.sum(1, keepdims=True)
    slope = np.where(filled, slope - slope.sum(1, keepdims=True) / count, 0)
    mean = np.where(filled, scores, 0).sum(1, keepdims=True) / count
    along = np.where(filled, scores - mean, 0)
    length = np.sqrt((along**2).sum(1, keepdims=True)) + 0.01
    part = (slope * along).sum(1, keepdims=True) / length**2
    return np.where(count > 2, slope - part * along, slope)
