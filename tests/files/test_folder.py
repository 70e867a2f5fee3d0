"""A folder holds the old contents or the new, whatever stops a save; damage is told, not read."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import PATHS
from faults import Fault
from folders import FORMAT, contents, is_clean, value_of

from mfrank.files import (
    ChangedFolderError,
    Contents,
    Format,
    generation_of,
    joined_origins,
    npy,
    paths_of,
    read,
    write,
)
from mfrank.files import folder as marks
from mfrank.files import folder as module
from tests.support.errors import refuses


@pytest.mark.parametrize("forever", [False, True], ids=["one call fails", "dead from there on"])
@pytest.mark.parametrize("before", ["store", "nothing"])
def test_a_failure_at_any_step_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, forever: bool
) -> None:
    outcomes = []
    for step in range(1000):
        folder = tmp_path / f"{step}"
        if before == "store":
            write(folder, contents(1), FORMAT)
        fault = Fault(step, forever=forever)
        with monkeypatch.context() as patch:
            fault.install(patch)
            try:
                write(folder, contents(2), FORMAT)
                raised = False
            except OSError:
                raised = True
        if not fault.struck:
            break
        try:
            outcomes.append(value_of(read(folder, FORMAT, verify=True)))
        except (FileNotFoundError, ValueError):
            assert before == "nothing"
            outcomes.append(0)
        assert raised or outcomes[-1] == 2
        write(folder, contents(3), FORMAT)
        assert value_of(read(folder, FORMAT, verify=True)) == 3
        assert is_clean(folder)
    old = 1 if before == "store" else 0
    # Steps up to the renaming leave the old, the few after it the new, and both were met.
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {old, 2}
    assert len(outcomes) > 20


def test_a_full_disk_is_freed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "s", contents(1), FORMAT)
    with monkeypatch.context() as patch:
        fault = Fault(3, forever=True)
        patch.setattr(npy._Hashing, "write", fault.half_written(npy._Hashing.write))
        with pytest.raises(OSError, match="No space"):
            write(tmp_path / "s", contents(2), FORMAT)
    assert is_clean(tmp_path / "s")


def test_garbage_makes_room_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbage = tmp_path / f"data-{0:016}"
    marks.make(garbage, ["a.npy"])
    (garbage / "a.npy").write_bytes(b"half")
    write_array, there = module.write_array, []

    def watched(*args: Any) -> Any:
        there.append(garbage.exists())
        return write_array(*args)

    monkeypatch.setattr(module, "write_array", watched)
    write(tmp_path, contents(1), FORMAT)
    assert there == [False] * 4


def test_a_killed_process_leaves_one_whole_store(tmp_path: Path) -> None:
    endless = f"""
import sys
sys.path[:0] = {PATHS!r}
from pathlib import Path
from test_folder import FORMAT, contents, write
for value in range(10**9):
    write(Path({str(tmp_path / "s")!r}), contents(value, 50_000), FORMAT)
    print(value, flush=True)
