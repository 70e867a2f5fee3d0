"""Files that grow part by part: read is what was appended, or it is an error that names them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfrank.files import CheckedFiles
from mfrank.files import journal as checked
from tests.support.errors import refuses

INT = np.dtype(np.int32)


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


HARMS: dict[str, Callable[[Path], object]] = {
    "a bit": damaged,
    "short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "gone": lambda path: path.unlink(),
}


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=5))
def test_what_was_appended_is_read_by_who_knows_its_checksum(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]]
) -> None:
    folder = tmp_path_factory.mktemp("checked")
    files = CheckedFiles(folder)
    for part in parts:
        files.append("a", np.array(part, INT).tobytes())
        files.append("other", b"more")
    wanted = list(chain(*parts))
    assert files.size("a") == 4 * len(wanted)
    assert files.size("none") == 0
    for reader in (files, CheckedFiles(folder, files.known)):
        for read in (reader.read, reader.mapped):
            found = read("a", INT)
            assert (found.dtype, found.tolist()) == (INT, wanted)
            assert read("none", INT).tolist() == []


@pytest.mark.parametrize("at_once", [1, 7, 1 << 22])
@pytest.mark.parametrize("harm", HARMS)
def test_damage_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str, at_once: int
) -> None:
    monkeypatch.setattr(checked, "_AT_ONCE", at_once)
    files = CheckedFiles(tmp_path)
    files.append("a", np.arange(10, dtype=INT).tobytes())
    files.check("a")
    HARMS[harm](tmp_path / "a")
    calls: list[Callable[[], object]] = [
        lambda: files.check("a"),
        lambda: files.mapped("a", INT),
        lambda: CheckedFiles(tmp_path, files.known),
    ]
    if harm != "gone":
        calls.append(lambda: files.read("a", INT))
    for call in calls:
        with refuses(ValueError, place="a", remedy="check the disk"):
            call()


def test_what_was_written_beyond_is_cut_off(tmp_path: Path) -> None:
    """By a run that ended before it noted it."""
    files = CheckedFiles(tmp_path)
    files.append("a", b"noted")
    known = {name: list(each) for name, each in files.known.items()}
    files.append("a", b" and more")
    again = CheckedFiles(tmp_path, known)
    assert (tmp_path / "a").read_bytes() == b"noted"
    again.append("a", b"!")
    again.check("a")
    (tmp_path / "a").write_bytes(b"noted! and more")
    assert again.mapped("a", np.dtype("S1")).tobytes() == b"noted!"
    assert (known["a"][0], again.size("a")) == (5, 6)  # the mapping that was passed stays
    with refuses(ValueError, place="a", remedy="check the disk"):
        files.check("a")


def test_files_of_others_are_known_once_they_are_taken(tmp_path: Path) -> None:
    files = CheckedFiles(tmp_path)
    (tmp_path / "b").write_bytes(b"12345678")
    assert files.size("b") == 0
    files.take("b")
    assert files.read("b", INT).nbytes == files.size("b") == 8
    files.append("b", b"9abc")
    files.check("b")
    (tmp_path / "empty").touch()
    files.take("empty")
    files.check("empty")


def test_what_is_removed_is_known_no_more(tmp_path: Path) -> None:
    files = CheckedFiles(tmp_path)
    files.append("a", b"1234")
    files.append("b", b"1234")
    files.remove("a")
    files.remove("none")
    assert files.known.keys() == {"b"}
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    files.append("a", b"5678")
    assert files.read("a", np.dtype("S4")).tolist() == [b"5678"]
