"""Smooth thresholds near the K-th largest score of each list."""

from __future__ import annotations

import numpy as np

from mfrank.arrays.placement import Array
from mfrank.losses.sums.ramps import PairwiseRamps

__all__ = ["top_thresholds"]

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
