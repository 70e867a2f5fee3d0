"""The unit of numeric timestamps, recognized by their magnitudes.

1569888000000 is a millisecond of 2019, 1569888000 a second, 20191001 a day; 5 is none of these and
stays unchanged. The unit depends on the whole column; files that are read in portions add up the
:class:`Magnitudes` of their portions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import check_choice
from mfrank.data.columns import BadRow, Chosen
from mfrank.data.notes import log as _log
from mfrank.errors import InputValueError, Notice

TimestampUnit = Literal["s", "ms", "us", "ns"]
"""Unit of timestamps that are numbers."""

Unit = Literal["s", "ms", "us", "ns", "digits", "as is"]
"""What numbers were found to be: "digits" for dates like 20240131, "as is" for all else."""

TimeKind = Literal["whole", "number", "date", "either order", "month first", "day first"]
"""What a column of timestamps holds: whole numbers, numbers, or dates.

The last three are of dates like 12/31/2010: of days up to 12 alone, or with one that tells.
"""

_PER_SECOND: Mapping[TimestampUnit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNIT_NAMES: Mapping[str, str] = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}

FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Seconds of the years 1 to 9999, which every library and ISO 8601 can write."""
YEAR_1990, _1992, YEAR_2100 = 631_152_000, 694_224_000, 4_102_444_800
"""The seconds at which these years begin."""
_SPANS: Mapping[TimestampUnit, tuple[int, int]] = {
    # .NET counts 100 ns since the year 1, which would be nanoseconds of the year 1990 or 1991.
    unit: ((_1992 if unit == "ns" else YEAR_1990) * per, YEAR_2100 * per)
    for unit, per in _PER_SECOND.items()
}
"""Numbers that are of this unit: those of the years in which interactions were logged."""

FIRST_YEARS = 100_000_000
"""The second of 1973 before which numbers are hardly moments, also dates such as 20240131."""

_JANUARY = 31 * 86_400
_FIRST_DAY, _LAST_DAY = YEAR_1990 // 86_400, YEAR_2100 // 86_400
"""Days since 1970 of the same years, and those that spreadsheets count since 1900."""

_YEARS, _SHEET_DAYS = (1900, 2100), (36_526, 54_789)
"""Years, and days that spreadsheets count since 1899-12-30: those of 2000 to 2049."""
_1500 = -14_831_769_600
"""The second of the year before which, and 2100 after which, dates are hardly of this calendar."""

_DIGITS = (8, 12, 14)
"""Digits of dates that are written as numbers: 20240131, 202401311559, 20240131155930."""
_LEAST_DIGITS = 19_000_101


class Moments(NamedTuple):
    """A column of timestamps whose unit is not yet determined.

    Attributes
    ----------
    numbers : int64, shape (n,)
        Seconds since 1970, if they were dates. Fractions are rounded down.
    kind : TimeKind
    fraction : (row, number) or None
        The first number with a fraction.
    zones : set of bool
        Whether dates with a time of day name their time zone; both values if only some do.
    """

    numbers: NDArray[np.int64]
    kind: TimeKind
    fraction: tuple[int, float] | None = None
    zones: frozenset[bool] = frozenset()


class _Short(NamedTuple):
    """Numbers of six or seven digits that are dates: their bounds, what makes dates of them."""

    first: int
    last: int
    made_by: str
    are_such: Callable[[NDArray[np.int64]], NDArray[np.bool_]]


_SHORT: Mapping[str, _Short] = {
    "months": _Short(
        *(190_001, 210_012, "times.astype(str), format='%Y%m'"),
        lambda months: _calendar((100 * months + 1) * 10**6)[1],
    ),
    "days": _Short(
        *(100_101, 301_231, "times.astype(str), format='%y%m%d'"),
        lambda days: _calendar((20_000_000 + days) * 10**6)[1],
    ),
    "days of years": _Short(
        *(1_900_001, 2_100_366, "times.astype(str), format='%Y%j'"),
        lambda days: (days % 1000 >= 1) & (days % 1000 <= 366),
    ),
    "weeks": _Short(
        *(190_001, 210_053, "times.astype(str) + '1', format='%G%V%u'"),
        lambda weeks: (weeks % 100 >= 1) & (weeks % 100 <= 53),
    ),
}
"""In the order in which they are tried."""


