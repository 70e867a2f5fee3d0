"""A file is replaced whole or not at all, and no draft of it outlives the next one."""

from __future__ import annotations

import gzip
import itertools
import os
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import PATHS

from mfrank import _system
from mfrank.files import atomic, replacing, resuming_beside
from tests.support.errors import refuses

OLD = ".0123456789abcdef."

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks to tell by")


def write(path: Path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_a_block_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "x", "old")

    def fail() -> None:
        with replacing(tmp_path / "x") as draft:
            draft.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert names(tmp_path) == {"x"}
    assert (tmp_path / "x").read_text() == "old"


def test_the_file_has_the_mode_that_files_have(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    write(tmp_path / "x", "new")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("what", ["a pipe", "a link to a device"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, what: str) -> None:
    """Else root's ``--json /dev/null`` would leave the machine a file of that name."""
    path = tmp_path / "x"
    if what == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(os.devnull)
    before = os.lstat(path)
    with refuses(ValueError, place="x", remedy="pass a file"):
        write(path, "new")
    assert names(tmp_path) == {"x"}
    assert os.path.samestat(os.lstat(path), before)


def test_nothing_is_written_among_devices() -> None:
    """Where ``/dev/stdout`` is a link, which may lead to a file."""
    path = Path("/dev/mfrank-is-no-device")
    try:
        with refuses(ValueError, place="mfrank-is-no-device", remedy="pass a file"):
            write(path, "new")
        assert not os.path.lexists(path)
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("stage", ["at once", "in the middle", "before the renaming"])
def test_the_draft_of_a_killed_writer_goes_with_the_next(tmp_path: Path, stage: str) -> None:
    path = tmp_path / "x.txt"
    write(path, "old")
    waiting = f"""
import os, sys, time
sys.path[:0] = {PATHS!r}
from pathlib import Path
from mfrank.files.atomic import replacing
def wait(*_):
    print(flush=True)
    time.sleep(600)
if {stage == "before the renaming"}:
    os.replace = wait
with replacing(Path({str(path)!r})) as draft:
    if {stage == "at once"}:
        wait()
    with draft.open("w") as file:
        file.write("half")
        file.flush()
        if {stage == "in the middle"}:
            wait()
"""
    with subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert len(names(tmp_path)) == 2
        write(path, "while it writes")
        assert len(names(tmp_path)) == 2  # its draft stays
        os.kill(writer.pid, signal.SIGKILL)
    write(path, "new")
    assert names(tmp_path) == {"x.txt"}
    assert path.read_text() == "new"


def left(folder: Path, name: str, holding: str) -> Path:
    """A draft's folder as a killed writer leaves it."""
    (folder / name).mkdir()
    (folder / name / holding).write_text("half")
    return folder / name


def test_only_drafts_of_that_name_go(tmp_path: Path) -> None:
    for name in (f"{OLD}xx", f"{OLD}y", ".0123456789abcdeg.x", ".0123.x", "0123456789abcdef.x"):
        left(tmp_path, name, "x")
    (tmp_path / ".0123456789abcdee.x").write_text("mine")
    (tmp_path / ".0123456789abcded.x").symlink_to(left(tmp_path, "elsewhere", "x"))
    os.mkfifo(tmp_path / ".0123456789abcdec.x")
    (left(tmp_path, ".0123456789abcdeb.x", "x") / "x").rename(tmp_path / "mine")
    (tmp_path / ".0123456789abcdeb.x" / "x").symlink_to(tmp_path / "mine")
    (left(tmp_path, ".0123456789abcdea.x", "x") / "x").unlink()
    (tmp_path / ".0123456789abcdea.x" / "mine").mkdir()
    before = sorted(tmp_path.rglob("*"))
    left(tmp_path, ".0123456789abcde9.x", "x")
    left(tmp_path, ".0123456789abcde8.x", "of a library")
    (tmp_path / ".0123456789abcde7.x").mkdir()
    write(tmp_path / "x", "new")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "x"])


def test_names_are_no_patterns(tmp_path: Path) -> None:
    left(tmp_path, f"{OLD}abc", "abc")
    write(tmp_path / "a.*", "new")
    assert names(tmp_path) == {f"{OLD}abc", "a.*"}


def test_writers_at_once_leave_each_other_s_drafts_alone(tmp_path: Path) -> None:
    path, errors = tmp_path / "x", list[BaseException]()

    def work(writer: int) -> None:
        try:
            for turn in range(40):
                with replacing(path) as draft:
                    draft.write_text(f"{writer} {turn}" * 100)
                    assert draft.read_text() == f"{writer} {turn}" * 100
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert names(tmp_path) == {"x"}


def test_a_draft_that_was_taken_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, calls = _system.fcntl.flock, itertools.count()

    def slow(descriptor: int, how: int) -> None:
        if how == _system.fcntl.LOCK_EX and next(calls) < 2:
            atomic.sweep(tmp_path / "x")  # another writer comes first
        lock(descriptor, how)

    monkeypatch.setattr(_system.fcntl, "flock", slow)
    write(tmp_path / "x", "new")
    assert next(calls) == 3
    assert names(tmp_path) == {"x"}


