"""Whatever the arguments of a public call, its process lives on, and its errors are refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("resource", reason="memory is limited by the resource module")

import fuzz
import public_calls
from children import PATHS

import mfrank


def test_hostile_calls_end_in_results_or_refusals() -> None:
    found = [str(failure) for failure in fuzz.failures(seed=0, first=0, n_calls=400)]
    assert not found, "\n".join(found)


def test_every_public_name_is_called() -> None:
    named = {entry.name.partition(".")[0] for entry in public_calls.entries()}
    errors = {name for name in mfrank.__all__ if name.endswith("Error")}
    assert named - {"serving"} | errors | {"__version__"} == set(mfrank.__all__)


@pytest.mark.filterwarnings("ignore:.* no effect")  # arguments are drawn, each beside any other
def test_plausible_arguments_are_accepted_by_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the calls would end at the door, and try nothing behind it."""
    accepted, rng = set[str](), np.random.default_rng(0)
    entries = [e for e in public_calls.entries() if e.weight >= 1 and e.name.startswith("ALS")]
    for entry in entries:
        for number in range(60):
            folder = tmp_path / f"{entry.name}-{number}"
            folder.mkdir()
            monkeypatch.chdir(folder)
            try:
                public_calls.called(entry.function(rng), rng, 0.0, entry.name)
            except fuzz.REFUSALS:
                continue
            accepted.add(entry.name)
    assert len(accepted) >= 0.9 * len(entries), {e.name for e in entries} - accepted


CHILD = """
import os, sys
sys.path[:0] = {paths!r}
import fuzz, public_calls
def third():
    calls.append(1)
    if len(calls) == 3:
        {crash}
calls = []
public_calls.entries = lambda: [public_calls.Entry("third", lambda rng: third)]
fuzz.main()
"""


@pytest.mark.parametrize(
    ("crash", "told"),
    [
        ("os.kill(os.getpid(), 11)", "ended with -11"),
        ("os._exit(0)", "ended with 0"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise AttributeError('of None')", "AttributeError: of None"),
        ("fuzz.faulthandler.dump_traceback_later(0.1, exit=True); fuzz.time.sleep(9)", "Timeout"),
    ],
)
def test_a_crash_is_found(tmp_path: Path, crash: str, told: str) -> None:
    """It is the third call of its process; those after it are made in the next."""
    program = tmp_path / "child.py"
    program.write_text(CHILD.format(paths=PATHS, crash=crash))
    found = list(fuzz.failures(seed=0, first=10, n_calls=5, program=str(program)))
    assert [failure.number for failure in found] == [12]
    assert told in found[0].what
    assert "--seed 0 --first 12 --calls 1" in str(found[0])
