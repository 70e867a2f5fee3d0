"""A warning about values that are not confidences: raw counts, seconds, amounts."""

from __future__ import annotations

import numpy as np

from mfrank.als.quadratic import QuadraticObjective
from mfrank.data.interactions import Interactions
from mfrank.models.warned import warn_caller

__all__ = ["warn_if_unscaled"]

_HEAVY = 100.0
"""Largest confidence times the root of the density without a warning. For this product, ``tune``
begins to search with an average near 1, and ends at 10."""
_OVER_MEDIAN = 10.0
"""The least factor by which it exceeds the median: below, all weigh about the same."""
_LOOKED_AT = 1_000_000
"""Maximum number of values looked at, at equal distances: data may be mapped from a disk."""


def warn_if_unscaled(objective: QuadraticObjective, data: Interactions) -> None:
    """Warn if an objective that reads values as confidences is given some that drown the rest.

    Values of at most 1 count as scaled: if they weigh much, that is by the caller's ``alpha``.
    """
    if not objective.uses_values:
        return
    values = data.user_items.data[:: -(-data.nnz // _LOOKED_AT)]
    sizes = np.abs(values)
    slope = objective.observed(np.ones(1, np.int64), data.n_items).curvature.slope
    density = data.nnz / (data.n_users * data.n_items)
    largest, median = float(sizes.max()), float(np.median(sizes))
    if largest <= 1 or largest < _OVER_MEDIAN * median:
        return
    if slope * largest * np.sqrt(density) <= _HEAVY:
        return
    logarithms = "fit to mfrank.log_weight(data), or " if values.min() > 0 else ""
    warn_caller(
        f"{type(objective).__name__} takes values as confidences, and they go up to "
        f"{largest:,.6g} (the median is {median:,.6g}): a few cells outweigh all "
        f"others; {logarithms}lower alpha"
    )
