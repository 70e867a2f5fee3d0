"""Rows are chosen by the values of columns, the same through every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.cli.main import main
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


def test_rows_that_are_read_are_counted(caplog: Any) -> None:
    with caplog.at_level("INFO", "mfrank"):
        Interactions.from_frame(FRAME, where={"event": "view"})
    assert "1 of 3 rows are read, by where" in caplog.text


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
