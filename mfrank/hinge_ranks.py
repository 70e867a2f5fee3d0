"""Smooth ranks of liked items, made of squared hinges over their lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mfrank.lists import Array, Lists, count_filled
from mfrank.ramps import Ramps
from mfrank.squared_hinges import squared_hinges

__all__ = ["HingeRanks", "discounted_gains"]


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
        thresholds = np.where(lists.likes, likes - margin, np.inf)
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
