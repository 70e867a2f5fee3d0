"""A file read by portions is the file, and its errors are the same, whatever their size."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import one_by_one
from test_interaction_folder import same

import mfrank
from mfrank.data import (
    TimeKind,
    as_text,
    ingest,
    numbering,
    read_columns,
    read_portions,
    write_table,
)
from tests.support.errors import refuses

KINDS: list[TimeKind] = ["whole", "number", "date"]
IDS = [
    "7",
    "12",
    "-1",
    "a",
    "x y",
    '"q,r"',
    "007",
    "+3",
    "1.0",
    "99999999999999999999",
    '"5"',
    "NA",
]
VALUES = ["1", "2.5", "1e3", "true", "-0.5", "9007199254740993"]
TIMES = ["3", "20240101", "9007199254740993", "1.5", "2024-01-02", "2024-01-02T03:04:05Z", "-4"]
BAD = ["", "nan", "x", "inf", "9223372036854775808"]


@pytest.fixture(params=["at once", "one by one"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to read text."""
    name: str = request.param
    if name == "one by one":
        one_by_one(monkeypatch)
    return name


def by_portions(path: Path, n_rows: int, ids: Any = "auto") -> dict[str, Any]:
    """The columns of :func:`read_columns`, from portions."""
    moments = [portion.moments for portion in read_portions(path, {}, ids, n_rows=n_rows)]
    times = max((each.kind for each in moments if each), key=KINDS.index, default=None)
    portions = list(read_portions(path, {}, ids, n_rows=n_rows, times=times))
    first_rows = np.cumsum([0, *(portion.n_rows for portion in portions)])
    assert [portion.first_row for portion in portions] == first_rows[:-1].tolist()
    assert all(portion.n_rows <= n_rows for portion in portions)
    found: dict[str, Any] = {}
    for role in portions[0].columns:
        parts = [portion.columns[role] for portion in portions]
        if {part.dtype.kind for part in parts} == {"i", "O"}:
            parts = [as_text(part) for part in parts]
        found[role] = np.concatenate(parts)
    if times is not None:
        moments = [portion.moments for portion in portions]
        found["timestamp"] = np.concatenate([each.numbers for each in moments if each])
    return found


def outcome(read: Any) -> Any:
    """What a reader returns or raises, to be compared."""
    try:
        columns = read()
    except ValueError as error:
        return str(error)
    return {role: (column.dtype.kind, column.tolist()) for role, column in columns.items()}


def check(path: Path, n_rows: int, ids: Any = "auto") -> None:
    wanted = outcome(lambda: read_columns(path, {}, ids, unit="s"))
    assert outcome(lambda: by_portions(path, n_rows, ids)) == wanted


def usual(pool: list[str]) -> st.SearchStrategy[str]:
    """Mostly like fields, seldom bad ones."""
    return st.one_of(*[st.sampled_from(pool)] * 12, st.sampled_from(BAD))


ROWS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 30).map(str), usual(IDS)),
        st.integers(0, 9).map(str),
        usual(VALUES),
        st.one_of(*[st.integers(0, 99).map(str)] * 3, usual(TIMES)),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("n_rows", [1, 2, 100])
def test_names_of_rows_are_supposed_of_the_first_row_alone(tmp_path: Path, n_rows: int) -> None:
    for number, lines in enumerate((["u,i,1,2,3"], ["u,i,1,2", "u,i,1,2,3"])):
        path = tmp_path / f"{number}.csv"
        path.write_text("\n".join(["user,item,value,timestamp", *lines]) + "\n")
        check(path, n_rows)
        told = outcome(lambda path=path: by_portions(path, n_rows))
        assert ("row.names" in told) == (number == 0)


@pytest.mark.usefixtures("reader")
@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 13), st.sampled_from(["auto", "text"]), st.data())
def test_any_text(
    tmp_path_factory: pytest.TempPathFactory, rows: Any, n_rows: int, ids: Any, data: Any
) -> None:
    lines = ["user,item,value,timestamp", *(",".join(row) for row in rows)]
    if data.draw(st.booleans()):
        at = data.draw(st.integers(1, len(lines)))
        lines.insert(at, data.draw(st.sampled_from(["", "only,two", "1,2,3,4,5", "1,2,3,4,"])))
    path = tmp_path_factory.mktemp("text") / "a.csv"
    path.write_text("\n".join(lines) + "\n")
    check(path, n_rows, ids)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("n_rows", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "times",
    [
        ["20240101", "5", "2024-01-02"],  # all are dates where one is
        ["9007199254740993", "1.5", "3"],  # all are fractions where one is
        ["5", "2024-01-02", "x", "y"],  # what is no time at all is told, not the number
        ["x", "5"],
        ["9223372036854775808", "1"],
        ["9223372036854775808", "1.5"],
        ["1", "1e30"],
    ],
)
def test_timestamps_are_read_as_the_whole_column(
    tmp_path: Path, times: list[str], n_rows: int
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,item,value,timestamp\n" + "".join(f"1,2,3,{t}\n" for t in times))
    check(path, n_rows)


@pytest.mark.usefixtures("reader")
def test_of_several_errors_the_same_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    good = ["1,2,3,4"] * 3
    for bad in (["1,2,x,4", "1,2"], ["1,2,3,x", "1,2,x,4"], ["1,2,x,4", ",2,3,4"]):
        path.write_text("\n".join(["user,item,value,timestamp", *good, bad[0], *good, bad[1]]))
        for n_rows in (1, 2, 100):
            check(path, n_rows)


@pytest.mark.parametrize("n_rows", [1, 2, 5, 100])
@pytest.mark.parametrize("row_group", [1, 3, 100])
def test_parquet(tmp_path: Path, n_rows: int, row_group: int) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    frame = pandas.DataFrame(
        {
            "user": pandas.Categorical(["b", "a", "b", "c", "a", "b", "c"]),
            "item": [5, 4, 3, 2, 1, 0, 7],
            "value": [1.0, 2.0, 0.5, 3.0, 1.0, 1.0, 2.0],
            "timestamp": pandas.date_range("2024-01-01", periods=7, tz="Europe/Paris"),
            "other": list("abcdefg"),
        }
    )
    for ids in ("auto", "text"):
        frame.to_parquet(tmp_path / "a.parquet", row_group_size=row_group)
        check(tmp_path / "a.parquet", n_rows, ids)
    for column, value in (("item", None), ("user", None), ("timestamp", pandas.NaT)):
        bad = frame.copy()
        bad.loc[5, column] = value
        bad.to_parquet(tmp_path / "b.parquet", row_group_size=row_group)
        check(tmp_path / "b.parquet", n_rows, "text")
    frame.iloc[:0].to_parquet(tmp_path / "c.parquet")
    with refuses(ValueError, place="c.parquet"):
        list(read_portions(tmp_path / "c.parquet", {}, n_rows=n_rows))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 60), st.booleans())
