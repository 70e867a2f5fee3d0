"""A warning before a fit that takes long, so that nobody waits for it in silence."""

from __future__ import annotations

import warnings

import numpy as np

from mfrank.als.cost import epoch_seconds, shared_seconds
from mfrank.arrays.counted import counted
from mfrank.backends import Backend
from mfrank.backends.solve_options import SolveOptions
from mfrank.data.counts import Counts
from mfrank.models.batch_memory import is_on_host

__all__ = ["warn_if_long"]

_LONG = 60.0
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def warn_if_long(
    counts: Counts, width: int, iterations: int, options: SolveOptions, backend: Backend
) -> None:
    """Warn if an epoch of ALS takes longer than about a minute; not of fits on a GPU."""
    if not is_on_host(backend) or (seconds := epoch_seconds(counts, width, options)) < _LONG:
        return
    remedy = "lower factors"
    fewest, side = min((len(counts.items), "items"), (len(counts.users), "users"))
    if width > fewest:
        remedy += f": more than the number of {side}, {fewest:,}, add nothing"
    elif options.solver == "cholesky" and shared_seconds(width) < seconds / 2:
        remedy += ' or pass solver="auto"'
    message = (
        f"an epoch with {counted(width, 'factor')} will take about {_told(seconds)}, and "
        f"{counted(iterations, 'epoch')} about {_told(seconds * iterations)}; {remedy}"
    )
    warnings.warn(message, RuntimeWarning, stacklevel=3)  # the line that called fit


def _told(seconds: float) -> str:
    """Such as "5 minutes": one digit, as more would not be known."""
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    number = max(seconds / size, 1.0)
    digit = 10 ** int(np.log10(number))
    return counted(round(number / digit) * digit, unit)
