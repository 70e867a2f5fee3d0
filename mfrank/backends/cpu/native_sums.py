"""The inner loops of the losses in the C++ extension, which build no array of pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from mfrank.arrays import Array, ext
from mfrank.losses import NoisyScores, Projection, Ramp, Ramps, RowHinges, SoftmaxOfLists, TopMetric

_FEW = 128  # thresholds up to which comparing all pairs is faster than sorting


@dataclass(frozen=True, slots=True)
class NativeSums:
    """:class:`mfrank.losses.sums.ListSums` of numpy arrays, on ``n_threads`` (0: all cores)."""

    holds_pairs: ClassVar[bool] = False

    n_threads: int = 0

    def ramps(self, ramp: Ramp, scores: Array, weights: Array, thresholds: Array) -> Ramps:
        """See :meth:`mfrank.losses.sums.ListSums.ramps`."""
        return TiledRamps(ramp, scores, weights, thresholds, self.n_threads)

    def squared_hinges(self, scores: Array, weights: Array, thresholds: Array) -> Ramps:
        """See :meth:`mfrank.losses.sums.ListSums.squared_hinges`."""
        if thresholds.shape[1] <= _FEW:
            return self.ramps("squared_hinge", scores, weights, thresholds)
        return NativeHinges(scores, weights, thresholds, self.n_threads)

    def row_hinges(
        self, scores: Array, thresholds: Array, row_weights: Array, weights: Array
    ) -> RowHinges:
        """See :meth:`mfrank.losses.sums.ListSums.row_hinges`."""
        shapes = thresholds.shape, thresholds.shape, scores.shape
        hinges = RowHinges(*(np.empty(shape, scores.dtype) for shape in shapes))
        ext.row_hinges(
            scores=scores,
            thresholds=np.ascontiguousarray(thresholds),
            row_weights=np.ascontiguousarray(row_weights),
            weights=np.ascontiguousarray(weights),
            **hinges._asdict(),
            n_threads=self.n_threads,
        )
        return hinges

    def pair_losses(
        self,
        scores: Array,
        gains: Array,
        filled: Array,
        scales: Array | None = None,
        steepness: float = 1.0,
    ) -> tuple[Array, Array]:
        """See :meth:`mfrank.losses.sums.ListSums.pair_losses`."""
        dtype = _dtype(scores)
        gradients, losses = np.empty(scores.shape, dtype), np.empty(len(scores), dtype)
        ext.pairs(
            np.ascontiguousarray(scores, dtype),
            np.ascontiguousarray(gains, dtype),
            np.ascontiguousarray(filled, dtype),
            None if scales is None else np.ascontiguousarray(scales, np.float64),
            steepness,
            gradients,
            losses,
            self.n_threads,
        )
        return gradients, losses

    def softmax(self, scores: Array, filled: Array, less: Array | None = None) -> SoftmaxOfLists:
        """See :meth:`mfrank.losses.sums.ListSums.softmax`."""
        dtype = _dtype(scores)
        log_total, values = np.empty(len(scores), dtype), np.empty(scores.shape, dtype)
        level = less is not None and less.strides[1] == 0  # a constant: same softmax
        if less is not None and less.strides[0] == 0:
            less = less[:1]  # the same for all lists
        ext.softmax(
            np.ascontiguousarray(scores, dtype),
            np.ascontiguousarray(filled),
            None if less is None or level else np.ascontiguousarray(less, dtype),
            log_total,
            values,
            self.n_threads,
        )
        if less is not None and level:
            log_total -= less[:, 0]
        return SoftmaxOfLists(log_total[:, None], values)

    def project(self, scores: Array, filled: Array) -> Projection:
        """See :meth:`mfrank.losses.sums.ListSums.project`."""
        dtype = _dtype(scores)
        tops, values = np.empty(len(scores), dtype), np.empty(len(scores), dtype)
        points = np.empty(scores.shape, dtype)
        scores, filled = np.ascontiguousarray(scores, dtype), np.ascontiguousarray(filled)
        ext.project(scores, filled, tops, values, points, self.n_threads)
        return Projection(tops[:, None], values, points)

    def smoothed(
        self, metric: TopMetric, k: int, noisy: NoisyScores, *, share: bool
    ) -> tuple[Array, Array]:
        """See :meth:`mfrank.losses.sums.ListSums.smoothed`."""
        dtype, n_levels = _dtype(noisy.centers), min(k, noisy.centers.shape[1] - 1)
        centers, noise, worths, whole = (
            np.ascontiguousarray(array, dtype)
            for array in (noisy.centers, noisy.noise, noisy.worths, noisy.normalizer[:, 0])
        )
        gradients, values = np.empty(centers.shape, dtype), np.empty(len(centers), dtype)
        ext.smoothed(
            centers,
            noise,
            worths,
            np.ascontiguousarray(noisy.filled),
            whole,
            metric.weights(n_levels + 1, k).astype(dtype),
            metric.above,
            noisy.sigma,
            share,
            gradients,
            values,
            self.n_threads,
        )
        return gradients, values

    def soft_ndcg(
        self,
        scores: Array,
        filled: Array,
        gains: Array,
        ideal_dcg: Array,
        temperature: float,
        rounds: int,
    ) -> tuple[Array, Array]:
        """See :meth:`mfrank.losses.sums.ListSums.soft_ndcg`."""
        dtype = _dtype(scores)
        gradients, losses = np.empty(scores.shape, dtype), np.empty(len(scores), dtype)
        ext.soft_ndcg(
            np.ascontiguousarray(scores, dtype),
            np.ascontiguousarray(filled),
            np.ascontiguousarray(gains, dtype),
            np.ascontiguousarray(ideal_dcg, np.float64),
            temperature,
            rounds,
            gradients,
            losses,
            self.n_threads,
        )
        return gradients, losses

    def top_thresholds(
        self,
        scores: Array,
        weights: Array,
        fractions: Array,
        starts: Array,
        smoothing_1: float,
        smoothing_2: float,
    ) -> Array:
        """See :meth:`mfrank.losses.sums.ListSums.top_thresholds`."""
        dtype = _dtype(scores)
        scores, weights = (np.ascontiguousarray(each, dtype) for each in (scores, weights))
        fractions = np.ascontiguousarray(fractions, np.float64)
        thresholds = np.array(starts, np.float64)  # a copy, which the kernel overwrites
        ext.top_thresholds(
            scores, weights, fractions, thresholds, smoothing_1, smoothing_2, self.n_threads
        )
        return thresholds

    def normals(self, key: int, shape: tuple[int, ...], like: Array) -> Array:
        """See :meth:`mfrank.losses.sums.ListSums.normals`."""
        numbers = np.empty(math.prod(shape), like.dtype)
        ext.normals(key, numbers, self.n_threads)
        return numbers.reshape(shape)


class TiledRamps:
    """Ramps of all pairs of thresholds and places, a tile of pairs at a time."""

    def __init__(
        self, ramp: Ramp, scores: Array, weights: Array, thresholds: Array, n_threads: int
    ) -> None:
        self._ramp, self._n_threads = ramp, n_threads
        self._dtype = np.result_type(scores, thresholds, np.float32)
        self._scores, self._weights, self._thresholds = (
            np.ascontiguousarray(array, dtype=self._dtype)
            for array in (scores, weights, thresholds)
        )
        self.sums: Array = np.empty(thresholds.shape, self._dtype)
        self.slope_sums: Array = np.empty(thresholds.shape, self._dtype)
        ext.sum_ramps(
            ramp,
            self._scores,
            self._weights,
            self._thresholds,
            self.sums,
            self.slope_sums,
            self._n_threads,
        )

    def gradients(self, by_sums: Array) -> tuple[Array, Array]:
        """See :class:`mfrank.losses.sums.Ramps`."""
        by_sums = np.ascontiguousarray(by_sums, dtype=self._dtype)
        by_scores = np.empty(self._scores.shape, self._dtype)
        ext.push_ramps(
            self._ramp,
            self._scores,
            self._weights,
            self._thresholds,
            by_sums,
            by_scores,
            self._n_threads,
        )
        return -by_sums * self.slope_sums, by_scores


class NativeHinges:
    """Squared hinges over sorted thresholds, list by list, summed in float64."""

    def __init__(self, scores: Array, weights: Array, thresholds: Array, n_threads: int) -> None:
        self._n_threads = n_threads
        dtype = np.result_type(scores, thresholds, np.float32)
        order, reached = (np.empty(array.shape, np.int32) for array in (thresholds, scores))
        scores, weights, thresholds = (
            np.ascontiguousarray(array, dtype) for array in (scores, weights, thresholds)
        )
        self._arrays = (scores, weights, thresholds, order, reached)
        self.sums: Array = np.empty(thresholds.shape, dtype)
        self.slope_sums: Array = np.empty(thresholds.shape, dtype)
        ext.sum_sorted_hinges(*self._arrays, self.sums, self.slope_sums, n_threads)

    def gradients(self, by_sums: Array) -> tuple[Array, Array]:
        """See :class:`mfrank.losses.sums.Ramps`."""
        by_scores = np.empty_like(self._arrays[0])
        by_sums = np.ascontiguousarray(by_sums, by_scores.dtype)
        ext.push_sorted_hinges(*self._arrays, by_sums, by_scores, self._n_threads)
        return -by_sums * self.slope_sums, by_scores


def _dtype(scores: Array) -> DTypeLike:
    return np.result_type(scores, np.float32)
