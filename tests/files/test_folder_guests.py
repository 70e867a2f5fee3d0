"""Links, pipes and a person's own files in a folder that is saved to: none is followed or lost."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import FORMAT, contents, is_clean, value_of

from mfrank.files import LOCK, read, write
from mfrank.files import folder as marks
from tests.support.errors import refuses

OTHER = f"data-{7:016}"


@pytest.fixture(autouse=True)
def _no_one_waits() -> Iterator[None]:
    """Who opens a pipe waits for its other end, for ever."""

    def waiting(*_: Any) -> None:
        raise AssertionError("still waiting")

    before = signal.signal(signal.SIGALRM, waiting)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def bound(path: Path) -> None:
    """A socket; its name may not be long, so it is bound from within its folder."""
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


ODD: dict[str, Callable[[Path], object]] = {
    "pipe": lambda path: os.mkfifo(path),
    "socket": bound,
    "folder": lambda path: path.mkdir(),
    "link to a pipe": lambda path: (
        os.mkfifo(path.parent / "pipe"),
        path.symlink_to(path.parent / "pipe"),
    ),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", ["manifest.json", "a.npy"])
def test_only_regular_files_are_read(tmp_path: Path, name: str, kind: str, mmap: bool) -> None:
    write(tmp_path, contents(1), FORMAT)
    (path,) = tmp_path.rglob(name)
    path.unlink()
    ODD[kind](path)
    with refuses(ValueError, remedy="restore it"):
        read(tmp_path, FORMAT, mmap=mmap, verify=True)


@pytest.mark.parametrize("mmap", [False, True])
def test_links_to_files_are_read_and_never_written_through(tmp_path: Path, mmap: bool) -> None:
    """As of a store of models that are kept once and linked to."""
    folder, kept = tmp_path / "s", tmp_path / "kept"
    write(folder, contents(1), FORMAT)
    kept.mkdir()
    for path in [*folder.rglob("*.npy"), folder / "manifest.json"]:
        path.rename(kept / path.name)
        path.symlink_to(kept / path.name)
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert value_of(read(folder, FORMAT, mmap=mmap, verify=True)) == 1
    write(folder, contents(2), FORMAT)
    assert value_of(read(folder, FORMAT, verify=True)) == 2
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


@pytest.mark.parametrize("before", ["store", "nothing"])
@pytest.mark.parametrize(
    "kind", ["pipe", "socket", "folder", "link to a device", "link", "broken link"]
)
def test_a_lock_is_a_file_and_no_link(tmp_path: Path, kind: str, before: str) -> None:
    folder, target = tmp_path / "s", tmp_path / "target"
    if before == "store":
        write(folder, contents(1), FORMAT)
        (folder / LOCK).unlink()
    else:
        folder.mkdir()
    if kind == "link":
        target.write_text("mine")
        os.utime(target, (1, 1))
    there = {"link": lambda path: path.symlink_to(target)}
    (ODD | there | {"broken link": there["link"]})[kind](folder / LOCK)
    with refuses(ValueError, place="s", remedy="remove it, or pass another folder") as refused:
        write(folder, contents(2), FORMAT)
    assert str(folder) in str(refused.value)
    assert not list(folder.glob("data-*/*2*"))
    if before == "store":
        assert value_of(read(folder, FORMAT, verify=True)) == 1
    assert target.exists() == (kind == "link")
    if kind == "link":
        assert (target.read_text(), target.stat().st_mtime) == ("mine", 1)


def test_a_pipe_that_comes_after_the_look_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, contents(1), FORMAT)
    manifest, stat = tmp_path / "manifest.json", os.stat
    before = stat(manifest)
    manifest.unlink()
    os.mkfifo(manifest)
    monkeypatch.setattr(
        os, "stat", lambda path, **how: before if path == manifest else stat(path, **how)
    )
    with refuses(ValueError, place="manifest.json", remedy="restore it"):
        read(tmp_path, FORMAT)


def guests(folder: Path) -> dict[str, bytes | str | None]:
    """All that is there by name: what files hold, where links lead, None of other things."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


def linked(generation: Path) -> None:
    """A link to the generation of another store."""
    elsewhere = generation.parents[1] / "elsewhere"
    write(elsewhere, contents(5), FORMAT)
    (path,) = elsewhere.glob("data-*")
    path.rename(elsewhere / generation.name)
    generation.symlink_to(elsewhere / generation.name)


def copied(generation: Path) -> None:
    other = generation.parents[1] / "other"
    write(other, contents(5), FORMAT)
    shutil.copytree(next(other.glob("data-*")), generation)


def marked(*names: str, mark: str | None = None) -> Callable[[Path], None]:
    """A generation as a stopped save leaves it, and files in it."""

    def made(generation: Path) -> None:
        marks.make(generation, ["a.npy"])
        if mark is not None:
            (generation / marks.MARK).write_text(mark)
        for name in names:
            (generation / name).write_text("mine")

    return made


def with_folder(generation: Path) -> None:
    marks.make(generation, ["a.npy"])
    (generation / "a.npy").mkdir()
    (generation / "a.npy" / "thesis").write_text("mine")


def with_link(generation: Path) -> None:
    marks.make(generation, ["a.npy"])
    (generation.parent.parent / "thesis").write_text("mine")
    (generation / "a.npy").symlink_to(generation.parent.parent / "thesis")


