"""Timestamps of several files that make one table: one unit for all, by the numbers of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.data.columns import BadRow, Chosen, in_column
from mfrank.data.odd_times import check_parts
from mfrank.data.tables import Portion
from mfrank.data.time_units import (
    FractionsError,
    Magnitudes,
    TimeKind,
    TimestampUnit,
    Unit,
    are_dates,
    check_order,
    in_seconds,
    tell_of_fractions,
    tell_unit_alone,
)
from mfrank.data.times import in_order
from mfrank.errors import InputValueError

_WIDER = get_args(TimeKind).index
"""A file with numbers and dates has dates, one with fractions has numbers."""
_TO_ONE_UNIT = "convert the times of all files to one unit, such as dates like 2024-01-31"


@dataclass
class TimesOfFiles:
    """What is known of the timestamps of the files read so far.

    Attributes
    ----------
    kinds : dict of str to TimeKind
        Kind of timestamps of each file, by name.
    magnitudes : Magnitudes
        Of all timestamps that are numbers.
    latest : dict of str to int
        Highest timestamp of each file, by name.
    unsure : dict of str to str
        File -> the error if its dates alone do not tell whether the day comes first.
    """

    kinds: dict[str, TimeKind] = field(default_factory=dict)
    magnitudes: Magnitudes = field(default_factory=Magnitudes)
    latest: dict[str, int] = field(default_factory=dict)
    unsure: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As a dict of JSON types."""
        return {**vars(self), "magnitudes": self.magnitudes.to_dict()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Build from what :meth:`to_dict` returned."""
        return cls(**{**facts, "magnitudes": Magnitudes(**facts["magnitudes"])})

    def add(self, file: str, portion: Portion) -> None:
        """Add some rows of a file."""
        if (when := portion.moments) is None:
            return
        if {when.kind, self.kinds.get(file)} == {"day first", "month first"}:
            what = "`timestamps` must all have the day first or the month, and rows from"
            row = portion.first_row
            raise in_column(
                f"{what} {row} on have the {when.kind}", "timestamp", "timestamp"
            ).within(file)
        self.kinds[file] = max(self.kinds.get(file, when.kind), when.kind, key=_WIDER)
        self.magnitudes.add(when, portion.first_row)
        try:
            check_order(when)
        except BadRow as error:
            self.unsure.setdefault(file, error.what)
        if len(when.numbers):
            last = int(when.numbers.max())
            self.latest[file] = max(self.latest.get(file, last), last)

    def unit(self, given: TimestampUnit | None, chosen: Chosen) -> Unit | None:
        """The unit of timestamps that are numbers; None if there are none, or none are kept."""
        if not self.kinds:
            tell_unit_alone(given)
            return None
        self._settle_order()
        if given is not None:
            if given != "s":  # that leaves numbers as they are
                self._check_files(given)
            self.magnitudes.check(given)
            return given
        try:
            unit = self.magnitudes.unit()
        except FractionsError as error:
            if chosen.get("timestamp") is None:
                tell_of_fractions(error)
                return None
            raise in_column(error.what, "timestamp", chosen["timestamp"]) from error
        except BadRow as error:
            remedy = f"or {_TO_ONE_UNIT}" if len(self.latest) > 1 else ""
            raise InputValueError(error.what, remedy) from error
        if unit == "as is" and self.magnitudes.counts and any(map(are_dates, self.kinds.values())):
            raise InputValueError(
                f"`timestamps` are dates in some files and numbers such as "
                f"{self.magnitudes.lowest} in others",
                "name the unit of numbers with `timestamp_unit=`",
            )
        self._check_files(unit)
        self.magnitudes.tell()
        return unit

    def _settle_order(self) -> None:
        """Read dates like 3/4/2021 of a file as those of the others, if these tell how."""
        orders = {kind for kind in self.kinds.values() if kind in ("day first", "month first")}
        for file, kind in self.kinds.items():
            if kind == "either order" and len(orders) == 1:
                (self.kinds[file],) = orders
            elif kind == "either order" and file in self.unsure:
                raise in_column(self.unsure[file], "timestamp", "timestamp").within(file)

    def _check_files(self, unit: Unit) -> None:
        """Raise ValueError if the times of a file are of another unit than those of others."""
        if unit == "digits":  # a number that is no such date is refused where it is read
            return
        latest = {
            name: last
            if are_dates(self.kinds[name])
            else int(in_seconds(np.array([last]), unit)[0])
            for name, last in self.latest.items()
        }
        check_parts(latest, _TO_ONE_UNIT)


def seconds_in(
    file: object, portion: Portion, unit: Unit, kind: TimeKind | None = None
) -> NDArray[np.int64]:
    """The timestamps of a portion of a file, dates or numbers of this unit; its kind if known."""
    when = portion.moments
    assert when is not None  # all files have timestamps
    if are_dates(when.kind):
        return when.numbers if kind is None else in_order(when, kind)
    try:
        return in_seconds(when.numbers, unit)
    except BadRow as error:
        raise BadRow(error.what, portion.first_row + error.row).within(file) from None
