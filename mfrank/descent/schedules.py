"""Learning-rate schedules, as multipliers of the optimizer's learning rate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from mfrank.arrays.checks import check_above_zero, check_at_least_zero, is_number, shown

__all__ = ["Constant", "CosineDecay", "Schedule", "StepDecay"]


class Schedule(ABC):
    """A learning-rate schedule. A subclass is a frozen dataclass of its options."""

    @abstractmethod
    def multiplier(self, progress: float) -> float:
        """Return the learning-rate multiplier at a fraction of the fit, in [0, 1)."""


@dataclass(frozen=True)
class Constant(Schedule):
    """A constant learning rate."""

    def multiplier(self, progress: float) -> float:
        """See :meth:`Schedule.multiplier`."""
        return 1.0


@dataclass(frozen=True)
class StepDecay(Schedule):
    """Multiply the learning rate by ``factor`` at given points of the fit.

    Parameters
    ----------
    at : tuple of float, default (0.5,)
        Points, as fractions of the fit, in (0, 1). Default from the SONG paper: after half of the
        epochs.
    factor : float, default 0.25
        > 0. Default from the SONG paper.
    """

    at: tuple[float, ...] = (0.5,)
    factor: float = 0.25

    def __post_init__(self) -> None:
        if not isinstance(self.at, list | tuple):
            raise TypeError(
                f"at must be a tuple of fractions of the fit, such as (0.5,); got {shown(self.at)}"
            )
        if not all(is_number(point) and 0 < point < 1 for point in self.at):
            raise ValueError(f"at must be fractions of the fit, in (0, 1); got {shown(self.at)}")
        check_above_zero(factor=self.factor)
        object.__setattr__(self, "at", tuple(self.at))

    def multiplier(self, progress: float) -> float:
        """See :meth:`Schedule.multiplier`."""
        return float(self.factor ** sum(progress >= point for point in self.at))


@dataclass(frozen=True)
class CosineDecay(Schedule):
    """Half a cosine from 1 down to ``last`` (Loshchilov & Hutter 2017, without restarts).

    Parameters
    ----------
    last : float, default 0.0
        Multiplier at the end of the fit, >= 0.
    """

    last: float = 0.0

    def __post_init__(self) -> None:
        check_at_least_zero(last=self.last)

    def multiplier(self, progress: float) -> float:
        """See :meth:`Schedule.multiplier`."""
        return self.last + (1 - self.last) * (1 + math.cos(math.pi * progress)) / 2
