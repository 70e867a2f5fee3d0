"""Files of Arrow and Feather are read as those of Parquet: whole, in portions, in parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from test_interaction_folder import same

import mfrank
from mfrank.cli.main import main
from mfrank.data import arrow_files, check_table_file, ingest
from tests.support.errors import refuses

pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
ipc = pytest.importorskip("pyarrow.ipc", reason="the extra parquet is not installed")

RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame({
    "other": ["x" * 50] * 40,
    "item": pandas.Categorical(RNG.choice(list("abc"), 40)),
    "user": RNG.integers(0, 9, 40) + 2**60,
    "rating": RNG.integers(1, 9, 40) / 4,
    "time": pandas.date_range("2024-01-01", periods=40, tz="Asia/Tokyo"),
})  # fmt: skip


def _as_file(frame: pandas.DataFrame, path: Path, compression: str | None = None) -> None:
    table = pyarrow.Table.from_pandas(frame)
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=7)


def _as_stream(frame: pandas.DataFrame, path: Path) -> None:
    table = pyarrow.Table.from_pandas(frame)
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


WRITERS: dict[str, Callable[[pandas.DataFrame, Path], None]] = {
    "a.arrow": _as_file,
    "lz4.ipc": lambda frame, path: _as_file(frame, path, "lz4"),
    "stream.arrow": _as_stream,
    "of pandas.feather": lambda frame, path: frame.to_feather(path),
    "a.FEATHER": lambda frame, path: frame.to_feather(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_it_is_what_the_frame_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "_ROWS_AT_ONCE", 3)
    WRITERS[name](FRAME, tmp_path / name)
    one = mfrank.Interactions.from_frame(FRAME)
    same(mfrank.Interactions.from_file(tmp_path / name), one)
    same(mfrank.Interactions.ingest(tmp_path / name, tmp_path / "x"), one)
    assert arrow_files.number_of_rows(tmp_path / name) == 40
    assert main(["ingest", str(tmp_path / name), "--folder", str(tmp_path / "y"), "--dry-run"]) == 0


def test_parts_and_files_elsewhere(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="the extra remote is not installed")
    fs, one = fsspec.filesystem("memory"), mfrank.Interactions.from_frame(FRAME)
    for number, part in enumerate([FRAME[:15], FRAME[15:15], FRAME[15:]]):
        folder = tmp_path / "plays" / f"day={number}"
        folder.mkdir(parents=True)
        (_as_stream if number == 1 else _as_file)(part, folder / "p.arrow")
        fs.pipe(f"/arrow/day={number}/p.arrow", (folder / "p.arrow").read_bytes())
    for given in (tmp_path / "plays", "memory://arrow"):
        same(mfrank.Interactions.from_file(given), one)
        same(mfrank.Interactions.ingest(given, tmp_path / "x"), one)
    fs.store.clear()


def test_only_columns_with_a_role_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _as_file(FRAME, tmp_path / "a.arrow")
    read, columns_of = list[list[str]](), arrow_files._columns_of

    def told(table: Any, *more: Any) -> Any:
        read.append(table.column_names)
        return columns_of(table, *more)

    monkeypatch.setattr(arrow_files, "_columns_of", told)
    mfrank.Interactions.from_file(tmp_path / "a.arrow", value=False)
    assert [sorted(names) for names in read] == [["item", "time", "user"]]


@pytest.mark.parametrize("door", ["from_file", "ingest"])
@pytest.mark.parametrize("damage", ["cut", "empty", "text", "no rows"])
def test_damage_is_named(damage: str, door: str, tmp_path: Path) -> None:
    file = tmp_path / "a.arrow"
    _as_file(FRAME[:0] if damage == "no rows" else FRAME, file)
    whole = file.read_bytes()
    changed = {"cut": whole[: len(whole) // 2], "empty": b"", "text": b"user,item\n1,2\n"}
    file.write_bytes(changed.get(damage, whole))
    more = [tmp_path / "x"] if door == "ingest" else []
    with refuses(ValueError, place="a.arrow") as raised:
        getattr(mfrank.Interactions, door)(file, *more)
    assert ("no rows" if damage == "no rows" else "no Arrow file") in str(raised.value)


def test_they_are_not_written(tmp_path: Path) -> None:
    with refuses(ValueError, place="a.arrow"):
        check_table_file(tmp_path / "a.arrow")
