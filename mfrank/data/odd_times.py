"""What is odd about timestamps of a known unit: by themselves, or beside those of other parts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mfrank.data.notes import log as _log
from mfrank.data.notes import noted_ignored
from mfrank.data.time_units import (
    FIRST_SECOND,
    FIRST_YEARS,
    LAST_SECOND,
    UNIT_NAMES,
    YEAR_1990,
    YEAR_2100,
    day_of,
    unit_of,
)
from mfrank.errors import InputValueError, Notice

_AT_ONCE = 1 << 22
_DAY, _WEEK = 86_400, 7 * 86_400
_BRIEF = 1000
"""Seconds that are more likely days or hours, where timestamps span more than a week."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MOMENTS = {"time", "timestamp", "ts", "datetime", "epoch", "unixtime", "createtime", "eventtime"}
_CLOCKS = {"hour", "hours", "hourmin", "hhmm", "hhmmss", "minute", "clock", "tod"}
_BESIDE = {"ms", "us", "ns", "s", "sec", "seconds", "millis", "unix", "utc", "gmt", "local", "at"}
_BESIDE |= {"event", "log", "server", "client", "created", "click", "order", "purchase", "request"}
_BESIDE |= {"visit", "of", "the", "day", "action", "interaction", "rating", "raw"}
"""Words of names of columns that hold moments, or times of a day, and those that may be with them;
others, as in play_time or delivery_time, make a duration of it."""
_ALIKE = 10
"""Half-lives that many times as long as all timestamps span leave all weights nearly the same."""


def tell_of_odd_times(times: NDArray[np.int64]) -> None:
    """Warn about timestamps far from all others, such as 0 or 9999-12-31, or in the future.

    They lie outside the years of logged interactions, unlike most of the column.
    """
    n, n_odd, first = len(times), 0, 0
    last = min(YEAR_2100, int(time.time()) + _DAY)
    for begin in range(0, n, _AT_ONCE):  # they may be mapped from a disk
        part = times[begin : begin + _AT_ONCE]
        if part.min() >= YEAR_1990 and part.max() <= last:
            continue
        odd = np.flatnonzero((part < YEAR_1990) | (part > last))
        first = first if n_odd else int(part[odd[0]])
        n_odd += len(odd)
    if 0 < 2 * n_odd < n:
        date = f" ({day_of(first)})" if FIRST_SECOND <= first <= LAST_SECOND else ""
        _log.warning(
            "%s of %s timestamps are %s, such as %d%s: drop these interactions if their times are "
            "unknown, because splits and weights by time read them",
            *(f"{n_odd:,}", f"{n:,}"),
            "in the future" if last < first <= YEAR_2100 else "not of the years 1990 to 2100",
            *(first, date),
        )


def tell_of_whole_days(times: NDArray[np.int64]) -> None:
    """Warn of a column of days that was read as the times beside one, unread, of moments."""
    named = [(name, {each.lower() for each in _WORD.findall(name)}) for name in noted_ignored()]
    finer = [(name, words) for name, words in named if words & (_MOMENTS | _CLOCKS)]
    finer = [each for each in finer if each[1] <= _MOMENTS | _CLOCKS | _BESIDE]
    if not finer or len(times) < 2 or not YEAR_1990 <= int(times[0]) <= YEAR_2100:
        return
    for begin in range(0, len(times), _AT_ONCE):
        if ((times[begin : begin + _AT_ONCE] - times[0]) % _DAY).any():
            return
    moments = [name for name, words in finer if words & _MOMENTS and not {"of", "day"} <= words]
    name = (moments or [finer[0][0]])[0]
    how = f"`timestamp={name!r}` reads it" if moments else "make one column of both to use it"
    _log.warning(
        Notice(
            f"timestamps are whole days, in which there is no order, and column {name!r}, which "
            f"looks finer, is not read: {how}"
        )
    )


def tell_of_duration(name: str, duration: float, times: NDArray[np.int64]) -> None:
    """Warn if a duration is implausible in the unit of the timestamps.

    It may be so long that all interactions weigh the same, or so short that days or hours were
    meant.
    """
    if not len(times):
        return
    first, last = int(times.min()), int(times.max())
    span = last - first
    if 0 < _ALIKE * span < duration:
        why = f"while timestamps span {span}, so that all count nearly alike"
    elif unit_of(last) == "s" and duration < _BRIEF and span > _WEEK:
        why = f"while timestamps are seconds, from {day_of(first)} to {day_of(last)}"
    else:
        return
    _log.warning("%s is %g, %s; it is in the unit of the timestamps", name, duration, why)


def tell_other_unit(had: NDArray[np.int64], new: NDArray[np.int64], model: str) -> None:
    """Warn of new times in another unit than those that a model had.

    Moments after the order of events, whatever numbers this had, come after it.
    """
    if not len(had) or not len(new):
        return
    ends = int(had.max()), int(new.max())
    theirs, own = map(unit_of, ends)
    if theirs == own or (theirs is None and ends[0] < FIRST_YEARS):
        return
    _log.warning(
        Notice(
            f"`new` has timestamps that are {UNIT_NAMES.get(own or '', 'other numbers')} up to "
            f"{ends[1]}, and those of {model} are {UNIT_NAMES.get(theirs or '', 'other numbers')} "
            f"up to {ends[0]}, so that their order is wrong; bring them to the unit of the fit"
        )
    )


def check_moment(name: str, moment: int, times: NDArray[np.int64]) -> None:
    """Raise ValueError if a moment and the timestamps are in different units since 1970."""
    last = int(times.max(initial=0))
    theirs, own = unit_of(last), unit_of(moment)
    if theirs and own and theirs != own:
        raise InputValueError(
            f"`{name}` must be in the unit of the timestamps, {UNIT_NAMES[theirs]} up to {last}, "
            f"got {moment}, which looks like {UNIT_NAMES[own]}"
        )


def check_parts(latest: Mapping[str, int], remedy: str) -> None:
    """Raise ValueError if the timestamps of parts that are to be joined are in different units.

    The unit of a part is known if its latest timestamp falls in the years 1990 to 2100. If there is
    such a part, numbers that all fall in the first years since 1970, such as days or the order of
    events, or that exceed all seconds, are in another unit. Timestamps that are all 0 have no unit.

    Parameters
    ----------
    latest : mapping of str to int
        Latest timestamp of each part, by name.
    remedy : str
    """
    told = dict[str, tuple[str, int]]()
    for name, last in latest.items():
        unit = unit_of(last)
        if unit is not None or 0 < last < FIRST_YEARS or last > LAST_SECOND:
            told.setdefault(UNIT_NAMES[unit] if unit else "numbers", (name, last))
    if len(told) > 1:
        (one, (name, end)), (other, (second, other_end)) = list(told.items())[:2]
        raise InputValueError(
            f"`timestamps` must all be in one unit, got {one} up to {end} in {name} and {other} "
            f"up to {other_end} in {second}",
            f"{remedy}",
        )
