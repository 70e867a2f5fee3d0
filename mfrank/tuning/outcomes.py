"""A trial of the search, and its outcome."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

from mfrank.tuning.family import Point

_PENDING = "in another search"


@dataclass(frozen=True, slots=True)
class Trial:
    """A family at a point, on a rung; rung 0 is the narrowest.

    ``is_new`` marks a point that was not tried on a lower rung.
    """

    family: str
    point: Point
    rung: int
    is_new: bool = False

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """The trial of ``asdict``, also after JSON.

        Raises
        ------
        KeyError, TypeError, ValueError
            The record is not one.
        """
        family, point, rung, is_new = (
            record[name] for name in ("family", "point", "rung", "is_new")
        )
        if not isinstance(family, str) or type(rung) is not int or type(is_new) is not bool:
            raise TypeError("the trial is none")
        return cls(family, tuple(map(float, point)), rung, is_new)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trial.

    Attributes
    ----------
    trial : Trial
    value : float or None
        The metric on the validation part after the best epoch; None if the trial failed.
    standard_error : float or None
        Standard error of the mean over the evaluated users; None with fewer than two.
    epochs : int
        The best epoch, from 1.
    seconds, fit_seconds, judge_seconds : float
        Seconds of the whole trial; of its fit up to the best epoch; of one evaluation.
    error : str or None
        Why it failed.
    """

    trial: Trial
    value: float | None
    standard_error: float | None = None
    epochs: int = 0
    seconds: float = 0.0
    fit_seconds: float = 0.0
    judge_seconds: float = 0.0
    error: str | None = None

    @classmethod
    def pending(cls, trial: Trial) -> Self:
        """The outcome of a trial that another search runs."""
        return cls(trial, None, error=_PENDING)

    @property
    def is_pending(self) -> bool:
        """Whether the trial still runs."""
        return self.error == _PENDING

    def to_dict(self) -> dict[str, Any]:
        """As types that JSON has."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """The outcome of :meth:`to_dict`, also after JSON.

        Raises
        ------
        KeyError, TypeError, ValueError
            The record is not one.
        """
        made = cls(**{**record, "trial": Trial.from_dict(record["trial"])})
        known = [made.epochs, made.seconds, made.fit_seconds, made.judge_seconds]
        known += [each for each in (made.value, made.standard_error) if each is not None]
        if not all(math.isfinite(each) for each in known):
            raise ValueError("a number is not finite")
        return made
