"""A trial of the search, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from mfrank.tuning.axes import Point

__all__ = ["Outcome", "Trial"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A family at a point, on a rung: 0 is the narrowest.

    ``is_new`` tells a point that was not on a lower rung before.
    """

    family: str
    point: Point
    rung: int
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial.

    Attributes
    ----------
    trial : Trial
    value : float or None
        The metric on the validation part after the best epoch; None if the trial failed.
    standard_error : float or None
        Of the mean over the users that were judged.
    epochs : int
        The best epoch, from 1.
    seconds, fit_seconds, judge_seconds : float
        Of the whole trial; of its fit up to the best epoch; of one judgment.
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

    def to_dict(self) -> dict[str, Any]:
        """As types that JSON has."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """What :meth:`to_dict` made, also after JSON."""
        given = record["trial"]
        trial = Trial(**{**given, "point": tuple(given["point"])})
        return cls(**{**record, "trial": trial})
