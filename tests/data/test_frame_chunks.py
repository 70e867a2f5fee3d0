"""Tables in chunks are what one table with all rows is, in memory and by ingest."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from test_interaction_folder import same

import mfrank
from mfrank.data import frame_chunks, ingest, on_disk, sources, write_table
from tests.support.errors import refuses

pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
dataset = pytest.importorskip("pyarrow.dataset", reason="the extra parquet is not installed")

RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame({
    "user": RNG.integers(0, 9, 50) + 2**60,
    "item": RNG.choice(list("abcdé"), 50),
    "rating": RNG.integers(1, 9, 50) / 4,
    "time": pandas.date_range("2024-01-01", periods=50, tz="Asia/Tokyo"),
    "other": ["x"] * 50,
})  # fmt: skip
PARTS = [FRAME[:20], FRAME[20:20], FRAME[20:21], FRAME[21:]]


def table(frame: pandas.DataFrame) -> Any:
    return pyarrow.Table.from_pandas(frame, preserve_index=False)


def as_reader(*_: Any) -> Any:
    return table(FRAME).to_reader(max_chunksize=7)


def as_categories(*_: Any) -> Any:
    frame = FRAME.assign(item=FRAME["item"].astype("category"))
    return table(frame).to_reader(max_chunksize=7)


def as_dataset(folder: Path) -> Any:
    for number, part in enumerate(PARTS):
        part.to_parquet(folder / f"{number}.parquet")
    return dataset.dataset(folder)


CONNECTION = duckdb.connect()  # early relations do not keep theirs open


def as_relation(*_: Any) -> Any:
    CONNECTION.register("plays", table(FRAME))
    return CONNECTION.sql("SELECT * FROM plays")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "a frame": lambda folder: FRAME,
    "frames": lambda folder: PARTS,
    "an iterator of frames": lambda folder: iter(PARTS),
    "frames of polars": lambda folder: (polars.from_pandas(part) for part in PARTS),
    "tables of Arrow": lambda folder: [table(part) for part in PARTS],
    "a table of Arrow": lambda folder: table(FRAME),
    "batches of Arrow": lambda folder: table(FRAME).to_batches(9),
    "a stream of Arrow": as_reader,
    "categories": as_categories,
    "several streams": lambda folder: [table(part).to_reader() for part in PARTS],
    "a dataset": as_dataset,
    "a scanner": lambda folder: as_dataset(folder).scanner(columns=list(FRAME.columns)),
    "a relation of DuckDB": as_relation,
    "a frame of polars": lambda folder: polars.from_pandas(FRAME),
}


@pytest.mark.parametrize("at_once", [3, 1 << 18])
@pytest.mark.parametrize("source", SOURCES)
def test_chunks_are_what_one_table_is(
    source: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "_ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(sources, "ROWS_AT_ONCE", at_once)
    (tmp_path / "parts").mkdir()
    one = mfrank.Interactions.from_frame(FRAME)
    FRAME.to_parquet(tmp_path / "one.parquet")
    same(mfrank.Interactions.from_file(tmp_path / "one.parquet"), one)
    same(mfrank.Interactions.from_frame(SOURCES[source](tmp_path / "parts")), one)
    ingested = mfrank.Interactions.ingest(SOURCES[source](tmp_path / "parts"), tmp_path / "x")
    same(ingested, one)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.parquet", "parts", "x"]


def test_one_stream_is_a_table_for_every_call() -> None:
    one = mfrank.Interactions.from_frame(FRAME)
    same(mfrank.Interactions.of(as_reader()), one)
    model = mfrank.Popularity().fit(as_reader())
    assert model.item_ids.labels.tolist() == one.item_ids.labels.tolist()


@pytest.mark.parametrize("source", ["an iterator of frames", "a stream of Arrow", "a dataset"])
def test_options_are_those_of_frames(source: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    how: dict[str, Any] = {
        "value": False,
        "timestamp": False,
        "weights": {"a": 2, "b": None, "c": 0},
    }
    how |= {"event": "item", "user": "rating", "item": "user", "where": {"item": ["a", "b", "c"]}}
    how |= {"duplicates": "max"}
    frame = FRAME.assign(rating=FRAME["rating"].astype(str))
    given = {
        "an iterator of frames": lambda: iter([frame[:9], frame[9:]]),
        "a stream of Arrow": lambda: table(frame).to_reader(),
        "a dataset": lambda: dataset.dataset(table(frame)),
    }[source]
    one = mfrank.Interactions.from_frame(frame, **how)
    same(mfrank.Interactions.from_frame(given(), **how), one)
    same(mfrank.Interactions.ingest(given(), tmp_path / "x", **how), one)
    as_text = mfrank.Interactions.ingest(given(), tmp_path / "y", ids="text", **how)
    assert as_text.item_ids.labels.tolist() == [str(each) for each in one.item_ids.labels]


def _read() -> Any:
    reader = as_reader()
    reader.read_all()
    return reader


def _with(**columns: Any) -> Callable[[], Any]:
    return lambda: iter([FRAME[:9], FRAME[9:].assign(**columns)])


REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a stream that was read": (_read, "no rows", "was it read before"),
    "no rows": (lambda: [FRAME[:0]], "no rows", "was it read before"),
    "other columns": (
        lambda: [FRAME[:9], FRAME[9:].rename(columns={"item": "film"})],
        "row 9",
        "one table",
    ),
    "fewer columns": (lambda: [FRAME[:9], FRAME[9:].drop(columns="rating")], "row 9", "one table"),
    "a missing id": (_with(user=None), "in row 9", "drop them"),
    "a missing value": (_with(rating=np.nan), "nan", "drop or replace"),
    "a value of text": (_with(rating="much"), "in row 9", "write a number"),
    "dates and numbers": (_with(time=5), "in row 9", "write dates"),
}  # fmt: skip


@pytest.mark.parametrize("door", ["memory", "ingest"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_table_is_refused_and_leaves_nothing(
    case: str, door: str, tmp_path: Path
) -> None:
    given, text, remedy = REFUSED[case]
    with refuses(ValueError, None, remedy=remedy) as raised:
        if door == "memory":
            mfrank.Interactions.from_frame(given())
        else:
            mfrank.Interactions.ingest(given(), tmp_path / "x")
    assert text in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_ids_of_both_kinds_are_kept_apart_or_refused(tmp_path: Path) -> None:
    parts = [
        pandas.DataFrame({"user": [1], "item": [1]}),
        pandas.DataFrame({"user": ["1"], "item": [1]}),
    ]
    assert mfrank.Interactions.from_frame(parts).user_ids.labels.tolist() == [1, "1"]
    with refuses(ValueError, "user", remedy="make text"):
        mfrank.Interactions.ingest(parts, tmp_path / "x")


def test_options_of_text_and_odd_inputs_are_refused(tmp_path: Path) -> None:
    with refuses(ValueError, "sep"):
        mfrank.Interactions.ingest([FRAME], tmp_path / "x", sep=";")
    with refuses(TypeError, "files"):
        mfrank.Interactions.ingest([[1, 2]], tmp_path / "x")
    with refuses(TypeError, "frame"):
        mfrank.Interactions.from_frame([[1, 2]])
    write_table(tmp_path / "a.csv", {"user": [1], "item": [2]})
    with refuses(TypeError, "files", remedy="make a list"):
        mfrank.Interactions.ingest(iter([str(tmp_path / "a.csv")]), tmp_path / "x")


def test_what_fails_midway_leaves_the_earlier_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = mfrank.Interactions.ingest([FRAME[:9]], tmp_path / "x")

    def broken() -> Iterator[pandas.DataFrame]:
        yield FRAME[:9]
        raise ConnectionError("lost")

    with pytest.raises(ConnectionError, match="lost"):
        mfrank.Interactions.ingest(broken(), tmp_path / "x")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    for owner, name in ((frame_chunks.np, "save"), (on_disk.Spill, "add")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, full)
            with pytest.raises(OSError, match=r"No space left.*make room"):
                mfrank.Interactions.ingest([FRAME], tmp_path / "x")
    same(mfrank.Interactions.open(tmp_path / "x"), before)
    assert [each.name for each in tmp_path.iterdir()] == ["x"]