def test_ingest_does_not_depend_on_portions(
    tmp_path_factory: pytest.TempPathFactory, seed: int, rows: int, entries: int, text: bool
) -> None:
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("ingest")
    columns: dict[str, Any] = {
        "user": rng.integers(0, 9, 40),
        "item": rng.integers(0, 7, 40),
        "value": rng.random(40).round(3),
        "timestamp": rng.integers(0, 20, 40),
    }
    if text:  # in the last rows alone: those of whole numbers become text
        columns["user"] = np.array([*map(str, columns["user"][:30]), *"abcdefghij"], object)
    write_table(folder / "a.csv", {name: column[:25] for name, column in columns.items()})
    write_table(folder / "b.csv", {name: column[25:] for name, column in columns.items()})
    write_table(folder / "whole.csv", columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "_ROWS_AT_ONCE", rows)
        patch.setattr(ingest, "_ENTRIES_AT_ONCE", entries)
        patch.setattr(numbering, "_LABELS_AT_ONCE", 1)
        got = mfrank.Interactions.ingest([folder / "b.csv", folder / "a.csv"], folder / "data")
    same(got, mfrank.Interactions.from_file(folder / "whole.csv"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_errors_name_the_file_and_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="needs pyarrow")
    monkeypatch.setattr(ingest, "_ROWS_AT_ONCE", 2)
    path = tmp_path / f"a{suffix}"
    columns = {"user": [1, 2, 3, 4, 5], "item": [1, 2, 3, 4, 5], "value": [1, 2, 3, np.inf, 5]}
    write_table(path, columns)
    with refuses(ValueError, "values") as raised:
        mfrank.Interactions.ingest([path], tmp_path / "data")
    assert f"a{suffix}: " in str(raised.value)
    assert ("line 5: " if suffix == ".csv" else "got inf in row 3") in str(raised.value)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    if suffix == ".parquet":
        labels = np.array(["a", "b", "c", None, "e"], object)
        write_table(path, columns | {"user": labels, "value": np.ones(5)})
        with refuses(ValueError, place="a.parquet, users", remedy="give them an id"):
            mfrank.Interactions.ingest([path], tmp_path / "data")


@pytest.mark.usefixtures("reader")
def test_the_kind_of_timestamps_and_what_is_told_are_those_of_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ingest, "_ROWS_AT_ONCE", 1)
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]

    def written(times: list[str]) -> list[Path]:
        for user, file in enumerate(files):
            rows = [f"{user},{item},{time},x" for item, time in enumerate(times)]
            file.write_text("\n".join(["user,item,timestamp,color", *rows]) + "\n")
        return files

    with caplog.at_level(logging.INFO, "mfrank"):  # all are fractions where one is
        data = mfrank.Interactions.ingest(
            written(["9007199254740993", "1.5"]), tmp_path / "data", timestamp_unit="s"
        )
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [2**53, 1] * 2
    assert len([line for line in caplog.messages if "color" in line]) == 1
    with refuses(ValueError, "timestamps") as raised:
        mfrank.Interactions.ingest(written(["20240101", "2024-01-03"]), tmp_path / "data")
    assert "a.csv: line 2: " in str(raised.value)


def test_streams_are_refused(tmp_path: Path) -> None:
    with refuses(ValueError, "files"):
        mfrank.Interactions.ingest(["-"], tmp_path / "data")


def test_progress_is_shown_if_asked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.csv"
    write_table(path, {"user": [1, 2], "item": [3, 4]})
    mfrank.Interactions.ingest([path], tmp_path / "data")
    assert capfd.readouterr().err == ""
    mfrank.Interactions.ingest([path], tmp_path / "data", show_progress=True)
    told = capfd.readouterr().err
    for phase in ("reading ids", "reading entries", "merging by users", "sorting by items"):
        assert phase in told
