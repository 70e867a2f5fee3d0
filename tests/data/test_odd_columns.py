"""Columns of ids that wrapped, or begin with a row of types, are told by every door."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mfrank
from mfrank import Interactions


def frame(users: Any, items: Any) -> pd.DataFrame:
    return pd.DataFrame({"user": users, "item": items})


def csv(users: Any, items: Any, folder: Path) -> Path:
    frame(users, items).to_csv(folder / "a.csv", index=False)
    return folder / "a.csv"


def parquet(users: Any, items: Any, folder: Path) -> Path:
    frame(users, items).to_parquet(folder / "a.parquet")
    return folder / "a.parquet"


def library(name: str) -> Callable[[Any, Any, Path], Any]:
    def read(users: Any, items: Any, _: Path) -> Interactions:
        module, table = pytest.importorskip(name), frame(users, items)
        if name == "pyarrow":
            return Interactions.from_frame(module.Table.from_pandas(table))
        return Interactions.from_frame(module.from_pandas(table))

    return read


def sql(users: Any, items: Any, folder: Path) -> Interactions:
    with sqlite3.connect(":memory:") as connection:
        frame(users, items).to_sql("plays", connection, index=False)
        read = Interactions.from_sql("plays", connection)
    connection.close()
    return read


DOORS: dict[str, Callable[[Any, Any, Path], Any]] = {
    "arrays": lambda users, items, _: Interactions.from_arrays(users, items),
    "lists": lambda users, items, _: Interactions.from_arrays(list(users), list(items)),
    "events": lambda users, items, _: mfrank.Events.from_arrays(users, items, ["a"] * len(users)),
    "pandas": lambda users, items, _: Interactions.from_frame(frame(users, items)),
    "polars": library("polars"),
    "pyarrow": library("pyarrow"),
    "chunks": lambda users, items, _: Interactions.from_frame(iter([frame(users, items)])),
    "csv": lambda users, items, folder: Interactions.from_file(csv(users, items, folder)),
    "parquet": lambda users, items, folder: Interactions.from_file(parquet(users, items, folder)),
    "ingest": lambda users, items, folder: Interactions.ingest(
        csv(users, items, folder), folder / "ingested"
    ),
    "ingest parquet": lambda users, items, folder: Interactions.ingest(
        parquet(users, items, folder), folder / "ingested"
    ),
    "sql": sql,
}
every_door = pytest.mark.parametrize("door", DOORS)
N = 4000
WRAPPED = {
    "all of 8 bits": (np.arange(N).astype(np.int8), 8),
    "both ends of 8 bits": ((np.arange(N) % 150).astype(np.int8), 8),
    "both ends of 16 bits": ((np.arange(N) % 3000 + 31_000).astype(np.int16), 16),
    "some of 16 bits": ((np.arange(N) * 16).astype(np.int16), 16),
    "no more than 8 bits": ((np.arange(N) % 128).astype(np.int8), 0),
    "no more than 16 bits": ((np.arange(N) % 3000 + 29_000).astype(np.int16), 0),
    "below 0": (np.arange(N) % 200 - 100, 0),
    "a code for nobody": (np.where(np.arange(N) % 9, np.arange(N) % 130, -128), 0),
    "of 8 bits, and few": (np.array([-128, 127, 3, -128]), 0),
    "hashes": (np.random.default_rng(0).integers(-(2**31), 2**31, N), 0),
}


@pytest.mark.parametrize(("users", "bits"), WRAPPED.values(), ids=WRAPPED)
@every_door
def test_ids_that_wrapped_are_told(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, door: str, users: Any, bits: int
) -> None:
    DOORS[door](users, np.arange(len(users)) % 30, tmp_path)
    told = f"user ids go from {users.min()} to {users.max()}, as integers of {bits} bits do"
    assert (told in caplog.text) == bool(bits)
    assert caplog.text.count("wrap around") == bool(bits)


ROWS = {
    "types": ("int64", "int64"),
    "types of a database": ("VARCHAR(20)", "bigint"),
    "types of R": ("<chr>", "<int>"),
    "units": ("(id)", "[code]"),
    "names": ("User ID", "Product"),
    "names again": ("user", "item"),
}


HEADERS = [(door, case) for case in ROWS for door in DOORS]
HEADERS = [
    each for each in HEADERS if each not in (("csv", "names again"), ("ingest", "names again"))
]
"""In text, a header that comes again is refused (tests/data/test_delimited.py)."""


@pytest.mark.parametrize(("door", "case"), HEADERS)
@pytest.mark.parametrize(("n_rows", "ids"), [(1, "u{}"), (2, "{}"), (30, "u{}")])
def test_a_row_of_a_header_is_told(
    door: str, n_rows: int, ids: str, case: str, tmp_path: Path, caplog: Any
) -> None:
    user, item = ROWS[case]
    users = [user, *map(ids.format, range(n_rows))]
    DOORS[door](users, [item, *map(ids.format, range(n_rows))], tmp_path)
    assert caplog.text.count("of columns: ") == 1


@every_door
def test_ordinary_first_rows_are_not_told(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tags and titles may be such words, and so may the name of somebody."""
    for user, item in (("ann", "string"), ("text", "tea"), ("member", "tea"), ("ann", "(500)")):
        DOORS[door]([user, "ben", "cid"], [item, "ale", "pie"], tmp_path)
    assert "the first row" not in caplog.text
