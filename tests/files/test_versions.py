"""Earlier versions in a folder: none is lost or half written, and one of them can come back."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from faults import Fault
from folders import FORMAT, contents, value_of

import mfrank
from mfrank.files import folder as module
from mfrank.files import n_earlier, read, roll_back, write
from mfrank.serving.live_model import LiveModel
from tests.support.errors import refuses


def versions(folder: Path) -> list[int]:
    """The values of all versions, the newest first; every file is compared with its checksum."""
    n_all = n_earlier(folder, FORMAT) + 1
    return [value_of(read(folder, FORMAT, verify=True, version=n)) for n in range(n_all)]


def saved(folder: Path, values: Any, keep: int = 3) -> Path:
    for value in values:
        write(folder, contents(value), FORMAT, keep=keep)
    return folder


def generations(folder: Path) -> int:
    return len(list(folder.glob("data-*")))


@pytest.mark.parametrize("keep", [1, 2, 3, 9])
def test_the_last_versions_stay(tmp_path: Path, keep: int) -> None:
    saved(tmp_path / "s", range(6), keep)
    assert versions(tmp_path / "s") == [5, 4, 3, 2, 1, 0][:keep]
    assert generations(tmp_path / "s") == min(keep, 6)
    assert (tmp_path / "s" / "versions.json").exists() is (keep > 1)


def test_a_list_of_versions_that_was_never_written_goes_with_the_next_save(tmp_path: Path) -> None:
    """As a process leaves it that is killed while it keeps a version."""
    saved(tmp_path, [1])
    draft = tmp_path / ".0123456789abcdef.versions.json"
    draft.mkdir()
    (draft / "versions.json").write_text("[")
    saved(tmp_path, [2], keep=1)
    assert not draft.exists()
    assert versions(tmp_path) == [2]


def test_a_save_that_keeps_fewer_removes_the_others_and_says_so_if_none_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = saved(tmp_path / "s", range(4), 4)
    with caplog.at_level(logging.INFO, "mfrank"):
        write(folder, contents(4), FORMAT, keep=2)
        assert versions(folder) == [4, 3]
        assert not caplog.messages
        write(folder, contents(5), FORMAT)
    assert versions(folder) == [5]
    assert generations(folder) == 1
    assert len(caplog.messages) == 1
    assert "keep=3" in caplog.messages[0]


@pytest.mark.parametrize("forever", [False, True], ids=["one call fails", "dead from there on"])
@pytest.mark.parametrize("change", ["save", "roll back"])
def test_a_failure_at_any_step_loses_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, forever: bool
) -> None:
    before = [3, 2, 1]
    after = [4, 3, 2] if change == "save" else [2, 1]
    outcomes, prepared = [], saved(tmp_path / "s", before[::-1])
    for step in range(1000):
        folder = shutil.copytree(prepared, tmp_path / f"{step}")
        fault = Fault(step, forever=forever)
        with monkeypatch.context() as patch:
            fault.install(patch)
            try:
                if change == "save":
                    write(folder, contents(4), FORMAT, keep=3)
                else:
                    roll_back(folder, FORMAT)
            except OSError:
                pass
        if not fault.struck:
            break
        found = versions(folder)
        outcomes.append(found[0] == after[0])
        assert found == before if not outcomes[-1] else found[: len(after)] == after
        if forever:  # the next save finds nothing in its way
            write(folder, contents(7), FORMAT, keep=3)
            assert versions(folder) == [7, *found[:2]]
            assert generations(folder) == 3
    assert set(outcomes) == {False, True}


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_what_is_damaged_does_not_come_back(tmp_path: Path, damage: str) -> None:
    folder = saved(tmp_path / "s", [1, 2])
    current = module._manifest(folder, FORMAT).data
    (earlier,) = (each for each in folder.glob("data-*") if each.name != current)
    array = min(earlier.glob("*.npy"))
    if damage == "missing":
        array.unlink()
    else:
        array.write_bytes(array.read_bytes()[:-1] + b"\xff")
    with pytest.raises(ValueError, match="damaged"):
        roll_back(folder, FORMAT)
    assert value_of(read(folder, FORMAT, verify=True)) == 2
    (folder / "versions.json").write_text("{}")
    with pytest.raises(ValueError, match="damaged"):
        roll_back(folder, FORMAT)
    assert value_of(read(folder, FORMAT)) == 2


def test_a_version_that_a_save_moves_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(tmp_path / "s", [1, 2], 2)
    read_array, others = module.read_array, [3, 4]

    def moving(*args: Any, **options: Any) -> Any:
        if others:  # between two arrays of the version
            write(folder, contents(others.pop(0)), FORMAT, keep=2)
        return read_array(*args, **options)

    monkeypatch.setattr(module, "read_array", moving)
    assert value_of(read(folder, FORMAT, version=1)) == 3


DATA = mfrank.synthetic(40, 30, 400, random_state=0)


def fitted(width: int) -> mfrank.ALS:
    return mfrank.ALS(factors=width, iterations=1, random_state=0).fit(DATA)


def test_models_keep_versions_and_a_server_follows_a_rollback(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    for width in (1, 2, 3, 4):
        fitted(width).save(folder, keep=3)
    assert mfrank.n_versions(folder) == 3
    assert [mfrank.load(folder, version=n).store.factors for n in range(3)] == [4, 3, 2]
    live = LiveModel(folder)
    mfrank.roll_back(folder)
    live.refresh()
    assert (live.current.store.factors, live.loads, live.failures) == (3, 1, 0)
    mfrank.load(folder).remove(users=[0]).save(folder)  # and nothing of the user is on the disk
    assert mfrank.n_versions(folder) == generations(folder) == 1
    with refuses(ValueError, "version", remedy="keep"):
        mfrank.roll_back(folder)


def test_an_earlier_version_that_is_changed_does_not_replace_the_current_one(
    tmp_path: Path,
) -> None:
    for width in (1, 2):
        fitted(width).save(tmp_path / "model", keep=2)
    earlier: Any = mfrank.load(tmp_path / "model", version=1)
    with refuses(ValueError, None, remedy="overwrite=True"):
        earlier.remove(users=[0]).save(tmp_path / "model")


@pytest.mark.parametrize(
    ("call", "error", "argument"),
    [
        (lambda folder: fitted(1).save(folder, keep=0), ValueError, "keep"),
        (lambda folder: fitted(1).save(folder, keep=1.5), TypeError, "keep"),
        (lambda folder: mfrank.load(folder, version=-1), ValueError, "version"),
        (lambda folder: mfrank.load(folder, version=1), ValueError, "version"),
        (lambda folder: mfrank.load(folder, version="1"), TypeError, "version"),
    ],
)
def test_versions_that_cannot_be_are_refused(
    call: Any, error: type[Exception], argument: str, tmp_path: Path
) -> None:
    fitted(2).save(tmp_path / "model")
    with refuses(error, argument):
        call(tmp_path / "model")
    assert mfrank.load(tmp_path / "model").store.factors == 2
    for gone in (mfrank.n_versions, mfrank.roll_back):
        with pytest.raises(FileNotFoundError):
            gone(tmp_path / "none")
