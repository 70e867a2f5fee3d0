"""An ingest that ended in any way but by bad input is gone on with, and loses at most a step."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import PATHS
from test_ingest import Columns, columns, written
from test_interaction_folder import same

import mfrank
from mfrank.data import GrowingArray, Spill, interaction_folder, numbering
from mfrank.data import ingest as module
from mfrank.files import journal
from tests.support.errors import refuses

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks to tell by")

PARTS = [columns(40, 0), columns(40, 1, text=True), columns(40, 2), columns(40, 3)]


@pytest.fixture(autouse=True)
def small_steps_that_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", 50)
    monkeypatch.setattr(journal, "_SECONDS", 0)
    monkeypatch.setattr(journal, "_SHARE", 0)


def left_beside(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


class Ending:
    """Ends a run at the n-th call of a function, when half of its work is done."""

    def __init__(self, n: int, error: BaseException) -> None:
        self.n, self.error, self.calls = n, error, 0

    def wrap(self, function: Callable[..., Any], half: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.n:
                half(*args)
                raise self.error
            return function(*args, **options)

        return counted


def half_of_records(spill: Spill, records: Any, rows: Any) -> None:
    size = len(records) // 2
    SPILLED(spill, records[:size], rows[:size])


def half_of_a_column(column: GrowingArray, part: Any) -> None:
    ADDED(column, part[: len(part) // 2])


def nothing(*_: object) -> None:
    pass


SPILLED, ADDED = Spill.add, GrowingArray.add
PLACES: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "ids": (numbering.Numbering, "add", nothing),
    "entries": (Spill, "add", half_of_records),
    "columns": (GrowingArray, "add", half_of_a_column),
    "notes": (journal.Journal, "_note", nothing),
    "folder": (interaction_folder, "write_arrays", nothing),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "no space left on device"), KeyboardInterrupt()]
)
def test_wherever_it_ended_the_next_has_the_same_result(
    tmp_path: Path, place: str, error: BaseException
) -> None:
    files = written(tmp_path, PARTS)
    wanted = mfrank.Interactions.ingest(files, tmp_path / "whole")
    (owner, name, half), ended = PLACES[place], 0
    for n in (1, 2, 3, 6, 12):
        ending, folder = Ending(n, error), tmp_path / f"data-{n}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, ending.wrap(getattr(owner, name), half))
            try:
                mfrank.Interactions.ingest(files, folder)
            except (OSError, KeyboardInterrupt):
                assert not folder.exists()
        same(mfrank.Interactions.ingest(files, folder), wanted)
        assert not left_beside(tmp_path)
        ended += ending.calls >= n
    assert ended > 2 or name == "write_arrays"


def ended_late(
    files: list[Path], folder: Path, error: BaseException, n: int = 2, **options: Any
) -> None:
    """Run until all entries are read, and end where a column grows for the nth time."""
    with pytest.MonkeyPatch.context() as patch:
        ending = Ending(n, error)
        patch.setattr(GrowingArray, "add", ending.wrap(GrowingArray.add, nothing))
        mfrank.Interactions.ingest(files, folder, **options)


def portions_read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The file of every portion that is read from here on."""
    read, portions = list[Path](), numbering.read_portions

    def noted(path: Path, *args: Any, **options: Any) -> Any:
        for portion in portions(path, *args, **options):
            read.append(path)
            yield portion

    monkeypatch.setattr(numbering, "read_portions", noted)
    return read


def test_no_file_is_read_again_and_the_error_tells_where_the_work_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, folder = written(tmp_path, PARTS), tmp_path / "data"
    full = OSError(errno.ENOSPC, "no space left on device")
    with pytest.raises(OSError, match="with which the same call goes on; else") as error:
        ended_late(files, folder, full)
    assert error.value.errno == errno.ENOSPC
    (place,) = left_beside(tmp_path)
    assert str(place) in str(error.value)
    assert [path.name for path in place.iterdir() if path.name.startswith("ids")] == ["ids-4"]
    read = portions_read(monkeypatch)
    mfrank.Interactions.ingest(files[::-1], folder)
    assert not read


def bars_of(run: Callable[[], object]) -> dict[str, tuple[int | None, str, int]]:
    """The total, the unit and the count of each progress bar of a run that may be ended."""
    bars = dict[str, tuple[int | None, str, int]]()

    @contextmanager
    def bar(total: int | None, label: str, unit: str, **_: Any) -> Iterator[Callable[[int], None]]:
        bars[label] = total, unit, 0

        def advance(n: int) -> None:
            bars[label] = total, unit, bars[label][2] + n

        yield advance

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "progress_bar", bar)
        patch.setattr(numbering, "progress_bar", bar)
        with suppress(KeyboardInterrupt):
            run()
    return bars


def test_progress_counts_each_row_once_and_what_an_earlier_run_did(tmp_path: Path) -> None:
    files, n_rows = written(tmp_path, PARTS), sum(len(part["user"]) for part in PARTS)
    whole = bars_of(lambda: mfrank.Interactions.ingest(files, tmp_path / "whole"))
    n_cells = mfrank.Interactions.open(tmp_path / "whole").nnz
    wanted = {
        "reading ids": (None, "row", n_rows),
        "reading entries": (n_rows, "row", n_rows),
        "merging by users": (n_rows, "row", n_rows),
        "sorting by items": (None, "entry", n_cells),
    }
    assert whole == wanted
    for n in (2, 15, 55):  # before and while users are merged, while items are sorted
        folder = tmp_path / f"data-{n}"
        with pytest.raises(KeyboardInterrupt):
            ended_late(files, folder, KeyboardInterrupt(), n)
        bars = bars_of(lambda folder=folder: mfrank.Interactions.ingest(files, folder))
        assert bars.pop("reading ids")[2] == 0
        *_, n_sorted = bars.pop("sorting by items")
        assert 0 < n_sorted <= n_cells
        assert (n_sorted < n_cells) == (n == 55)
        assert bars.items() <= wanted.items()
        opened = mfrank.Interactions.open(folder)
        same(opened, mfrank.Interactions.open(tmp_path / "whole"))


