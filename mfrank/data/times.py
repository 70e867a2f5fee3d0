"""Timestamps: numbers and dates of every library as whole seconds, by one rule.

A column is read in two steps. :func:`moments` converts it to integers: dates become seconds since
1970, numbers stay in their unit. :func:`seconds_of` then determines the unit
(:mod:`mfrank.data.time_units`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import shown
from mfrank.data.columns import BadRow
from mfrank.data.fields import NUMBER, Fields
from mfrank.data.labels import objects
from mfrank.data.time_units import (
    FIRST_SECOND,
    LAST_SECOND,
    FractionsError,
    Magnitudes,
    Moments,
    TimeKind,
    TimestampUnit,
    are_dates,
    check_order,
    in_seconds,
    tell_of_fractions,
    tell_unit_alone,
    with_day_first,
)
from mfrank.errors import InputTypeError, InputValueError

_1970 = date(1970, 1, 1).toordinal()
_LONGEST_DATE = len("2024-01-31")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_WEST = re.compile(r"[T: ][0-9:.,]*-")  # a zone such as -05:00, after a time of day
_ISO = re.compile(
    r"(\d{4})([-/]?)(\d\d)\2(\d\d)"
    r"(?:[Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,]\d{1,9})?)?)?"
    r"(?: ?(?:[Zz]|UTC|GMT|([+-])(\d\d):?(\d\d)?))?)?",
    re.ASCII,
)

_SLASHED = re.compile(
    r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})"
    r"(?:[T ] ?(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,]\d{1,9})?)?(?: ?([AaPp])\.?[Mm]\.?)?)?",
    re.ASCII,
)
"""Dates such as 12/31/2010 or 31.12.2010, and the time of day."""
_OF_C = re.compile(
    r"[A-Z][a-z]{2},? ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)"
    r"(?: (?:UTC|GMT|Z|([+-])(\d\d)(\d\d)))? (\d{4})",
    re.ASCII,
)
"""Dates such as Tue Apr 03 18:00:09 +0000 2012."""
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def epoch_seconds(timestamps: ArrayLike, unit: TimestampUnit | None = None) -> NDArray[np.int64]:
    """Convert timestamps to int64: dates and numbers of a known unit to seconds since 1970 (UTC).

    Dates are numpy, Python or pandas dates, datetimes or periods of the years 1 to 9999, or ISO
    8601 text: ``2024-01-31``, ``2024/01/31``, ``2024-01-31T15:59:30.5+02:00``, also with a blank
    for the T and with UTC or Z for the zone. ``Tue Apr 03 18:00:09 +0000 2012`` is a date, and so
    are ``12/31/2010 8:26 PM`` and ``31.12.2010``, if a day above 12 or the points tell which is the
    day, which is logged. Dates without a time zone are UTC. Text of digits alone is a number.

    Numbers are read as milli-, micro- or nanoseconds since 1970 if most of them then fall in the
    years 1990 to 2100, and as dates if most are spelled like 20240131 or 20240131155930; both are
    logged as a warning. Other numbers are unchanged: seconds, days or the order of events.
    Fractions are rounded down.

    Parameters
    ----------
    timestamps : array-like of numbers or dates, shape (n,)
    unit : {"s", "ms", "us", "ns"} or None, default None
        Unit of numbers; "s" leaves them as they are. None recognizes it.

    Raises
    ------
    BadRow
        A timestamp is missing, infinite, beyond int64 or not a date; dates have the day or the
        month first, and none tells which; or numbers have several units
        or none, or have fractions and are too small to be points in time.
    TypeError
        Timestamps are neither numbers nor dates, such as booleans.
    """
    return seconds_of(moments(timestamps), unit)


def moments(timestamps: ArrayLike, kind: TimeKind | None = None) -> Moments:
    """Read a column of numbers or dates; text is read as ``kind``, or as the kind of all of it.

    Raises
    ------
    BadRow, TypeError
        As :func:`epoch_seconds`, except for what depends on the unit.
    """
    times = np.asarray(timestamps)
    if times.ndim != 1:
        raise InputValueError(f"`timestamps` must be in one dimension, got shape {times.shape}")
    letter = times.dtype.kind
    if letter in "iu":
        if letter == "u":
            _refuse(times > np.iinfo(np.int64).max, times)
        return Moments(times.astype(np.int64), "whole")
    if letter == "f":
        return _of_floats(times)
    if letter == "M":
        return Moments(_of_datetime64(times), "date")
    if letter not in "UTO":
        raise InputTypeError(
            f"`timestamps` must be whole numbers or dates, got dtype {times.dtype}"
        )
    each = [one.strip() if isinstance(one, str) else one for one in times.tolist()]
    kind = time_kind(each) if kind is None else kind
    if kind == "whole":
        return Moments(_each(each, _whole), "whole")
    if kind == "number":
        return _of_floats(np.array([float(one) for one in each]))
    try:
        return Moments(_each(each, partial(_second, kind=kind)), kind, zones=zones_of(each))
    except BadRow as error:
        if kind == "date" or error.row >= len(each) or not is_date(each[error.row]):
            raise
        what = "like 31/12/2010" if kind == "day first" else "like 12/31/2010"
        what += f", with the {kind}," if "first" in kind else ","
        raise BadRow(
            f"`timestamps` must all be dates {what} as others are, got {shown(each[error.row])}",
            error.row,
        ) from None


def text_moments(fields: Fields, kind: TimeKind | None = None) -> Moments:
    """Read a column of text as :func:`moments` does, but usual numbers all at once."""
    if kind in (None, "date") and len(fields.begins) and (dates := fields.seconds()) is not None:
        return Moments(dates[0], "date", zones=dates[1])
    if kind is None or not are_dates(kind):
        if (whole := fields.whole_numbers()) is not None:
            if kind == "number":
                return _of_floats(whole.astype(np.float64))
            return Moments(whole, "whole")
        numbers = fields.decimals() if kind != "whole" else None
        if numbers is not None and (kind == "number" or (numbers % 1 != 0).any()):
            return _of_floats(numbers)
    return moments(objects(text.strip() for text in fields.texts()), kind)


def part_moments(fields: Fields, kind: TimeKind | None) -> Moments:
    """The timestamps of a part of a column, none if one is wrong and the kind of all is unknown.

    The error is then that of the whole column, when this is read as its own kind.
    """
    try:
        return text_moments(fields, kind)
    except BadRow:
        if kind is not None:
            raise
        stripped = [text.strip() for text in fields.texts()]
        return Moments(np.empty(0, np.int64), time_kind(stripped), zones=zones_of(stripped))


def joined_moments(parts: Sequence[Moments]) -> Moments:
    """The moments of parts of a column, of the widest of their kinds."""
    first_row, fraction = 0, None
    for part in parts:
        if part.fraction is not None:
            fraction = first_row + part.fraction[0], part.fraction[1]
            break
        first_row += len(part.numbers)
    if len(parts) == 1:
        return parts[0]
    kind = widest({part.kind for part in parts}) or "whole"
    numbers = np.concatenate([in_order(part, kind) for part in parts])
    return Moments(numbers, kind, fraction, frozenset().union(*(part.zones for part in parts)))


def in_order(part: Moments, kind: TimeKind) -> NDArray[np.int64]:
    """The numbers of a part of a column of this kind, with the day first if that says so."""
    is_other = part.kind == "either order" and kind == "day first"
    return with_day_first(part.numbers) if is_other else part.numbers


def widest(kinds: Set[TimeKind]) -> TimeKind | None:
    """The kind of a column with parts of some: dates if one has dates, fractions if one has any."""
    return max(kinds, key=get_args(TimeKind).index, default=None)


def zones_of(times: Sequence[Any]) -> frozenset[bool]:
    """Whether dates with a time of day name their time zone."""
    if all(isinstance(time, str) for time in times):
        joined = "\n".join(times)
        if not any(mark in joined for mark in "+ZzC") and not _WEST.search(joined):
            return frozenset({False} if any(map(_has_clock, times)) else ())  # as most
    return frozenset(map(_has_zone, filter(_has_clock, times)))


def _has_clock(time: Any) -> bool:
    return len(time) > _LONGEST_DATE if isinstance(time, str) else isinstance(time, datetime)


def _has_zone(time: Any) -> bool:
    if isinstance(time, datetime):
        return time.utcoffset() is not None
    return time[-1] in "ZzCT" or "+" in time or "-" in time[_LONGEST_DATE:]


def time_kind(times: Sequence[Any]) -> TimeKind:
    """The common kind of text or objects: dates if they are not numbers."""
    if all(map(_is_whole, times)):
        return "whole"
    return "number" if all(map(_is_number, times)) else _date_kind(times)


def _date_kind(times: Sequence[Any]) -> TimeKind:
    """By the first of dates like 12/31/2010 that tells; dates by year if the first one is."""
    if not times or not isinstance(times[0], str) or not _SLASHED.fullmatch(times[0]):
        return "date"
    kind: TimeKind = "either order"
    for time in times:
        if isinstance(time, str) and (found := _SLASHED.fullmatch(time)):
            if found[2] == "." or int(found[1]) > 12:
                return "day first"
            if int(found[3]) > 12:
                kind = "month first"
    return kind


def seconds_of(found: Moments, unit: TimestampUnit | None = None) -> NDArray[np.int64]:
    """The moments in seconds, if numbers have a stated or recognized unit; see the module.

    A recognized unit is logged.

    Raises
    ------
    FractionsError
        Numbers have fractions, and are too small to be points in time.
    BadRow
        Numbers have several units, or none.
    """
    known = Magnitudes.of(found)
    check_order(found)
    if are_dates(found.kind) or not len(found.numbers):
        known.tell()
        return found.numbers
    if unit is None:
        converted = in_seconds(found.numbers, known.unit())
        known.tell()
        return converted
    known.check(unit)
    return in_seconds(found.numbers, unit)


def settle(
    columns: dict[str, Any], unit: TimestampUnit | None, *, is_chosen: bool
) -> dict[str, NDArray[Any]]:
    """The columns with timestamps, if any, converted from :class:`Moments` to seconds.

    A column with fractions that cannot be points in time is left out, unless it was chosen by name.

    Raises
    ------
    FractionsError, BadRow
        As :func:`seconds_of`.
    """
    if "timestamp" not in columns:
        tell_unit_alone(unit)
        return columns
    try:
        return columns | {"timestamp": seconds_of(columns["timestamp"], unit)}
    except FractionsError as error:
        if is_chosen:
            raise
        tell_of_fractions(error)
        return {role: column for role, column in columns.items() if role != "timestamp"}


def _of_floats(times: NDArray[np.floating]) -> Moments:
    wide = times.astype(np.float64) if times.dtype.itemsize < 8 else times
    _refuse(~(np.abs(wide) < 2.0**63), times)
    if wide is not times:
        rounded = np.abs(wide) > 2 ** (np.finfo(times.dtype).nmant + 1)
        if rounded.any():
            at = int(np.argmax(rounded))
            raise BadRow(
                f"`timestamps` in {times.dtype} are rounded to multiples of "
                f"{np.spacing(times[at]):g}, got {times[at]:.0f}; read them as whole numbers, or "
                "take them as they are with .astype(float)",
                at,
            )
    floors = np.floor(times)
    broken = floors != times
    row = int(np.argmax(broken)) if broken.any() else None
    fraction = None if row is None else (row, float(times[row]))
    return Moments(np.asarray(floors, dtype=np.int64), "number", fraction)


def _of_datetime64(times: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Seconds of numpy's dates; those beyond the years 1 to 9999 are refused, as of all others."""
    unit = np.datetime_data(times.dtype)[0]
    if unit == "generic":
        raise InputTypeError(
            f"`timestamps` must be whole numbers or dates, got dtype {times.dtype}"
        )
    missing = np.isnat(times)
    if missing.any():
        row = int(np.argmax(missing))
        raise BadRow("`timestamps` must be finite, got a missing one, NaT", row)
    digits = {"ms": 3, "us": 6, "ns": 9, "ps": 12, "fs": 15, "as": 18}.get(unit, 0)
    if digits:  # numpy's cast to seconds wraps around in the first second that the unit has
        whole = times.astype(f"datetime64[{unit}]").astype(np.int64)
        seconds: NDArray[np.datetime64] = (whole // 10**digits).astype("datetime64[s]")
    else:
        seconds = times.astype("datetime64[s]")
    # Coarser than seconds, a year may be beyond int64: compared as what they are, it is not.
    compared = seconds if digits else times
    first, last = (
        np.datetime64(end, "s").astype(compared.dtype) for end in (FIRST_SECOND, LAST_SECOND)
    )
    beyond = (compared < first) | (compared > last)
    if beyond.any():
        raise _beyond(times, int(np.argmax(beyond)))
    return seconds.astype(np.int64)


def _beyond(times: Sequence[Any] | NDArray[Any], row: int) -> BadRow:
    return BadRow(f"dates must lie in the years 1 to 9999, got {shown(times[row])}", row)


def _refuse(bad: NDArray[np.bool_], times: NDArray[Any]) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise BadRow(f"`timestamps` must be finite and fit int64, got {times[row]}", row)


def _is_whole(time: Any) -> bool:
    if isinstance(time, str):
        return _WHOLE.fullmatch(time) is not None
    if isinstance(time, Decimal):
        return time.is_finite() and time == int(time)
    return isinstance(time, int | np.integer) and not isinstance(time, bool)


def _is_number(time: Any) -> bool:
    if isinstance(time, str):
        return NUMBER.fullmatch(time) is not None
    if isinstance(time, float | np.floating | Decimal):
        return bool(time == time and abs(time) != np.inf)
    return isinstance(time, int | np.integer) and not isinstance(time, bool)


def _each(times: Sequence[Any], read: Callable[[Any], int]) -> NDArray[np.int64]:
    found = np.empty(len(times), np.int64)
    for row, time in enumerate(times):
        try:
            found[row] = read(time)
        except OverflowError as error:
            if read is _whole:
                raise BadRow(f"`timestamps` must fit int64, got {time}", row) from error
            raise _beyond(times, row) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise _no_date(times, row) from error
    return found


def _no_date(times: Sequence[Any], row: int) -> BadRow:
    """The error for a row of a column of dates; a field that is neither number nor date is told."""
    odd = (at for at in range(row, len(times)) if not is_time(times[at]))
    if any(map(_is_number, times)) and (at := next(odd, None)) is not None:
        row = at
    return BadRow(
        f"`timestamps` must be all whole numbers or all dates, got {shown(times[row])}", row
    )


def is_time(time: Any) -> bool:
    """Whether a value is a number or a date."""
    if _is_number(time):
        return True
    try:
        _second(time)
    except (AttributeError, OverflowError, TypeError, ValueError):
        return False
    return True


def is_date(time: Any) -> bool:
    """Whether a value is a date, and not a number."""
    return is_time(time) and not _is_number(time)


def hold_dates(values: Iterable[Any]) -> bool:
    """Whether values are dates, but for missing ones."""
    present = [one for one in values if not _is_gone(one)]
    return bool(present) and all(map(is_date, present))


def _is_gone(value: Any) -> bool:
    if isinstance(value, float | np.floating | np.datetime64):
        return bool(value != value)
    empty = isinstance(value, str) and not value.strip()
    return value is None or empty or type(value).__name__ in ("NAType", "NaTType")


def _whole(time: Any) -> int:
    return int(time)


def _second(time: Any, kind: TimeKind | None = None) -> int:
    """The second of a date of any type, text of a kind; a ValueError or so if it is none."""
    if isinstance(time, str):
        is_slashed = _SLASHED.fullmatch(time) is not None
        if kind is not None and is_slashed == (kind == "date"):
            raise ValueError(time)
        second = _second_of_slashed(time, kind) if is_slashed else _second_of_text(time)
    elif isinstance(time, datetime):
        second = _second_of_datetime(time)
    elif isinstance(time, date):
        second = (time.toordinal() - _1970) * 86_400
    elif isinstance(time, np.datetime64):
        return int(_of_datetime64(np.array([time]))[0])
    else:  # a Period of pandas; its start_time would be another date beyond nanoseconds
        second = int(time.asfreq("s", how="start").ordinal)
    if not FIRST_SECOND <= second <= LAST_SECOND:
        raise OverflowError
    return second


def _second_of_text(text: str) -> int:
    # The usual forms, as read by what is fastest; it takes many more, some of them by chance.
    if len(text) in (10, 19) and text[4:5] == text[7:8] == "-" and text[10:11] in ("", "T", " "):
        return _second_of_datetime(datetime.fromisoformat(text))
    if of_c := _OF_C.fullmatch(text):
        name, *rest, sign, hours, minutes, year = of_c.groups("0")
        rest = [str(_MONTHS.index(name) + 1), *rest]
    elif (found := _ISO.fullmatch(text)) is not None and not text.isdigit():
        year, _, *rest, sign, hours, minutes = found.groups("0")
    else:
        raise ValueError(text)
    month, day, hour, minute, second = map(int, rest)
    moment = datetime(int(year), month, day, hour, minute, second)
    if int(hours) > 23 or int(minutes) > 59:
        raise ValueError(text)
    east = 3600 * int(hours) + 60 * int(minutes)
    return _second_of_datetime(moment) - (-east if sign == "-" else east)


def _second_of_slashed(text: str, kind: TimeKind | None) -> int:
    """Of a date like 12/31/2010; of unknown kind, in whichever order there is one."""
    found = _SLASHED.fullmatch(text)
    assert found is not None
    first, mark, second, year, hour, *rest, half = found.groups("0")
    day_first = kind == "day first" or (kind is None and (mark == "." or int(first) > 12))
    if mark == "." and not day_first:
        raise ValueError(text)
    if half != "0":
        if not 1 <= int(hour) <= 12:
            raise ValueError(text)
        hour = str(int(hour) % 12 + 12 * (half in "Pp"))
    month, day = (second, first) if day_first else (first, second)
    minute, past = map(int, rest)
    moment = datetime(int(year), int(month), int(day), int(hour), minute, past)
    return _second_of_datetime(moment)


def _second_of_datetime(moment: datetime) -> int:
    """By whole numbers: ``timestamp()`` rounds the last microsecond of the year 9999 up."""
    days = moment.toordinal() - _1970
    second = days * 86_400 + moment.hour * 3600 + moment.minute * 60 + moment.second
    offset = moment.utcoffset()
    if not offset:
        return second
    micros = second * 10**6 + moment.microsecond
    east = offset.days * 86_400 + offset.seconds
    return (micros - east * 10**6 - offset.microseconds) // 10**6
