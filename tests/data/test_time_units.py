"""The unit of numbers that may be times, recognized by how large they are."""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mfrank
from mfrank.data import (
    BadRow,
    FractionsError,
    Magnitudes,
    Moments,
    check_moment,
    in_seconds,
    look_like_times,
    odd_times,
    tell_of_duration,
    unit_of,
)
from tests.support.errors import refuses

S, MS, US, NS = (1_600_000_000 * 1000**power for power in range(4))
DAY, MINUTE, SECOND = 20240131, 202401311559, 20240131155930  # as digits
SMALL, BEYOND = 77, 10**17
DAYS, OLD, HOUR = 19_000, 300_000_000, 450_000  # of 2022, 1979 and 2021
SORTS = {S: "s", MS: "ms", US: "us", NS: "ns", SMALL: "early", BEYOND: "beyond"}
SORTS |= {DAYS: "days", OLD: "small", HOUR: "early", -1: "small"}
SORTS |= dict.fromkeys((DAY, MINUTE, SECOND), "digits")


def moments(numbers: list[int], fraction: tuple[int, float] | None = None) -> Moments:
    kind: Any = "whole" if fraction is None else "number"
    return Moments(np.array(numbers, np.int64), kind, fraction)


def of(*numbers: int) -> Magnitudes:
    return Magnitudes.of(moments(list(numbers)))