def no_locks(*_: Any) -> None:
    raise OSError("no locks available")


def test_without_locks_drafts_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_system.fcntl, "flock", no_locks)
    left(tmp_path, f"{OLD}x", "perhaps being written")
    write(tmp_path / "x", "new")
    assert names(tmp_path) == {f"{OLD}x", "x"}


def resumed(path: Path, error: BaseException | None, serves: bool = True) -> tuple[Path, list[str]]:
    """Work beside a path that ends with an error, or well; its folder, and what was in it."""
    seen: list[tuple[Path, list[str]]] = []
    ending = pytest.raises(type(error)) if error else nullcontext()
    with ending, resuming_beside(path, lambda _: serves) as place:
        seen.append((place, sorted(names(place))))
        (place / f"{len(seen[0][1])}").write_text("done")
        if error:
            raise error
    return seen[0]


def test_work_is_resumed_where_it_was_left(tmp_path: Path) -> None:
    first, found = resumed(tmp_path / "x", KeyboardInterrupt())
    assert (found, names(first)) == ([], {"0"})
    again, found = resumed(tmp_path / "x", OSError())
    assert (again, found, names(first)) == (first, ["0"], {"0", "1"})
    assert resumed(tmp_path / "y", None) != (first, ["0", "1"])
    assert resumed(tmp_path / "x", None) == (first, ["0", "1"])
    assert names(tmp_path) == set()


@pytest.mark.parametrize("error", [TypeError(), ValueError()])
def test_work_on_what_is_wrong_is_not_left(tmp_path: Path, error: Exception) -> None:
    """It would fail again."""
    resumed(tmp_path / "x", error)
    assert names(tmp_path) == set()


def test_work_that_serves_nobody_is_not_left(tmp_path: Path) -> None:
    resumed(tmp_path / "x", KeyboardInterrupt(), serves=False)
    assert names(tmp_path) == set()
    first, _ = resumed(tmp_path / "x", KeyboardInterrupt())
    other, found = resumed(tmp_path / "x", None, serves=False)
    assert (other != first, found) == (True, [])
    assert names(tmp_path) == set()


def test_work_of_others_that_goes_on_is_neither_resumed_nor_removed(tmp_path: Path) -> None:
    with resuming_beside(tmp_path / "x", lambda _: True) as mine:
        other, found = resumed(tmp_path / "x", KeyboardInterrupt())
        assert (other != mine, found) == (True, [])
        third, found = resumed(tmp_path / "x", None)
        assert (third, found) == (other, ["0"])
        assert names(tmp_path) == {mine.name}


def test_without_locks_no_work_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would tell that nobody works there."""
    first, _ = resumed(tmp_path / "x", KeyboardInterrupt())
    monkeypatch.setattr(_system.fcntl, "flock", no_locks)
    other, found = resumed(tmp_path / "x", None)
    assert (other != first, found) == (True, [])
    assert names(tmp_path) == {first.name}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are read from /proc")
def test_no_file_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def n_open() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = n_open()
    left(tmp_path, f"{OLD}x", "x")
    write(tmp_path / "x", "new")
    for error in (KeyboardInterrupt(), OSError(), None):
        resumed(tmp_path / "x", error)
    resumed(tmp_path / "x", KeyboardInterrupt())
    resumed(tmp_path / "x", None, serves=False)
    exists = Path.exists
    gone = iter([False])
    monkeypatch.setattr(
        Path,
        "exists",
        lambda path: (not path.name.startswith(".") or next(gone, True)) and exists(path),
    )
    write(tmp_path / "x", "newer")  # its first folder seems to be gone when it is locked
    assert n_open() == before


def packed(draft: Path) -> None:
    with gzip.open(draft, "wt") as text:
        text.write("text")


def tensors(draft: Path) -> None:
    save = pytest.importorskip("safetensors.numpy", reason="safetensors is optional").save_file
    save({"a": np.ones(3)}, draft)


def parquet(draft: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is optional")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"a": [1]}), draft)


def arrays(draft: Path) -> None:
    np.savez(draft, a=np.ones(3))


@pytest.mark.parametrize("fill", [packed, tensors, parquet, arrays])
def test_whatever_a_library_writes_first_is_in_the_locked_folder(tmp_path: Path, fill: Any) -> None:
    """One that wrote elsewhere would leave it there when it is killed."""
    with replacing(tmp_path / "x.npz") as draft:
        (folder,) = tmp_path.iterdir()
        fill(draft)
        assert list(tmp_path.iterdir()) == [folder] == [draft.parent]
    assert names(tmp_path) == {"x.npz"}


def test_a_missing_folder_is_named_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"), replacing(tmp_path / "nowhere" / "x"):
        raise AssertionError
