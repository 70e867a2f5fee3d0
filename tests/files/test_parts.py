"""A folder that is written file by file has all of one origin, however often it is begun."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mfrank.files import Format, check_takes_parts, parts, writing_parts
from tests.support.errors import refuses

FORMAT = Format("test.lists", 2)
NAMES = ["part-0.csv", "part-1.csv", "part-2.csv"]
ORIGIN = {"N": 5, "model": "a" * 64, "fallback": None}


def write(
    folder: Path, origin: Any = ORIGIN, files: int = 9, error: BaseException | None = None
) -> list[str]:
    """Write some of the files that are left, then end with an error; return what was left."""
    with writing_parts(folder, origin, FORMAT, NAMES) as left:
        for name in left[:files]:
            (folder / name).write_text(json.dumps(origin))
        if error is not None:
            raise error
    return left


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_whole_run_writes_all_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "lists"
    assert write(folder) == NAMES
    assert names(folder) == {*NAMES, "_SUCCESS", "_manifest.json", ".lock"}
    assert (folder / "_SUCCESS").read_bytes() == b""
    manifest = json.loads((folder / "_manifest.json").read_text())
    assert manifest == {"format": "test.lists", "version": 2, "origin": ORIGIN}
    assert write(folder) == []


def test_a_stopped_run_is_gone_on_with(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path, files=1, error=KeyboardInterrupt())
        assert "_SUCCESS" not in names(tmp_path)
    assert write(tmp_path) == NAMES[2:]
    assert "_SUCCESS" in names(tmp_path)


def test_what_has_no_file_yet_can_be_begun_otherwise(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, {"N": 7}, 0, KeyboardInterrupt())
    assert write(tmp_path) == NAMES


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"N": 6}, r"begun with N=5, not 6; resume it as it was begun, or pass another folder"),
        ({"model": "b" * 64}, "begun with another model;"),
        ({"model": None}, "begun with another model;"),
        ({"model": "no digest"}, "begun with another model;"),
        ({"N": None}, "begun with N=5, now left out;"),
        ({"fallback": "popularity"}, "begun with no fallback, now 'popularity';"),
        ({"more": 1}, "begun with no more, now 1;"),
    ],
)
def test_another_origin_is_refused_by_what_differs(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, files=1, error=KeyboardInterrupt())
    before = names(tmp_path)
    for call in (lambda: write(tmp_path, ORIGIN | change), lambda: check(tmp_path, change)):
        with refuses(ValueError, remedy="resume it"):
            call()
    with refuses(ValueError, remedy="resume it"):
        write(tmp_path, {"model": "a" * 64})
    assert names(tmp_path) == before
    assert write(tmp_path) == NAMES[1:]


def check(folder: Path, change: dict[str, Any]) -> None:
    check_takes_parts(folder, ORIGIN | change, FORMAT, NAMES)


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another format": (lambda m: m | {"format": "x"}, "does not hold 'test.lists' but 'x'"),
    "a newer version": (lambda m: m | {"version": 3}, "upgrade mfrank"),
    "no origin": (lambda m: m | {"origin": [1]}, "_manifest.json is damaged: pass another folder"),
    "a list": (lambda m: [m], "_manifest.json is damaged: pass another folder"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_manifest_is_refused(tmp_path: Path, damage: str) -> None:
    write(tmp_path)
    alter, told = DAMAGE[damage]
    manifest = tmp_path / "_manifest.json"
    manifest.write_text(json.dumps(alter(json.loads(manifest.read_text()))))
    with pytest.raises(ValueError, match=told):
        write(tmp_path)


def test_what_else_is_there_is_refused_and_stays(tmp_path: Path) -> None:
    check(tmp_path / "missing", {})
    (tmp_path / "a file").write_text("mine")
    with refuses(ValueError, place="a file", remedy="pass a folder"):
        write(tmp_path / "a file")
    for name in (
        "notes.txt",
        NAMES[0],
        ".0123456789abcdef.notes.txt",
        ".0123456789abcdef.part-0.csv",
    ):
        (folder := tmp_path / f"with {name}").mkdir()
        (folder / name).write_text("mine")
        (folder / "z").write_text("mine")
        with refuses(ValueError, remedy="pass a new or an empty folder"):
            write(folder)
        assert names(folder) == {name, "z"}


def test_drafts_of_a_killed_run_are_its_own(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, files=1, error=KeyboardInterrupt())
    (tmp_path / f".0123456789abcdef.{NAMES[1]}").mkdir()
    assert write(tmp_path) == NAMES[1:]
    (tmp_path / ".0123456789abcdef.mine").mkdir()
    with refuses(ValueError, remedy="pass a new or an empty folder"):
        write(tmp_path)


def test_a_run_that_comes_first_has_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins while this one waits for the lock."""
    locked = parts.locked

    @contextmanager
    def waited(folder: Path) -> Iterator[None]:
        monkeypatch.setattr(parts, "locked", locked)
        with pytest.raises(KeyboardInterrupt):
            write(folder, {"N": 7}, 1, KeyboardInterrupt())
        with locked(folder):
            yield

    monkeypatch.setattr(parts, "locked", waited)
    with refuses(ValueError, place="lists", remedy="resume it"):
        write(tmp_path / "lists")


def test_a_full_disk_is_told_by_the_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="make room and do the same again") as told:
        write(tmp_path, error=OSError(errno.ENOSPC, "no space"))
    assert told.value.filename == str(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are read from /proc")
def test_files_are_on_the_disk_before_it_is_said_that_all_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[str, bool]] = []
    folder = tmp_path / "lists"

    def seen(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        flushed.append((path.name, (folder / "_SUCCESS").exists()))

    monkeypatch.setattr(os, "fsync", seen)
    write(folder)
    assert flushed[0] == (tmp_path.name, False)
    assert flushed[-2:] == [("lists", False), ("lists", True)]
