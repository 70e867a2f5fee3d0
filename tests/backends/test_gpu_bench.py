"""The bench that runs all that needs a GPU goes on where it was cut."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the benches are not here")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("gpu_all")


def test_what_ended_well_is_not_run_again(bench: ModuleType, tmp_path: Path) -> None:
    count = "import sys; open(sys.argv[1] + '/runs', 'a').write('x')"
    fine = bench.Part("fine", f'python -c "{count}" FOLDER', 1)
    bad = bench.Part("bad", "python -c \"print('why'); raise SystemExit(3)\"", 1)
    absent = bench.Part("absent", "no-such-program --here", 1)
    slow = bench.Part("slow", "python -c 'import time; time.sleep(60)'", 0.005)
    told: list[str] = []
    for _ in range(2):
        left = bench.run([fine, bad, absent, slow], tmp_path, 600, told.append)
        assert left == ["bad", "absent", "slow"]
    assert (tmp_path / "fine" / "runs").read_text() == "x"
    assert (tmp_path / "bad" / "output.txt").read_text() == "why\n"
    assert "bad: ended with exit code 3" in told[1]
    assert "absent: ended without no-such-program" in told[2]
    assert "slow: ended at its limit" in told[3]
    assert told[4] == "fine: done before"


def test_nothing_begins_that_may_take_longer_than_what_is_left(
    bench: ModuleType, tmp_path: Path
) -> None:
    long = bench.Part("long", "python -c 0", 2)
    short = bench.Part("short", "python -c 0", 0.5)
    told: list[str] = []
    assert bench.run([long, short], tmp_path, 60, told.append) == ["long"]
    assert told[0] == "long: no time, it may take 2 minutes"
    assert (tmp_path / "short" / "done").exists()
    assert not (tmp_path / "long").exists()


def test_its_commands_are_of_this_folder(bench: ModuleType) -> None:
    for part in bench.PARTS:
        scripts = [word for word in part.command.split() if word.endswith(".py")]
        assert all((BENCH.parent / script).exists() for script in scripts), part.name
