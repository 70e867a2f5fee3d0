"""Moving averages that a loss keeps by observed cell or by user."""

from __future__ import annotations

import numpy as np

from mfrank.lists import Array

__all__ = ["averaged"]


def averaged(kept: Array, places: Array, estimates: Array, decay: float, filled: Array) -> Array:
    """Averages at some places with new estimates in them, also put back into ``kept``.

    Parameters
    ----------
    kept : float, written to
        Averages by place; NaN where there was no estimate yet: the first is taken whole, since an
        average that began elsewhere would still show it after many visits.
    places : int, any shape
        Where in ``kept`` the estimates belong; each place at most once.
    estimates : float, of that shape, or with further axes where ``kept`` has them
    decay : float
        Weight of the new estimate, in (0, 1].
    filled : bool, of the shape of ``places``
        Which estimates count; what others come with is returned but not kept.
    """
    before = kept[places]
    mixed = (1 - decay) * before + decay * estimates
    average: Array = np.where(np.isnan(before), estimates, mixed)
    kept[places[filled]] = average[filled]
    return average
