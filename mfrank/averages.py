"""Moving averages that a loss keeps by observed cell or by user."""

from __future__ import annotations

import numpy as np

from mfrank.amounts import is_number
from mfrank.lists import Array

__all__ = ["averaged", "check_decay"]


def check_decay(decay: float) -> None:
    """Raise unless it may be the weight of a new estimate."""
    if not is_number(decay) or not 0 < decay <= 1:
        raise ValueError(f"decay must be in (0, 1], got {decay!r}")


def averaged(
    kept: Array | None, places: Array, estimates: Array, decay: float, filled: Array
) -> Array:
    """Averages at some places with new estimates in them, also put back into ``kept``.

    Parameters
    ----------
    kept : float, written to, or None
        Averages by place; NaN where there was no estimate yet: the first is taken whole, since an
        average that began elsewhere would still show it after many visits. None where none are
        kept, with a decay of 1: the average is the estimate.
    places : int, any shape
        Where in ``kept`` the estimates belong; each place at most once.
    estimates : float, of that shape, or with further axes where ``kept`` has them
    decay : float
        Weight of the new estimate, in (0, 1].
    filled : bool, of the shape of ``places``
        Which estimates count; what others come with is returned but not kept.
    """
    if kept is None:
        return estimates
    before = kept[places]
    mixed = (1 - decay) * before + decay * estimates
    average: Array = np.where(np.isnan(before), estimates, mixed)
    kept[places[filled]] = average[filled]
    return average
