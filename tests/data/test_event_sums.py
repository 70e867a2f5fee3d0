"""Sums of weighted events are capped and aged alike through every door."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.cli.main import main
from mfrank.data import ingest
from tests.support.errors import refuses

Interactions = mfrank.Interactions
WEIGHTS = {"view": 1, "cart": 3, "returned": -2, "shown": None}
DAY = 86_400
Columns = dict[str, list[Any]]


def written(columns: Columns, path: Path) -> Path:
    lines = zip(*columns.values(), strict=True)
    text = [",".join(columns), *(",".join(map(str, line)) for line in lines)]
    path.write_text("\n".join(text) + "\n")
    return path


def of_events(columns: Columns, folder: Path, how: dict[str, Any]) -> Interactions:
    own = mfrank.Events.from_file(written(columns, folder / "a.csv"))
    return own.weighted(WEIGHTS, **how)


def of_arrays(columns: Columns, folder: Path, how: dict[str, Any]) -> Interactions:
    users, items, kinds, times = columns.values()
    return Interactions.from_arrays(users, items, None, times, events=kinds, weights=WEIGHTS, **how)


def of_frame(columns: Columns, folder: Path, how: dict[str, Any]) -> Interactions:
    polars = pytest.importorskip("polars", reason="needs polars")
    return Interactions.from_frame(polars.DataFrame(columns), weights=WEIGHTS, **how)


def of_chunks(columns: Columns, folder: Path, how: dict[str, Any]) -> Interactions:
    polars = pytest.importorskip("polars", reason="needs polars")
    frame = polars.DataFrame(columns)
    return Interactions.from_frame([frame[:1], frame[1:]], weights=WEIGHTS, **how)


def of_file(columns: Columns, folder: Path, how: dict[str, Any]) -> Interactions:
    return Interactions.from_file(written(columns, folder / "b.csv"), weights=WEIGHTS, **how)


def of_ingest(columns: Columns, folder: Path, how: dict[str, Any]) -> Interactions:
    half = len(columns["user"]) // 2
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    for name, rows in (("1.csv", slice(None, half)), ("2.csv", slice(half, None))):
        written({key: each[rows] for key, each in columns.items()}, parts / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "_ROWS_AT_ONCE", 3)
        patch.setattr(ingest, "_ENTRIES_AT_ONCE", 2)
        return Interactions.ingest(parts, folder / "of files", weights=WEIGHTS, **how)


def of_ingested_chunks(columns: Columns, folder: Path, how: dict[str, Any]) -> Interactions:
    polars = pytest.importorskip("polars", reason="needs polars")
    frame = polars.DataFrame(columns)
    tables = [frame[:1], frame[1:]]
    return Interactions.ingest(tables, folder / "of tables", weights=WEIGHTS, **how)


def of_sql(into: str | None) -> Callable[..., Interactions]:
    def door(columns: Columns, folder: Path, how: dict[str, Any]) -> Interactions:
        with sqlite3.connect(":memory:") as connection:
            connection.execute("create table t (user, item, event, timestamp)")
            rows = zip(*columns.values(), strict=True)
            connection.executemany("insert into t values (?, ?, ?, ?)", list(rows))
            where = {} if into is None else {"folder": folder / into}
            return Interactions.from_sql("t", connection, weights=WEIGHTS, **how, **where)

    return door


def of_command(columns: Columns, folder: Path, how: dict[str, Any]) -> Interactions:
    made, flags = folder / "of a command", list[str]()
    if "cap" in how:
        flags += ["--cap", str(how["cap"])]
    if "half_life" in how:
        flags += ["--half-life", str(how["half_life"] / DAY)]
    weights = "view=1,cart=3,returned=-2,shown=none"
    file = str(written(columns, folder / "c.csv"))
    assert main(["ingest", file, "--folder", str(made), "--weights", weights, *flags]) == 0
    return Interactions.open(made)


DOORS = {
    "arrays": of_arrays,
    "table": of_frame,
    "chunks": of_chunks,
    "file": of_file,
    "ingest": of_ingest,
    "ingested chunks": of_ingested_chunks,
    "query": of_sql(None),
    "ingested query": of_sql("of rows"),
    "command": of_command,
}

EVENT = st.tuples(
    st.sampled_from(["ann", "ben", "cem"]),
    st.sampled_from(["tea", "milk"]),
    st.sampled_from(list(WEIGHTS)),
    st.integers(1_700_000_000, 1_700_000_000 + 90 * DAY),
)
HOW = st.fixed_dictionaries(
    {}, optional={"cap": st.sampled_from([0.5, 2, 100]), "half_life": st.sampled_from([5 * DAY])}
)


@pytest.mark.parametrize("door", DOORS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@given(events=st.lists(EVENT, min_size=2, max_size=12), how=HOW)
def test_sums_are_those_of_events(
    door: str, events: list[Any], how: dict[str, Any], tmp_path: Path
) -> None:
    events = [
        ("ann", "tea", "view", 1_700_000_000),
        *events,
        ("ben", "milk", "cart", 1_700_000_000),
    ]
    names = "user", "item", "event", "timestamp"
    columns: Columns = dict(zip(names, map(list, zip(*events, strict=True)), strict=True))
    expected, found = of_events(columns, tmp_path, how), DOORS[door](columns, tmp_path, how)
    for label in found.user_ids.labels.tolist():
        assert label in expected.user_ids
    assert cells_of(found) == pytest.approx(cells_of(expected), rel=1e-6, abs=0)
    assert found.timestamps is not None


def cells_of(data: Interactions) -> dict[Any, float]:
    users = data.user_ids.raw(data.entry_users).tolist()
    items = data.item_ids.raw(data.user_items.indices).tolist()
    values = np.asarray(data.user_items.data).tolist()
    return dict(zip(map("/".join, zip(users, items, strict=True)), values, strict=True))


UNTIMED: Columns = {"user": ["ann"], "item": ["tea"], "event": ["view"]}
MADE: dict[str, Callable[[Path, dict[str, Any]], Any]] = {
    "arrays": lambda _, how: Interactions.from_arrays(
        ["ann"], ["tea"], **{"events": ["view"]} if "weights" in how else {}, **how
    ),
    "file": lambda folder, how: Interactions.from_file(written(UNTIMED, folder / "a.csv"), **how),
    "ingest": lambda folder, how: Interactions.ingest(
        written(UNTIMED, folder / "a.csv"), folder / "made", **how
    ),
}
ODD = [
    ({"half_life": 5, "weights": {"view": 1}}, "half_life"),
    ({"half_life": 0, "weights": {"view": 1}}, "half_life"),
    ({"cap": -1, "weights": {"view": 1}}, "cap"),
    ({"cap": float("nan"), "weights": {"view": 1}}, "cap"),
    ({"cap": 2}, "cap"),
    ({"half_life": 2}, "half_life"),
]


@pytest.mark.parametrize("door", MADE)
@pytest.mark.parametrize(("how", "argument"), ODD)
def test_what_cannot_be_is_refused(
    door: str, how: dict[str, Any], argument: str, tmp_path: Path
) -> None:
    with refuses(ValueError, argument):
        MADE[door](tmp_path, how)
    assert not (tmp_path / "made").exists()


LINES = {
    "update": ["update", "a.csv", "--model", "m", "--half-life", "3"],
    "evaluate": ["evaluate", "--model", "m", "--test", "a.csv", "--target", "view", "--cap", "2"],
    "tune": ["tune", "a.csv", "--target", "view", "--half-life", "3", "--model", "n"],
    "dry run": ["ingest", "sqlite:///a.db", "--query", "t", "--folder", "n", "--dry-run"],
}


@pytest.mark.parametrize("line", LINES)
def test_commands_refuse_what_has_no_meaning(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = written({**UNTIMED, "timestamp": [1_700_000_000]}, tmp_path / "a.csv")
    mfrank.ALS(factors=1).fit(Interactions.from_file(file, value=False)).save("m")
    flag = next(each for each in LINES[line] if each in ("--half-life", "--cap", "--dry-run"))
    assert main(LINES[line]) == 2
    assert flag in capsys.readouterr().err
