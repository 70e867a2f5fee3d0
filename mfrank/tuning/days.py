"""What a file of searches keeps of each day, and what the next day's search begins with."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from mfrank.errors import InputValueError
from mfrank.tuning.ladder import Outcome, Trial


@dataclass(frozen=True, slots=True)
class Former:
    """A setting of an earlier search.

    Attributes
    ----------
    trial : Trial
    day : str
        The day of the search that found it, such as "2026-11-25".
    seconds : float
        Duration of the trial in the latest.
    weight : float or None
        Its weight in what that search chose; None if it was no part of it.
    """

    trial: Trial
    day: str
    seconds: float
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class DayRecord:
    """What a file says of one search.

    Attributes
    ----------
    data, metric : str
        Digest of the data, and the metric.
    predicts : str or None
        What was held out to judge by, and of which kind of event; None in files of an mfrank that
        did not record it, which may have been anything.
    began : float
        Time of its first call.
    former : tuple of Former
        What it began with, in this order.
    best : dict or None
        ``model``, ``value`` and ``standard_error`` of what was chosen, and its ``parts``, as trials
        and weights; None if the search did not end.
    """

    data: str
    metric: str
    began: float
    former: tuple[Former, ...] = ()
    best: dict[str, Any] | None = None
    predicts: str | None = None

    @property
    def day(self) -> str:
        """The date on which it began, in local time."""
        return datetime.fromtimestamp(self.began).date().isoformat()

    def is_like(self, other: DayRecord) -> bool:
        """Whether both choose by the same measure, so that one may begin where the other ended."""
        known = {self.predicts, other.predicts} - {None}
        return self.metric == other.metric and len(known) < 2

    @property
    def parts(self) -> list[tuple[Trial, float]]:
        """The trials that were chosen, and their weights."""
        listed = (self.best or {}).get("parts", [])
        return [(Trial.from_dict(trial), float(weight)) for trial, weight in listed]

    @classmethod
    def from_row(cls, text: Any, checksum: int | None, where: str) -> Self:
        """The record of a row; raise ValueError, which names the row, if it is damaged."""
        try:
            if checksum != zlib.crc32(text):
                raise ValueError("its checksum is another")
            known = json.loads(text)
            former = [{**one, "trial": Trial.from_dict(one["trial"])} for one in known["former"]]
            return cls(**{**known, "former": tuple(Former(**one) for one in former)})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputValueError(
                f"`storage`: {where} is damaged ({error})",
                "delete this row of the table search, or name another file",
            ) from error

    def next_day(self, outcomes: Sequence[Outcome]) -> tuple[Former, ...]:
        """What the next search begins with: what was chosen, then the best of each family."""
        judged = [one for one in outcomes if one.value is not None and one.trial.point]
        judged.sort(key=lambda one: -(one.value or 0.0))
        seconds = {one.trial: one.seconds for one in reversed(judged)}
        weights = {trial: weight for trial, weight in self.parts if trial in seconds}
        leaders = dict[str, Trial]()
        for one in judged:
            leaders.setdefault(one.trial.family, one.trial)
        days = {(one.trial.family, one.trial.point): one.day for one in self.former}
        return tuple(
            Former(
                replace(trial, is_new=False),
                days.get((trial.family, trial.point), self.day),
                seconds[trial],
                weights.get(trial),
            )
            for trial in dict.fromkeys([*weights, *leaders.values()])
        )
