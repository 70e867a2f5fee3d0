"""Smooth thresholds near the K-th largest score of each list."""

from __future__ import annotations

import numpy as np

from mfrank import native
from mfrank.lists import Array
from mfrank.ramps import ramps

__all__ = ["top_thresholds"]

_STEPS = 60  # that halve the bracket at least, or are Newton's; 3 to 20 are taken
_BEYOND = 40  # smoothings, past which a sigmoid is 0 or 1


def top_thresholds(
    scores: Array,
    weights: Array,
    shares: Array,
    starts: Array,
    smoothing_1: float,
    smoothing_2: float,
    n_threads: int = 1,
) -> Array:
    """Of each list the t where share + s_2 t = sum_j weight_j sigmoid((score_j - t) / s_1).

    The minimum of share t + s_2 t^2 / 2 + sum_j weight_j s_1 log(1 + exp((score_j - t) / s_1)),
    whose slope rises with t: Newton's steps in a bracket, as precise as the scores are.

    Parameters
    ----------
    scores, weights : float, shape (B, N)
        A place of weight 0 is padding; each list has one that is not.
    shares : float, shape (B,)
        Which part of the sum of weights is to be above.
    starts : float64, shape (B,)
        Where to begin, such as at the thresholds of scores that were nearly the same; NaN where
        nothing is known.
    smoothing_1, smoothing_2 : float
        s_1 and s_2, > 0.
    n_threads : int
        0 takes every core this process may use.

    Returns
    -------
    float64, shape (B,)
    """
    if not native.takes(scores):
        return _by_newton(scores, weights, shares, starts, smoothing_1, smoothing_2, n_threads)
    dtype = np.result_type(scores, np.float32)
    scores, weights = (np.ascontiguousarray(each, dtype) for each in (scores, weights))
    found = np.array(starts, np.float64)
    shares = np.ascontiguousarray(shares, np.float64)
    native.ext.top_thresholds(scores, weights, shares, found, smoothing_1, smoothing_2, n_threads)
    return found


def _by_newton(
    scores: Array,
    weights: Array,
    shares: Array,
    starts: Array,
    smoothing_1: float,
    smoothing_2: float,
    n_threads: int,
) -> Array:
    """All lists abreast, until the last is there."""
    filled, beyond = weights > 0, _BEYOND * smoothing_1
    low = np.where(filled, scores, np.inf).min(1).astype(np.float64) - beyond
    low = np.minimum(low, (weights.sum(1) - shares) / smoothing_2)
    high = np.where(filled, scores, -np.inf).max(1).astype(np.float64) + beyond
    high = np.maximum(high, -shares / smoothing_2)
    place = np.where(np.isnan(starts), (low + high) / 2, np.clip(starts, low, high))
    last, scaled, rounding = high - low, scores / smoothing_1, np.finfo(scores.dtype).eps
    for _ in range(_STEPS):
        above = ramps("sigmoid", scaled, weights, place[:, None] / smoothing_1, n_threads)
        slope = shares + smoothing_2 * place - above.sums[:, 0]
        low, high = np.where(slope < 0, place, low), np.where(slope < 0, high, place)
        step = -slope / (smoothing_2 + above.slope_sums[:, 0] / smoothing_1)
        # The next would be below rounding.
        near = np.abs(step) <= np.maximum(1e-9 * smoothing_1, rounding * np.abs(place))
        near |= np.abs(slope) <= rounding
        trusted = (low <= place + step) & (place + step <= high) & (2 * np.abs(step) <= last)
        ahead = np.where(near | trusted, place + step, (low + high) / 2)
        place, last = ahead, np.abs(ahead - place)
        if near.all():
            break
    return place
