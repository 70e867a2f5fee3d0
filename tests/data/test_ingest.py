"""Files read one at a time into a folder are what one file with all their rows would be."""

from __future__ import annotations

import errno
import itertools
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import PATHS, run
from test_interaction_folder import same

import mfrank
from mfrank.data import ingest as module
from mfrank.data import interaction_folder, on_disk, write_table
from tests.support.errors import refuses

Columns = dict[str, Any]


def columns(n: int, seed: int, *, text: bool = False, timestamps: bool = True) -> Columns:
    rng = np.random.default_rng(seed)
    users: Any = rng.integers(0, 25, n)
    made: Columns = {
        "user": [f"u{u}" for u in users] if text else users,
        "item": rng.zipf(1.6, n) % 17,
        "value": rng.integers(-2, 5, n) / 2,
    }
    return made | ({"timestamp": rng.integers(0, 50, n)} if timestamps else {})


def written(folder: Path, parts: list[Columns], suffix: str = ".csv") -> list[Path]:
    paths = [folder / f"part-{number}{suffix}" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        write_table(path, part)
    return paths


def whole(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("at_once", [1, 7, 50, 1 << 20])
@pytest.mark.parametrize("duplicates", ["sum", "max", "last"])
@pytest.mark.parametrize("timestamps", [True, False])
def test_it_is_what_one_file_would_be(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
    duplicates: Any,
    timestamps: bool,
) -> None:
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", at_once)
    parts = [columns(40, seed, timestamps=timestamps) for seed in range(3)]
    files = written(tmp_path, parts)
    one = mfrank.Interactions.from_file(
        *written(tmp_path, [whole(parts)], ".txt"), duplicates=duplicates
    )
    got = mfrank.Interactions.ingest(files, tmp_path / "data", duplicates=duplicates)
    same(got, one)


@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_what_is_merged_and_dropped_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", at_once)
    file = tmp_path / "a.csv"
    file.write_text("user,item,rating\n" + "1,2,1\n1,2,3\n1,3,0\n2,2,0\n3,2,1\n3,2,1\n4,5,1\n")
    told = []
    for read in (
        lambda: mfrank.Interactions.ingest([file], tmp_path / "data"),
        lambda: mfrank.Interactions.from_file(file),
    ):
        caplog.clear()
        with caplog.at_level(logging.INFO, "mfrank"):
            read()
        told.append([m for m in caplog.messages if m[0].isdigit()])
    assert told[0] == told[1]
    merged, zeros = told[0]
    assert merged == "2 repeated entries merged (sum)"
    assert zeros.startswith("2 of 5 entries with the value 0")


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet"])
def test_every_format_and_any_order_of_files(tmp_path: Path, suffix: str) -> None:
    parts = [columns(30, seed, text=True) for seed in range(3)]
    files = written(tmp_path, parts, suffix)
    one = mfrank.Interactions.from_arrays(*whole(parts).values())
    for number, order in enumerate(itertools.permutations(files)):
        same(mfrank.Interactions.ingest(order, tmp_path / f"data-{number}"), one)


def test_ids_are_text_where_those_of_one_file_are(tmp_path: Path) -> None:
    parts = [columns(30, 0), columns(30, 1, text=True)]
    got = mfrank.Interactions.ingest(written(tmp_path, parts), tmp_path / "data")
    same(got, mfrank.Interactions.from_file(*written(tmp_path, [whole(parts)], ".tsv")))
    assert got.item_ids.labels.dtype == np.int64


def test_nothing_is_left_beside_the_folder(tmp_path: Path) -> None:
    files = written(tmp_path, [columns(30, 0)])
    made = tmp_path / "in" / "made"
    mfrank.Interactions.ingest(files, made / "data")
    assert [path.name for path in made.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("rows", "duplicates", "values_from"),
    [
        ("1,2\n1,3\n", "sum", "given"),
        ("1,2\n1,2\n", "sum", "repeats"),
        ("1,2\n1,2\n", "max", "given"),
        ("1,2,1\n1,3,1\n", "sum", "ones"),
        ("1,2,1\n1,2,1\n1,3,1\n", "max", "ones"),
        ("1,2,1\n1,2,1\n1,3,1\n", "sum", "repeats"),
        ("1,2,2\n1,2,2\n", "sum", "given"),
        ("1,2,1\n1,3,5\n", "sum", "given"),
    ],
)
def test_it_is_known_whether_values_are_counts_of_rows(
    tmp_path: Path, rows: str, duplicates: Any, values_from: str
) -> None:
    file = tmp_path / "a.csv"
    header = "user,item\n" if rows.index("\n") == 3 else "user,item,rating\n"
    file.write_text(header + rows)
    read = mfrank.Interactions.from_file(file, duplicates=duplicates)
    ingested = mfrank.Interactions.ingest([file], tmp_path / "data", duplicates=duplicates)
    assert ingested.cells.values_from == read.cells.values_from == values_from
    same(ingested, read)


def test_what_cannot_be_is_refused_before_any_file_is_read(tmp_path: Path) -> None:
    (bad,) = written(tmp_path, [{"user": ["", "b"], "item": [1, 2]}])
    model = mfrank.Popularity().fit(mfrank.Interactions.from_arrays([1], [2]))
    folder = model.save(tmp_path / "model")
    with refuses(ValueError, place="manifest.json", remedy=r"mfrank\.load reads"):
        mfrank.Interactions.ingest([bad], folder)
    with pytest.raises(FileNotFoundError, match=r"z\.csv"):
        mfrank.Interactions.ingest([bad, tmp_path / "z.csv"], tmp_path / "data")
    (tmp_path / "z.csv").mkdir()
    with refuses(ValueError, place="z.csv", remedy="folder of files"):
        mfrank.Interactions.ingest([bad, tmp_path / "z.csv"], tmp_path / "data")
    wrong: list[dict[str, Any]] = [{"sep": "ab"}, {"ids": "numbers"}, {"timestamp_unit": "h"}]
    for how in wrong:
        with refuses(ValueError, next(iter(how))):
            mfrank.Interactions.ingest([bad], tmp_path / "not" / "data", **how)
    assert not (tmp_path / "not").exists()


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"value": [float("inf"), 1.0]}, "write a number"),
        ({"user": ["", "b"]}, "drop the row"),
        ({}, "timestamp=False"),
    ],
)
def test_errors_name_the_file_and_change_nothing(
    tmp_path: Path, change: Columns, remedy: str
) -> None:
    folder = tmp_path / "data"
    before = mfrank.Interactions.ingest(written(tmp_path, [columns(9, 0)]), folder)
    bad = {"user": ["a", "b"], "item": [1, 2], "value": [1.0, 1.0]} | change
    good = columns(9, 0, timestamps=not change)
    with refuses(ValueError, None, remedy=remedy) as raised:
        mfrank.Interactions.ingest(written(tmp_path, [good, bad]), folder)
    assert "part-1.csv: " in str(raised.value)
    same(mfrank.Interactions.open(folder), before)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("at_once", [1, 1 << 20])
