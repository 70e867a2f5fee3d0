"""Warnings about fits that take long, so that nobody waits for them in silence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.als.cost import epoch_seconds, shared_seconds
from mfrank.arrays.counted import counted
from mfrank.arrays.warned import warn_caller
from mfrank.backends import Backend
from mfrank.backends.solve_options import SolveOptions
from mfrank.data.counts import Counts
from mfrank.models.batch_memory import is_on_host

__all__ = ["Pace", "warn_if_long", "warn_if_steps_are_long"]

_LONG = 60.0
_LONG_LEARNING = 3_600.0
"""A walk is learned in steps whose number is not fixed: most of them may never be needed."""
_MEASURED = 1.0
"""Seconds of batches that are enough to know how long an epoch takes."""
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def warn_if_long(
    counts: Counts, width: int, iterations: int, options: SolveOptions, backend: Backend
) -> None:
    """Warn if an epoch of ALS takes longer than about a minute, except on a GPU."""
    if not is_on_host(backend) or (seconds := epoch_seconds(counts, width, options)) < _LONG:
        return
    remedy = "lower factors"
    fewest, side = min((len(counts.items), "items"), (len(counts.users), "users"))
    if width > fewest:
        remedy += f": more than the number of {side}, {fewest:,}, add nothing"
    elif options.solver == "cholesky" and shared_seconds(width) < seconds / 2:
        remedy += ' or pass solver="auto"'
    warn_caller(
        f"an epoch with {counted(width, 'factor')} will take about {_told(seconds)}, and "
        f"{counted(iterations, 'epoch')} about {_told(seconds * iterations)}; {remedy}"
    )


@dataclass(slots=True, eq=False)
class Pace:
    """Watches the batches of a fit, and warns once if an epoch takes longer than about a minute.

    The first batch is not measured: it may compile kernels and allocate what later ones reuse.

    Attributes
    ----------
    iterations : int
        Epochs of the fit.
    remedy : str
        Advice that ends the warning.
    """

    iterations: int
    remedy: str
    _since: tuple[int, float] | None = None
    _is_told: bool = False

    def __call__(self, done: int, of: int, seconds: float) -> None:
        """After a batch: ``done`` of the ``of`` lists of the epoch took so many seconds."""
        if self._is_told:
            return
        if self._since is None or done <= self._since[0]:  # the first batch of an epoch
            self._since = done, seconds
            return
        lists, spent = done - self._since[0], seconds - self._since[1]
        if spent < _MEASURED or (epoch := spent * of / lists) < _LONG:
            return
        self._is_told = True
        warn_caller(
            f"an epoch takes about {_told(epoch)} by its first {counted(done, 'list')} of {of:,}, "
            f"and {counted(self.iterations, 'epoch')} about {_told(epoch * self.iterations)}; "
            f"{self.remedy}"
        )


def warn_if_steps_are_long(first: float, most: int) -> None:
    """Warn if all steps of learning a walk, each as long as the first, take an hour or more."""
    if (seconds := first * most) >= _LONG_LEARNING:
        warn_caller(
            f"learning takes up to {counted(most, 'step')}, about {_told(seconds)} by the first; "
            "lower queries, or the iterations of the method"
        )


def _told(seconds: float) -> str:
    """Such as "5 minutes": one digit, because more are not known."""
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    number = max(seconds / size, 1.0)
    digit = 10 ** int(np.log10(number))
    return counted(round(number / digit) * digit, unit)
