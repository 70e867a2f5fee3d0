"""Learning rates that change in the course of a fit, as a part of the optimiser's own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from mfrank.amounts import check_above_zero, check_at_least_zero, is_number

__all__ = ["Constant", "CosineDecay", "Schedule", "StepDecay"]


class Schedule(ABC):
    """A course of learning rates, a frozen dataclass of its options."""

    @abstractmethod
    def pace(self, progress: float) -> float:
        """Part of the learning rate when that part of the fit, in [0, 1), is done."""


@dataclass(frozen=True)
class Constant(Schedule):
    """The learning rate as it is."""

    def pace(self, progress: float) -> float:
        """See :meth:`Schedule.pace`."""
        return 1.0


@dataclass(frozen=True)
class StepDecay(Schedule):
    """Times ``factor`` at each of some points of the fit.

    Parameters
    ----------
    at : tuple of float, default (0.5,)
        Parts of the fit, in (0, 1) (the SONG paper's: half of the epochs).
    factor : float, default 0.25
        > 0 (the SONG paper's).
    """

    at: tuple[float, ...] = (0.5,)
    factor: float = 0.25

    def __post_init__(self) -> None:
        if not isinstance(self.at, list | tuple):
            raise TypeError(
                f"at must be a tuple of parts of the fit, such as (0.5,); got {self.at!r}"
            )
        if not all(is_number(part) and 0 < part < 1 for part in self.at):
            raise ValueError(f"at must be parts of the fit, in (0, 1); got {self.at}")
        check_above_zero(factor=self.factor)
        object.__setattr__(self, "at", tuple(self.at))

    def pace(self, progress: float) -> float:
        """See :meth:`Schedule.pace`."""
        return float(self.factor ** sum(progress >= part for part in self.at))


@dataclass(frozen=True)
class CosineDecay(Schedule):
    """Half a cosine from 1 to ``last`` (Loshchilov & Hutter 2017, without restarts).

    Parameters
    ----------
    last : float, default 0.0
        >= 0.
    """

    last: float = 0.0

    def __post_init__(self) -> None:
        check_at_least_zero(last=self.last)

    def pace(self, progress: float) -> float:
        """See :meth:`Schedule.pace`."""
        return self.last + (1 - self.last) * (1 + math.cos(math.pi * progress)) / 2
