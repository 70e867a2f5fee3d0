"""A time means one thing, by whatever door it enters, or one kind of error."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reading import one_by_one

import mfrank
from mfrank.cli.main import main
from mfrank.data import BadRow, epoch_seconds, ingest
from mfrank.data import times as readers
from mfrank.pagerank import Sessions
from tests.support.cases import in_one_test
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="needs pandas")
polars = pytest.importorskip("polars", reason="needs polars")
pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")

SECOND = 1_396_861_869  # 2014-04-07 09:11:09 UTC
FIRST, LAST = -62_135_596_800, 253_402_300_799
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
Interactions = mfrank.Interactions
few = settings(max_examples=10, deadline=None)


def table(times: Any) -> dict[str, Any]:
    n = len(times)
    return {"user": list(range(n)), "item": list(range(n)), "timestamp": times}


def csv(folder: Path, times: list[Any], quote: str = "") -> Path:
    path = folder / "a.csv"
    rows = [f"{row},{row},{quote}{time}{quote}" for row, time in enumerate(times)]
    path.write_text("\n".join(["user,item,timestamp", *rows]) + "\n")
    return path


def singly(read: Callable[[], Any]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        one_by_one(patch)
        return read()


def ingested(path: Path, rows: int = 2, **how: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "_ROWS_AT_ONCE", rows)
        return Interactions.ingest([path], path.parent / "data", **how)


def by_command(path: Path, *flags: str) -> Any:
    folder = str(path.parent / "by-command")
    if main(["ingest", str(path), "--folder", folder, *flags]):
        raise ValueError("refused")
    return Interactions.open(folder)


TEXT_DOORS: dict[str, Callable[[Path, list[Any]], Any]] = {
    "file, at once": lambda at, times: Interactions.from_file(csv(at, times)),
    "file, one by one": lambda at, times: singly(lambda: Interactions.from_file(csv(at, times))),
    "file, in quotes": lambda at, times: Interactions.from_file(csv(at, times, '"')),
    "ingest, at once": lambda at, times: ingested(csv(at, times)),
    "ingest, one by one": lambda at, times: singly(lambda: ingested(csv(at, times), 1)),
    "command line": lambda at, times: by_command(csv(at, times)),
}


def parquet(folder: Path, times: Any) -> Path:
    path = folder / "a.parquet"
    pandas.DataFrame(table(times)).to_parquet(path)
    return path


OBJECT_DOORS: dict[str, Callable[[Path, list[Any]], Any]] = {
    "arrays": lambda _, times: Interactions.from_arrays(
        range(len(times)), range(len(times)), timestamps=times
    ),
    "pandas": lambda _, times: Interactions.of(
        pandas.DataFrame(table(pandas.Series(times, dtype=object)))
    ),
    "pandas, inferred": lambda _, times: Interactions.of(pandas.DataFrame(table(times))),
    "pandas, categories": lambda _, times: Interactions.of(
        pandas.DataFrame(table(pandas.Categorical(times)))
    ),
    "polars": lambda _, times: Interactions.of(polars.DataFrame(table(times))),
    "arrow": lambda _, times: Interactions.of(pyarrow.table(table(times))),
    "parquet": lambda at, times: Interactions.from_file(parquet(at, times)),
    "ingest, parquet": lambda at, times: ingested(parquet(at, times)),
}


def outcome(door: Callable[[Path, list[Any]], Any], at: Path, times: list[Any]) -> Any:
    """The timestamps in the order given, or that they are refused."""
    try:
        data = door(at, times)
    except ValueError:
        return "refused"
    return data.timestamps.tolist()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("times")


def iso(second: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=second)


FORMS: dict[str, Callable[[dt.datetime], str]] = {
    "T": lambda t: t.isoformat(),
    "blank": lambda t: t.isoformat(" "),
    "Z": lambda t: t.isoformat() + "Z",
    "blank Z": lambda t: t.isoformat(" ") + " Z",
    "UTC": lambda t: t.isoformat(" ") + " UTC",
    "GMT": lambda t: t.isoformat(" ") + "GMT",
    "zone": lambda t: (t + dt.timedelta(hours=2)).isoformat() + "+02:00",
    "zone without colon": lambda t: (
        (t - dt.timedelta(hours=3, minutes=30)).isoformat(" ") + " -0330"
    ),
    "zone of hours": lambda t: (t - dt.timedelta(hours=3)).isoformat() + "-03",
    "fraction": lambda t: t.isoformat() + ".5",
    "nine digits": lambda t: t.isoformat(" ") + ".999999999Z",
    "slashes": lambda t: t.strftime("%Y/%m/%d %H:%M:%S").rjust(19, "0"),
    "basic": lambda t: t.strftime("%Y%m%dT%H%M%S").rjust(15, "0"),
    "of C": lambda t: f"{t:%a %b %d %H:%M:%S} +0000 {t.year:04}",
    "of C, zone": lambda t: (
        f"{(w := t - dt.timedelta(hours=5)):%a %b %e %H:%M:%S} -0500 {w.year:04}"
    ),
    "points": lambda t: f"{t.day}.{t.month}.{t.year:04} {t:%H:%M:%S}",
    "basic zone": lambda t: t.strftime("%Y%m%dT%H%M%SZ").rjust(16, "0"),
}
SECONDS = st.one_of(
    st.integers(0, 4_102_444_800),
    st.integers(FIRST + 86_400, LAST - 86_400),
    st.sampled_from([FIRST + 86_400, -9_223_372_037, 9_223_372_037, LAST - 86_400, -1, 0]),
)


@few
@given(st.lists(SECONDS, min_size=1, max_size=4), st.sampled_from(sorted(FORMS)))
@pytest.mark.parametrize("door", [*TEXT_DOORS, *OBJECT_DOORS])
def test_a_date_as_text_is_one_second_by_every_door(place, door, seconds, form):
    texts = [FORMS[form](iso(second)) for second in seconds]
    found = outcome((TEXT_DOORS | OBJECT_DOORS)[door], place, texts)
    assert found == seconds, texts


@pytest.mark.parametrize("door", [*TEXT_DOORS, *OBJECT_DOORS])
@in_one_test(
    ("texts", "seconds"),
    [
        (["2019-10-01", "2019/10/02"], [1_569_888_000, 1_569_974_400]),
        (["20191001", "20191002"], [1_569_888_000, 1_569_974_400]),
        (["201910010000", "201910010001"], [1_569_888_000, 1_569_888_060]),
        (["20191001000000", "20191001000001"], [1_569_888_000, 1_569_888_001]),
        (["1569888000", "1569974400"], [1_569_888_000, 1_569_974_400]),
        (["1569888000.75", "1569974400"], [1_569_888_000, 1_569_974_400]),
        (["1569888000999", "1569974400000"], [1_569_888_000, 1_569_974_400]),
        (["1569888000999.5", "1569974400000"], [1_569_888_000, 1_569_974_400]),
        (["1569888000999999", "1569974400000000"], [1_569_888_000, 1_569_974_400]),
        (["1569888000999999999", "1569974400000000000"], [1_569_888_000, 1_569_974_400]),
        (["5", "6"], [5, 6]),
        (["18170", "18171"], [18_170, 18_171]),
        (["-5", "0"], [-5, 0]),
        (["31/01/2024"], [1_706_659_200]),
        (["01-02-2024"], "refused"),  # which of them is the day?
        (["01-02-2024", "01-13-2024 00:00"], [1_704_153_600, 1_705_104_000]),
        (["1/2/2024 8:26 PM", "1/13/2024 12:05 a.m."], [1_704_227_160, 1_705_104_300]),
        (["1/2/2024 8:26", "13/1/2024 8:26:01"], [1_706_775_960, 1_705_134_361]),
        (["11/11/2019 9:05:58 AM"], [1_573_463_158]),  # in both orders
        (["1/2/2024", "13/1/2024", "1/13/2024"], "refused"),
        (["1/2/2024 9:05 AM", "3/4/2024 9:05 PM"], "refused"),
        (["1/13/2024 13:05 AM"], "refused"),
        (["1/13/2024", "2024-01-13"], "refused"),
        (["2024-01-13", "1/13/2024"], "refused"),
        (["13/13/2024"], "refused"),
        (["1.2.2024", "3.4.2024 08:26"], [1_706_745_600, 1_712_132_760]),
        (["Tue Apr 03 18:00:09 +0000 2012"], [1_333_476_009]),
        (["Tue Xyz 03 18:00:09 +0000 2012"], "refused"),
        (["2024-02-30"], "refused"),
        (["2024-W05-3"], "refused"),
        (["2024-01-31x10:00:00"], "refused"),
        (["0000-01-01"], "refused"),
        (["10000-01-01"], "refused"),
        (["0001-01-01T00:00:00+02:00"], "refused"),
        (["2024-01-31T10:00:00+25:00"], "refused"),
        (["2024-01-31", "20240131"], "refused"),
        (["2024-01-31", "1569888000"], "refused"),
        (["20240131", "20240132", "20240201"], "refused"),
        (["1569888000", "1569888000000"], "refused"),
        (["5", "1569888000000"], "refused"),
        (["638000000000000000", "638000000000000001"], "refused"),  # ticks of .NET
        (["133000000000000000"], "refused"),  # of Windows
        (["13300000000000000"], "refused"),  # of Chrome
        (["9223372036854775807"], "refused"),
        (["99999999999999999999"], "refused"),
        (["soon"], "refused"),
    ],
)
def test_text_means_one_thing_by_every_door(place, door, texts, seconds):
    assert outcome((TEXT_DOORS | OBJECT_DOORS)[door], place, texts) == seconds


@few
@given(st.lists(SECONDS, min_size=1, max_size=4), st.integers(0, 999_999), st.data())
@pytest.mark.parametrize("door", OBJECT_DOORS)
def test_a_date_of_any_type_is_one_second_by_every_door(place, door, seconds, micro, data):
    aware = [iso(s).replace(microsecond=micro, tzinfo=dt.UTC) for s in seconds]
    zone = dt.timezone(dt.timedelta(minutes=data.draw(st.integers(-720, 720))))
    forms = {
        "naive": [moment.replace(tzinfo=None) for moment in aware],
        "UTC": aware,
        "zone": [moment.astimezone(zone) for moment in aware],
        "numpy": list(np.array(seconds, "datetime64[s]")),
        "Timestamp": [pandas.Timestamp(moment) for moment in aware],
    }
    if door == "polars":  # which makes no column of these
        del forms["numpy"], forms["Timestamp"]
    form = data.draw(st.sampled_from(sorted(forms)))
    try:
        found = outcome(OBJECT_DOORS[door], place, forms[form])
    except OverflowError:  # of pandas 2, which makes no column of zoned times at the ends of its ns
        assume(door != "pandas, inferred" or form != "zone")
        raise
    assert found == seconds, form


FRAMES: dict[str, Callable[[Any], Any]] = {
    "arrays": lambda times: times,
    "pandas": lambda times: pandas.DataFrame(table(times)),
    "pandas, tz": lambda times: pandas.DataFrame(
        table(pandas.Series(times).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    ),
    "pandas, arrow": lambda times: pandas.DataFrame(
        table(pandas.Series(pyarrow.array(times), dtype=pandas.ArrowDtype(arrow_type(times))))
    ),
    "polars": lambda times: polars.DataFrame(table(times)),
    "arrow": lambda times: pyarrow.table(table(pyarrow.array(times))),
    "arrow, tz": lambda times: pyarrow.table(
        table(pyarrow.array(times, pyarrow.timestamp(arrow_type(times).unit, "Asia/Tokyo")))
    ),
}


def arrow_type(times: Any) -> Any:
    return pyarrow.array(times).type


@few
@given(st.lists(SECONDS, min_size=1, max_size=4), st.sampled_from(["s", "ms", "us", "ns"]))
@pytest.mark.parametrize("door", FRAMES)
def test_a_date_is_no_other_date_in_any_unit_of_a_column(place, door, seconds, unit):
    assume(unit != "ns" or max(map(abs, seconds)) < 9_223_372_036)
    assume(unit != "s" or door != "polars")  # which has no such column
    times = np.array(seconds, "datetime64[s]").astype(f"datetime64[{unit}]")
    made = FRAMES[door](times)
    if door == "arrays":
        data = Interactions.from_arrays(range(len(times)), range(len(times)), timestamps=made)
    else:
        data = Interactions.of(made)
    assert data.timestamps.tolist() == seconds
    if door.startswith("pandas"):
        made.to_parquet(place / "b.parquet")
        assert Interactions.from_file(place / "b.parquet").timestamps.tolist() == seconds
        assert ingested(place / "b.parquet").timestamps.tolist() == seconds


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "s"])
def test_what_numpy_holds_beyond_the_year_9999_is_refused(unit):
    beyond = np.array([10**9], f"datetime64[{unit}]") + np.array(
        [10**12 if unit == "s" else 0], f"timedelta64[{unit}]"
    )
    with refuses(ValueError, place="row 0"):
        epoch_seconds(beyond)


@pytest.mark.parametrize(("unit", "digits"), [("ns", 9), ("ps", 12), ("fs", 15), ("as", 18)])
def test_the_first_dates_that_a_unit_has_are_no_others(unit, digits):
    each = 10**digits
    first = 1 - 2**63
    numbers = [first, first + 5, first + each // 2, first + 2 * each, -1, 0, 2**63 - 1]
    times = np.array(numbers, dtype=np.int64).view(f"datetime64[{unit}]")
    assert epoch_seconds(times).tolist() == [number // each for number in numbers]


def test_the_last_microsecond_of_the_year_9999_is_in_it():
    last = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    for form in (last, last.isoformat(), np.datetime64(last), pandas.Timestamp(last)):
        assert epoch_seconds([form]).tolist() == [LAST]


@pytest.mark.parametrize("freq", ["D", "M", "Y", "h", "s", "W-SUN"])
def test_periods_begin_when_they_begin(freq):
    starts = [pandas.Timestamp("2019-10-01"), pandas.Timestamp("1500-03-05 07:08")]
    column = pandas.Series([pandas.Period(start, freq) for start in starts])
    wanted = [int(p.start_time.timestamp() // 1) for p in column.tolist()[:1]]
    assert Interactions.of(pandas.DataFrame(table(column))).timestamps.tolist()[:1] == wanted
    later = epoch_seconds(column)[1]
    assert iso(int(later)).year in (1499, 1500)


@pytest.mark.parametrize("door", OBJECT_DOORS)
@pytest.mark.parametrize(
    "times", [[True, False], [dt.time(3), dt.time(4)], [dt.timedelta(1), dt.timedelta(2)]]
)
def test_what_is_no_time_is_refused_by_every_door(place, door, times):
    with refuses((TypeError, ValueError), "timestamps"):
        OBJECT_DOORS[door](place, times)


@pytest.mark.parametrize("door", OBJECT_DOORS)
@pytest.mark.parametrize("like", [1_569_888_000, "2019-10-01", dt.datetime(2019, 10, 1), 0.5])
@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_time_is_refused_by_every_door(place, door, like, missing):
    if missing is not None and not isinstance(like, float | int) and "rr" not in door:
        missing = None  # such a column cannot be made
    try:
        found = OBJECT_DOORS[door](place, [like, missing])
    except (TypeError, ValueError, pyarrow.ArrowException):
        return
    pytest.fail(f"read as {found.timestamps}")


def numbers(unit: str, seconds: list[int]) -> dict[str, Any]:
    whole = [second * UNITS[unit] for second in seconds]
    return {
        "int": whole,
        "uint64": np.array(whole, np.uint64),
        "float": np.array(whole, float) + 0.25,
        "text": list(map(str, whole)),
        "object": np.array(whole, object),
        "Decimal": np.array(list(map(Decimal, whole)), object),
    }


@few
@given(
    st.lists(st.integers(700_000_000, 4_100_000_000), min_size=1, max_size=5),
    st.sampled_from([*UNITS]),
    st.sampled_from(["int", "uint64", "float", "text", "object", "Decimal"]),
)
def test_numbers_of_every_unit_are_seconds(seconds, unit, form):
    times = numbers(unit, seconds)[form]
    rows = range(len(seconds))
    near = pytest.approx(seconds, abs=1 if form == "float" else 0)
    data = Interactions.from_arrays(rows, rows, timestamps=times)
    assert data.timestamps.tolist() == near
    assert Interactions.of(pandas.DataFrame(table(times))).timestamps.tolist() == near
    again = Interactions.from_arrays(rows, rows, timestamps=times, timestamp_unit=unit)
    assert again.timestamps.tolist() == near
    kept = Interactions.from_arrays(rows, rows, timestamps=times, timestamp_unit="s")
    assert kept.timestamps.tolist() == pytest.approx([s * UNITS[unit] for s in seconds], rel=1e-12)
    sessions = Sessions.from_log([0] * len(rows), rows, times, gap=None)
    assert sessions.n_sessions == 1


@pytest.mark.parametrize("unit", UNITS)
def test_what_was_recognized_is_told_once(place, caplog, unit):
    seconds = [1_569_888_000 + 60 * at for at in range(7)]
    path = csv(place, [second * UNITS[unit] for second in seconds])
    doors: list[Callable[..., Any]] = [
        lambda **how: Interactions.from_file(path, **how),
        lambda **how: singly(lambda: Interactions.from_file(path, **how)),
        lambda **how: ingested(path, **how),
        lambda **how: Interactions.from_frame(pandas.read_csv(path), **how),
        lambda **how: Interactions.from_arrays(
            *pandas.read_csv(path).to_numpy().T[:2],
            timestamps=pandas.read_csv(path)["timestamp"],
            **how,
        ),
    ]
    for door in doors:
        for how in ({}, {"timestamp_unit": unit}):
            caplog.clear()
            with caplog.at_level(logging.WARNING, "mfrank"):
                assert door(**how).timestamps.tolist() == seconds
            told = [record for record in caplog.messages if "timestamp_unit=" in record]
            assert len(told) == (unit != "s" and not how)
        with refuses(ValueError, "timestamp_unit"):
            door(timestamp_unit="minutes")


def test_the_command_line_names_its_flag(place, capfd):
    path = csv(place, [1_569_888_000_123, 1_569_888_060_123])
    assert by_command(path).timestamps.tolist() == [1_569_888_000, 1_569_888_060]
    assert "milliseconds since 1970" in capfd.readouterr().err
    kept = by_command(path, "--timestamp-unit", "s")
    assert kept.timestamps.tolist() == [1_569_888_000_123, 1_569_888_060_123]
    path = csv(place, [1_569_888_000_123, 1_569_888_060])
    with pytest.raises(ValueError, match="refused"):
        by_command(path)
    assert "--timestamp-unit" in capfd.readouterr().err


def test_all_files_of_an_ingest_are_of_one_unit(place):
    for name, first in (("1.csv", 1_569_888_000), ("2.csv", 1_569_888_000_000)):
        (place / name).write_text(f"user,item,time\n1,2,{first}\n3,4,{first + 1}\n")
    both = [place / "1.csv", place / "2.csv"]
    with refuses(ValueError, "timestamps", remedy="times of all files") as raised:
        Interactions.ingest(both, place / "data")
    assert re.search(r"in one unit, got 1569888000.*timestamp_unit=", str(raised.value))
    (place / "3.csv").write_text("user,item,time\n1,2,1569888000\n3,4,1569888000000\n")
    with refuses(ValueError, "timestamps") as raised:
        Interactions.ingest([place / "3.csv"], place / "data")
    assert not raised.value.remedy  # of all files: there is one
    (place / "2.csv").write_text("user,item,time\n1,2,5\n3,4,6\n")
    (place / "1.csv").write_text("user,item,time\n1,3,2019-10-01\n")
    with refuses(ValueError, "timestamps", remedy="name the unit"):
        Interactions.ingest(both, place / "data")
    (place / "2.csv").write_text("user,item,time\n1,2,1569888001\n3,4,1569888002\n")
    data = Interactions.ingest(both, place / "data")
    assert sorted(data.timestamps.tolist()) == [1_569_888_000, 1_569_888_001, 1_569_888_002]
    (place / "3.csv").write_text("user,item,time\n1,4,5\n")
    with refuses(ValueError, "timestamps", remedy="convert the times"):
        Interactions.ingest([*both, place / "3.csv"], place / "data")


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("unit", "factor"), [("ms", 1000), ("us", 10**6)])
def test_numbers_of_a_named_unit_are_with_dates_in_other_files(
    place, monkeypatch, unit, factor, at_once
):
    if not at_once:
        one_by_one(monkeypatch)
    (place / "1.csv").write_text("user,item,time\n1,3,2019-10-01\n")
    both = [place / "1.csv", place / "2.csv"]
    both[1].write_text(f"user,item,time\n1,2,{factor * SECOND}\n")
    data = Interactions.ingest(both, place / "data", timestamp_unit=unit)
    assert sorted(data.timestamps.tolist()) == sorted([1_569_888_000, SECOND])
    both[1].write_text(f"user,item,time\n1,2,{SECOND}\n")
    with refuses(ValueError, "timestamps", remedy="convert the times"):
        Interactions.ingest(both, place / "data", timestamp_unit=unit)
    both[1].write_text("user,item,time\n1,2,5\n")
    data = Interactions.ingest(both, place / "data", timestamp_unit="s")  # numbers as they are
    assert sorted(data.timestamps.tolist()) == [5, 1_569_888_000]


def test_a_number_among_dates_of_digits_is_named_by_its_file_and_row(place):
    (place / "1.csv").write_text("user,item,time\n1,3,20240131\n2,3,20240201\n3,3,20240202\n")
    (place / "2.csv").write_text("user,item,time\n1,4,20240131\n1,5,20240132\n")
    with refuses(ValueError, "timestamps", place="2.csv, row 1"):
        Interactions.ingest([place / "1.csv", place / "2.csv"], place / "data")


DURATIONS = ["0.35", "1.5", "12"]


@pytest.mark.parametrize("door", [*TEXT_DOORS, *OBJECT_DOORS])
def test_a_column_of_fractions_is_ignored_and_told(place, door, caplog):
    read = (TEXT_DOORS | OBJECT_DOORS)[door]
    times = DURATIONS if door in TEXT_DOORS else [*map(float, DURATIONS)]
    with caplog.at_level(logging.WARNING, "mfrank"):
        if door == "arrays":
            with refuses(ValueError, place="row 0"):
                read(place, times)
            return
        assert read(place, times).timestamps is None
    assert sum("0.35 is no moment in time" in message for message in caplog.messages) == 1


def test_a_column_of_fractions_that_was_chosen_is_refused(place):
    path = csv(place, DURATIONS)
    frame = pandas.read_csv(path)
    frame.to_parquet(place / "a.parquet")
    for read in (
        lambda **how: Interactions.from_file(path, **how),
        lambda **how: Interactions.from_file(place / "a.parquet", **how),
        lambda **how: Interactions.from_frame(frame, **how),
        lambda **how: ingested(path, **how),
    ):
        with refuses(ValueError, "timestamp"):
            read(timestamp="timestamp")
        assert read(timestamp="timestamp", timestamp_unit="s").timestamps.tolist() == [0, 1, 12]


DATES = [dt.datetime(2019, 10, 1), dt.datetime(2019, 10, 2)]


@pytest.mark.parametrize(
    "values",
    [
        np.array(DATES, "datetime64[ns]"),
        np.array(["2019-10-01", "2019-10-02"]),
        np.array(DATES, object),
        np.array([1, 2], "timedelta64[s]"),
    ],
    ids=["datetime64", "text", "object", "timedelta64"],
)
def test_dates_are_no_values(place, values):
    columns = {"user": [1, 2], "item": [1, 2], "seen": values}
    frame = pandas.DataFrame(columns)
    with refuses(ValueError, "values"):
        Interactions.from_arrays([1, 2], [1, 2], values)
    tables = [frame, pyarrow.Table.from_pandas(frame), polars.from_pandas(frame)]
    for made in tables[: 3 if values.dtype.kind != "m" else 1]:
        with refuses(ValueError, "values", remedy="write a number"):
            Interactions.from_frame(made, value="seen")
    frame.to_csv(place / "c.csv", index=False)
    with refuses(ValueError, "values", place="c.csv, line 2", remedy="write a number"):
        Interactions.from_file(place / "c.csv", value="seen")
    with refuses(ValueError, "values", place="c.csv, line 2", remedy="write a number"):
        ingested(place / "c.csv", value="seen")


@pytest.mark.parametrize("times", [[1_569_888_000, 1_569_974_400], [20_191_001, 20_191_002]])
def test_values_that_look_like_times_are_told(place, caplog, times):
    import scipy.sparse as sp

    (place / "d.csv").write_text(f"1,2,{times[0]}\n1,3,{times[1]}\n")  # value by its place
    for read in (
        lambda: Interactions.from_file(place / "d.csv"),
        lambda: ingested(place / "d.csv"),
        lambda: Interactions.from_arrays([1, 2], [1, 2], times),
        lambda: Interactions.of(sp.csr_array([[1_569_888_000, 1_569_974_400]])),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "mfrank"):
            read()
        assert sum("look like times" in message for message in caplog.messages) == 1
    caplog.clear()
    Interactions.from_arrays([1, 2], [1, 2], [5, 1_569_888_000])
    assert not caplog.messages


def at_days(days: list[float]) -> Any:
    times = [int(1_569_888_000 + 86_400 * day) for day in days]
    return Interactions.from_arrays(range(len(days)), range(len(days)), timestamps=times)


@pytest.mark.parametrize(
    ("seconds", "is_odd"),
    [(30, True), (365, True), (3600, False), (30 * 86_400, False), (30 * 86_400_000, True)],
)
@pytest.mark.parametrize("use", ["half_life", "window", "gap"])
def test_durations_that_hardly_fit_the_timestamps_are_told(caplog, use, seconds, is_odd):
    data = at_days([0, 1, 2, 200])
    with caplog.at_level(logging.WARNING, "mfrank"):
        if use == "half_life":
            mfrank.recency_weight(data, seconds)
        elif use == "window":
            mfrank.Popularity(window=seconds).fit(data)
        else:
            Sessions.from_interactions(data, gap=seconds)
    told = [message for message in caplog.messages if message.startswith(use)]
    assert len(told) == is_odd


def test_a_point_in_time_has_the_unit_of_the_timestamps():
    data = at_days([0, 1, 2, 3])
    cut = 1_569_888_000 + 2 * 86_400
    assert mfrank.by_time(data, test=cut).test.nnz == 2
    for wrong, by in itertools.product([cut * 1000, cut * 10**6, cut * 10**9], ["test", "valid"]):
        how = {"test": cut, by: wrong} if by == "valid" else {"test": wrong}
        with refuses(ValueError, by):
            mfrank.by_time(data, **how)
        with refuses(ValueError, by):
            mfrank.by_session(data, **how)
    with refuses(ValueError, "now"):
        mfrank.recency_weight(data, 86_400, now=1000 * data.timestamps.max())


# --- columns at the ends of what they hold


@pytest.mark.parametrize("unit", [None, "s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    "times", [["2019-10-01", "1969-12-31"], np.array(["2019-10-01", "1969-12-31"], "M8[D]")]
)
def test_dates_are_dates_whatever_the_unit_of_numbers(times, unit):
    assert epoch_seconds(times, unit).tolist() == [1_569_888_000, -86_400]
    assert epoch_seconds(np.array([], "M8[s]"), unit).tolist() == []


@pytest.mark.parametrize(
    ("first", "beyond"),
    [
        (np.array([2**63 - 1, 2**63], np.uint64), 1),
        (np.array([2**63 - 1, 2**63], object), 1),
        (np.array([0, -(2**63), -(2**63) - 1], object), 2),
        (np.array([0.0, 9.2e18, 2.0**63]), 2),
        (np.array([0.0, -(2.0**63)]), 1),
        (np.array([0.0, 1e19]), 1),
        ([Decimal(7), Decimal("9.3e18")], 1),
    ],
)
def test_numbers_beyond_int64_are_refused_by_their_row(first, beyond):
    assert len(epoch_seconds(first[:beyond], "s")) == beyond
    with refuses(BadRow, "timestamps") as refused:
        epoch_seconds(first, "s")
    assert refused.value.row == beyond


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([Decimal(5), Decimal("7.0")], [5, 7]),
        ([Decimal("1569888000.5"), Decimal(1569888000)], [1_569_888_000] * 2),
        ([np.int32(3), 4], [3, 4]),
        (np.array([3, 2**32 - 1], np.uint32), [3, 2**32 - 1]),
    ],
)
def test_numbers_of_other_types_are_what_they_are(times, seconds):
    assert epoch_seconds(times).tolist() == seconds


@pytest.mark.parametrize("time", [Decimal("nan"), Decimal("inf"), 1j, b"2019", object()])
def test_what_is_no_number_and_no_date_is_refused(time):
    with pytest.raises((TypeError, ValueError)):
        epoch_seconds([time, time])


@pytest.mark.parametrize("times", [[[1], [2]], 5, np.zeros((2, 2))])
def test_timestamps_are_of_one_dimension(times):
    with refuses(ValueError, "timestamps"):
        epoch_seconds(times)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("door", ["arrays", "pandas", "polars", "pyarrow", "csv", "ingest"])
def test_dates_of_numbers_in_another_unit_are_told(tmp_path, door, unit, caplog):
    times = pandas.to_datetime([SECOND, SECOND + 86_400], unit=unit)
    columns = {**table(times), "timestamp": times}
    path = csv(tmp_path, list(map(str, times)))
    {
        "arrays": lambda: Interactions.from_arrays(
            columns["user"], columns["item"], timestamps=times.to_numpy()
        ),
        "pandas": lambda: Interactions.from_frame(pandas.DataFrame(columns)),
        "polars": lambda: Interactions.from_frame(polars.from_pandas(pandas.DataFrame(columns))),
        "pyarrow": lambda: Interactions.from_frame(pyarrow.table(columns)),
        "csv": lambda: Interactions.from_file(path),
        "ingest": lambda: ingested(path),
    }[door]()
    assert [line for line in caplog.messages if "dates of January 1970, up to 1970-01-" in line]


def test_dates_of_numpy_without_a_unit_are_refused():
    with refuses(TypeError, "timestamps"):
        epoch_seconds(np.array([np.datetime64("NaT")] * 2))


def test_a_missing_date_of_numpy_is_refused_by_its_row():
    with refuses(BadRow, "timestamps", place="row 1"):
        epoch_seconds(np.array(["2024-01-31", "NaT"], "M8[s]"))


@pytest.mark.parametrize(
    ("unit", "power"), [("ms", 3), ("ns", 9), ("ps", 12), ("fs", 15), ("as", 18)]
)
def test_seconds_of_every_unit_are_seconds(unit, power):
    numbers = np.array([-9 * 10**power, 0, 9 * 10**power])
    assert epoch_seconds(numbers.astype(f"M8[{unit}]")).tolist() == [-9, 0, 9]


@pytest.mark.parametrize(("dtype", "most"), [("float16", 2048), ("float32", 2**24)])
def test_numbers_that_a_short_type_rounds_are_refused(dtype, most):
    assert epoch_seconds(np.array([most, most - 1], dtype)).tolist() == [most, most - 1]
    with refuses(BadRow, "timestamps", place="row 1"):
        epoch_seconds(np.array([0, most + 2], dtype))


@pytest.mark.parametrize("times", [[True, False], [1j]])
def test_other_arrays_are_no_timestamps(times):
    with refuses(TypeError, "timestamps"):
        epoch_seconds(np.array(times))


DAY, CLOCK, ZONE = "2024-01-31", "2024-01-31 10:00", "2024-01-31 10:00-05:00"
NAIVE = dt.datetime(2024, 1, 31)


@pytest.mark.parametrize(
    ("times", "zones"),
    [
        ([DAY, DAY], set()),
        ([DAY, CLOCK], {False}),
        ([CLOCK, ZONE, DAY], {False, True}),
        ([ZONE, f"{DAY}T10:00Z", f"{DAY} 10:00 UTC"], {True}),
        ([NAIVE, NAIVE.date()], {False}),
        ([NAIVE.replace(tzinfo=dt.UTC)], {True}),
    ],
)
def test_only_dates_with_a_clock_have_a_zone_or_lack_it(times, zones):
    assert readers.zones_of(times) == zones


@pytest.mark.parametrize("unit", ["ms", "us", "ns", "ps", "fs", "as"])
def test_fractions_of_seconds_belong_to_the_second_before(unit):
    assert epoch_seconds(np.array([-1, 0, 1], f"M8[{unit}]")).tolist() == [-1, 0, 0]


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_the_first_and_the_last_second_of_the_calendar_are_in_it(unit):
    ends = np.array(["0001-01-01T00:00:00", "9999-12-31T23:59:59"], f"M8[{unit}]")
    assert [iso(second).year for second in epoch_seconds(ends).tolist()] == [1, 9999]
    second = np.timedelta64(1, "s")
    for row, beyond in enumerate((ends - second, ends + second)):
        with refuses(BadRow, place=f"row {row}"):
            epoch_seconds(beyond)


def test_days_of_python_are_their_first_seconds():
    days = [dt.date(2019, 10, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]
    midnights = [dt.datetime(d.year, d.month, d.day, tzinfo=dt.UTC) for d in days]
    expected = [int(midnight.timestamp()) for midnight in midnights]
    assert epoch_seconds(np.array(days, object)).tolist() == expected
    assert (
        epoch_seconds(np.array([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)], object)).tolist()
        == expected[1:3]
    )


@pytest.mark.parametrize(
    ("times", "row"),
    [
        (["2019-10-01", "12", "abc"], 2),  # neither a number nor a date
        (["12", "abc", "2019-10-01", "xyz"], 1),
        (["2019-10-01", "12", "2019-10-02"], 1),
        (["12", "2019-10-01"], 0),
        (["2019-10-01", "abc", "def"], 1),
        ([dt.date(2019, 10, 1), None], 1),
    ],
)
def test_the_first_row_that_is_neither_is_named_or_else_the_first_of_another_kind(times, row):
    with refuses(BadRow, "timestamps") as refused:
        epoch_seconds(np.array(times, object))
    assert refused.value.row == row


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([Decimal(2**53 + 1), 5], [2**53 + 1, 5]),
        ([1, 2.5], [1, 2]),
        ([Decimal("2.5"), np.int64(7)], [2, 7]),
    ],
)
def test_numbers_of_several_types_are_singly(times, seconds):
    found = epoch_seconds(np.array(times, object), "s")
    assert found.dtype == np.int64
    assert found.tolist() == seconds


@pytest.mark.parametrize(
    ("zone", "east"),
    [("+23:59", 86_340), ("-23:59", -86_340), ("+0030", 1800), ("-05", -18_000), ("+00:59", 3540)],
)
def test_zones_are_hours_and_minutes_east(zone, east):
    assert epoch_seconds([f"2019-10-01 12:00{zone}"]).tolist() == [1_569_931_200 - east]


@pytest.mark.parametrize("zone", ["+24:00", "-24:00", "+05:60", "+99:99"])
def test_zones_that_no_clock_has_are_refused(zone):
    with pytest.raises(BadRow):
        epoch_seconds([f"2019-10-01 12:00{zone}"])


@pytest.mark.parametrize("micros", [-1, 1])
def test_a_zone_of_microseconds_moves_midnight(micros):
    zone = dt.timezone(dt.timedelta(microseconds=micros))
    midnight = np.array([dt.datetime(2019, 10, 1, tzinfo=zone)], object)
    assert epoch_seconds(midnight).tolist() == [1_569_888_000 - (micros > 0)]


EVERY_DOOR = TEXT_DOORS | OBJECT_DOORS


def warned(log: pytest.LogCaptureFixture, word: str) -> int:
    return sum(
        line.levelno >= logging.WARNING and word in line.getMessage() for line in log.records
    )


@pytest.mark.parametrize("door", EVERY_DOOR)
@pytest.mark.parametrize(
    ("times", "is_told"),
    [
        (["2024-01-31 10:00:00", "2024-01-31 10:00:00Z"], True),
        (["2024-01-31 10:00:00+02:00", "2024-01-31 10:00:00", "2024-02-01"], True),
        (["20240131T100000-0500", "20240131T100000"], True),
        (["2024-01-31 10:00:00+02:00", "2024-01-31 10:00:00 UTC"], False),
        (["2024-01-31 10:00:00", "2024-01-31"], False),
        (["2024-01-31 10:00:00Z", "2024-01-31"], False),
    ],
)
def test_zones_that_only_some_dates_have_are_told(
    door: str, times: list[str], is_told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    EVERY_DOOR[door](tmp_path, times)
    assert warned(caplog, "time zone") == is_told


@pytest.mark.parametrize("door", ["arrays", "pandas"])
def test_zones_that_only_some_datetimes_have_are_told(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    naive = dt.datetime(2024, 1, 31)
    OBJECT_DOORS[door](tmp_path, [naive, naive.replace(tzinfo=dt.UTC), dt.date(2024, 1, 31)])
    assert warned(caplog, "time zone") == 1


@pytest.mark.parametrize("door", EVERY_DOOR)
@pytest.mark.parametrize(
    ("times", "first"),
    [
        (["1569888000", "1569888001", "0"], "1970-01-01"),
        (["-1", "1569888000", "1569888001"], "1969-12-31"),
        (["2024-01-31", "2024-02-01", "1900-01-01"], "1900-01-01"),
        (["2024-01-31", "9999-12-31", "2024-02-01"], "9999-12-31"),
        (["1569888000000", "0", "1569888000001"], "1970-01-01"),
        (["20240131", "20240201", "19000101"], "1900-01-01"),
        (["1989-12-31", "1990-01-01", "2020-01-01"], "1989-12-31"),
        (["2024-01-31", "2024-02-01", "2099-01-01"], "2099-01-01"),
    ],
)
def test_times_far_from_all_others_are_told(
    door: str, times: list[str], first: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    EVERY_DOOR[door](tmp_path, times)
    what = "in the future" if first == "2099-01-01" else "not of the years 1990 to 2100"
    assert warned(caplog, f"1 of 3 timestamps are {what}, such as") == 1
    assert warned(caplog, f"({first})") == 1


@pytest.mark.parametrize("door", EVERY_DOOR)
@pytest.mark.parametrize("times", [["2563-01-31", "2564-02-01"], ["1402-12-01", "1399-01-31"]])
def test_dates_of_other_calendars_are_told(
    door: str, times: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    EVERY_DOOR[door](tmp_path, times)
    assert warned(caplog, f"from {min(times)} to {max(times)}, as of another calendar") == 1


@pytest.mark.parametrize("door", EVERY_DOOR)
@pytest.mark.parametrize("times", [["1", "2", "3"], ["1950-01-01", "1960-01-01"], ["5", "0"]])
def test_times_that_are_alike_are_not_told(
    door: str, times: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    EVERY_DOOR[door](tmp_path, times)
    assert not warned(caplog, "")


@pytest.mark.parametrize("door", EVERY_DOOR)
@pytest.mark.parametrize(
    ("times", "example"),
    [
        (["31/12/2010", "12/31/2010"], r"like 31/12/2010, with the day first,"),
        (["31/12/2010", "2010-12-31"], r"like 31/12/2010, with the day first,"),
        (["12/31/2010", "2010-12-31"], r"like 12/31/2010, with the month first,"),
    ],
)
def test_the_example_of_a_date_is_in_the_order_that_is_told(
    door: str, times: list[str], example: str, tmp_path: Path
) -> None:
    with pytest.raises(
        ValueError, match=rf"refused|have the day first or the month|{example} as others"
    ):
        EVERY_DOOR[door](tmp_path, times)


@pytest.mark.parametrize("door", EVERY_DOOR)
@pytest.mark.parametrize(
    "times", [["31012024", "1022024"], ["1312024", "12312023"], ["1012024", "2012024", "18121999"]]
)
def test_dates_as_numbers_with_the_year_last_are_refused(
    door: str, times: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"refused|year first"):
        EVERY_DOOR[door](tmp_path, times)
    for odd in (["31012024", "1022025", "7"], ["32012024", "1022024"], ["31012024"]):
        assert EVERY_DOOR[door](tmp_path, odd).timestamps.tolist() == [*map(int, odd)]


@pytest.mark.parametrize("door", EVERY_DOOR)
@pytest.mark.parametrize(
    "times",
    [
        [19_000, 19_001, 1_600_000_000, 1_600_000_001],  # days
        [1_600_000_000, 1_600_000_001, 1_600_000_002, 19_000],
        [19_000, 1_600_000_000_000, 1_600_000_000_001, 1_600_000_000_002],
        [45_000, 45_001, 45_002, 1_600_000_000],  # days of a spreadsheet
        [450_000, 1_600_000_000, 450_001, 1_600_000_001],  # hours
        [20240131, 1_600_000_000, 20240201, 1_600_000_001],
        [1_600_000_000, 1_600_000_000_000, 1_600_000_001, 1_600_000_002],
    ],
)
def test_days_and_seconds_in_one_column_are_refused(
    tmp_path: Path, door: str, times: list[int]
) -> None:
    given = [*map(str, times)] if door in TEXT_DOORS else times
    with pytest.raises(ValueError, match=r"refused|all be in one unit.*timestamp_unit="):
        EVERY_DOOR[door](tmp_path, given)


@pytest.mark.parametrize(("unit", "n_told"), [("ms", 1), ("ns", 1), ("s", 0), (None, 0)])
@pytest.mark.parametrize("door", ["arrays", "pandas", "csv", "ingest", "parquet"])
def test_a_unit_that_hardly_fits_is_told(
    door: str, unit: Any, n_told: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    times = [SECOND, SECOND + 9]
    doors: dict[str, Callable[[], Any]] = {
        "arrays": lambda: Interactions.from_arrays(
            [0, 1], [0, 1], timestamps=times, timestamp_unit=unit
        ),
        "pandas": lambda: Interactions.from_frame(
            pandas.DataFrame(table(times)), timestamp_unit=unit
        ),
        "csv": lambda: Interactions.from_file(csv(tmp_path, times), timestamp_unit=unit),
        "ingest": lambda: ingested(csv(tmp_path, times), timestamp_unit=unit),
        "parquet": lambda: Interactions.from_file(parquet(tmp_path, times), timestamp_unit=unit),
    }
    doors[door]()
    assert warned(caplog, "look like seconds") == n_told


@pytest.mark.parametrize("door", ["arrays", "pandas, inferred", "polars", "arrow", "parquet"])
def test_seconds_in_narrow_floats_are_refused(door: str, tmp_path: Path) -> None:
    times = np.array([SECOND, SECOND + 9], np.float32)
    with refuses(ValueError, "timestamps"):
        OBJECT_DOORS[door](tmp_path, times)
    days = np.array([18_170, 2**24], np.float32)
    assert OBJECT_DOORS[door](tmp_path, days).timestamps.tolist() == [18_170, 2**24]


def test_numbers_below_zero_that_overflow_makes_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times = (np.array([SECOND, SECOND + 9]) * 1000).astype(np.int32)
    Interactions.from_arrays([0, 1], [0, 1], timestamps=times)
    assert warned(caplog, "32 bits") == bool(times.min() < 0)


@pytest.mark.parametrize(("times", "n_told"), [([5] * 6 + [9] * 4, 1), (range(10), 0)])
def test_a_part_by_time_that_ties_make_larger_is_told(
    times: Any, n_told: int, caplog: pytest.LogCaptureFixture
) -> None:
    data = Interactions.from_arrays(range(10), range(10), timestamps=list(times))
    split = mfrank.by_time(data, test=0.2)
    assert split.test.nnz == (4 if n_told else 2)
    assert warned(caplog, "test=0.2 is 2 entries") == n_told


@pytest.mark.parametrize("by_ingest", [False, True])
def test_a_file_that_tells_the_order_of_day_and_month_tells_it_of_all(place, by_ingest):
    files = [place / "a.csv", place / "b.csv", place / "c.csv"]
    for file, time in zip(files, ["3/4/2021", "13/4/2021", "4/13/2021"], strict=True):
        file.write_text(f"user,item,timestamp\n{file.stem},x,{time}\n")

    folder = place / "folder"

    def read(files):
        if by_ingest:
            return mfrank.Interactions.ingest(files, folder)
        return mfrank.Interactions.from_file(files)

    assert read(files[:2]).timestamps.tolist() == [1_617_408_000, 1_618_272_000]  # in April
    place = "a.csv" if by_ingest else "a.csv, line 2"
    with refuses(ValueError, None, place=place, remedy="write dates as 2024-12-31"):
        read(files[:1])
    with refuses(ValueError, None, place="a.csv", remedy="write dates as 2024-12-31"):
        read(files)