"""
    for pause in (0.003, 0.011):
        with subprocess.Popen([sys.executable, "-c", endless], stdout=subprocess.PIPE) as saver:
            assert saver.stdout is not None
            last = int(saver.stdout.readline())
            time.sleep(pause)
            os.kill(saver.pid, signal.SIGKILL)
            last = max([last, *map(int, saver.stdout.read().split())])
        assert value_of(read(tmp_path / "s", FORMAT, verify=True)) in (last, last + 1)
    write(tmp_path / "s", contents(7), FORMAT)
    assert is_clean(tmp_path / "s")


def test_savers_take_turns_and_readers_never_see_a_mixture(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    write(folder, contents(0), FORMAT)
    errors: list[BaseException] = []

    def guarded(work: Callable[[int], object], value: int) -> None:
        try:
            for _ in range(12):
                work(value)
        except BaseException as error:
            errors.append(error)

    def save(value: int) -> None:
        write(folder, contents(value, 200), FORMAT)

    def look(_: int) -> None:
        assert value_of(read(folder, FORMAT)) in (0, 1, 2, 3)

    threads = [threading.Thread(target=guarded, args=(save, n)) for n in (1, 2, 3)]
    threads += [threading.Thread(target=guarded, args=(look, n)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert value_of(read(folder, FORMAT, verify=True)) in (1, 2, 3)
    assert is_clean(folder)


_STALE = getattr(errno, "ESTALE", 0)  # Windows lacks it


@pytest.mark.parametrize("code", [0, _STALE], ids=["here", "on another machine"])
def test_a_reader_overtaken_by_a_save_reads_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """On a network file system, who has a file open that another machine removes loses it."""
    write(tmp_path, contents(1), FORMAT)
    calls = iter([True])
    read_array = module.read_array

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        if next(calls, False):
            write(tmp_path, contents(2), FORMAT)
            if code:
                raise OSError(code, os.strerror(code))
        return read_array(*args, **kwargs)

    monkeypatch.setattr(module, "read_array", overtaken)
    assert value_of(read(tmp_path, FORMAT)) == 2


def test_a_file_that_stays_stale_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: Any, **__: Any) -> Any:
        raise OSError(_STALE, os.strerror(_STALE))

    write(tmp_path, contents(1), FORMAT)
    monkeypatch.setattr(module, "read_array", stale)
    with pytest.raises(OSError, match=os.strerror(_STALE)):
        read(tmp_path, FORMAT)


def test_a_map_outlives_the_save_that_replaces_it(tmp_path: Path) -> None:
    write(tmp_path, contents(1), FORMAT)
    assert not isinstance(read(tmp_path, FORMAT).arrays["a"], np.memmap)
    mapped = read(tmp_path, FORMAT, mmap=True)
    assert isinstance(mapped.arrays["a"], np.memmap)
    assert all(a.ctypes.data % 64 == 0 for a in mapped.arrays.values() if a.size)
    write(tmp_path, Contents(mapped.arrays, {"value": 1}), FORMAT)  # onto itself
    write(tmp_path, contents(2), FORMAT)
    assert value_of(mapped) == 1
    with pytest.raises(ValueError, match="read-only"):
        mapped.arrays["a"][0] = 3


def test_what_others_saved_is_replaced_only_if_asked(tmp_path: Path) -> None:
    origin: dict[str, tuple[str, ...]] = {}
    write(tmp_path, contents(1), FORMAT, origin)
    write(tmp_path, contents(2), FORMAT)
    with refuses(
        ChangedFolderError, "overwrite", remedy=r"load it again .* or pass overwrite=True"
    ):
        write(tmp_path, contents(3), FORMAT, origin)
    assert value_of(read(tmp_path, FORMAT)) == 2
    write(tmp_path, contents(3), FORMAT, origin, overwrite=True)
    write(tmp_path, contents(4), FORMAT, origin)
    assert value_of(read(tmp_path, FORMAT)) == 4
    assert origin == dict.fromkeys(paths_of(tmp_path), (generation_of(tmp_path, FORMAT),))
    joined = joined_origins({"/a": ("x",), "/b": ("y",)}, {"/a": ("x", "z"), "/c": ("w",)})
    assert joined == {"/a": ("x", "z"), "/b": ("y",), "/c": ("w",)}
    assert joined_origins({"/a": ("x",)}, {"/a": ("z",)}) == {"/a": ("x", "z")}


def test_each_save_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        write(tmp_path, contents(1), FORMAT)
        names.append(generation_of(tmp_path, FORMAT))
        assert (tmp_path / names[-1] / "a.npy").exists()
    assert names[0] != names[1]
    with refuses(ValueError, place="manifest.json"):
        generation_of(tmp_path, Format("other", 1))


def test_foreign_folders_and_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with refuses(ValueError, remedy="pass a new or an empty folder"):
        write(tmp_path, contents(1), FORMAT)
    with refuses(ValueError, place="notes.txt", remedy="pass a folder"):
        write(tmp_path / "notes.txt", contents(1), FORMAT)
    (tmp_path / "manifest.json").write_text('{"name": "a web app"}')
    with refuses(ValueError, place="manifest.json"):
        write(tmp_path, contents(1), FORMAT)
    assert {entry.name for entry in tmp_path.iterdir()} == {"notes.txt", "manifest.json"}


def test_files_put_beside_a_store_stay(tmp_path: Path) -> None:
    write(tmp_path / "new" / "parents", contents(1), FORMAT)
    (tmp_path / "new" / "parents" / "README").write_text("mine")
    write(tmp_path / "new" / "parents", contents(2), FORMAT)
    assert (tmp_path / "new" / "parents" / "README").read_text() == "mine"


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent", FORMAT)
    with refuses(ValueError, place="file", remedy="pass the folder"):
        read(tmp_path / "file", FORMAT)
    with refuses(ValueError, place="folder"):
        read(tmp_path / "folder", FORMAT)


MANIFEST_DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "other format": (lambda m: m.update(format="x"), r"does not hold 'test\.things' but 'x'"),
    "newer version": (lambda m: m.update(version=2, more=1), "version 2.*reads version 1: upgrade"),
    "no version": (lambda m: m.pop("version"), "no format version"),
    "true version": (lambda m: m.update(version=True), "no format version"),
    "unknown key": (lambda m: m.update(pickle="x"), "unknown keys: 'pickle'"),
    "missing key": (lambda m: m.pop("metadata"), "lacks: 'metadata'"),
    "unknown array key": (lambda m: m["arrays"]["a"].update(file="x"), "unknown keys: 'file'"),
    "outside folder": (lambda m: m.update(data="../other"), "data must name"),
    "outside name": (
        lambda m: m["arrays"].update({"../a": {}}),
        r"'\.\./a' is not a valid",
    ),
    "object dtype": (lambda m: m["arrays"]["a"].update(dtype="|O"), "no numeric dtype"),
    "no such dtype": (lambda m: m["arrays"]["a"].update(dtype="<f1"), "no numeric dtype"),
    "negative shape": (lambda m: m["arrays"]["a"].update(shape=[-1]), "no valid shape"),
    "other shape": (lambda m: m["arrays"]["a"].update(shape=[3, 5]), r"says <f4 of shape \(3, 5\)"),
    "other dtype": (lambda m: m["arrays"]["a"].update(dtype="<i4"), "manifest says <i4"),
    "other byte order": (lambda m: m["arrays"]["a"].update(dtype=">f4"), "machine's byte order"),
    "huge shape": (lambda m: m["arrays"]["a"].update(shape=[10**18, 0, 10**18]), "no valid shape"),
    "no end of dimensions": (lambda m: m["arrays"]["a"].update(shape=[1] * 65), "no valid shape"),
    "bad checksum": (lambda m: m["arrays"]["a"].update(sha256=0), "no valid SHA-256"),
    "arrays a list": (lambda m: m.update(arrays=[]), "should contain a JSON object, got list"),
    "absent array": (lambda m: m["arrays"].update(d=m["arrays"]["a"]), r"d\.npy is missing"),
}


@pytest.mark.parametrize("damage", MANIFEST_DAMAGE)
def test_a_damaged_manifest_is_refused(tmp_path: Path, damage: str) -> None:
    write(tmp_path, contents(1), FORMAT)
    alter, message = MANIFEST_DAMAGE[damage]
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    alter(manifest)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=message):
        read(tmp_path, FORMAT)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": NaN}', '{"a": -Infinity}', "[" * 100_000, "\xff", '{"format": 1']
)
def test_a_manifest_that_is_no_json_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    for call in (lambda: read(tmp_path, FORMAT), lambda: write(tmp_path, contents(1), FORMAT)):
        with refuses(ValueError, place="manifest.json", remedy="restore it"):
            call()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_metadata_that_json_lacks_are_not_written(tmp_path: Path, value: float) -> None:
    write(tmp_path, contents(1), FORMAT)
    with pytest.raises(ValueError, match="JSON"):
        write(tmp_path, Contents({}, {"value": value}), FORMAT)
    assert value_of(read(tmp_path, FORMAT)) == 1
    assert is_clean(tmp_path)


def test_arrays_may_have_as_many_dimensions_as_numpy_has(tmp_path: Path) -> None:
    write(tmp_path, Contents({"a": np.ones((1,) * 64)}, {}), FORMAT)
    assert read(tmp_path, FORMAT).arrays["a"].shape == (1,) * 64


def pickled(path: Path) -> None:
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)


def with_header(old: str, new: str) -> Callable[[Path], object]:
    """Changes text in a file's header, whose length stays."""

    def change(path: Path) -> None:
        content = path.read_bytes()
        assert old.encode() in content
        new_header = content[:128].replace(old.encode(), new.encode()).rstrip(b" \n")
        path.write_bytes(new_header.ljust(127) + b"\n" + content[128:])

    return change