def test_ids_are_kept_if_the_first_note_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, clock, first_pass = written(tmp_path, PARTS), [0.0], module.numbered
    wanted = mfrank.Interactions.ingest(files, tmp_path / "whole")
    monkeypatch.setattr(journal, "_SECONDS", 10)
    monkeypatch.setattr(journal, "monotonic", lambda: clock[0])

    def numbered(*args: Any) -> Any:
        known = first_pass(*args)
        clock[0] += 100
        return known

    with monkeypatch.context() as patch:
        patch.setattr(module, "numbered", numbered)
        with pytest.raises(KeyboardInterrupt):
            ended_late(files, tmp_path / "data", KeyboardInterrupt())
    read = portions_read(monkeypatch)
    same(mfrank.Interactions.ingest(files, tmp_path / "data"), wanted)
    assert set(read) == {*files[1:]}  # the note is of the first file's entries


def test_an_error_tells_of_work_that_is_left_only_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written(tmp_path, PARTS)
    odd = OSError("a tape came loose")  # without a number: it is no full disk
    with pytest.raises(OSError, match=r"^a tape came loose$"):
        ended_late(files, tmp_path / "odd", odd)
    monkeypatch.setattr(journal, "_SECONDS", 1000)  # so that no note is written
    with pytest.raises(OSError, match=r"[Nn]o space left") as error:
        ended_late(files, tmp_path / "full", OSError(errno.ENOSPC, "no space left on device"))
    assert "goes on" not in str(error.value)
    assert not [path for path in left_beside(tmp_path) if "full" in path.name]


def test_what_is_left_of_other_files_or_options_is_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, folder = written(tmp_path, PARTS), tmp_path / "data"
    changes: list[Callable[[], dict[str, Any]]] = [
        lambda: {"duplicates": "last"},
        lambda: {"timestamp": False},
        lambda: written(tmp_path, [columns(41, 0)]) and {},
    ]
    for change in changes:
        with pytest.raises(KeyboardInterrupt):
            ended_late(files, folder, KeyboardInterrupt())
        options, read = change(), portions_read(monkeypatch)
        got = mfrank.Interactions.ingest(files, folder, **options)
        assert sorted(set(read)) == files
        same(got, mfrank.Interactions.ingest(files, tmp_path / "other", **options))
        assert not left_beside(tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        {"event": "kind"},
        {"weights": {"0": 1, "1": 2}},
        {"weights": {"0": 1, "1": None}},
        {"weights": None, "event": None},
    ],
)
def test_what_is_left_of_other_weights_is_no_use(
    changed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = np.arange(60)
    parts = [{"user": n, "item": n, "event": n % 2, "kind": n // 2 % 2}] * 2
    files, folder = written(tmp_path, parts), tmp_path / "data"
    options: dict[str, Any] = {"event": "event", "weights": {"0": 1, "1": 5}}
    for change, n_read in (({}, 0), (changed, 2)):
        with pytest.raises(KeyboardInterrupt):
            ended_late(files, folder, KeyboardInterrupt(), **options)
        read, how = portions_read(monkeypatch), options | change
        got = mfrank.Interactions.ingest(files, folder, **how)
        assert len(set(read)) == n_read
        same(got, mfrank.Interactions.ingest(files, tmp_path / "other", **how))


def test_a_file_that_is_missing_or_short_begins_anew(tmp_path: Path) -> None:
    files = written(tmp_path, PARTS)
    wanted = mfrank.Interactions.ingest(files, tmp_path / "whole")
    harms: list[Callable[[Path], object]] = [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
    ]
    for harm in harms:
        with pytest.raises(KeyboardInterrupt):
            ended_late(files, tmp_path / "data", KeyboardInterrupt())
        (place,) = left_beside(tmp_path)
        harm(place / "entries-1")
        same(mfrank.Interactions.ingest(files, tmp_path / "data"), wanted)


def test_bad_input_leaves_nothing(tmp_path: Path) -> None:
    bad: Columns = {"user": ["a"], "item": [1], "value": [np.inf], "timestamp": [1]}
    with refuses(ValueError, "values", place="part-4.csv, line 2", remedy="write a number"):
        mfrank.Interactions.ingest(written(tmp_path, [*PARTS, bad]), tmp_path / "data")
    assert not left_beside(tmp_path)


def test_a_run_that_is_killed_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, folder = written(tmp_path, PARTS), tmp_path / "data"
    code = f"""
import os, signal, sys
sys.path[:0] = {PATHS!r}
import mfrank
from mfrank.data import ingest, interaction_folder
from mfrank.files import journal
ingest._ENTRIES_AT_ONCE, journal._SECONDS, journal._SHARE = 50, 0, 0
interaction_folder.write_arrays = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
mfrank.Interactions.ingest({list(map(str, files))!r}, {str(folder)!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert len(left_beside(tmp_path)) == 1
    read = portions_read(monkeypatch)
    got = mfrank.Interactions.ingest(files, folder)
    assert not read
    assert not left_beside(tmp_path)
    same(got, mfrank.Interactions.ingest(files, tmp_path / "whole"))
