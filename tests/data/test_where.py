"""Rows are chosen by the values of columns, the same through every door."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.cli.main import main
from mfrank.data import numbering
from mfrank.files import journal
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="needs pandas")
Interactions = mfrank.Interactions
Where = dict[Any, Any]


def of_polars(frame: Any, where: Where, _: Path) -> Interactions:
    polars = pytest.importorskip("polars", reason="needs polars")
    return Interactions.from_frame(polars.from_pandas(frame), where=where)


def of_arrow(frame: Any, where: Where, _: Path) -> Interactions:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    return Interactions.from_frame(pyarrow.Table.from_pandas(frame), where=where)


def text(frame: Any, folder: Path, header: bool = True) -> Path:
    frame.to_csv(folder / "a.csv", index=False, header=header)
    return folder / "a.csv"


def of_numbers(frame: Any, where: Where, folder: Path) -> Interactions:
    numbers = {frame.columns.get_loc(column) + 1: of for column, of in where.items()}
    path = text(frame, folder, header=False)
    return Interactions.from_file(path, header=False, user=1, item=2, value=3, where=numbers)


def of_parquet(frame: Any, where: Where, folder: Path) -> Interactions:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    frame.to_parquet(folder / "a.parquet")
    return Interactions.from_file(folder / "a.parquet", where=where)


def of_json(frame: Any, where: Where, folder: Path) -> Interactions:
    frame.to_json(folder / "a.jsonl", orient="records", lines=True)
    return Interactions.from_file(folder / "a.jsonl", where=where)


def of_sql(frame: Any, where: Where, _: Path) -> Interactions:
    with closing(sqlite3.connect(":memory:")) as connection:
        frame.to_sql("rows", connection, index=False)
        return Interactions.from_sql("SELECT * FROM rows", connection, where=where)


def by_command(frame: Any, where: Where, folder: Path) -> Interactions:
    each = [(column, of if isinstance(of, list) else [of]) for column, of in where.items()]
    flags = [f"--where={column}={one}" for column, values in each for one in values]
    assert main(["ingest", str(text(frame, folder)), "--folder", str(folder / "f"), *flags]) == 0
    return Interactions.open(folder / "f")


DOORS: dict[str, Callable[[Any, Where, Path], Interactions]] = {
    "pandas": lambda frame, where, _: Interactions.from_frame(frame, where=where),
    "categories": lambda frame, where, _: Interactions.from_frame(
        frame.astype({"event": "category"}), where=where
    ),
    "polars": of_polars,
    "arrow": of_arrow,
    "text": lambda frame, where, folder: Interactions.from_file(text(frame, folder), where=where),
    "numbered columns": of_numbers,
    "parquet": of_parquet,
    "json": of_json,
    "ingest": lambda frame, where, folder: Interactions.ingest(
        [text(frame, folder)], folder / "f", where=where
    ),
    "ingest of tables": lambda frame, where, folder: Interactions.ingest(
        [frame[:2], frame[2:]], folder / "f", where=where
    ),
    "sql": of_sql,
    "command": by_command,
}
KINDS = ["view", "cart", "purchase"]


def pairs(data: Interactions) -> list[tuple[Any, ...]]:
    frame = data.to_pandas()
    return sorted(map(tuple, frame[["user", "item", "value"]].to_numpy().tolist()))


@pytest.mark.parametrize("door", DOORS)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from("xyz"),
            st.sampled_from([1.0, 2.5, 4.0, 5.0]),
            st.sampled_from(KINDS),
        ),
        min_size=1,
        max_size=12,
    ),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True),
    ratings=st.none() | st.sampled_from([[5], [4.0, 5], [2.5, 1]]),
)
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_only_rows_with_these_values_are_read(
    door: str, rows: Any, kinds: list[str], ratings: Any, tmp_path_factory: Any
) -> None:
    """A column may be the value as well, and 5.0 is 5."""
    frame = pandas.DataFrame(rows, columns=["user", "item", "rating", "event"])
    where: Where = {"event": kinds if len(kinds) > 1 else kinds[0]}
    wanted = frame[frame["event"].isin(kinds)]
    if ratings is not None:
        where["rating"], wanted = ratings, wanted[wanted["rating"].isin(ratings)]
    folder = tmp_path_factory.mktemp("where")
    if len(wanted):
        assert pairs(DOORS[door](frame, where, folder)) == pairs(Interactions.from_frame(wanted))
    elif door != "command":
        with refuses(ValueError, "where", remedy="compared as text"):
            DOORS[door](frame, where, folder)


FRAME = pandas.DataFrame(
    {"user": ["a", "b", "b"], "item": [1, 1, 2], "event": ["view", "purchase", None]}
)


@pytest.mark.parametrize("door", [door for door in DOORS if door != "numbered columns"])
def test_a_missing_value_is_no_match(door: str, tmp_path: Path) -> None:
    frame = FRAME.assign(rating=[1, 2, 3])
    data = DOORS[door](frame, {"event": ["view", "purchase"]}, tmp_path)
    assert data.nnz == 2


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ({}, TypeError),
        ("event=view", TypeError),
        ({"event": []}, ValueError),
        ({"event": None}, ValueError),
        ({"event": {"a": 1}}, ValueError),
        ({"event": ["view", None]}, ValueError),
        ({"event": [["view"]]}, ValueError),
        ({"event": slice(1, 3)}, ValueError),
        ({"event": lambda kind: kind == "view"}, ValueError),
        ({"event": re.compile("view")}, ValueError),
        ({"event": object()}, ValueError),
        ({"event": FRAME["event"] == "view"}, ValueError),
    ],
)
def test_odd_conditions_are_refused(where: Any, kind: type[Exception], tmp_path: Path) -> None:
    with refuses(kind, "where"):
        Interactions.from_frame(FRAME, where=where)
    with refuses(kind, "where"):
        Interactions.ingest([text(FRAME, tmp_path)], tmp_path / "f", where=where)


@pytest.mark.parametrize(
    "door", [door for door in DOORS if door not in ("command", "numbered columns")]
)
def test_a_column_that_is_not_there_is_named(door: str, tmp_path: Path) -> None:
    with refuses(ValueError, None, remedy="columns: 'user', 'item', 'event'"):
        DOORS[door](FRAME, {"nothing": "view"}, tmp_path)


@pytest.mark.parametrize(
    "door", [door for door in DOORS if door not in ("command", "numbered columns")]
)
def test_rows_that_are_read_are_counted(door: str, tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level("INFO", "mfrank"):
        data = DOORS[door](FRAME, {"event": "view"}, tmp_path)
    assert caplog.text.count("1 of 3 rows are read, by where") == 1
    assert "1 of 3 rows are read, by where" in str(data.report())


def test_rows_without_a_weight_are_counted(tmp_path: Path, caplog: Any) -> None:
    weights = {"view": 1, "purchase": None}
    with caplog.at_level("INFO", "mfrank"):
        for rows in (FRAME[:2], text(FRAME[:2], tmp_path)):
            Interactions.ingest(rows, tmp_path / "f", weights=weights)
    assert caplog.text.count("1 of 2 rows are read, by weights") == 2


def test_conditions_come_before_weights(tmp_path: Path) -> None:
    """A kind that is not read needs no weight."""
    data = Interactions.from_frame(FRAME, where={"event": "view"}, weights={"view": 3})
    assert data.user_items.data.tolist() == [3]
    data = Interactions.from_file(text(FRAME, tmp_path), where={"item": 1})
    assert data.nnz == 2


def test_an_ingest_of_other_rows_begins_anew(tmp_path: Path) -> None:
    path = text(FRAME, tmp_path)
    for kind in ("view", "purchase"):
        data = Interactions.ingest([path], tmp_path / "f", where={"event": kind})
        assert data.user_ids.labels.tolist() == ["a" if kind == "view" else "b"]


SEVERAL = pandas.DataFrame(
    {
        "user": ["a", "b", "c"],
        "item": [1, 2, 3],
        "rating": [1.0, 2.0, 3.0],
        "event": ["view", "add_to_cart", "purchase"],
    }
)


@pytest.mark.parametrize("door", [door for door in DOORS if door != "numbered columns"])
def test_a_value_that_no_row_has_is_told_with_the_nearest(
    door: str, tmp_path: Path, caplog: Any, capsys: Any
) -> None:
    data = DOORS[door](SEVERAL, {"event": ["purchase", "adtocart"]}, tmp_path)
    assert data.nnz == 1
    told = "no row has 'adtocart' in column 'event'; nearest to 'adtocart' is 'add_to_cart'"
    if door == "command":
        assert told in capsys.readouterr().err
    else:
        assert caplog.text.count(told) == 1
        assert told in str(data.report())


@pytest.mark.parametrize("door", [door for door in DOORS if door not in ("command",)])
def test_values_that_rows_have_are_not_told(door: str, tmp_path: Path, caplog: Any) -> None:
    DOORS[door](SEVERAL, {"event": ["purchase", "view"], "rating": [1, "3.0"]}, tmp_path)
    assert "no row has" not in caplog.text


@pytest.mark.parametrize(
    "door", [door for door in DOORS if door not in ("command", "numbered columns")]
)
def test_the_nearest_is_told_where_no_row_is_left(door: str, tmp_path: Path) -> None:
    with refuses(ValueError, "where", remedy="compared as text.*nearest to 'Views' is 'view'"):
        DOORS[door](SEVERAL, {"event": "Views"}, tmp_path)


def test_a_value_that_looks_like_the_nearest_is_told_by_its_characters() -> None:
    frame = SEVERAL.assign(event="K\xe4ufe")
    told = r"nearest to 'Ka\\u0308ufe' is 'K\\xe4ufe'"
    with refuses(ValueError, "where", remedy=told):
        Interactions.from_frame(frame, where={"event": "Ka\u0308ufe"})


def test_a_range_may_end_anywhere(caplog: Any) -> None:
    data = Interactions.from_frame(SEVERAL, where={"rating": range(2, 100)})
    assert data.nnz == 2
    assert "no row has" not in caplog.text


class Kind(Enum):
    """As web services write kinds."""

    VIEW = "view"


DAYS = pandas.to_datetime(pandas.Series(["2024-01-01 00:00", "2024-01-02 10:30", None]))


@pytest.mark.parametrize(
    "given",
    [
        pandas.Series(["view"]),
        pandas.Index(["view"]),
        pandas.Categorical(["view"]),
        {"view": 1}.keys(),
        {1: "view"}.values(),
        frozenset({"view"}),
        (kind for kind in ["view"]),
        np.array("view"),
        np.array(["view"]),
        Kind.VIEW,
        [Kind.VIEW],
    ],
    ids=lambda given: type(given).__name__,
)
def test_values_come_in_any_collection(given: Any) -> None:
    assert Interactions.from_frame(SEVERAL, where={"event": given}).user_ids.labels.tolist() == [
        "a"
    ]


def test_values_come_in_columns_of_polars_and_arrow() -> None:
    polars = pytest.importorskip("polars", reason="needs polars")
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    for column in (polars.Series(["view"]), pyarrow.array(["view"])):
        assert Interactions.from_frame(SEVERAL, where={"event": column}).nnz == 1


@pytest.mark.parametrize("door", ["pandas", "polars", "arrow", "text", "parquet"])
@pytest.mark.parametrize(
    ("given", "user"),
    [
        (date(2024, 1, 1), "a"),
        ("2024-01-01", "a"),
        (np.datetime64("2024-01-01"), "a"),
        (pandas.Timestamp("2024-01-02 10:30"), "b"),
        (datetime(2024, 1, 2, 10, 30, tzinfo=UTC), "b"),
        ("2024-01-02T10:30", "b"),
    ],
)
def test_dates_are_those_of_the_column(door: str, given: Any, user: str, tmp_path: Path) -> None:
    frame = SEVERAL.assign(day=DAYS)
    data = DOORS[door](frame, {"day": given}, tmp_path)
    assert data.user_ids.labels.tolist() == [user]


@pytest.mark.parametrize(
    ("column", "given"),
    [
        (pandas.to_timedelta([1, 2, 3], unit="D"), timedelta(days=2)),
        (pandas.to_timedelta([1, 2, 3], unit="D"), pandas.Timedelta(days=2)),
        (pandas.period_range("2024-01", periods=3, freq="M"), "2024-02"),
        (pandas.interval_range(0, 3), pandas.Interval(1, 2)),
        (np.array([0.1, 0.2, 0.3], np.float32), 0.2),
        (np.array([0.5, 2.0, np.nan], np.float16), "2"),
        (pandas.array([None, 7, 8], dtype="Int64"), 7.0),
        (pandas.array([None, True, False], dtype="boolean"), True),
        ([b"v", b"w", b"x"], "w"),
    ],
)
def test_values_are_those_of_columns_of_any_type(column: Any, given: Any) -> None:
    data = Interactions.from_frame(SEVERAL.assign(x=column), where={"x": given})
    assert data.user_ids.labels.tolist() == ["b"]


def test_an_ingest_that_resumes_knows_what_was_met(
    tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    """The second file, in which the run ends, has not the value of the first."""
    monkeypatch.setattr(journal, "_SECONDS", 0)
    monkeypatch.setattr(journal, "_SHARE", 0)
    files = [tmp_path / "1.csv", tmp_path / "2.csv"]
    for file, frame in zip(files, (SEVERAL[:1], SEVERAL[1:]), strict=True):
        frame.to_csv(file, index=False)
    where = {"event": ["view", "purchase", "adtocart"]}
    add = numbering.Numbering.add

    def ends(seen: Any, path: Path, portion: Any) -> None:
        if path.name == "2.csv":
            raise KeyboardInterrupt
        add(seen, path, portion)

    monkeypatch.setattr(numbering.Numbering, "add", ends)
    with pytest.raises(KeyboardInterrupt):
        Interactions.ingest(files, tmp_path / "f", where=where)
    monkeypatch.setattr(numbering.Numbering, "add", add)
    assert "no row has" not in caplog.text
    with caplog.at_level("INFO", "mfrank"):
        Interactions.ingest(files, tmp_path / "f", where=where)
    assert "no row has 'adtocart' in" in caplog.text
    assert "2 of 3 rows are read, by where" in caplog.text
