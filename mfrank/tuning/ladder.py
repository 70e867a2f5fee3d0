"""Trials of a search, their outcomes, and the ladder that says which trial comes next.

Successive halving without waiting (Li et al. 2020, ASHA): most trials begin on rung 0, narrow and
quick. The best third of the trials of a rung go on to the next, as soon as it is known. So the
search can be stopped at any time, and what comes next depends only on the outcomes so far, not on
how long they took.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from mfrank.tuning.family import Family, Point, near, spread_out

_PENDING = "in another search"
_PROMOTED = 3
"""One of this many trials of a rung continues on the next."""


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


def best(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The outcome with the highest value, the first of equals; None if all failed."""
    judged = [outcome for outcome in outcomes if outcome.value is not None]
    return max(judged, key=lambda outcome: outcome.value or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Families that compete for the same rungs."""

    families: tuple[Family, ...]
    seed: int

    @property
    def top(self) -> int:
        """The highest rung."""
        return self.families[0].rungs - 1

    def of(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The outcomes of this ladder."""
        names = {family.name for family in self.families}
        return [outcome for outcome in outcomes if outcome.trial.family in names]

    def proposed(self, outcomes: Sequence[Outcome], top: int, base: int = 0) -> Trial:
        """The next trial, given this ladder's outcomes.

        No rung is above ``top``; new points begin on ``base``, because lower rungs save no time.
        """
        if trial := self._left_behind(outcomes, top):
            return trial
        for rung in reversed(range(top)):
            if trial := promoted(outcomes, rung):
                return trial
        return self._new(outcomes, top, min(base, top))

    def climb(self, outcomes: Sequence[Outcome], top: int) -> Trial | None:
        """The best point so far, on rung ``top``; None if any point was on that rung or above."""
        leader = best(outcomes)
        if leader is None or any(outcome.trial.rung >= top for outcome in outcomes):
            return None
        return Trial(leader.trial.family, leader.trial.point, top)

    def _left_behind(self, outcomes: Sequence[Outcome], top: int) -> Trial | None:
        """The best of a family without a trial on the second highest rung of all trials, or above.

        A family that is behind with few factors may lead with many, and would otherwise never go
        on.
        """
        judged = [one for one in outcomes if one.value is not None and one.trial.rung <= top]
        rungs = sorted((one.trial.rung for one in judged), reverse=True)
        wide = rungs[1] if len(rungs) > 1 else 0
        for family in self.families:
            own = [one for one in outcomes if one.trial.family == family.name]
            leader = best(own)
            if leader is not None and all(one.trial.rung < wide for one in own):
                return Trial(family.name, leader.trial.point, wide)
        return None

    def _new(self, outcomes: Sequence[Outcome], top: int, base: int) -> Trial:
        """A trial that no other led to.

        First the first point of each family; then in turn one near the best so far, on its rung,
        and a point of a sequence that fills the cube. Every other point of it begins on rung 1
        at least, because what is best for few factors need not be for many (Hyperband, Li et al.
        2018).
        """
        number = sum(outcome.trial.is_new for outcome in outcomes)
        if number < len(self.families):
            family = self.families[number]
            return Trial(family.name, family.first, base, is_new=True)
        number -= len(self.families)
        turn, leader = number // 2, best(outcomes)
        if number % 2 == 0 and leader is not None:
            point, rung = near(leader.trial.point, number, self.seed), min(leader.trial.rung, top)
            return Trial(leader.trial.family, point, rung, is_new=True)
        turn, which = divmod(turn, len(self.families))
        family = self.families[which]
        point = spread_out(len(family.axes), turn, self.seed + which)
        return Trial(family.name, point, max(base, min(turn % 2, top)), is_new=True)


def promoted(outcomes: Sequence[Outcome], rung: int) -> Trial | None:
    """The best trial of a rung that is among its best third and has not gone on yet."""
    here = [one for one in outcomes if one.trial.rung == rung and one.value is not None]
    here.sort(key=lambda one: -(one.value or 0.0))
    above = {(one.trial.family, one.trial.point) for one in outcomes if one.trial.rung > rung}
    for one in here[: len(here) // _PROMOTED]:
        if (one.trial.family, one.trial.point) not in above:
            return Trial(one.trial.family, one.trial.point, rung + 1)
    return None
