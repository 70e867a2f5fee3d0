"""Squared hinges summed over lists: sum over the places of weight max(0, score - threshold)^2."""

from __future__ import annotations

import numpy as np

from mfrank import native
from mfrank.arrays import sums_at
from mfrank.lists import Array
from mfrank.ramps import Ramps, ramps

__all__ = ["NativeSortedHinges", "SortedHinges", "hinge_numbers", "squared_hinges"]

_FEW = 12  # thresholds, up to which all pairs are the faster way at every length of list
_SUMMED = 3  # numbers of each place that are summed by stretches
_FEW_NATIVE = 128  # the same, in the extension


def squared_hinges(scores: Array, weights: Array, thresholds: Array, n_threads: int = 1) -> Ramps:
    """Sums of squared hinges, the way that is cheaper for so many thresholds.

    Parameters
    ----------
    scores, weights : float, shape (B, N)
        A place of weight 0 is padding.
    thresholds : float, shape (B, T)
        One of inf is padding: nothing reaches it.
    n_threads : int
        0 takes every core this process may use.
    """
    few = _FEW_NATIVE if native.takes(scores) else _FEW
    if thresholds.shape[1] <= few:
        return ramps("squared_hinge", scores, weights, thresholds, n_threads)
    if native.takes(scores):
        return NativeSortedHinges(scores, weights, thresholds, n_threads)
    return SortedHinges(scores, weights, thresholds)


def hinge_numbers(n_places: int, n_thresholds: int) -> int:
    """Size of the largest array that squared hinges make of a row without the extension."""
    return n_places * (n_thresholds if n_thresholds <= _FEW else _SUMMED)


class SortedHinges:
    """Squared hinges over sorted thresholds: O((N + T) log T) of time and O(N + T) of memory a row.

    Each place is summed once, into the stretch above the last threshold that it reaches, by its
    distance to that threshold. From a threshold down to the next all that was summed before moves
    away by the gap, (d + gap)^2 = d^2 + 2 gap d + gap^2. All terms are positive: nothing cancels,
    wherever the scores lie.
    """

    def __init__(self, scores: Array, weights: Array, thresholds: Array) -> None:
        scores, weights, thresholds = (
            array.astype(np.float64, copy=False) for array in (scores, weights, thresholds)
        )
        # Above all scores is as good as at infinity, and has gaps that are numbers.
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
        counts, firsts, seconds = _sums_by_stretch(terms, self._reached, rising.shape[1])
        totals = _sums_from_the_right(counts)[:, 1:]
        firsts[:, :-1] += self._gaps * totals
        self._firsts = _sums_from_the_right(firsts)
        seconds[:, :-1] += self._gaps * (2 * self._firsts[:, 1:] + self._gaps * totals)
        self.sums: Array = self._unsorted(_sums_from_the_right(seconds))
        self.slope_sums: Array = self._unsorted(2 * self._firsts)

    def slopes(self, by_sums: Array) -> tuple[Array, Array]:
        """See :class:`mfrank.ramps.Ramps`."""
        by_rising = np.take_along_axis(by_sums, self._order, axis=1)
        # Of what is pushed by the first thresholds: how much, and how far at the last of them.
        rows, n = by_sums.shape
        pushes, pushed = (np.zeros((rows, n + 1), like=by_sums) for _ in range(2))
        pushes[:, 1:] = np.cumsum(by_rising, axis=1)
        pushed[:, 2:] = np.cumsum(self._gaps * pushes[:, 1:-1], axis=1)
        push, at_last = (np.take_along_axis(x, self._reached, axis=1) for x in (pushes, pushed))
        by_scores = 2 * self._weights * (push * self._distances + at_last)
        return -by_sums * self.slope_sums, by_scores

    def _unsorted(self, of_rising: Array) -> Array:
        """Numbers of the rising thresholds, in the order these came in."""
        found = np.empty_like(of_rising)
        np.put_along_axis(found, self._order, of_rising, axis=1)
        return found


class NativeSortedHinges:
    """The same in the C++ extension, list by list: sums in float64, results as the scores are."""

    def __init__(
        self, scores: Array, weights: Array, thresholds: Array, n_threads: int = 1
    ) -> None:
        self._n_threads = n_threads
        dtype = np.result_type(scores, thresholds, np.float32)
        order, reached = (np.empty(array.shape, np.int32) for array in (thresholds, scores))
        scores, weights, thresholds = (
            np.ascontiguousarray(array, dtype) for array in (scores, weights, thresholds)
        )
        self._given = (scores, weights, thresholds, order, reached)
        self.sums: Array = np.empty(thresholds.shape, dtype)
        self.slope_sums: Array = np.empty(thresholds.shape, dtype)
        native.ext.sum_sorted_hinges(*self._given, self.sums, self.slope_sums, n_threads)

    def slopes(self, by_sums: Array) -> tuple[Array, Array]:
        """See :class:`mfrank.ramps.Ramps`."""
        by_scores = np.empty_like(self._given[0])
        by_sums = np.ascontiguousarray(by_sums, by_scores.dtype)
        native.ext.push_sorted_hinges(*self._given, by_sums, by_scores, self._n_threads)
        return -by_sums * self.slope_sums, by_scores


def _count_reached(scores: Array, rising: Array) -> Array:
    """How many thresholds of its row each score reaches, shape (B, N).

    One search over all rows, each moved beyond the one before. What that rounds off may count a
    threshold at hand as reached or not, where the hinge is 0 either way.
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


def _sums_by_stretch(terms: list[Array], reached: Array, n_thresholds: int) -> Array:
    """Sums of each of the terms, shape (B, N), over what reaches as many thresholds, from 1 on.

    Shape (len(terms), B, n_thresholds).
    """
    rows, stretches = len(reached), n_thresholds + 1
    places = (reached + stretches * np.arange(rows, like=reached)[:, None]).ravel()
    sums: Array = sums_at(places, [each.ravel() for each in terms], rows * stretches)
    return sums.reshape(-1, rows, stretches)[:, :, 1:]


def _sums_from_the_right(terms: Array) -> Array:
    """Of each place and all behind it."""
    sums: Array = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
    return sums
