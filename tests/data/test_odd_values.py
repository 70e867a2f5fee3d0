"""What values probably mean otherwise is told alike, whatever door they come through."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reading
import scipy.sparse as sp

from mfrank import Interactions


def columns_of(values: list[float]) -> dict[str, Any]:
    if any(isinstance(value, float) for value in values):
        values = list(map(float, values))
    return {"user": list(range(len(values))), "item": list(range(len(values))), "rating": values}


def by_library(library: str) -> Callable[[list[float], Path], Interactions]:
    def read(values: list[float], _: Path) -> Interactions:
        module = pytest.importorskip(library)
        make = module.table if library == "pyarrow" else module.DataFrame
        return Interactions.from_frame(make(columns_of(values)))

    return read


def by_text(door: str) -> Callable[[list[float], Path], Interactions]:
    def read(values: list[float], folder: Path) -> Interactions:
        path = folder / "ratings.csv"
        rows = zip(*columns_of(values).values(), strict=True)
        path.write_text("user,item,rating\n" + "".join(f"{u},{i},{v}\n" for u, i, v in rows))
        return reading.DOORS[door](path)

    return read


def parquet(values: list[float], folder: Path) -> Path:
    table = pytest.importorskip("pyarrow").table(columns_of(values))
    pytest.importorskip("pyarrow.parquet").write_table(table, folder / "ratings.parquet")
    return folder / "ratings.parquet"


DOORS: dict[str, Callable[[list[float], Path], Interactions]] = {
    "arrays": lambda values, _: Interactions.from_arrays(*columns_of(values).values()),
    **{library: by_library(library) for library in ("pandas", "polars", "pyarrow")},
    **{door: by_text(door) for door in reading.DOORS},
    "parquet": lambda values, folder: Interactions.from_file(parquet(values, folder)),
    "ingest parquet": lambda values, folder: Interactions.ingest(
        [parquet(values, folder)], folder / "to"
    ),
    "matrix": lambda values, _: Interactions.from_sparse(
        sp.csr_array(np.diag(np.array(values, np.float64)))
    ),
}


def told(log: pytest.LogCaptureFixture, word: str) -> list[str]:
    lines = [record.getMessage() for record in log.records if record.levelno >= logging.WARNING]
    return [line for line in lines if word in line]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("values", "code", "rows"),
    [
        ([-1, 8, -1, 10, 7], "-1", "2 rows"),  # as in lists of anime
        ([5, -1, 3.5, 2], "-1", "1 row"),
        ([99, -3.5, 7.25, 99, 9], "99", "2 rows"),  # as in Jester
        ([1, 999, 5, 999], "999", "2 rows"),
        ([1, -99, 5, -99], "-99", "2 rows"),
    ],
)
def test_a_value_that_may_stand_for_none_is_told_and_kept(
    door: str,
    values: list[float],
    code: str,
    rows: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = DOORS[door](values, tmp_path)
    assert sorted(data.user_items.data.tolist()) == sorted(values)
    (line,) = told(caplog, "missing one")
    assert f"the value {code}, in {rows}," in line


@pytest.mark.parametrize("door", DOORS)
def test_ordinary_values_are_not_talked_about(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, values in enumerate(
        (
            *([1, -1, 1, -1], [-1, -1], [-1, -2, 5], [-10, 9.5, -9, 3], [1, 2, 5, 4]),
            *([1, 99, 12], [99, 99], [3, 99, 4], [1, 98, 99, 99], [100, 250, 999, 999]),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        DOORS[door](list(values), folder)
    assert not told(caplog, "")
