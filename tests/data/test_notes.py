"""Interactions know what was read to make them, by whichever door, and the report says it."""

from __future__ import annotations

import copy
import gzip
import pickle
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from mfrank import Interactions, by_ratio
from tests.support.errors import refuses

ROWS = [
    ("a", "x", 2, 1_600_000_000_000),
    ("a", "x", 3, 1_600_000_001_000),
    ("b", "y", 5, 1_600_000_002_000),
]
TABLE = {
    **dict(zip(("user", "item", "rating", "timestamp"), zip(*ROWS, strict=True), strict=True)),
    "title": ["t"] * 3,
}
TEXT = "user;item;rating;timestamp;title\n" + "".join(
    ";".join(map(str, row)) + ";t\n" for row in ROWS
)
COLUMNS = "columns read: user 'user', item 'item', value 'rating', timestamp 'timestamp'"
IGNORED = "; ignored: 'title'"
MILLIS = "timestamps are taken as milliseconds since 1970"
MERGED = "1 repeated entry merged (sum)"


def written(folder: Path, name: str, content: bytes = TEXT.encode()) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def from_sql(folder: Path) -> Interactions:
    connection = sqlite3.connect(":memory:")
    pd.DataFrame(TABLE).to_sql("events", connection, index=False)
    return Interactions.from_sql("SELECT * FROM events", connection)


def parquet(folder: Path) -> Path:
    pd.DataFrame(TABLE).to_parquet(folder / "a.parquet")
    return folder / "a.parquet"


def ingested(files: list[Path]) -> Interactions:
    return Interactions.ingest(files, files[0].parent / "folder")


DOORS: dict[str, tuple[Callable[[Path], Interactions], list[str]]] = {
    "arrays": (
        lambda _: Interactions.from_arrays(*zip(*ROWS, strict=True)),
        ["from_arrays", "3 rows", MILLIS, MERGED],
    ),
    "weights": (
        lambda _: Interactions.from_arrays(
            ["a", "b"], ["x", "y"], events=["view", "buy"], weights={"view": None, "buy": 2}
        ),
        ["from_arrays", "1 of 2 rows are read, by weights", "1 row"],
    ),
    "sparse": (
        lambda _: Interactions.from_sparse(sp.csr_array(np.eye(3))),
        ["from_sparse", "3 cells of a sparse matrix with a value"],
    ),
    "pandas": (
        lambda _: Interactions.from_frame(pd.DataFrame(TABLE)),
        ["from_frame", COLUMNS + IGNORED, "3 rows", MILLIS, MERGED],
    ),
    "polars": (
        lambda _: Interactions.from_frame(pl.DataFrame(TABLE)),
        ["from_frame", COLUMNS + IGNORED, "3 rows", MILLIS, MERGED],
    ),
    "csv": (
        lambda folder: Interactions.from_file(written(folder, "a.csv")),
        ["from_file: ", COLUMNS + IGNORED, "separated by ';'", "3 rows", MILLIS, MERGED],
    ),
    "headless": (
        lambda folder: Interactions.from_file(written(folder, "a.dat", b"7::8::1\n7::9::2\n")),
        ["from_file: ", "columns read: user 1, item 2, value 3", "separated by '::'", "2 rows"],
    ),
    "gzip": (
        lambda folder: Interactions.from_file(
            written(folder, "a.csv.gz", gzip.compress(TEXT.encode()))
        ),
        ["from_file: ", COLUMNS, "compressed by gzip", "3 rows", MERGED],
    ),
    "UTF-16": (
        lambda folder: Interactions.from_file(written(folder, "a.csv", TEXT.encode("utf-16"))),
        ["from_file: ", "UTF-16", COLUMNS, "3 rows", MERGED],
    ),
    "encoding": (
        lambda folder: Interactions.from_file(written(folder, "a.csv"), encoding="cp1252"),
        ["from_file: ", "encoding cp1252", "3 rows"],
    ),
    "where": (
        lambda folder: Interactions.from_file(written(folder, "a.csv"), where={"user": "b"}),
        ["from_file: ", "1 of 3 rows are read, by where", "1 row"],
    ),
    "parquet": (
        lambda folder: Interactions.from_file(parquet(folder)),
        ["from_file: ", COLUMNS + IGNORED, "3 rows", MILLIS, MERGED],
    ),
    "json": (
        lambda folder: Interactions.from_file(
            written(folder, "a.jsonl", b'{"user": "a", "item": "x"}\n{"user": "b", "item": "x"}\n')
        ),
        ["from_file: ", "columns read: user 'user', item 'item'", "2 rows"],
    ),
    "sql": (from_sql, ["from_sql", COLUMNS, "3 rows", MERGED]),
    "ingest": (
        lambda folder: ingested([written(folder, "a.csv"), written(folder, "b.csv")]),
        ["ingest", COLUMNS + IGNORED, "separated by ';'", "6 rows", MILLIS, "4 repeated entries"],
    ),
    "concat": (
        lambda _: Interactions.from_arrays(["a"], ["x"]) + Interactions.from_frame(TABLE_OF_ONE),
        ["from_arrays", "1 row", "from_frame", "concat", MERGED],
    ),
    "at_least": (
        lambda _: Interactions.from_arrays([1, 2], [1, 2], [1, 5]).at_least(4),
        ["from_arrays", "2 rows", "at_least(4): 1 of 2 entries"],
    ),
    "k_core": (
        lambda _: Interactions.from_arrays([1, 1, 2, 2, 3], [1, 2, 1, 2, 2]).k_core(2),
        ["from_arrays", "5 rows", "k_core(2): 4 of 5 entries"],
    ),
    "capped": (
        lambda _: Interactions.from_arrays([1, 2], [1, 2], [1, 5]).capped(4).take([True, False]),
        ["from_arrays", "capped(4): 2 of 2 entries", "take(): 1 of 2 entries"],
    ),
    "weighted": (
        lambda _: Interactions.from_arrays([1, 2], [1, 2]).weighted([2, 0]),
        ["from_arrays", "weighted(): 1 of 2 entries"],
    ),
}
TABLE_OF_ONE = pd.DataFrame({"user": ["a"], "item": ["x"]})


