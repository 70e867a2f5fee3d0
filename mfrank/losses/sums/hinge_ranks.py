"""Smooth ranks of positives: means of squared hinges over their lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mfrank.arrays.placement import Array
from mfrank.losses import Lists, count_filled
from mfrank.losses.sums import Ramps

__all__ = ["HingeRanks", "discounted_gains"]


class _Parts(NamedTuple):
    """Weights in an estimated mean over the complete list, all of shape (B, 1).

    They are those of item i itself, of every other positive and of every negative in the list. Sums
    over the list contain i with the weight of a positive; the difference is added afterwards.
    """

    of_itself: Array
    of_positive: Array
    of_negative: Array


def _stratified(lists: Lists) -> _Parts:
    n_positives, n_items = lists.n_positives[:, None], lists.n_items[:, None]
    positives, negatives = count_filled(lists.positives), count_filled(lists.negatives)
    several = positives > 1
    return _Parts(
        np.where(several, 1, n_positives) / n_items,
        np.where(several, (n_positives - 1) / (positives - 1).clip(1), n_positives) / n_items,
        (n_items - n_positives) / negatives.clip(1) / n_items,
    )


def _pooled(lists: Lists) -> _Parts:
    each = 1 / (count_filled(lists.positives) + count_filled(lists.negatives))
    return _Parts(each, each, each)


@dataclass(frozen=True, slots=True, eq=False)
class HingeRanks:
    """g_i = mean over all items j of the list of max(0, h_j - h_i + margin)^2, for each positive i.

    N_u g_i is an upper bound on the rank of i if margin >= 1, and at least margin^2. Estimates from
    samples are stratified: i represents itself, the other sampled positives represent all other
    positives (the only positive of a list represents these too), and the sampled negatives
    represent all negatives.

    Attributes
    ----------
    hinges : Ramps
        Weighted sums over all places, positives first, for each positive.
    means : shape (B, L)
        Estimates of g.
    """

    hinges: Ramps
    means: Array

    @classmethod
    def of(
        cls, lists: Lists, positives: Array, negatives: Array, margin: float, pooled: bool = False
    ) -> HingeRanks:
        """Estimate g from scores; ``pooled``: by the plain mean over the sample."""
        part = _pooled(lists) if pooled else _stratified(lists)
        scores = np.concatenate([positives, negatives], axis=1)
        weights = lists.weigh(part.of_positive, part.of_negative, scores.dtype)
        thresholds = np.where(lists.positives, positives - margin, np.inf)
        hinges = lists.sums.squared_hinges(scores, weights, thresholds)
        # At least the term of i itself: at padding, where sums are 0, logarithms stay finite.
        means = hinges.sums + (part.of_itself - part.of_positive) * margin**2
        return cls(hinges, np.maximum(means, part.of_itself * margin**2))

    def gradients(self, by_mean: Array) -> tuple[Array, Array]:
        """Derivatives by the scores of positives and negatives, from those by the means (B, L)."""
        by_thresholds, by_scores = self.hinges.gradients(by_mean)
        width = by_mean.shape[1]
        return by_scores[:, :width] + by_thresholds, by_scores[:, width:]


def discounted_gains(lists: Lists, means: Array) -> tuple[Array, Array]:
    """Contribution of each positive to NDCG at its smooth rank, and minus its derivative by g_i.

    G_i / (Z_u log2(1 + N_u g_i)), scaled so that sampled positives represent all; both (B, L).
    """
    n_items = lists.n_items[:, None]
    places = 1 + n_items * means
    gains = lists.gains / lists.ideal[:, None] * lists.positive_weights * lists.n_positives[:, None]
    gained = gains / np.log2(places)
    return gained, gained * n_items / (np.log(2) * places * np.log2(places))