FILE_DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "removed": (lambda path: path.unlink(), "is missing"),
    "cut short": (lambda path: os.truncate(path, path.stat().st_size - 1), "187 bytes instead"),
    "too long": (lambda path: path.write_bytes(path.read_bytes() + b"\0"), "189 bytes instead"),
    "header cut": (lambda path: os.truncate(path, 20), "is damaged"),
    "empty": (lambda path: path.write_bytes(b""), "is damaged"),
    "no npy": (lambda path: path.write_bytes(b"x" * 188), "is damaged"),
    "pickle": (pickled, r"holds \|O"),
    "fortran": (lambda p: np.save(p, np.ones((5, 3), np.float32, order="F")), "transposed"),
    "version 2": (
        lambda path: path.write_bytes(path.read_bytes().replace(b"NUMPY\x01", b"NUMPY\x02", 1)),
        "version",
    ),
    "big-endian": (with_header("<f4", ">f4"), r"holds >f4 of shape"),
    "other shape": (with_header("(5, 3)", "(3, 5)"), r"holds <f4 of shape \(3, 5\)"),
    "huge shape": (with_header("(5, 3)", f"({10**18}, 3)"), r"holds <f4 of shape"),
    "no ASCII": (with_header("<f4", "é4"), r"manifest says <f4"),
    "records": (with_header("'<f4'", "[('a', '<f4')]"), "is damaged: its header"),
    "a program": (with_header("(5, 3)", "5 * (3,)"), "is damaged: its header"),
    "deep": (with_header("(5, 3)", "(" * 60), "is damaged: its header"),
    "no text": (with_header("descr", "d\0\x1b\n"), "is damaged: its header"),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("damage", FILE_DAMAGE)
def test_a_damaged_array_is_refused(tmp_path: Path, damage: str, mmap: bool) -> None:
    write(tmp_path, contents(1), FORMAT)
    (path,) = tmp_path.glob("data-*/a.npy")
    alter, message = FILE_DAMAGE[damage]
    alter(path)
    with pytest.raises(ValueError, match=message):
        read(tmp_path, FORMAT, mmap=mmap)


@pytest.mark.parametrize("mmap", [False, True])
def test_verify_finds_a_flipped_bit(tmp_path: Path, mmap: bool) -> None:
    write(tmp_path, contents(1), FORMAT)
    (path,) = tmp_path.glob("data-*/a.npy")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    assert read(tmp_path, FORMAT, mmap=mmap).arrays["a"][-1, -1] != 1
    with refuses(ValueError, place="a.npy", remedy="restore it"):
        read(tmp_path, FORMAT, mmap=mmap, verify=True)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("../a", np.ones(2), "name"),
        ("A", np.ones(2), "name"),
        ("a", np.array([{}], dtype=object), "numbers"),
        ("a", np.ones((4, 4))[:, ::2], "C-contiguous"),
    ],
)
def test_only_named_contiguous_numbers_are_contents(name: str, array: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Contents({name: array}, {})
