"""Squared hinges summed over lists, and the smooth ranks of liked items that are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mfrank import native
from mfrank.arrays import sums_at
from mfrank.lists import Array, Lists, count_filled
from mfrank.ramps import Ramps, ramps

__all__ = ["HingeRanks", "SortedHinges", "discounted_gains", "hinge_numbers", "squared_hinges"]

_FEW = 12  # thresholds, up to which all pairs are the faster way at every length of list
_SUMMED = 3  # numbers of each place that are summed by stretches
_FEW_NATIVE = 200  # the same, where all pairs are the extension's


def squared_hinges(scores: Array, weights: Array, thresholds: Array, n_threads: int = 1) -> Ramps:
    """Sums of squared hinges, the way that is cheaper for so many thresholds.

    Parameters
    ----------
    scores, weights : float, shape (B, N)
        A place of weight 0 is padding.
    thresholds : float, shape (B, T)
        Sorted sums are in float64, those of all pairs in the dtype of the scores.
    n_threads : int
        0 takes every core this process may use.
    """
    few = _FEW_NATIVE if native.takes(scores) else _FEW
    if thresholds.shape[1] <= few:
        return ramps("squared_hinge", scores, weights, thresholds, n_threads)
    wide = (array.astype(np.float64, copy=False) for array in (scores, weights, thresholds))
    return SortedHinges(*wide)


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


class _Parts(NamedTuple):
    """Which part of the list a place stands for, all (B, 1): that of i itself, of a like, an other.

    A like's own place is among the likes too: it counts as such in sums, and the rest is added.
    """

    of_itself: Array
    of_like: Array
    of_other: Array


def _stratified(lists: Lists) -> _Parts:
    n_likes, n_items = lists.n_likes[:, None], lists.n_items[:, None]
    likes, others = count_filled(lists.likes), count_filled(lists.others)
    beside = likes > 1
    return _Parts(
        np.where(beside, 1, n_likes) / n_items,
        np.where(beside, (n_likes - 1) / (likes - 1).clip(1), n_likes) / n_items,
        (n_items - n_likes) / others.clip(1) / n_items,
    )


def _pooled(lists: Lists) -> _Parts:
    each = 1 / (count_filled(lists.likes) + count_filled(lists.others))
    return _Parts(each, each, each)


@dataclass(frozen=True, slots=True, eq=False)
class HingeRanks:
    """Of each like i, g_i = mean over the list of max(0, h_j - h_i + margin)^2.

    N_u g_i is at least the rank of i where margin >= 1, and never below margin^2. Estimates from
    samples are stratified: i itself counts exactly, the sampled likes stand for all other likes (a
    like that is sampled alone for these too), the sampled other items for the rest.

    Attributes
    ----------
    hinges
        Of all likes against all places, likes first.
    means : shape (B, L)
        The estimates of g.
    """

    hinges: Ramps
    means: Array

    @classmethod
    def of(
        cls, lists: Lists, likes: Array, others: Array, margin: float, pooled: bool = False
    ) -> HingeRanks:
        """Estimate from scores; ``pooled``: the mean of the sample, likes and others alike."""
        part = _pooled(lists) if pooled else _stratified(lists)
        scores = np.concatenate([likes, others], axis=1)
        weights = lists.weigh(part.of_like, part.of_other, scores.dtype)
        thresholds = scores[:, : likes.shape[1]] - margin
        hinges = squared_hinges(scores, weights, thresholds, lists.n_threads)
        # Never below what i itself counts: of padding, a sum of no meaning stays harmless.
        means = hinges.sums + (part.of_itself - part.of_like) * margin**2
        return cls(hinges, np.maximum(means, part.of_itself * margin**2))

    def slopes(self, by_mean: Array) -> tuple[Array, Array]:
        """Slopes of likes and others from those of the means."""
        by_thresholds, by_scores = self.hinges.slopes(by_mean)
        width = by_mean.shape[1]
        return by_scores[:, :width] + by_thresholds, by_scores[:, width:]


def discounted_gains(lists: Lists, means: Array) -> tuple[Array, Array]:
    """What each like adds to NDCG at its smooth rank, and minus its derivative by the mean.

    G_i / (Z_u log2(1 + N_u g_i)), where the sampled likes stand for all; both (B, L).
    """
    n_items = lists.n_items[:, None]
    places = 1 + n_items * means
    worth = lists.gains / lists.ideal[:, None] * lists.like_shares * lists.n_likes[:, None]
    gained = worth / np.log2(places)
    return gained, gained * n_items / (np.log(2) * places * np.log2(places))
