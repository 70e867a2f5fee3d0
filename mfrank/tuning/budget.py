"""The time that a search may take, and what it has learned of the time that trials take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mfrank.arrays.time_limit import time_limit
from mfrank.tuning.outcomes import Outcome

__all__ = ["CAUTION", "Budget", "predicted_seconds", "refit_seconds"]

Clock = Callable[[], float]

_UNKNOWN = 3.0
"""Factor by which a trial is assumed to exceed its plan while none was measured."""
CAUTION = 1.6
"""Factor by which a refit is assumed to take longer than the fit to the training part: it has more
data, and the machine may be busier by then."""


class Budget:
    """Seconds left, by a clock; without a limit, infinitely many.

    ``spare`` are further seconds, which nothing is planned to take.
    """

    def __init__(
        self, seconds: float | None, clock: Clock = time.perf_counter, spare: float = 0.0
    ) -> None:
        self._clock, self._spare = clock, spare
        self._ends = math.inf if seconds is None else clock() + seconds
        self.is_limited = seconds is not None

    def spend(self, seconds: float) -> None:
        """Count the seconds of an earlier run of the same search."""
        self._ends -= seconds

    def now(self) -> float:
        """The clock's time."""
        return self._clock()

    def left(self) -> float:
        """Seconds left."""
        return self._ends - self._clock()

    @contextmanager
    def keeping(self, reserve: float, share: float = 1.0) -> Iterator[None]:
        """Raise ``OutOfTimeError`` in the body if it takes more than a share of the time left.

        ``reserve`` are seconds that must be left after it.
        """
        with time_limit(share * (self.left() - reserve), self._clock):
            yield

    @contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Raise ``OutOfTimeError`` in the body if it takes more than ``left`` and ``spare``."""
        with self.keeping(-self._spare):
            yield


def predicted_seconds(work: float, done: Sequence[tuple[float, Outcome]]) -> float:
    """About the seconds of a trial of so much work, from the trials of its ladder that are done.

    ``done`` has the work and the outcome of each. Of the trials nearest in work, the slowest
    counts.
    """
    if not done:
        return _UNKNOWN * work

    def distance(planned: float) -> float:
        return abs(math.log(planned / work))

    least = min(distance(planned) for planned, _ in done)
    near = [one for one in done if distance(one[0]) <= least]
    return work * max(outcome.seconds / planned for planned, outcome in near)


def refit_seconds(outcome: Outcome) -> float:
    """About the seconds of the same fit to all data."""
    return CAUTION * outcome.fit_seconds
