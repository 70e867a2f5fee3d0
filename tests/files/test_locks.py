"""The lock of a folder, where folders are replaced and processes fork."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import run

from mfrank.files import LOCK, locked

fcntl = pytest.importorskip("fcntl", reason="others take the lock by POSIX's calls")


class Waits(logging.Handler):
    """Counts the waits that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.seen = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        if "waiting for another save" in record.getMessage():
            self.seen.release()


@pytest.fixture
def waits() -> Iterator[Waits]:
    logger, handler = logging.getLogger("mfrank"), Waits()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.mark.parametrize("is_link", [False, True], ids=["made anew", "link set to another"])
def test_who_waited_has_the_lock_of_the_folder_that_is_there_now(
    tmp_path: Path, waits: Waits, is_link: bool
) -> None:
    """A folder that is replaced while somebody waits for it has a lock of its own."""
    folder, old, entered = tmp_path / "model", tmp_path / "old", threading.Event()
    old.mkdir()
    folder.symlink_to(old) if is_link else old.rename(folder)

    def save() -> None:
        with locked(folder):
            entered.set()
        waits.seen.release()

    with (folder / LOCK).open("a") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        waiting = threading.Thread(target=save)
        waiting.start()
        waits.seen.acquire()
        if is_link:
            (tmp_path / "new").mkdir()
            folder.unlink()
            folder.symlink_to(tmp_path / "new")
        else:
            folder.rename(old)
            folder.mkdir()
        with locked(folder):
            fcntl.flock(first, fcntl.LOCK_UN)
            waits.seen.acquire()  # it waits again, or has been in
            assert not entered.is_set()
        waiting.join()
    assert entered.is_set()


def test_a_folder_that_goes_while_somebody_waits_for_it_is_missing(
    tmp_path: Path, waits: Waits
) -> None:
    errors: list[OSError] = []

    def save() -> None:
        try:
            with locked(tmp_path / "model"):
                pass
        except OSError as error:
            errors.append(error)

    (tmp_path / "model").mkdir()
    with (tmp_path / "model" / LOCK).open("a") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        waiting = threading.Thread(target=save)
        waiting.start()
        waits.seen.acquire()
        shutil.rmtree(tmp_path / "model")
    waiting.join()
    assert [type(error) for error in errors] == [FileNotFoundError]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_disk_without_locks_is_told_by_the_folder_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(OSError, match="save to another disk") as error, locked(tmp_path):
        pass
    assert (error.value.errno, error.value.filename) == (code, str(tmp_path))


def test_blocks_of_one_thread_nest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, locks_held = fcntl.flock, []

    def counted(descriptor: int, how: int) -> None:
        locks_held.append(how)
        flock(descriptor, how | fcntl.LOCK_NB)  # who would wait for itself has an error

    monkeypatch.setattr(fcntl, "flock", counted)
    for _ in range(2):
        with locked(tmp_path):
            with locked(tmp_path), locked(tmp_path / ".."):
                pass
            with (tmp_path / LOCK).open("a") as other, pytest.raises(BlockingIOError):
                flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    taken = [how for how in locks_held if how & fcntl.LOCK_EX]
    assert len(taken) == 4  # two folders, each once a turn


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are read from /proc")
def test_a_lock_is_a_file_like_any_and_does_not_stay_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(2):
        with locked(tmp_path):
            pass
    assert os.listdir("/proc/self/fd") == before
    (tmp_path / "usual").touch()
    assert (tmp_path / LOCK).stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_child_that_was_forked_during_a_save_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = f"""
import fcntl, os, pathlib
from mfrank.files.locks import LOCK, locked
folder = pathlib.Path({str(tmp_path)!r})
out, end = os.pipe()
with locked(folder):
    child = os.fork()
    if not child:
        os.close(end)
        os.read(out, 1)
        os._exit(0)
with (folder / LOCK).open("a") as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.write(end, b".")
os.waitpid(child, 0)
print("free")
"""
    done = run(code)
    assert done.stdout == "free\n", done.stderr


def test_a_child_that_leaves_the_block_does_not_release_its_parents_lock(tmp_path: Path) -> None:
    code = f"""
import fcntl, os, pathlib
from mfrank.files.locks import LOCK, locked
folder = pathlib.Path({str(tmp_path)!r})
with locked(folder):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        with (folder / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("locked")
if not child:
    os._exit(0)
"""
    done = run(code)
    assert done.stdout == "locked\n", done.stderr
