"""Moving averages in a loss's memory, by observed cell or by user."""

from __future__ import annotations

import numpy as np

from mfrank.arrays.checks import is_number, shown
from mfrank.arrays.placement import Array

__all__ = ["averaged", "check_decay"]


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