@given(st.lists(st.sampled_from([*SORTS]), min_size=1, max_size=12), st.data())
def test_a_column_in_portions_is_the_whole_column(numbers: list[int], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(numbers)), max_size=3)))
    found = Magnitudes()
    for begin, end in zip([0, *cuts], [*cuts, len(numbers)], strict=True):
        found.add(moments(numbers[begin:end]), begin)
    sorts = [SORTS[number] for number in numbers]
    assert found.counts == Counter(sorts)
    assert found.first == {
        sort: [numbers[sorts.index(sort)], sorts.index(sort)] for sort in set(sorts)
    }
    assert (found.lowest, found.highest) == (min(numbers), max(numbers))
    assert Magnitudes(**json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize(
    ("numbers", "unit"),
    [
        ([S, S], "s"),
        ([MS], "ms"),
        ([US, US], "us"),
        ([NS], "ns"),
        ([SMALL, 5], "as is"),
        ([S, S, SMALL], "s"),
        ([S, S, 0], "s"),
        ([S, OLD, OLD], "s"),
        ([S, -1, -1], "s"),
        ([DAYS, DAYS + 1], "as is"),
        ([DAYS, SMALL], "as is"),
        ([OLD, DAYS], "as is"),
        ([S, S, S, DAYS, OLD], "s"),
        ([S, S, S, DAYS, SMALL, OLD], "s"),  # such as milliseconds since a log began
        ([MS, MS, SMALL], "ms"),
        ([DAY, DAY, SMALL], "digits"),
        ([MINUTE, SECOND, S], "digits"),
        ([DAY, SMALL], "as is"),  # no more than half
        ([DAY, DAY, SMALL, SMALL], "as is"),
    ],
)
def test_units_are_recognized(numbers: list[int], unit: str) -> None:
    assert of(*numbers).unit() == unit


@pytest.mark.parametrize(
    ("numbers", "row", "told"),
    [
        ([S, S, MS], 2, "others are seconds"),
        ([MS, S, S], 0, "others are seconds"),
        ([MS, MS, S, MS], 2, "others are milliseconds"),
        ([S, MS], 0, "others are milliseconds"),
        ([NS, US, NS], 1, "others are nanoseconds"),
        ([US, US, MS], 2, "others are microseconds"),
        ([SMALL, SMALL, MS], 2, "most are small"),
        ([SMALL, MS], 1, "most are small"),
        ([SMALL, S, SMALL], 1, "most are small"),
        ([S, SMALL], 1, "others are seconds"),
        ([S, HOUR], 1, "others are seconds"),
        ([S, S, S, DAYS], 3, "others are seconds"),
        ([DAYS, DAYS, S], 2, "most are days"),
        ([S, DAYS, DAYS + 1, 0, S], 1, "others are seconds"),
        ([MS, MS, DAYS], 2, "others are milliseconds"),
        ([S, S, DAY], 2, "others are seconds"),
        ([S, DAY], 1, "others are seconds"),
        ([S, S, 31012024], 2, "others are seconds"),
        ([S, 0, 0], 0, "most are small"),
        ([MS, MS, BEYOND], 2, "most are milliseconds"),
        ([S, BEYOND], 1, "no date as seconds"),
        ([SMALL, BEYOND], 1, "in no known unit"),
    ],
)
def test_numbers_of_several_units_are_refused_by_the_odd_one(
    numbers: list[int], row: int, told: str
) -> None:
    with pytest.raises(BadRow, match=f"got {numbers[row]}.*{told}.*timestamp_unit=") as refused:
        of(*numbers).unit()
    assert refused.value.row == row


def test_fractions_are_refused_by_their_row_unless_numbers_are_seconds() -> None:
    found = Magnitudes()
    found.add(moments([1, 2, 3]))
    found.add(moments([4, 5], fraction=(1, 5.5)), 3)
    found.add(moments([6], fraction=(0, 6.5)), 5)
    with pytest.raises(FractionsError) as refused:
        found.unit()
    assert (refused.value.number, refused.value.row) == (5.5, 4)
    assert Magnitudes.of(moments([S, S], fraction=(0, S + 0.5))).unit() == "s"
    assert Magnitudes.of(Moments(np.array([BEYOND]), "date")).unit() == "as is"


@pytest.mark.parametrize(
    ("number", "unit", "second"),
    [
        (S, "s", S),
        (-7, "as is", -7),
        (MS + 999, "ms", S),
        (-1, "ms", -1),  # the second before 1970
        (US, "us", S),
        (NS, "ns", S),
        (19700102, "digits", 86_400),
        (197001020001, "digits", 86_460),
        (19700102000101, "digits", 86_461),
    ],
)
def test_numbers_of_a_unit_are_seconds(number: int, unit: Any, second: int) -> None:
    assert in_seconds(np.array([number]), unit).tolist() == [second]


def test_a_day_that_no_calendar_has_is_refused_by_its_row() -> None:
    with refuses(BadRow, "timestamps", place="row 1") as refused:
        in_seconds(np.array([DAY, 20240230, 20249999]), "digits")
    assert refused.value.row == 1


def written(year: int, month: int, day: int, *clock: int) -> int:
    """A date like 20240131, or with hours and minutes, and seconds."""
    return int(f"{year}{month:02}{day:02}" + "".join(f"{part:02}" for part in clock))


def test_every_day_that_there_is_and_no_other_is_a_date() -> None:
    for year, month, day in itertools.product((1900, 1970, 2023, 2024, 2100), range(14), range(33)):
        number = np.array([written(year, month, day)])
        try:
            expected = int(datetime(year, month, day, tzinfo=UTC).timestamp())
        except ValueError:
            with refuses(BadRow, "timestamps", place="row 0"):
                in_seconds(number, "digits")
        else:
            assert in_seconds(number, "digits").tolist() == [expected]


@pytest.mark.parametrize("parts", [2, 3])
def test_every_time_of_a_day_that_there_is_and_no_other_is_one(parts: int) -> None:
    for clock in itertools.product((0, 1, 23, 24, 25), *[(0, 1, 59, 60, 61)] * (parts - 1)):
        number = np.array([written(2024, 2, 29, *clock)])
        if clock[0] < 24 and all(part < 60 for part in clock[1:]):
            expected = int(datetime(2024, 2, 29, *clock, tzinfo=UTC).timestamp())
            assert in_seconds(number, "digits").tolist() == [expected]
        else:
            with pytest.raises(BadRow):
                in_seconds(number, "digits")


@pytest.mark.parametrize("clock", [(), (0, 0), (0, 0, 0)])
def test_dates_as_numbers_are_of_the_years_1900_to_2100(clock: tuple[int, ...]) -> None:
    last = tuple((23, 59, 59)[: len(clock)])
    for number in (written(1900, 1, 1, *clock), written(2100, 12, 31, *last)):
        assert of(number, number, SMALL).unit() == "digits"
    for number in (written(1899, 12, 31, *last), written(2101, 1, 1, *clock)):
        with pytest.raises(BadRow):
            in_seconds(np.array([number]), "digits")


def second_of(year: int, month: int = 1, day: int = 1, *clock: int) -> int:
    return int(datetime(year, month, day, *clock, tzinfo=UTC).timestamp())


FIRST, LAST = second_of(1, 1, 1), second_of(9999, 12, 31, 23, 59, 59)
EDGES = [(FIRST - 1, "beyond"), (FIRST, "small"), (LAST, "small"), (LAST + 1, "beyond")]
EDGES += [(7304, "early"), (7305, "days"), (47482, "days"), (47483, "early")]  # of the same years
EDGES += [(10**8 - 1, "early"), (10**8, "small")]
EDGES += [
    (
        edge + step,
        unit if step * inward >= 0 else "small" if unit == "s" or edge < LAST else "beyond",
    )
    for unit, per, year in (
        ("s", 1, 1990),
        ("ms", 10**3, 1990),
        ("us", 10**6, 1990),
        ("ns", 10**9, 1992),
    )
    for edge, inward in ((second_of(year) * per, 1), (second_of(2100) * per, -1))
    for step in (-1, 0, 1)
]


@pytest.mark.parametrize(("number", "sort"), EDGES)
def test_a_unit_is_that_of_the_years_in_which_things_were_logged(number: int, sort: str) -> None:
    assert of(number).counts == {sort: 1}
    assert of(number, SMALL, BEYOND).counts == Counter([sort, "early", "beyond"])
    assert unit_of(number) == (sort if sort in ("s", "ms", "us", "ns") else None)
    assert (of(number).lowest, of(number).highest) == (number, number)


WEEK = 7 * 86_400


@pytest.mark.parametrize(
    ("duration", "times", "odd"),
    [
        (1000, [0, 100], False),  # ten times what they span
        (1000.5, [0, 100], True),
        (5, [3, 3], False),  # all at one time
        (5, [], False),
        (999, [S, S + WEEK + 1], True),  # days or hours, meant as such
        (1000, [S, S + WEEK + 1], False),
        (999, [S, S + WEEK], False),
        (999, [0, WEEK + 1], False),  # these are no seconds since 1970
    ],
)
def test_durations_that_hardly_fit_are_told(
    caplog: pytest.LogCaptureFixture, duration: float, times: list[int], odd: bool
) -> None:
    tell_of_duration("half_life", duration, np.array(times, np.int64))
    assert bool(caplog.messages) == odd
    if odd:
        assert caplog.messages[0].startswith(f"half_life is {duration:g}, ")


def test_a_moment_of_another_unit_is_refused() -> None:
    for moment, times in ((S, [S - 5]), (MS, []), (7, [MS]), (MS, [9])):
        check_moment("now", moment, np.array(times, np.int64))
    with refuses(ValueError, "now"):
        check_moment("now", MS, np.array([S, S - 1]))


@pytest.mark.parametrize(
    ("lowest", "highest", "like"),
    [
        (S, S + 1, True),
        (MS, MS, True),
        (S, MS, False),
        (SMALL, S, False),
        (19991231, DAY, True),
        (19991232, DAY, False),
        (1, 5, False),
        (-math.inf, 5, False),
        (S, math.inf, False),
        (math.nan, math.nan, False),
        (-(2.0**63), S, False),
        (S, 2.0**63, False),
        (20240101, 1e19, False),
        (S, 1e28, False),
    ],
)
def test_what_looks_like_times(lowest: float, highest: float, like: bool) -> None:
    assert look_like_times(lowest, highest) is like


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([-5, 100], "timestamps go from -5 to 100: as seconds those below 0 are before 1970"),
        ([0, 100], ""),
        ([S, -5, S], ""),
        ([MS, -5, MS], "taken as milliseconds since 1970, from 1969-12-31 to 2020-09-13"),
    ],
)
def test_what_numbers_are_taken_for_is_told(
    times: list[int], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    of(*times).tell()
    assert [told in message for message in caplog.messages] == [True] * bool(told)


@pytest.mark.parametrize(
    ("unit", "times", "told"),
    [
        ("us", [MS, MS, 5], "of timestamps that look like milliseconds"),
        ("us", [MS, 5], ""),
        ("us", [MS, 5, 6], ""),
        ("ms", [5], ""),
        ("ms", [MS, MS, 5], ""),
        ("s", [MS, MS], ""),
    ],
)
def test_a_stated_unit_that_most_numbers_contradict_is_told(
    unit: Any, times: list[int], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    of(*times).check(unit)
    assert [told in message for message in caplog.messages] == [True] * bool(told)


NOW = int(time.time())
FIRST, LAST = -62_135_596_800, 253_402_300_799  # seconds of the years 1 to 9999


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([S, S, 0], "1 of 3 .* such as 0 \\(1970-01-01\\): drop"),
        ([S, S, S, S, S, 0, 7], "2 of 7 .* such as 0 "),
        ([S, S, S, 0, S, S, 7], "2 of 7 .* such as 0 "),
        ([S, S, FIRST], r"such as -62135596800 \(1-01-01\)|\(0001-01-01\)"),
        ([S, S, LAST], r"such as 253402300799 \(9999-12-31\)"),
        ([S, S, LAST + 1], "such as 253402300800: drop"),
        ([S, S, NOW + 2 * 86_400], r"1 of 3 timestamps are in the future, such as \d+ \(20"),
        ([S, NOW + 400 * 86_400, S, 0, S], "2 of 5 timestamps are in the future"),
        ([S, S, NOW + 43_200], ""),  # of another time zone
        ([S, NOW + 9 * 86_400], ""),  # the clock may be wrong
        ([S, 0], ""),
        ([S, S], ""),
    ],
)
def test_times_of_other_years_than_most_are_told(
    times: list[int],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(odd_times, "_AT_ONCE", 2)
    odd_times.tell_of_odd_times(np.array(times, np.int64))
    assert [bool(re.search(told, message)) for message in caplog.messages] == [True] * bool(told)


def test_parts_of_several_units_are_refused() -> None:
    for latest in ((S, S), (0, S), (0, MS), (7, 9), (S, 100_000_000), (MS, OLD), (S, LAST)):
        odd_times.check_parts(dict(zip("ab", latest, strict=True)), "")
    for latest in ((S, MS), (1, S), (S, 99_999_999), (S, LAST + 1), (US, 5), (S, MS, US)):
        with refuses(ValueError, "timestamps"):
            odd_times.check_parts(dict(zip("abc", latest, strict=False)), "")


@pytest.mark.parametrize(
    ("number", "is_date"),
    [
        *((31011989, False), (31011990, True), (31122100, True), (31122101, False)),
        *((1011990, True), (12311999, True), (31132000, False), (29021994, False)),
    ],
)
def test_dates_with_the_year_last_are_of_the_years_1990_to_2100(number: int, is_date: bool) -> None:
    assert of(number, number).counts == {"reversed" if is_date else "early": 2}


ODD_TIMES = [
    ([2019, 2024, 1999], "look like years, .* such as 1999-01-01"),
    ([201_903, 202_412, 201_901], "look like months, .*%Y%m"),
    ([202_303, 202_452, 202_353], "look like weeks, .*%G%V%u"),
    ([2_024_031, 2_023_365, 2_024_366], "look like days of years, .*%Y%j"),
    ([45_292, 44_197, 44_200], "look like days of a spreadsheet, .* made by pandas.to_datetime"),
    ([0, 1, 2024], ""),  # an order
    ([201_900, 201_913, 201_901], ""),
    ([202_401, 202_454, 202_410], ""),
    ([2_024_031, 2_023_365, 2_024_367], ""),
    ([19_000, 19_001, 19_002], ""),  # days since 1970
    ([1, 2, 45_292], ""),
    ([S, S + 1, S + 2], ""),
]
DOORS: dict[str, Callable[[list[int], Path], Any]] = {
    "magnitudes": lambda numbers, _: Magnitudes.of(Moments(np.array(numbers), "whole")).tell(),
    "arrays": lambda numbers, _: mfrank.Interactions.from_arrays(
        [1, 2, 3], [4, 5, 6], timestamps=numbers
    ),
    "events": lambda numbers, _: mfrank.Events.from_arrays(
        [1, 2, 3], [4, 5, 6], ["view"] * 3, timestamps=numbers
    ),
    "frame": lambda numbers, _: mfrank.Interactions.from_frame(table_of(numbers)),
    "text in a frame": lambda numbers, _: mfrank.Interactions.from_frame(
        table_of([str(number) for number in numbers])
    ),
    "csv": lambda numbers, folder: mfrank.Interactions.from_file(file_of(numbers, folder, "csv")),
    "parquet": lambda numbers, folder: mfrank.Interactions.from_file(
        file_of(numbers, folder, "parquet")
    ),
    "ingest": lambda numbers, folder: mfrank.Interactions.ingest(
        file_of(numbers, folder, "csv"), folder / "ingested"
    ),
}


def table_of(times: Sequence[object]) -> pd.DataFrame:
    return pd.DataFrame({"user": [1, 2, 3], "item": [4, 5, 6], "time": times})


def file_of(numbers: list[int], folder: Path, suffix: str) -> Path:
    path = folder / f"a.{suffix}"
    table = table_of(numbers)
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    return path


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("numbers", "told"), ODD_TIMES)
def test_years_months_and_days_of_spreadsheets_are_told(
    numbers: list[int], told: str, door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DOORS[door](numbers, tmp_path)
    assert bool(told) == ("look like" in caplog.text)
    assert re.search(told, caplog.text)


@pytest.mark.parametrize("numbers", [numbers for numbers, _ in ODD_TIMES])
def test_numbers_that_are_no_moments_are_kept_and_may_be_meant(
    numbers: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    read = mfrank.Interactions.from_arrays(
        [1, 2, 3], [4, 5, 6], timestamps=numbers, timestamp_unit="s"
    )
    assert read.timestamps.tolist() == numbers
    assert not caplog.records


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([2019, 2024, 1999], "look like years"),
        ([45_292, 44_197], "look like days of a spreadsheet"),
        ([202_312, 202_401, 199_912], "look like months"),
        ([240_131, 231_231], "look like days, and .*%y%m%d"),
        ([200_113, 200_101], "look like days, and .*%y%m%d"),
        ([240_132, 231_231], ""),
        ([202_400, 202_401], ""),
        ([202_312, 7], ""),
        ([202_313, 202_401], "look like weeks"),
        ([2_023_001, 2_024_366], "look like days of years"),
        ([2_024_000, 2_024_366], ""),
        ([0, 1, 2, 2024], ""),  # an order
        ([19_000, 19_001], ""),  # days since 1970
        ([1, 45_292], ""),
        ([S, S + 1], ""),
    ],
)
def test_years_and_days_of_spreadsheets_are_kept_and_told(
    numbers: list[int], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = Magnitudes.of(Moments(np.array(numbers), "whole"))
    with caplog.at_level("INFO", "mfrank"):
        found.tell()
    assert in_seconds(np.array(numbers), found.unit()).tolist() == numbers
    assert re.search(told, caplog.text)
    assert bool(told) == ("look like" in caplog.text)
    in_parts = Magnitudes()
    for number in numbers:
        in_parts.add(Moments(np.array([number]), "whole"))
    assert in_parts._parts_of_dates() == found._parts_of_dates()


@pytest.mark.parametrize(
    ("dates", "is_told"),
    [
        (["2563-01-31", "2564-02-01"], True),  # of the Buddhist calendar
        (["1399-01-31", "1402-12-01"], True),  # of the Persian one
        (["1445-01-29"], True),
        (["1920-01-31", "1850-02-01"], False),
        (["2024-01-31", "2563-02-01"], False),  # one of two is told by another line
        (["2024-01-31", "2024-02-01"], False),
        ([], False),
    ],
)
def test_dates_of_other_calendars_are_told(
    dates: list[str], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = np.array(dates, "datetime64[s]").astype(np.int64)
    Magnitudes.of(Moments(seconds, "date")).tell()
    told = [line for line in caplog.messages if "as of another calendar" in line]
    assert len(told) == is_told
    assert all(f"from {min(dates)} to {max(dates)}" in line for line in told)