@pytest.mark.parametrize("rows", ["c,7,1e39\n", "c,7,3e38\nb,7,1\nc,7,3e38\n"])
def test_values_beyond_float32_are_named_by_user_and_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, rows: str
) -> None:
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", at_once)
    file = tmp_path / "a.csv"
    file.write_text("user,item,rating\na,5,1\na,7,1\nd,7,1e39\nc,9,1\n" + rows)
    with refuses(ValueError, "values") as raised:
        mfrank.Interactions.ingest([file], tmp_path / "data")
    assert "user 'c' and item 7" in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_file_that_changes_while_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,), first_pass = written(tmp_path, [columns(9, 0)]), module.numbered

    def numbered(*args: Any) -> Any:
        known = first_pass(*args)
        written(tmp_path, [columns(9, 0, text=True)])
        return known

    monkeypatch.setattr(module, "numbered", numbered)
    with refuses(ValueError, place="part-0.csv", remedy="make the same call"):
        mfrank.Interactions.ingest([file], tmp_path / "data")


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, files = tmp_path / "data", written(tmp_path, [columns(30, 0), columns(30, 1)])
    before = mfrank.Interactions.ingest(files[:1], folder)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    for owner, name in ((on_disk.Spill, "add"), (on_disk.GrowingArray, "add")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, full)
            with pytest.raises(OSError, match="No space left"):
                mfrank.Interactions.ingest(files, folder)
        same(mfrank.Interactions.open(folder), before)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_is_no_list_of_files_is_refused(tmp_path: Path) -> None:
    for other in (7, {"a.csv": 1}, [3]):
        with refuses(TypeError, "files"):
            mfrank.Interactions.ingest(other, tmp_path / "data")  # type: ignore[arg-type]
    with refuses(ValueError, "files"):
        mfrank.Interactions.ingest([], tmp_path / "data")
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
        mfrank.Interactions.ingest([tmp_path / "nothing.csv"], tmp_path / "data")
    with refuses(ValueError, "duplicates"):
        mfrank.Interactions.ingest([], tmp_path / "data", duplicates="mean")  # type: ignore[arg-type]


