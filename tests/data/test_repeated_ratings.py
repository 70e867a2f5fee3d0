"""Ratings that reach a threshold only because several were added up are told, by whatever door."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.cli.main import main

# a rated x twice and y once; b rated x three times, once high, and z twice
ROWS = [
    ("a", "x", 2, 10),
    ("a", "x", 2, 11),
    ("a", "y", 4, 12),
    ("b", "x", 1, 13),
    ("b", "x", 5, 14),
    ("b", "x", 1, 15),
    ("b", "z", 3, 16),
    ("b", "z", 1.5, 17),
    ("c", "y", 1, 18),
]
TOLD = "at_least(4) keeps 2 entries only as the sum"


def csv_of(rows: Any, header: str = "user,item,rating,timestamp\n") -> str:
    return header + "".join(",".join(map(str, row)) + "\n" for row in rows)


def arrays(_: Path, **how: Any) -> mfrank.Interactions:
    return mfrank.Interactions.from_arrays(*zip(*ROWS, strict=True), **how)


def rows_of_a_shape(_: Path, **how: Any) -> mfrank.Interactions:
    users, items, values, _times = zip(*ROWS, strict=True)
    numbers = ["abc".index(user) for user in users], ["xyz".index(item) for item in items]
    return mfrank.Interactions.from_arrays(*numbers, values, shape=(3, 3), **how)


def matrix(_: Path, **how: Any) -> mfrank.Interactions:
    users, items, values, _times = zip(*ROWS, strict=True)
    cells = ["abc".index(user) for user in users], ["xyz".index(item) for item in items]
    return mfrank.Interactions.from_sparse(sp.coo_array((values, cells), (3, 3)), **how)


def rows_of_a_matrix(_: Path, **how: Any) -> mfrank.Interactions:
    _users, items, values, _times = zip(*ROWS, strict=True)
    columns = ["xyz".index(item) for item in items]
    rows = sp.csr_matrix((values, columns, [0, 3, 8, 9]), (3, 3))
    return mfrank.Interactions.from_sparse(rows, **how)


def pandas_frame(_: Path, **how: Any) -> mfrank.Interactions:
    pandas = pytest.importorskip("pandas", reason="the package pandas is optional")
    frame = pandas.DataFrame(ROWS, columns=["user", "item", "rating", "timestamp"])
    return mfrank.Interactions.from_frame(frame, **how)


def polars_frame(_: Path, **how: Any) -> mfrank.Interactions:
    polars = pytest.importorskip("polars", reason="the package polars is optional")
    names = ["user", "item", "rating", "timestamp"]
    rows = [(user, item, float(value), time) for user, item, value, time in ROWS]
    frame = polars.DataFrame(rows, schema=names, orient="row")
    return mfrank.Interactions.from_frame(frame, **how)


def text(folder: Path, **how: Any) -> mfrank.Interactions:
    (folder / "r.csv").write_text(csv_of(ROWS))
    return mfrank.Interactions.from_file(folder / "r.csv", **how)


def compressed(folder: Path, **how: Any) -> mfrank.Interactions:
    (folder / "r.csv.gz").write_bytes(gzip.compress(csv_of(ROWS).encode()))
    return mfrank.Interactions.from_file(folder / "r.csv.gz", **how)


def parquet(folder: Path, **how: Any) -> mfrank.Interactions:
    pandas = pytest.importorskip("pandas", reason="the package pandas is optional")
    pytest.importorskip("pyarrow", reason="the package pyarrow is optional")
    frame = pandas.DataFrame(ROWS, columns=["user", "item", "rating", "timestamp"])
    frame.to_parquet(folder / "r.parquet")
    return mfrank.Interactions.from_file(folder / "r.parquet", **how)


def ingested(folder: Path, **how: Any) -> mfrank.Interactions:
    for number, part in enumerate((ROWS[::2], ROWS[1::2])):
        (folder / f"{number}.csv").write_text(csv_of(part))
    return mfrank.Interactions.ingest([folder / "0.csv", folder / "1.csv"], folder / "f", **how)


def ingested_in_blocks(folder: Path, **how: Any) -> mfrank.Interactions:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mfrank.data.ingest._ENTRIES_AT_ONCE", 3)
        return ingested(folder, **how)


def days(_: Path, **how: Any) -> mfrank.Interactions:
    parts = [mfrank.Interactions.from_arrays(*zip(*ROWS[n::3], strict=True)) for n in range(3)]
    return mfrank.Interactions.concat(parts, **how)


DOORS: Mapping[str, Callable[..., mfrank.Interactions]] = {
    door.__name__: door
    for door in (
        arrays,
        rows_of_a_shape,
        matrix,
        rows_of_a_matrix,
        pandas_frame,
        polars_frame,
        text,
        compressed,
        parquet,
        ingested,
        ingested_in_blocks,
        days,
    )
}

STEPS: Mapping[str, Callable[[mfrank.Interactions, Path], mfrank.Interactions]] = {
    "as it is": lambda data, _: data,
    "in a folder": lambda data, folder: mfrank.Interactions.open(data.to_folder(folder / "kept")),
    "taken": lambda data, _: data.take(np.arange(data.nnz) != 1),
    "a core": lambda data, _: data.k_core(1),
    "more of them": lambda data, _: (
        data.take(np.arange(data.nnz) < 3) + data.take(np.arange(data.nnz) >= 3)
    ),
    "after a lower threshold": lambda data, _: data.at_least(2),
    "split": lambda data, _: mfrank.leave_k_out(data, 9, random_state=0).train,
}


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.mark.parametrize("door", DOORS)
def test_every_door_tells_of_sums(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, door: str
) -> None:
    data = DOORS[door](tmp_path)
    (told,) = warned(caplog)
    assert "those of 3 pairs of user and item given more than once are added, up to 7" in told
    caplog.clear()
    kept = data.at_least(4)
    assert kept.nnz == 4
    (told,) = warned(caplog)
    assert told.startswith(TOLD)
    assert 'duplicates="last"' in told
    assert 'duplicates="max"' in told


@pytest.mark.parametrize("duplicates", ["last", "max"])
@pytest.mark.parametrize("door", DOORS)
def test_nothing_is_told_where_nothing_is_added_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, door: str, duplicates: Any
) -> None:
    DOORS[door](tmp_path, duplicates=duplicates).at_least(4)
    assert not warned(caplog)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("door", ["arrays", "ingested", "days"])
def test_sums_are_remembered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, door: str, step: str
) -> None:
    caplog.set_level(logging.ERROR)
    data = STEPS[step](DOORS[door](tmp_path), tmp_path)
    caplog.set_level(logging.WARNING)
    data.at_least(4)
    (told,) = warned(caplog)
    assert "only as the sum" in told


def test_only_sums_that_matter_are_told(caplog: pytest.LogCaptureFixture) -> None:
    data = arrays(Path())
    caplog.clear()
    assert data.at_least(1.5).nnz == 4  # all but c's 1
    assert not warned(caplog)
    mfrank.log_weight(data).at_least(1.5)  # other values than those that were added up
    data.weighted(np.full(data.nnz, 2.0)).at_least(6)
    assert not [line for line in warned(caplog) if "only as the sum" in line]


def test_entries_without_values_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    users, items = ["a", "a", "a", "b"], ["x", "x", "x", "x"]
    for values in (None, [1, 1, 1, 1]):
        assert mfrank.Interactions.from_arrays(users, items, values).at_least(3).nnz == 1
    assert not warned(caplog)


def test_zeros_that_are_merged_are_no_ratings(caplog: pytest.LogCaptureFixture) -> None:
    data = mfrank.Interactions.from_arrays(list("aab"), list("xxy"), [0, 0, 0])
    assert data.nnz == 0
    assert data.seen_only is not None
    assert data.seen_only.nnz == 2
    data = mfrank.Interactions.from_arrays(list("aabcccc"), list("xxyxyzx"), [0, 0, 4, 2, 3, 4, 5])
    assert data.nnz == 4
    assert not [line for line in warned(caplog) if "are added" in line]


def test_the_command_line_tells_it_in_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.csv").write_text(csv_of(ROWS))
    line = ["fit", str(tmp_path / "r.csv"), "--model", str(tmp_path / "m"), "--factors", "2"]
    assert main([*line, "--at-least", "4"]) == 0
    told = capsys.readouterr().err
    assert "keeps 2 entries only as the sum" in told
    assert "--duplicates last or --duplicates max" in told
    assert main([*line, "--at-least", "4", "--duplicates", "last"]) == 0
    assert "only as the sum" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "values",
    [
        [1, 1, 2, 1, 3, 1, 1, 2],  # quantities
        [1, 9, 30, 4, 12, 2, 7, 3],  # plays
        [0.3, 2.7, 1.1, 4.2, 3.9, 2.2, 1.7, 3.3],  # hours
        [1, 1, -1, 1, 1, -1, -1, -1],  # likes and dislikes
    ],
)
def test_sums_of_what_is_no_rating_are_what_is_meant(
    caplog: pytest.LogCaptureFixture, values: list[float]
) -> None:
    users, items = list("aabbccdd"), list("xxyxyzxx")
    assert mfrank.Interactions.from_arrays(users, items, values).nnz == 6
    assert not warned(caplog)