GUESTS: dict[str, Callable[[Path], None]] = {
    "a file": lambda path: path.write_text("mine"),
    "a link": linked,
    "no mark": lambda path: (path.mkdir(), (path / "a.npy").write_text("mine")),  # type: ignore
    "a copy": copied,
    "a store": lambda path: write(path, contents(5), FORMAT),
    "a generation in it": lambda path: (
        path.mkdir(),  # type: ignore
        marks.make(path / OTHER, ["a.npy"]),
    ),
    "a file beside": marked("a.npy", "notes.txt"),
    "an array beside": marked("a.npy", "mine.npy"),
    "a folder of a file's name": with_folder,
    "a link of a file's name": with_link,
    "another's mark": marked("a.npy", mark=f"data-{8:016}\na.npy"),
    "a mark that is none": marked(mark="mine"),
    "a mark of other files": marked("notes.txt", mark=f"{OTHER}\nnotes.txt"),
    "a mark of files elsewhere": marked("a", mark=f"{OTHER}\n../../precious.npy"),
    "a mark in no letters": marked("a.npy", mark=f"{OTHER}\na.npy\n\xff"),
}

GO: dict[str, set[str]] = {
    "a file beside": {".files", "a.npy"},
    "an array beside": {".files", "a.npy"},
    "a folder of a file's name": {".files"},
    "a link of a file's name": {".files"},
    "a mark of other files": {".files"},
    "a mark of files elsewhere": {".files"},
}
"""What is removed where the mark is the folder's own: it, and the files that it names."""


@pytest.mark.parametrize("guest", GUESTS)
def test_what_a_person_put_where_a_save_puts_its_own_stays(tmp_path: Path, guest: str) -> None:
    (tmp_path / "precious.npy").write_text("mine")
    folder = tmp_path / "s"
    folder.mkdir()
    GUESTS[guest](folder / OTHER)
    before = guests(tmp_path)
    with refuses(ValueError, place="s", remedy="pass a new or an empty folder"):
        write(folder, contents(1), FORMAT)
    assert guests(tmp_path) == before
    (folder / OTHER).rename(tmp_path / "aside")
    write(folder, contents(1), FORMAT)
    (tmp_path / "aside").rename(folder / OTHER)
    write(folder, contents(2), FORMAT)
    assert value_of(read(folder, FORMAT, verify=True)) == 2
    gone = {f"s/{OTHER}/{name}" for name in GO.get(guest, ())}
    left = guests(tmp_path)
    assert gone.isdisjoint(left)
    assert left.items() >= {name: before[name] for name in before.keys() - gone}.items()


def test_generations_within_a_marked_folder_go_with_it(tmp_path: Path) -> None:
    """As those of a model of two stages."""
    outer = tmp_path / OTHER
    marks.make(outer, [LOCK, "manifest.json"])
    marks.make(inner := outer / f"data-{8:016}", ["a.npy"])
    for path in (outer / LOCK, outer / "manifest.json", inner / "a.npy"):
        path.write_text("half")
    assert marks.is_own(outer)
    (inner / "notes.txt").write_text("mine")
    assert not marks.is_own(outer)
    (inner / "notes.txt").unlink()
    marks.remove(outer)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_goes_while_it_is_looked_at_is_no_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The save that made it removes it."""
    marks.make(tmp_path / OTHER, ["a.npy"])
    iterdir = Path.iterdir

    def going(path: Path) -> Iterator[Path]:
        if path.name == OTHER:
            shutil.rmtree(path)
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", going)
    assert marks.is_own(tmp_path / OTHER) is True
    assert not (tmp_path / OTHER).exists()


def test_a_superseded_generation_stays_with_what_a_person_put_there(tmp_path: Path) -> None:
    write(tmp_path, contents(1), FORMAT)
    (generation,) = tmp_path.glob("data-*")
    (generation / "notes.txt").write_text("mine")
    write(tmp_path, contents(2), FORMAT)
    assert [path.name for path in generation.iterdir()] == ["notes.txt"]
    shutil.rmtree(generation)
    assert is_clean(tmp_path)


@pytest.mark.parametrize("n_arrays", [0, 1, 9])
def test_whatever_of_a_mark_was_written_the_next_save_removes_the_folder(
    tmp_path: Path, n_arrays: int
) -> None:
    generation = tmp_path / OTHER
    marks.make(generation, [f"a{n}.npy" for n in range(n_arrays)])
    whole = (generation / marks.MARK).read_text()
    for length in range(len(whole) + 1):
        generation.mkdir(exist_ok=True)
        (generation / marks.MARK).write_text(whole[:length])
        assert marks.is_own(generation)
        marks.remove(generation)
        assert not generation.exists()
    generation.mkdir()
    write(tmp_path, contents(1), FORMAT)
    assert is_clean(tmp_path)


@pytest.mark.parametrize("padding", [1, 4, 63, 64])
def test_values_that_are_not_aligned_in_their_file_are_in_memory(
    tmp_path: Path, padding: int
) -> None:
    """Numpy pads headers to 64 bytes, but nobody who writes a file must."""
    write(tmp_path, contents(1), FORMAT)
    for name in ("a", "b.c", "empty", "scalar"):
        (path,) = tmp_path.glob(f"data-*/{name}.npy")
        content = path.read_bytes()
        size = int.from_bytes(content[8:10], "little")
        longer = (size + padding).to_bytes(2, "little")
        header = content[10 : 9 + size] + b" " * padding + b"\n"
        path.write_bytes(content[:8] + longer + header + content[10 + size :])
    got = read(tmp_path, FORMAT, mmap=True)
    assert value_of(got) == 1
    assert all(array.flags.aligned for array in got.arrays.values())
    assert isinstance(got.arrays["a"], np.memmap) == (padding == 64)
