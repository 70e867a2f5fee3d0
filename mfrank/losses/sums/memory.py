"""Moving averages in a loss's memory, and quantiles of scores."""

from __future__ import annotations

import numpy as np

from mfrank.arrays import Array, is_number, shown


def check_decay(decay: float) -> None:
    """Raise ValueError unless the weight of a new estimate is in (0, 1]."""
    if not is_number(decay) or not 0 < decay <= 1:
        raise ValueError(f"decay must be in (0, 1], got {shown(decay)}")


def averaged(
    kept: Array | None, places: Array, estimates: Array, decay: float, filled: Array
) -> Array:
    """Update moving averages by new estimates, in place, and return the updated ones.

    Parameters
    ----------
    kept : float, written to, or None
        Averages by cell or user. NaN before the first estimate, which then gets weight 1: any other
        start would bias the average for many updates. None for a decay of 1: then the estimates are
        returned.
    places : int, any shape
        Index of each estimate in ``kept``; filled places are distinct.
    estimates : float, shape of ``places`` plus any further axes of ``kept``
    decay : float
        Weight of the new estimate, in (0, 1].
    filled : bool, shape of ``places``
        False marks padding, which is not stored; values returned there are meaningless.

    Returns
    -------
    float, shape of ``estimates``
    """
    if kept is None:
        return estimates
    before = kept[places]
    mixed = (1 - decay) * before + decay * estimates
    average: Array = np.where(np.isnan(before), estimates, mixed)
    kept[places[filled]] = average[filled]
    return average


# A fixed number of order statistics from any number of scores.


def quantiles(values: Array, filled: Array, count: int) -> Array:
    """``count`` ascending quantiles of the filled values of each row, shape (B, count).

    The i-th smallest of n values is the quantile at (i - 1/2) / n, with linear interpolation in
    between and linear extrapolation at the ends. So n = count returns the sorted values, and equal
    values return that value; the SOPRC paper's Algorithm 2 as printed does neither.
    """
    n = filled.sum(axis=1, keepdims=True)
    ascending = np.sort(np.where(filled, values, np.inf), axis=1)
    place = (np.arange(count, like=values) + 0.5) / count * n - 0.5
    left = np.clip(np.floor(place), 0, np.maximum(n - 2, 0)).astype(np.int64)
    right = np.minimum(left + 1, np.maximum(n - 1, 0))
    low, high = (np.take_along_axis(ascending, at, axis=1) for at in (left, right))
    found: Array = low + (place - left) * (high - low)
    return found
