"""What is on the disk when a save becomes visible, and when the old contents go."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfrank.files import Contents, Format, replacing, wanting_room
from mfrank.files import folder as folders

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="names of open files are read from /proc"
)

FORMAT = Format("test", 1)


class Disk:
    """Which files were flushed, at what size, and folders, with what entries, in what order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.flushed: dict[Path, Any] = {}
        self.events: list[str] = []
        fsync, replace, unlink = os.fsync, os.replace, Path.unlink

        def watched_fsync(descriptor: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            self.flushed[path] = seen(path)
            self.events.append(f"flush {path.name}")
            fsync(descriptor)

        def watched_replace(source: Path, target: Path) -> None:
            self.events.append("replace")
            self.at_the_rename(Path(source))
            replace(source, target)

        def watched_unlink(path: Path, missing_ok: bool = False) -> None:
            self.events.append(f"unlink {path.suffix}")
            unlink(path, missing_ok)

        patch.setattr(os, "fsync", watched_fsync)
        patch.setattr(os, "replace", watched_replace)
        patch.setattr(Path, "unlink", watched_unlink)

    def at_the_rename(self, source: Path) -> None:
        """All that the rename makes visible is on the disk."""
        for path in source.parent.iterdir():
            assert self.flushed[path] == seen(path), f"{path} is not on the disk"


def seen(path: Path) -> Any:
    return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else path.read_bytes()


def test_a_save_is_on_the_disk_before_it_is_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "saved"
    first = Contents({"a": np.arange(3.0), "b": np.ones((2, 2))}, {"who": "first"})
    folders.write(target, first, FORMAT)
    with monkeypatch.context() as patch:
        disk = Disk(patch)
        checked = disk.at_the_rename

        def with_folders(source: Path) -> None:
            checked(source)
            for folder in (source.parent, target):
                assert disk.flushed[folder] == seen(folder)

        disk.at_the_rename = with_folders  # type: ignore[method-assign]
        folders.write(target, Contents({"a": np.zeros(5)}, {"who": "second"}), FORMAT)
    renamed = disk.events.index("replace")
    removed = disk.events.index("unlink .npy")
    assert "flush saved" in disk.events[renamed:removed]
    assert folders.read(target, FORMAT).metadata == {"who": "second"}


def test_a_new_folder_is_on_the_disk_in_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        disk = Disk(patch)
        folders.write(tmp_path / "saved", Contents({"a": np.arange(3.0)}, {}), FORMAT)
    assert disk.flushed[tmp_path] == ["saved"]
    assert disk.events.index(f"flush {tmp_path.name}") < disk.events.index("replace")
    # A mark that is not on the disk would leave files of nobody behind.
    (generation,) = (tmp_path / "saved").glob("data-*")
    marked = [disk.events.index(f"flush {name}") for name in (".files", generation.name, "a.npy")]
    assert marked == sorted(marked)


def test_no_file_stays_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(2):
        folders.write(tmp_path / "saved", Contents({"a": np.arange(3.0)}, {}), FORMAT)
    folders.read(tmp_path / "saved", FORMAT, verify=True)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_a_full_disk_is_told_by_the_path_and_the_remedy(tmp_path: Path, code: int) -> None:
    remedy = "make room and do the same again"
    with pytest.raises(OSError, match=remedy) as told, wanting_room(tmp_path):
        raise OSError(code, os.strerror(code))
    assert (told.value.errno, told.value.filename) == (code, str(tmp_path))
    assert os.strerror(code) in str(told.value)


@pytest.mark.parametrize(
    "error", [OSError(errno.EACCES, "no"), OSError("no number"), OSError(errno.ENOSPC, "a", "b")]
)
def test_other_errors_and_those_with_a_path_are_as_they_are(tmp_path: Path, error: OSError) -> None:
    with pytest.raises(OSError) as told, wanting_room(tmp_path):  # noqa: PT011
        raise error
    assert told.value is error


def test_a_replaced_file_is_on_the_disk_before_it_is_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "table.csv"
    target.write_text("old")
    with monkeypatch.context() as patch:
        disk = Disk(patch)
        with replacing(target) as draft:
            draft.write_text("new")
    assert "replace" in disk.events
    assert target.read_text() == "new"
