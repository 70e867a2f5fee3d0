"""The memory that there is, that is free, and that a process may use: as the system tells it."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest

from mfrank import _system
from mfrank.arrays import (
    address_space_left,
    check_memory,
    gibibytes,
    memory,
    memory_free_now,
    memory_there_is,
)
from tests.support.errors import refuses


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The limits of the process; the machine and its groups have none."""
    limits: list[int] = []
    monkeypatch.setattr(memory, "memory_of_the_machine", lambda: None)
    monkeypatch.setattr(memory, "_of_the_groups", lambda: iter(()))
    monkeypatch.setattr(memory, "limit_of_the_process", lambda: min(limits, default=None))
    return limits


def free(kibibytes: int | None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system tell what is free; None if it does not."""
    told = folder / "meminfo"
    line = "" if kibibytes is None else f"MemAvailable:   {kibibytes} kB\nHugePages: 1: 2\n"
    told.write_text(f"MemTotal: 9 kB\n{line}")
    monkeypatch.setattr(memory, "_MEMORY", told)


def test_the_machine_has_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "limit_of_the_process", lambda: None)
    monkeypatch.setattr(memory, "_of_the_groups", lambda: iter(()))
    if sys.platform == "linux":
        told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        assert memory_there_is() == 1024 * int(told["MemTotal"].split()[0])
    pages = {"SC_PHYS_PAGES": 5, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf_names", dict.fromkeys(pages, 1), raising=False)
    monkeypatch.setattr(os, "sysconf", pages.__getitem__, raising=False)
    assert memory_there_is() == 5 * 4096
    for name, untold in (("SC_PHYS_PAGES", -1), ("SC_PHYS_PAGES", 0), ("SC_PAGE_SIZE", 0)):
        monkeypatch.setattr(os, "sysconf", (pages | {name: untold}).__getitem__, raising=False)
        assert memory_there_is() is None
    monkeypatch.setattr(os, "sysconf_names", {"SC_PAGE_SIZE": 1}, raising=False)
    assert memory_there_is() is None


def test_free_is_the_less_of_what_is_free_and_what_is_allowed(
    limit: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(None, tmp_path, monkeypatch)
    assert memory_free_now() == math.inf
    free(20, tmp_path, monkeypatch)
    assert memory_free_now() == 20 * 1024
    limit.append(5000)
    assert memory_free_now() == 5000
    free(None, tmp_path, monkeypatch)
    assert memory_free_now() == 5000


def test_work_may_need_all_that_there_is_and_no_more(
    limit: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(2**22, tmp_path, monkeypatch)
    limit.append(2**32)
    check_memory(2**32, "a fit", "lower factors")
    with refuses(MemoryError, remedy="lower factors"):
        check_memory(2**32 + 1, "a fit", "lower factors")
    free(2**21, tmp_path, monkeypatch)
    check_memory(2**31, "a fit", "lower factors")
    with pytest.warns(
        RuntimeWarning, match=r"^a fit needs 2(.000)? GiB .* 2 GiB are free; lower f"
    ) as told:
        check_memory(2**31 + 1, "a fit", "lower factors")
    assert told[0].filename == __file__
    limit.clear()
    free(None, tmp_path, monkeypatch)
    check_memory(2**60, "a fit", "lower factors")


@pytest.mark.parametrize("size", [0, 2**29, 3 * 2**30, 10**400])
def test_any_size_is_told(size: int) -> None:
    assert gibibytes(size).endswith(" GiB")
    assert gibibytes(3 * 2**29) == "1.5 GiB"


def test_without_a_limit_the_address_space_has_no_end(limit: list[int]) -> None:
    assert address_space_left() == math.inf


@pytest.mark.skipif(sys.platform != "linux", reason="these are files of Linux")
def test_linux_tells_of_memory_in_the_files_that_are_read() -> None:
    assert "MemAvailable" in memory._MEMORY.read_text()
    assert len(memory._OWN_PAGES.read_text().split()) == 7
    assert ":" in memory._OWN_GROUPS.read_text()


def test_where_no_file_tells_the_pages_there_is_no_end(
    limit: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit.append(2**40)
    monkeypatch.setattr(memory, "_OWN_PAGES", tmp_path / "nothing")
    assert address_space_left() == math.inf


def test_what_is_left_of_the_address_space_is_the_limit_without_what_is_taken(
    limit: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit.append(2**40)
    (told := tmp_path / "statm").write_text("1000 200 30 4 0 50 0\n")
    monkeypatch.setattr(memory, "_OWN_PAGES", told)
    assert address_space_left() == 2**40 - 1000 * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_of_two_limits_of_a_process_the_one_in_force_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "_of_the_groups", lambda: iter(()))
    monkeypatch.setattr(memory, "memory_of_the_machine", lambda: None)
    limits = {_system.resource.RLIMIT_AS: (2**32, 2**33)}
    monkeypatch.setattr(_system.resource, "getrlimit", limits.__getitem__)
    assert memory_there_is() == 2**32
    limits[_system.resource.RLIMIT_AS] = (_system.resource.RLIM_INFINITY,) * 2
    assert memory_there_is() is None
