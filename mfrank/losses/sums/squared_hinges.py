"""Squared hinges summed over lists: sum over the places of weight max(0, score - threshold)^2."""

from __future__ import annotations

import numpy as np

from mfrank.arrays.placement import Array, sums_at
from mfrank.losses.sums import Ramps
from mfrank.losses.sums.ramps import PairwiseRamps

__all__ = ["SortedHinges", "largest_hinge_array", "squared_hinges"]

_FEW = 12  # thresholds: up to here all pairs are faster, however long the list
_SUMMED = 3  # terms of each place that ``SortedHinges`` sums by interval


def squared_hinges(scores: Array, weights: Array, thresholds: Array) -> Ramps:
    """See :meth:`mfrank.losses.sums.ListSums.squared_hinges`."""
    if thresholds.shape[1] <= _FEW:
        return PairwiseRamps("squared_hinge", scores, weights, thresholds)
    return SortedHinges(scores, weights, thresholds)


def largest_hinge_array(n_places: int, n_thresholds: int) -> int:
    """Number of elements of the largest array in :func:`squared_hinges`, per list."""
    return n_places * (n_thresholds if n_thresholds <= _FEW else _SUMMED)


class SortedHinges:
    """Squared hinges over sorted thresholds: O((N + T) log T) time, O(N + T) memory per list.

    Sorted thresholds divide the line into intervals. Each score's distance d to the highest
    threshold below it is added to the sums of the interval in between. From each threshold to the
    next lower one, all distances so far grow by the gap: (d + gap)^2 = d^2 + 2 gap d + gap^2. As
    all terms are positive, nothing cancels, whatever the scores are.
    """

    def __init__(self, scores: Array, weights: Array, thresholds: Array) -> None:
        scores, weights, thresholds = (
            array.astype(np.float64, copy=False) for array in (scores, weights, thresholds)
        )
        # A threshold above all scores has the same sums as one at infinity, and finite gaps.
        thresholds = np.where(np.isinf(thresholds), scores.max() + 1, thresholds)
        self._weights = weights
        self._order = np.argsort(thresholds, axis=1)
        rising = np.take_along_axis(thresholds, self._order, axis=1)
        self._gaps = np.diff(rising, axis=1)
        self._reached = _count_reached(scores, rising)
        last = np.maximum(self._reached - 1, 0)
        self._distances = scores - np.take_along_axis(rising, last, axis=1)
        leads = weights * self._distances
        terms = [weights, leads, leads * self._distances]
        counts, firsts, seconds = _sums_by_interval(terms, self._reached, rising.shape[1])
        totals = _sums_from_the_right(counts)[:, 1:]
        firsts[:, :-1] += self._gaps * totals
        self._firsts = _sums_from_the_right(firsts)
        seconds[:, :-1] += self._gaps * (2 * self._firsts[:, 1:] + self._gaps * totals)
        self.sums: Array = self._unsorted(_sums_from_the_right(seconds))
        self.slope_sums: Array = self._unsorted(2 * self._firsts)

    def gradients(self, by_sums: Array) -> tuple[Array, Array]:
        """See :class:`mfrank.losses.sums.Ramps`."""
        by_rising = np.take_along_axis(by_sums, self._order, axis=1)
        # A score h above the first r thresholds has the derivative 2 weight sum_{t <= r} by_t (h -
        # threshold_t). ``pushes`` are the sums of by_t, ``pushed`` the sums at h = threshold_r.
        rows, n = by_sums.shape
        pushes, pushed = (np.zeros((rows, n + 1), like=by_sums) for _ in range(2))
        pushes[:, 1:] = np.cumsum(by_rising, axis=1)
        pushed[:, 2:] = np.cumsum(self._gaps * pushes[:, 1:-1], axis=1)
        push, at_last = (np.take_along_axis(x, self._reached, axis=1) for x in (pushes, pushed))
        by_scores = 2 * self._weights * (push * self._distances + at_last)
        return -by_sums * self.slope_sums, by_scores

    def _unsorted(self, of_rising: Array) -> Array:
        """Values of the sorted thresholds, in the original order."""
        found = np.empty_like(of_rising)
        np.put_along_axis(found, self._order, of_rising, axis=1)
        return found


def _count_reached(scores: Array, rising: Array) -> Array:
    """Number of thresholds in its row that each score reaches, shape (B, N).

    One search serves all rows, which are shifted to follow each other. Rounding in the shift may
    miscount thresholds right at a score, where the hinge is 0 anyway.
    """
    rows, n = rising.shape
    low = min(scores.min(), rising[:, 0].min())
    row = np.arange(rows, like=rising)[:, None]
    apart = row * (max(scores.max(), rising[:, -1].max()) - low + 1)
    found = np.searchsorted(
        ((rising - low) + apart).ravel(), ((scores - low) + apart).ravel(), side="right"
    )
    reached: Array = found.reshape(scores.shape) - n * row
    return reached.clip(0, n)


def _sums_by_interval(terms: list[Array], reached: Array, n_thresholds: int) -> Array:
    """Sums of each of the terms (B, N) over the scores that reach 1, 2, ... thresholds.

    Shape (len(terms), B, n_thresholds).
    """
    rows, intervals = len(reached), n_thresholds + 1
    places = (reached + intervals * np.arange(rows, like=reached)[:, None]).ravel()
    sums: Array = sums_at(places, [each.ravel() for each in terms], rows * intervals)
    return sums.reshape(-1, rows, intervals)[:, :, 1:]


def _sums_from_the_right(terms: Array) -> Array:
    """Cumulative sums from the right end of each row."""
    sums: Array = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
    return sums