WAITING = """
import time
from pathlib import Path
import mfrank
from mfrank.data import interaction_folder
def wait(*_):
    print(flush=True)
    time.sleep(600)
interaction_folder.write_arrays = wait
mfrank.Interactions.ingest([{file!r}], {folder!r})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks to tell by")
def test_what_a_killed_run_left_goes_with_the_next_and_not_before(tmp_path: Path) -> None:
    (file,) = written(tmp_path, [columns(40, 0)])
    folder = tmp_path / "data"

    def temporary() -> list[Path]:
        return [path for path in tmp_path.iterdir() if path.name.startswith(".")]

    code = f"import sys; sys.path[:0] = {PATHS!r}\n"
    code += WAITING.format(file=str(file), folder=str(folder))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        try:
            other.stdout.readline()
            (place,) = temporary()
            assert list(place.iterdir())
            mfrank.Interactions.ingest([file], folder)
            assert temporary() == [place]  # the other run is at it
        finally:
            other.kill()
    assert temporary() == [place]
    got = mfrank.Interactions.ingest([file], folder)
    assert not temporary()
    same(got, mfrank.Interactions.from_file(file))


BOUNDED = """
import resource, sys
import numpy as np
import mfrank
from mfrank.data import ingest
ingest._ENTRIES_AT_ONCE, ingest._ROWS_AT_ONCE = 1 << 15, 1 << 13
file, warm, folder = sys.argv[1:]
mfrank.Interactions.ingest([warm], folder)
lines = open("/proc/self/status").read().splitlines()
held = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))
resource.setrlimit(resource.RLIMIT_DATA, (held + (12 << 20),) * 2)
data = mfrank.Interactions.ingest([file], folder)
try:
    np.ones(data.nnz * 3)
except MemoryError:
    print("bounded", data.nnz)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what is not mapped")
def test_memory_does_not_hold_the_rows(tmp_path: Path) -> None:
    """12 MiB of private memory for 600,000 rows, which take 14 MiB in numbers of 24 bytes."""
    pytest.importorskip("pyarrow", reason="writes parquet")
    n = 600_000
    users, items = np.repeat(np.arange(2000), n // 2000), np.tile(np.arange(n // 2000), 2000)
    paths = [tmp_path / name for name in ("whole.parquet", "warm.parquet")]
    for path, size in zip(paths, (n, 90_000), strict=True):
        write_table(path, {"user": users[:size], "item": items[:size], "value": np.ones(size)})
    given = [str(path) for path in (*paths, tmp_path / "data")]
    told = run(f"import sys; sys.argv[1:] = {given!r}\n" + BOUNDED, MALLOC_ARENA_MAX="2")
    assert told.stdout == f"bounded {n}\n", told.stderr


def test_what_another_process_has_written_meanwhile_is_replaced_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file, other = written(tmp_path, [columns(40, 0), columns(30, 1)])
    folder, tell_full = tmp_path / "data", module.tell_full

    def ingest_meanwhile(*args: Any) -> None:
        monkeypatch.undo()
        mfrank.Interactions.ingest(other, folder)
        tell_full(*args)

    for _ in range(2):  # what was there before is replaced as asked
        mfrank.Interactions.ingest(file, folder)
    assert "another process" not in caplog.text
    monkeypatch.setattr(module, "tell_full", ingest_meanwhile)
    same(mfrank.Interactions.ingest(file, folder), mfrank.Interactions.from_file(file))
    assert caplog.text.count("another process has written interactions there") == 1


def test_what_another_process_writes_afterwards_is_not_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = written(tmp_path, [columns(40, 0), columns(30, 1)])
    folder, data = tmp_path / "data", mfrank.Interactions.from_file(other)
    write, others = interaction_folder.folders.write, list[threading.Thread]()

    def write_and_let_others(*args: Any) -> None:
        write(*args)
        if not others:
            others.append(threading.Thread(target=data.to_folder, args=[folder]))
            others[0].start()
            others[0].join(0.2)

    monkeypatch.setattr(interaction_folder.folders, "write", write_and_let_others)
    same(mfrank.Interactions.ingest(file, folder), mfrank.Interactions.from_file(file))
    others[0].join()
    same(mfrank.Interactions.open(folder), data)
