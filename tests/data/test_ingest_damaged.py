"""Work files that a disk has changed are never other data, and never the end of the process."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from children import PATHS
from test_ingest import written
from test_ingest_resumed import PARTS, Ending, left_beside, nothing
from test_interaction_folder import same

import mfrank
from mfrank.data import ingest as module
from mfrank.data import interaction_folder, numbering, on_disk
from mfrank.files import CheckedFiles, journal
from tests.support.errors import refuses

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks to tell by")


@pytest.fixture(autouse=True)
def small_steps_that_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", 50)
    monkeypatch.setattr(journal, "_SECONDS", 0)
    monkeypatch.setattr(journal, "_SHARE", 0)


def flipped(text: bytes, at: int) -> bytes:
    return text[:at] + bytes([text[at] ^ 0x40]) + text[at + 1 :]


HARMS: dict[str, Callable[[bytes, int], bytes]] = {
    "flipped": flipped,
    "cut": lambda text, at: text[:at],
    "zeros": lambda text, at: text[:at] + b"\0" * len(text[at : at + 16]) + text[at + 16 :],
    "ones": lambda text, at: text[:at] + b"\xff" * len(text[at : at + 4]) + text[at + 4 :],
}
ENDINGS: dict[str, tuple[Any, str, int]] = {
    "numbering": (numbering.Numbering, "add", 3),
    "reading": (on_disk.Spill, "add", 3),
    "merging": (on_disk.GrowingArray, "add", 15),
    "sorting": (on_disk.GrowingArray, "add", 40),
    "writing": (interaction_folder, "write_arrays", 1),
}


def left_by(files: list[Path], folder: Path, ending: str) -> Path:
    """The work files of a run that ended there."""
    owner, name, n = ENDINGS[ending]
    with pytest.MonkeyPatch.context() as patch:
        wrapped = Ending(n, KeyboardInterrupt()).wrap(getattr(owner, name), nothing)
        patch.setattr(owner, name, wrapped)
        with pytest.raises(KeyboardInterrupt):
            mfrank.Interactions.ingest(files, folder)
    (place,) = left_beside(folder.parent)
    return place


AGAIN = f"""
import shutil, sys
from pathlib import Path
sys.path[:0] = {PATHS!r}
import mfrank
from mfrank.data import ingest
ingest._ENTRIES_AT_ONCE = 50
from test_interaction_folder import same
where, whole, *files = map(Path, sys.argv[1:])
wanted = mfrank.Interactions.open(whole)
for folder in sorted(where.iterdir()):
    print(folder.name, flush=True)
    same(mfrank.Interactions.ingest(files, folder / "data"), wanted)
print("done")
"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_damaged_work_files_begin_anew(tmp_path: Path, ending: str) -> None:
    files = written(tmp_path, PARTS)
    mfrank.Interactions.ingest(files, tmp_path / "whole")
    (tmp_path / "first").mkdir()
    place = left_by(files, tmp_path / "first" / "data", ending)
    where, n_harmed = tmp_path / "harmed", 0
    names = sorted(file.name for file in place.iterdir() if file.stat().st_size)
    # The last block of each sort, the first and the note: the others are as these.
    names = [name for name in names if not name.endswith(("-1", "-2"))] or names
    for name in names:
        text = (place / name).read_bytes()
        for at in sorted({len(text) // 3, len(text) - 1}):
            harm = list(HARMS)[n_harmed % len(HARMS)]
            folder = where / f"{n_harmed:03} {harm} {name} {at}"
            shutil.copytree(place, folder / place.name)
            (folder / place.name / name).write_bytes(HARMS[harm](text, at))
            n_harmed += 1
    assert n_harmed >= 2
    child = subprocess.run(
        [sys.executable, "-c", AGAIN, where, tmp_path / "whole", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout[-200:] + child.stderr[-2000:]
    assert child.stdout.endswith("done\n")


def test_it_is_told_that_work_begins_anew(tmp_path: Path, caplog: Any) -> None:
    files, folder = written(tmp_path, PARTS), tmp_path / "data"
    place = left_by(files, folder, "merging")
    text = (place / "user_items.indices").read_bytes()
    (place / "user_items.indices").write_bytes(flipped(text, 5))
    with caplog.at_level(logging.WARNING, "mfrank"):
        got = mfrank.Interactions.ingest(files, folder)
    assert f"{place}/user_items.indices is damaged" in caplog.messages[0]
    assert [each.split()[0] for each in caplog.messages[1:]] == ["14"]  # zeros, told once for all
    same(got, mfrank.Interactions.ingest(files, tmp_path / "whole"))


@pytest.mark.parametrize(
    ("read", "name"),
    [("read", "entries-1"), ("read", "transposed-1"), ("mapped", "item_users.values")],
)
@pytest.mark.parametrize("harm", HARMS)
def test_what_is_damaged_during_a_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str, name: str, harm: str
) -> None:
    files, original = written(tmp_path, PARTS), getattr(CheckedFiles, read)

    def harmed(checked: CheckedFiles, which: str, dtype: Any) -> Any:
        if which == name:
            path = checked.folder / which
            path.write_bytes(HARMS[harm](path.read_bytes(), 9))
        return original(checked, which, dtype)

    with monkeypatch.context() as patch:
        patch.setattr(CheckedFiles, read, harmed)
        with refuses(ValueError, remedy="check the disk"):
            mfrank.Interactions.ingest(files, tmp_path / "data")
    assert not left_beside(tmp_path)
    got = mfrank.Interactions.ingest(files, tmp_path / "data")
    same(got, mfrank.Interactions.ingest(files, tmp_path / "whole"))
