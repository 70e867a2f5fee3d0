"""A run that appends to files is gone on with from its last note, by its own files alone."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from mfrank.files import Journal, journal

ORIGIN = {"files": ["a.csv"], "size": 3}


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(journal, "monotonic", clock)
    return clock


def step(run: Journal, part: bytes = b"more") -> None:
    run.files.append("rows", part)
    run.advance("read")


def noted(place: Path, clock: Clock) -> Journal:
    """A run with a note of two steps, and one more that is not noted."""
    run = Journal(place, ORIGIN)
    run.facts["columns"] = 2
    step(run)
    clock.time += 30
    step(run)
    step(run)
    return run


def test_a_run_begins_with_its_last_note(tmp_path: Path, clock: Clock) -> None:
    noted(tmp_path, clock)
    (tmp_path / "of nobody").write_text("left by a step that was not noted")
    assert Journal.serves(tmp_path, ORIGIN)
    again = Journal(tmp_path, ORIGIN)
    assert dict(again.done) == {"read": 2}
    assert again.facts == {"columns": 2}
    assert {path.name for path in tmp_path.iterdir()} == {"rows", "journal.json"}
    assert (tmp_path / "rows").read_bytes() == b"moremore"
    clock.time += 30
    step(again)
    assert Journal(tmp_path, ORIGIN).done["read"] == 3


def test_without_a_note_the_folder_is_emptied(tmp_path: Path) -> None:
    step(Journal(tmp_path, ORIGIN))
    assert not Journal.serves(tmp_path, ORIGIN)
    again = Journal(tmp_path, ORIGIN)
    assert (dict(again.done), again.facts, again.files.known) == ({}, {}, {})
    assert not list(tmp_path.iterdir())


def rewritten(change: Callable[[dict], object]) -> Callable[[Path], object]:  # type: ignore[type-arg]
    def change_note(place: Path) -> None:
        whole = json.loads((place / "journal.json").read_text())
        change(whole)
        (place / "journal.json").write_text(json.dumps(whole))

    return change_note


NO_USE: dict[str, Callable[[Path], object]] = {
    "no note": lambda place: (place / "journal.json").unlink(),
    "no JSON": lambda place: (place / "journal.json").write_text("{"),
    "a list": lambda place: (place / "journal.json").write_text("[]"),
    "no fields": lambda place: (place / "journal.json").write_text('{"note": 3, "crc32": 1}'),
    "another count": rewritten(lambda whole: whole["note"]["done"].update(read=1)),
    "another checksum": rewritten(lambda whole: whole.update(crc32=whole["crc32"] ^ 1)),
    "more in it": rewritten(lambda whole: whole.update(more=1)),
    "a file gone": lambda place: (place / "rows").unlink(),
    "a file short": lambda place: os.truncate(place / "rows", 7),
    "a link": lambda place: (
        (place / "rows").rename(place.parent / "rows"),
        (place / "rows").symlink_to(place.parent / "rows"),
    ),
    "a link for a note": lambda place: (
        (place / "journal.json").rename(place.parent / "note"),
        (place / "journal.json").symlink_to(place.parent / "note"),
    ),
}


@pytest.mark.parametrize("harm", NO_USE)
def test_a_note_that_is_not_whole_is_none(tmp_path: Path, clock: Clock, harm: str) -> None:
    (place := tmp_path / "place").mkdir()
    noted(place, clock)
    NO_USE[harm](place)
    assert not Journal.serves(place, ORIGIN)
    assert Journal(place, ORIGIN).done.total() == 0
    assert not list(place.iterdir())


def test_a_note_of_another_origin_is_none(tmp_path: Path, clock: Clock) -> None:
    noted(tmp_path, clock)
    assert not Journal.serves(tmp_path, ORIGIN | {"size": 4})
    assert not Journal.serves(tmp_path, {})
    assert Journal.serves(tmp_path, ORIGIN)


def test_a_damaged_file_is_told_and_the_work_begins_anew(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    noted(tmp_path, clock)
    (tmp_path / "rows").write_bytes(b"other data")
    with caplog.at_level(logging.WARNING, "mfrank"):
        again = Journal(tmp_path, ORIGIN)
    assert "begins anew" in caplog.text
    assert "rows is damaged" in caplog.text
    assert (dict(again.done), again.facts, again.files.known) == ({}, {}, {})
    assert not list(tmp_path.iterdir())


def test_notes_are_half_a_minute_apart_and_take_a_tenth_of_the_time(
    tmp_path: Path, clock: Clock
) -> None:
    run, saved = Journal(tmp_path, ORIGIN), list[float]()

    def save() -> None:
        saved.append(clock.time)
        clock.time += 4  # of which a note takes so long

    for _ in range(100):
        run.advance("read", save=save)
        clock.time += 1
    # The first 30 s after the beginning, the others 40 s after the end of the one before.
    assert saved == [1030.0, 1074.0]
    quick = Journal(tmp_path, ORIGIN)
    saved.clear()
    for _ in range(100):
        quick.advance("read", save=lambda: saved.append(clock.time))
        clock.time += 1
    assert [b - a for a, b in pairwise(saved)] == [30, 30]


def test_what_later_notes_need_is_saved_at_once(tmp_path: Path, clock: Clock) -> None:
    run, saved = Journal(tmp_path, ORIGIN), list[str]()

    def save() -> None:
        (tmp_path / "ids").write_text("all")
        saved.append("ids")

    run.advance("read", save=save)
    assert not saved
    run.advance("read", save=save, last=True)
    assert saved == ["ids"]
    clock.time += 30
    run.advance("sort")
    again = Journal(tmp_path, ORIGIN)
    assert dict(again.done) == {"read": 2, "sort": 1}
    assert again.files.size("ids") == 3


def test_a_file_goes_when_no_note_needs_it(tmp_path: Path, clock: Clock) -> None:
    run = Journal(tmp_path, ORIGIN)
    run.files.append("never noted", b"1")
    run.files.append("noted", b"2")
    run.advance("read", gone=tmp_path / "never noted")
    assert not (tmp_path / "never noted").exists()
    clock.time += 30
    run.advance("read")
    run.advance("sort", gone=tmp_path / "noted")
    assert Journal.serves(tmp_path, ORIGIN)  # the last note describes it
    clock.time += 30
    run.advance("sort")
    assert {path.name for path in tmp_path.iterdir()} == {"journal.json"}
    assert Journal(tmp_path, ORIGIN).files.known == {}
    run.files.append("noted", b"a new one")
    clock.time += 30
    run.advance("sort")
    assert (tmp_path / "noted").exists()


def test_all_that_a_note_describes_is_on_the_disk_before_it(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = list[str]()

    def seen(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    monkeypatch.setattr(os, "fsync", seen)
    if not Path("/proc/self/fd").exists():
        pytest.skip("names of open files are read from /proc")
    run, folder = Journal(tmp_path, ORIGIN), tmp_path.name
    run.files.append("a", b"1")
    run.files.append("b", b"2")
    clock.time += 30
    run.advance("read")
    assert sorted(flushed[:2]) == ["a", "b"]
    assert flushed[2:] == [folder, "journal.new", folder]
    flushed.clear()
    run.files.append("b", b"3")
    clock.time += 30
    run.advance("read")
    assert flushed == ["b", folder, "journal.new", folder]