@pytest.mark.parametrize("door", DOORS)
def test_what_was_read_is_noted(door: str, tmp_path: Path) -> None:
    make, expected = DOORS[door]
    data = make(tmp_path)
    assert data.notes[0].startswith(expected[0])
    for line in expected:
        assert any(line in noted for noted in data.notes), (line, data.notes)
    report = str(data.report())
    assert all(line in report for line in data.notes)
    assert report.startswith("read ")


def test_notes_stay_with_copies_pickles_folders_and_parts(tmp_path: Path) -> None:
    data = Interactions.from_arrays([1, 1, 2, 2, 3], [1, 2, 1, 2, 2])
    for same in (pickle.loads(pickle.dumps(data)), copy.copy(data)):
        assert same.notes == data.notes
    data.to_folder(tmp_path / "folder")
    assert Interactions.open(tmp_path / "folder").notes == data.notes
    assert by_ratio(data, train=0.5, test=0.5).train.notes[: len(data.notes)] == data.notes
    assert replace(data, seen_only=None).notes == ()  # whoever replaces the matrix loses them


def test_folders_without_notes_are_read(tmp_path: Path) -> None:
    data = Interactions.from_arrays([1, 2], [1, 2])
    replace(data, timestamps=None).to_folder(tmp_path / "folder")
    assert Interactions.open(tmp_path / "folder").notes == ()


def test_notes_are_few_and_of_one_data_set(caplog: pytest.LogCaptureFixture) -> None:
    many = [Interactions.from_arrays([n], [1]).at_least(n / 100) for n in range(1, 90)]
    assert len(Interactions.concat(many).notes) <= 40
    assert len(many[3].notes) == 3
    with refuses(ValueError, "values"):
        Interactions.from_arrays([1, 2], [1, 2], [1, float("nan")])
    assert Interactions.from_arrays([1], [1]).notes == ("from_arrays", "1 row")


def test_the_kind_of_ids_is_in_the_report() -> None:
    data: Any = Interactions.from_arrays(["a", "b"], [(1, 2), "x"])
    assert data.report().ids == ("text", "of several types")
