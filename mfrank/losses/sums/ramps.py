"""Sums over lists of ramps of score differences, over pairs or rows, and ranks made of them.

    sums[b, t] = sum over the places j of weight_bj f(score_bj - threshold_bt)

where f is a hinge, squared hinge, sigmoid or softplus, and their gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mfrank.arrays import Array, contracted, sums_at
from mfrank.losses.contract import Lists, count_filled
from mfrank.losses.sums import Ramp, Ramps, RowHinges
from mfrank.losses.sums.softmax_sums import sigmoid, softplus


class PairwiseRamps:
    """All differences at once, as the equation reads: O(N T) time and memory per list."""

    def __init__(self, ramp: Ramp, scores: Array, weights: Array, thresholds: Array) -> None:
        values, self._slopes = _RAMPS[ramp](scores[:, None, :] - thresholds[:, :, None])
        self._weights = weights
        self.sums: Array = contracted("btn,bn->bt", values, weights)
        self.slope_sums: Array = contracted("btn,bn->bt", self._slopes, weights)

    def gradients(self, by_sums: Array) -> tuple[Array, Array]:
        """See :class:`mfrank.losses.sums.Ramps`."""
        by_scores = self._weights * contracted("btn,bt->bn", self._slopes, by_sums)
        return -by_sums * self.slope_sums, by_scores


def _hinge(x: Array) -> tuple[Array, Array]:
    return np.maximum(x, 0), (x > 0).astype(x.dtype)


def _squared_hinge(x: Array) -> tuple[Array, Array]:
    lead = np.maximum(x, 0)
    return lead**2, 2 * lead


def _sigmoid(x: Array) -> tuple[Array, Array]:
    low = sigmoid(-np.abs(x))
    return np.where(x > 0, 1 - low, low), low * (1 - low)


def _softplus(x: Array) -> tuple[Array, Array]:
    return softplus(x), sigmoid(x)


_RAMPS: dict[Ramp, Callable[[Array], tuple[Array, Array]]] = {
    "hinge": _hinge,
    "squared_hinge": _squared_hinge,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
}
"""Values and slopes of each ramp, as functions of x."""


# Logistic losses of pairs: each positive of a list against every item of a smaller gain.


def pair_losses(
    scores: Array,
    gains: Array,
    filled: Array,
    scales: Array | None = None,
    steepness: float = 1.0,
) -> tuple[Array, Array]:
    """See :meth:`mfrank.losses.sums.ListSums.pair_losses`."""
    width = gains.shape[1]
    gaps = _gain_gaps(scores, gains, filled)
    if scales is None:
        pairs = gaps > 0
        weights = pairs / pairs.sum((1, 2), keepdims=True).clip(1)
    else:
        weights = gaps * _discount_gaps(scores, filled, width) * scales[:, None, None]
    behind = steepness * (scores[:, None, :] - scores[:, :width, None])
    by_pair = steepness * weights * sigmoid(behind)
    gradients = by_pair.sum(1)
    gradients[:, :width] -= by_pair.sum(2)
    return gradients, (weights * softplus(behind)).sum((1, 2))


def _gain_gaps(scores: Array, gains: Array, filled: Array) -> Array:
    """max(G_i - G_j, 0) if both places are filled, else 0, shape (B, L, N)."""
    all_gains = np.zeros_like(gains, shape=scores.shape)
    all_gains[:, : gains.shape[1]] = gains
    gaps: Array = np.maximum(gains[:, :, None] - all_gains[:, None, :], 0) * filled[:, None, :]
    return gaps


def _discount_gaps(scores: Array, filled: Array, width: int) -> Array:
    """Absolute differences of the discounts at the ranks of the scores, shape (B, L, N)."""
    best_first = np.argsort(np.where(filled, -scores, np.inf), axis=1, kind="stable")
    discounts = 1 / np.log2(2 + np.argsort(best_first, axis=1, kind="stable"))
    return np.abs(discounts[:, :width, None] - discounts[:, None, :])


# Sums of hinges over rows of scores, each row with its own threshold.
#
#     sums[b, l] = row_weight_bl sum over the places j of weight_bj max(0, score_blj - threshold_bl)
#
# Unlike above, each threshold has its own scores, and the gradients have their shape, (B, L, N).


def row_hinges(scores: Array, thresholds: Array, row_weights: Array, weights: Array) -> RowHinges:
    """See :meth:`mfrank.losses.sums.ListSums.row_hinges`."""
    lead = scores - thresholds[:, :, None]
    gradients = (lead > 0) * row_weights[:, :, None] * weights[:, None, :]
    return RowHinges(contracted("bln,bln->bl", gradients, lead), gradients.sum(axis=2), gradients)


# Squared hinges summed over lists: sum over the places of weight max(0, score - threshold)^2.


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
    threshold below it is added to the sums of its interval. From each threshold to the next lower
    one, all distances so far grow by the gap: (d + gap)^2 = d^2 + 2 gap d + gap^2. All terms are
    positive, so nothing cancels, whatever the scores.
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
        values = np.empty_like(of_rising)
        np.put_along_axis(values, self._order, of_rising, axis=1)
        return values


def _count_reached(scores: Array, rising: Array) -> Array:
    """Number of thresholds in its row that each score reaches, shape (B, N).

    One search serves all rows, which are shifted to follow each other. Rounding in the shift may
    miscount thresholds right at a score, where the hinge is 0 anyway.
    """
    rows, n = rising.shape
    low = min(scores.min(), rising[:, 0].min())
    row = np.arange(rows, like=rising)[:, None]
    apart = row * (max(scores.max(), rising[:, -1].max()) - low + 1)
    counts = np.searchsorted(
        ((rising - low) + apart).ravel(), ((scores - low) + apart).ravel(), side="right"
    )
    reached: Array = counts.reshape(scores.shape) - n * row
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


# Smooth thresholds near the K-th largest score of each list.


_STEPS = 60  # at most; 3 to 20 are typical
_BEYOND = 40  # units of smoothing_1, beyond which the sigmoid is 0 or 1


def top_thresholds(
    scores: Array,
    weights: Array,
    fractions: Array,
    starts: Array,
    smoothing_1: float,
    smoothing_2: float,
) -> Array:
    """See :meth:`mfrank.losses.sums.ListSums.top_thresholds`.

    t minimizes f t + s_2 t^2 / 2 + sum_j weight_j s_1 log(1 + exp((score_j - t) / s_1)), f being
    the fraction. This is convex: Newton's method solves it for all lists at once, to the precision
    of the scores, with bisection whenever a step would leave the bracket or exceed half the
    previous step.
    """
    filled, beyond = weights > 0, _BEYOND * smoothing_1
    low = np.where(filled, scores, np.inf).min(1).astype(np.float64) - beyond
    low = np.minimum(low, (weights.sum(1) - fractions) / smoothing_2)
    high = np.where(filled, scores, -np.inf).max(1).astype(np.float64) + beyond
    high = np.maximum(high, -fractions / smoothing_2)
    place = np.where(np.isnan(starts), (low + high) / 2, np.clip(starts, low, high))
    last, scaled, rounding = high - low, scores / smoothing_1, np.finfo(scores.dtype).eps
    for _ in range(_STEPS):
        above = PairwiseRamps("sigmoid", scaled, weights, place[:, None] / smoothing_1)
        slope = fractions + smoothing_2 * place - above.sums[:, 0]
        low, high = np.where(slope < 0, place, low), np.where(slope < 0, high, place)
        step = -slope / (smoothing_2 + above.slope_sums[:, 0] / smoothing_1)
        # Converged: the next step would be below rounding.
        near = np.abs(step) <= np.maximum(1e-9 * smoothing_1, rounding * np.abs(place))
        near |= np.abs(slope) <= rounding
        trusted = (low <= place + step) & (place + step <= high) & (2 * np.abs(step) <= last)
        ahead = np.where(near | trusted, place + step, (low + high) / 2)
        place, last = ahead, np.abs(ahead - place)
        if near.all():
            break
    return place


# Smooth ranks of positives: means of squared hinges over their lists.


class _Weights(NamedTuple):
    """Weights in an estimated mean over the complete list, all of shape (B, 1).

    They are those of item i itself, of every other positive and of every negative in the list. Sums
    over the list contain i with the weight of a positive; the difference is added afterwards.
    """

    of_itself: Array
    of_positive: Array
    of_negative: Array


def _stratified(lists: Lists) -> _Weights:
    n_positives, n_items = lists.n_positives[:, None], lists.n_items[:, None]
    positives, negatives = count_filled(lists.positives), count_filled(lists.negatives)
    several = positives > 1
    return _Weights(
        np.where(several, 1, n_positives) / n_items,
        np.where(several, (n_positives - 1) / (positives - 1).clip(1), n_positives) / n_items,
        (n_items - n_positives) / negatives.clip(1) / n_items,
    )


def _pooled(lists: Lists) -> _Weights:
    each = 1 / (count_filled(lists.positives) + count_filled(lists.negatives))
    return _Weights(each, each, each)


@dataclass(frozen=True, slots=True, eq=False)
class HingeRanks:
    """g_i = mean over all items j of the list of max(0, h_j - h_i + margin)^2, for each positive i.

    N_u g_i is at least margin^2, and an upper bound on the rank of i if margin >= 1. Estimates from
    samples are stratified: i represents itself, the other sampled positives represent all other
    positives (a single positive represents these, too), and the sampled negatives represent all
    negatives.

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