def are_dates(kind: TimeKind) -> bool:
    """Whether timestamps of a kind are in seconds."""
    return kind not in ("whole", "number")


def with_day_first(seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The moments of dates whose day was taken for the month; both are up to 12."""
    at = seconds.astype("datetime64[s]")
    months, days = at.astype("datetime64[M]"), at.astype("datetime64[D]")
    years = at.astype("datetime64[Y]")
    month = (months - years.astype("datetime64[M]")).astype(np.int64)
    day = (days - months.astype("datetime64[D]")).astype(np.int64)
    other = (years.astype("datetime64[M]") + day).astype("datetime64[D]") + month
    moved: NDArray[np.int64] = (other - days).astype(np.int64) * 86_400
    return seconds + moved


def check_order(found: Moments) -> None:
    """Raise BadRow if dates like 3/4/2021 may have the day or the month first."""
    if found.kind != "either order":
        return
    differ = with_day_first(found.numbers) != found.numbers
    if differ.any():
        row = int(np.argmax(differ))
        raise BadRow(
            "`timestamps` like 3/4/2021 have the day first or the month, and none is above 12 to "
            f"tell which, such as that of {day_of(int(found.numbers[row]))} or of "
            f"{day_of(int(with_day_first(found.numbers[row : row + 1])[0]))}",
            row,
        )


class FractionsError(BadRow):
    """Numbers with fractions that are not points in time, such as hours; names the first."""

    def __init__(self, number: float, row: int) -> None:
        super().__init__(f"timestamps must be whole numbers or dates, got {number}", row)
        self.number = number


def check_unit(unit: Any, chosen: Chosen | None = None) -> None:
    """Raise ValueError unless ``unit`` is one of timestamps that are read, or None."""
    if unit is None:
        return
    check_choice("timestamp_unit", unit, get_args(TimestampUnit))
    if chosen is not None and chosen.get("timestamp") is False:
        raise InputValueError(
            "`timestamp_unit` has no effect with `timestamp=False`:", "leave one of them out"
        )


def tell_unit_alone(unit: TimestampUnit | None) -> None:
    """Warn if a unit is given of timestamps that a table does not have."""
    if unit is not None:
        _log.warning(
            Notice(
                "`timestamp_unit` has no effect, as no column of timestamps is recognized: name it "
                "with `timestamp=`, or leave out the unit"
            )
        )


def in_seconds(numbers: NDArray[np.int64], unit: Unit) -> NDArray[np.int64]:
    """Numbers of a unit in seconds; raises BadRow for a date that does not exist."""
    if unit == "digits":
        seconds, valid = _of_digits(numbers)
        if not valid.all():
            row = int(np.argmin(valid))
            raise BadRow(
                "`timestamps` must be dates like 20240131, as most of them are, got "
                f"{numbers[row]}",
                row,
            )
        return seconds
    return numbers if unit == "as is" or unit == "s" else numbers // _PER_SECOND[unit]


@dataclass
class Magnitudes:
    """Magnitudes of numbers that may be times, from which the unit is recognized.

    Attributes
    ----------
    counts : dict
        Number of timestamps by possible kind: the units, "digits", "reversed" for dates like
        31012024, "days", "early" for seconds of the first years since 1970, "small" for seconds of
        any other year, and "beyond".
    first : dict
        Value and row of the first timestamp of each kind.
    fraction : list or None
        The first number with a fraction, and its row.
    lowest, highest : int
    earliest, latest : int
        Of dates, as seconds.
    zones : list of bool
        As in :class:`Moments`.
    orders : list of str
        Of dates like 12/31/2010: "day first" and "month first".
    short : list of str
        What all numbers are spelled like: "months" such as 202401, "days" such as 240131, "weeks"
        such as 202431, "days of years" such as 2024031.
    """

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, list[int]] = field(default_factory=dict)
    fraction: list[float] | None = None
    lowest: int = 2**63 - 1
    highest: int = -(2**63)
    earliest: int = 2**63 - 1
    latest: int = -(2**63)
    zones: list[bool] = field(default_factory=list)
    orders: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=lambda: [*_SHORT])

    @classmethod
    def of(cls, found: Moments) -> Self:
        """Magnitudes of a column; dates have no kinds of numbers."""
        made = cls()
        made.add(found)
        return made

    def add(self, found: Moments, first_row: int = 0) -> None:
        """Add a column, or a portion of it with the number of its first row."""
        numbers = found.numbers
        self.zones = sorted(found.zones.union(self.zones))
        if found.kind in ("day first", "month first"):
            self.orders = sorted({*self.orders, found.kind})
        if not len(numbers):
            return
        low, high = int(numbers.min()), int(numbers.max())
        if are_dates(found.kind):
            self.earliest, self.latest = min(self.earliest, low), max(self.latest, high)
            return
        self.lowest, self.highest = min(self.lowest, low), max(self.highest, high)
        self.short = [what for what in self.short if _are_short(what, numbers, low, high)]
        if found.fraction is not None and self.fraction is None:
            self.fraction = [found.fraction[1], first_row + found.fraction[0]]
        unit = unit_of(low)
        if unit is not None and unit == unit_of(high):  # as nearly always
            self._count(unit, len(numbers), int(numbers[0]), first_row)
            return
        if low >= 0 and high < _LEAST_DIGITS and not _reversed(np.array([low, high])).all():
            are_days = (numbers >= _FIRST_DAY) & (numbers <= _LAST_DAY)
            sorts = {"days": are_days, "early": ~are_days}
        else:
            sorts = _sorts(numbers)
        for sort, where in sorts.items():
            if n := int(np.count_nonzero(where)):
                row = int(np.argmax(where))
                self._count(sort, n, int(numbers[row]), first_row + row)

    def _count(self, sort: str, n: int, value: int, row: int) -> None:
        self.counts[sort] = self.counts.get(sort, 0) + n
        self.first.setdefault(sort, [value, row])

    def unit(self) -> Unit:
        """The unit of all numbers.

        Raises
        ------
        FractionsError, BadRow
            As :func:`seconds_of`.
        """
        n, counts = sum(self.counts.values()), self.counts
        if n > 1 and counts.get("reversed") == n:
            number, at = self.first["reversed"]
            raise BadRow(
                "`timestamps` must be dates with the year first, like 20240131, and all have it "
                f"last, like {number}; `timestamp_unit='s'` keeps the numbers",
                at,
            )
        if 2 * counts.get("digits", 0) > n:
            return "digits"
        units: list[TimestampUnit] = [u for u in get_args(TimestampUnit) if counts.get(u)]
        if len(units) > 1:
            odd = min(units, key=lambda unit: counts[unit])
            usual = max(units, key=lambda unit: (counts[unit], unit != odd))
            raise self._mixed(odd, f"others are {UNIT_NAMES[usual]} since 1970")
        if units and units != ["s"]:
            (unit,) = units
            if 2 * counts[unit] <= n:
                raise self._mixed(unit, "most are small")
            if counts.get("beyond"):
                raise self._mixed("beyond", f"most are {UNIT_NAMES[unit]} since 1970")
            self._refuse_others(unit)
            return unit
        if counts.get("beyond"):
            raise self._mixed("beyond", "that is no date as seconds since 1970" if units else "")
        if units:
            self._refuse_others("s")
        if self.fraction is not None and not units:
            value, row = self.fraction
            raise FractionsError(value, int(row))
        return "s" if units else "as is"

    def _refuse_others(self, unit: TimestampUnit) -> None:
        """Raise BadRow if others than those of the unit are days, dates or small numbers.

        A few numbers of the first years may be times that are unknown, such as 0, which are told;
        days and dates among as many others are rather counted from the beginning of a log.
        """
        counts, n = self.counts, sum(self.counts.values())
        marked = [sort for sort in ("days", "digits", "reversed") if counts.get(sort)]
        n_marked, n_early = sum(counts[sort] for sort in marked), counts.get("early", 0)
        if n_marked <= n_early + counts.get("small", 0) and 2 * (n_marked + n_early) < n:
            return
        odd = max([*marked, *["early"] * (n_early > 0)], key=counts.__getitem__)
        if counts[odd] > counts[unit]:
            what = {"days": "days", "early": "small"}.get(odd, "dates like 20240131")
            raise self._mixed(unit, f"most are {what}")
        raise self._mixed(odd, f"others are {UNIT_NAMES[unit]} since 1970")

    def _mixed(self, sort: str, why: str) -> BadRow:
        value, row = self.first[sort]
        but = f", but {why}" if why else ", which is in no known unit since 1970"
        return BadRow(
            f"`timestamps` must all be in one unit, got {value}{but}; name the unit with "
            "`timestamp_unit='s'`, 'ms', 'us' or 'ns' ('s' leaves numbers as they are)",
            row,
        )

    def tell(self) -> None:
        """Log the recognized unit, if numbers were converted.

        Also logs oddities: negative numbers that are not seconds, and dates of which only some have
        a time zone.
        """
        if len(self.zones) > 1:
            _log.warning(
                "timestamps are dates of which some have a time zone and others have none: those "
                "without are taken as UTC"
            )
        if self.orders:
            _log.info("timestamps are dates like 12/31/2010, with the %s", " or ".join(self.orders))
        if not self.counts:
            if 0 <= self.earliest <= self.latest < _JANUARY:
                _log.warning(
                    "timestamps are dates of January 1970, up to %s, as numbers become that are "
                    "converted in another unit: pass the numbers, or convert them in their own, "
                    "such as by pandas.to_datetime(seconds, unit='s')",
                    datetime.fromtimestamp(self.latest, UTC).strftime("%Y-%m-%d %H:%M:%S"),
                )
            if self.latest >= self.earliest > YEAR_2100 or self.earliest <= self.latest < _1500:
                _log.warning(
                    "timestamps are dates from %s to %s, as of another calendar than the Gregorian "
                    "one, and are read as of this: convert them if they are not",
                    *(day_of(self.earliest), day_of(self.latest)),
                )
            return
        if (unit := self.unit()) == "as is" and self.lowest < 0:
            _log.warning(
                "timestamps go from %d to %d: as seconds those below 0 are before 1970, and "
                "milliseconds in 32 bits become such numbers; they are kept as they are",
                *(self.lowest, self.highest),
            )
        if unit == "as is" and (found := self._parts_of_dates()):
            what, remedy = found
            _log.warning(
                Notice(
                    f"timestamps from {self.lowest} to {self.highest} look like {what}, and are "
                    f"kept as they are, as if seconds since 1970: {remedy}; `timestamp_unit='s'` "
                    "keeps the numbers"
                )
            )
        if unit in ("s", "as is"):
            return
        bounds = in_seconds(np.array([self.lowest, self.highest]), unit).tolist()
        begin, end = (day_of(second) for second in bounds)
        what = "dates like 20240131" if unit == "digits" else f"{UNIT_NAMES[unit]} since 1970"
        _log.warning(
            Notice(
                f"timestamps are taken as {what}, from {begin} to {end}, and kept in seconds since "
                "1970; `timestamp_unit='s'` keeps the numbers"
            )
        )

    def _parts_of_dates(self) -> tuple[str, str] | None:
        """What all numbers look like that are no moments, and the remedy."""
        low, high = self.lowest, self.highest
        if _YEARS[0] <= low <= high <= _YEARS[1]:
            return "years", f"write dates, such as {low}-01-01"
        if _SHEET_DAYS[0] <= low <= high <= _SHEET_DAYS[1]:
            remedy = "dates are made by pandas.to_datetime(days, unit='D', origin='1899-12-30')"
            return "days of a spreadsheet", remedy
        for what in self.short:
            return what, f"dates are made by pandas.to_datetime({_SHORT[what].made_by})"
        return None

    def check(self, unit: TimestampUnit) -> None:
        """Log if another unit is more likely than the stated one."""
        n = sum(self.counts.values())
        likely = next((u for u in get_args(TimestampUnit) if 2 * self.counts.get(u, 0) > n), unit)
        if unit != "s" and likely != unit:
            bounds = in_seconds(np.array([self.lowest, self.highest]), unit).tolist()
            first, last = (day_of(min(max(at, FIRST_SECOND), LAST_SECOND)) for at in bounds)
            _log.warning(
                Notice(
                    f"`timestamp_unit={unit!r}` makes dates from {first} to {last} of timestamps "
                    f"that look like {UNIT_NAMES[likely]}"
                )
            )

    def to_dict(self) -> dict[str, Any]:
        """As a dict of JSON types."""
        return dict(vars(self))


def unit_of(number: float) -> TimestampUnit | None:
    """The unit since 1970 in which a number falls in the years 1990 to 2100, or None."""
    spans = _SPANS.items()
    return next((unit for unit, (begin, end) in spans if begin <= number <= end), None)


def look_like_times(lowest: float, highest: float) -> bool:
    """Whether a range of numbers looks like times: of one unit, or dates like 20240131."""
    if not (abs(lowest) < 2.0**63 and abs(highest) < 2.0**63):
        return False
    ends = np.array([int(lowest), int(highest)])
    unit = unit_of(lowest)
    return (unit is not None and unit == unit_of(highest)) or bool(_of_digits(ends)[1].all())


def tell_of_fractions(error: FractionsError) -> None:
    """Log that a column, recognized by name, is left out."""
    _log.warning(
        Notice(
            f"the column that was taken as timestamps is ignored after all: {error.number} is no "
            "moment in time; if it is a value, such as hours, name it with `value=`; "
            "`timestamp_unit=` reads it as times"
        )
    )


def _sorts(numbers: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Which of the numbers are of each sort."""
    left = np.ones(len(numbers), np.bool_)
    sorts = dict[str, NDArray[np.bool_]]()

    def take(sort: str, where: NDArray[np.bool_]) -> None:
        sorts[sort] = where & left
        np.logical_and(left, ~where, out=left)

    for unit, (begin, end) in _SPANS.items():
        take(unit, (numbers >= begin) & (numbers <= end))
    take("digits", _of_digits(numbers)[1])
    take("reversed", _reversed(numbers))
    take("days", (numbers >= _FIRST_DAY) & (numbers <= _LAST_DAY))
    take("early", (numbers >= 0) & (numbers < FIRST_YEARS))
    take("small", (numbers >= FIRST_SECOND) & (numbers <= LAST_SECOND))
    take("beyond", left.copy())
    return sorts


def _are_short(what: str, numbers: NDArray[np.int64], low: int, high: int) -> bool:
    """Whether all numbers are spelled like months, days or weeks."""
    sort = _SHORT[what]
    return sort.first <= low <= high <= sort.last and bool(sort.are_such(numbers).all())


def _of_digits(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Seconds of dates like 20240131 or 20240131155930, and which numbers are such dates."""
    seconds = np.zeros(len(numbers), np.int64)
    valid = np.zeros(len(numbers), np.bool_)
    for n_digits in _DIGITS:
        least = 19_00 * 10 ** (n_digits - 4)
        where = np.flatnonzero((numbers >= least) & (numbers < 2101 * (least // 1900)))
        if len(where):
            seconds[where], valid[where] = _calendar(numbers[where] * 10 ** (14 - n_digits))
    return seconds, valid


def _reversed(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which numbers are dates like 31012024 or 1312024, with the day or the month first."""
    first, year = np.divmod(numbers, 10**4)
    may_be = (year >= 1990) & (year <= 2100) & (first >= 101) & (first <= 3112)
    where = np.flatnonzero(may_be)
    day, month = np.divmod(first[where], 100)
    dates = [year[where] * 10**4 + m * 100 + d for d, m in ((day, month), (month, day))]
    may_be[where] = np.logical_or(*(_calendar(date * 10**6)[1] for date in dates))
    return may_be


def _calendar(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The same for numbers of 14 digits."""
    days, clock = np.divmod(numbers, 10**6)
    months, day = np.divmod(days, 100)
    year, month = np.divmod(months, 100)
    hours, second = np.divmod(clock, 100)
    hour, minute = np.divmod(hours, 100)
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)
    of_year = (12 * (year - 1970) + np.where(valid, month, 1) - 1).astype("datetime64[M]")
    at = of_year.astype("datetime64[D]") + (day - 1).astype("timedelta64[D]")
    valid &= at.astype("datetime64[M]") == of_year  # no 31st of April
    seconds = at.astype(np.int64) * 86_400 + hour * 3600 + minute * 60 + second
    return seconds, valid


def day_of(second: int) -> str:
    """The date of a second since 1970."""
    return datetime.fromtimestamp(second, UTC).date().isoformat()
