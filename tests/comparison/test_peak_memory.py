"""Memory measured in a child process is that of the work, and nothing else."""

from __future__ import annotations

import importlib
import io
import logging
import math
import pickle
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mfrank.comparison import peak_memory
from mfrank.comparison import protocol as module

MIB = 2**20

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux tells peak memory"
)


def test_an_allocation_is_measured_whatever_was_allocated_before():
    input_of_60_mib = np.ones(60 * MIB // 8)
    peak = peak_memory(partial(np.repeat, input_of_60_mib[:1], 40 * MIB // 8))
    assert peak == pytest.approx(40 * MIB, rel=0.1)
    peak = peak_memory(partial(np.negative, input_of_60_mib))
    assert peak == pytest.approx(60 * MIB, rel=0.1)


def test_what_is_freed_before_the_end_counts():
    # np.var makes a temporary array of its input's size and returns a number
    assert peak_memory(partial(np.var, np.ones(40 * MIB // 8))) > 36 * MIB


def test_what_a_warm_up_takes_does_not_count():
    much = partial(np.ones, 60 * MIB // 8)
    assert peak_memory(partial(math.sqrt, 2.0), much) < 2 * MIB
    assert peak_memory(much, partial(math.sqrt, 2.0)) == pytest.approx(60 * MIB, rel=0.1)


class MadeOfMuch:
    """Becomes a small number when it is unpickled, by way of 60 MiB."""

    def __reduce__(self):
        return np.var, (np.ones(60 * MIB // 8),)


def test_what_was_freed_before_the_work_began_does_not_count():
    assert peak_memory(partial(math.sqrt, MadeOfMuch())) < 2 * MIB


def test_work_without_memory_takes_none():
    assert peak_memory(partial(math.sqrt, 2.0)) < 2 * MIB


@pytest.fixture
def measured(monkeypatch, capsys):
    """What is told of work and its warm-up that are run in this process."""

    def measure(work, warm_up=None):
        given = io.BytesIO(pickle.dumps((warm_up, work)))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=given))
        module._measure_stdin()
        return int(capsys.readouterr().out)

    return measure


def test_what_is_told_is_the_rise_above_what_the_process_had(measured):
    much, little = partial(np.ones, 60 * MIB // 8), partial(math.sqrt, 2.0)
    assert measured(much) == pytest.approx(60 * MIB, rel=0.1)
    assert measured(little, much) < 8 * MIB  # the peak before does not count


def test_the_rise_is_told_in_bytes_and_is_never_below_zero(measured, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_STATUS", tmp_path / "status")

    def told(peak):
        return f"Name:\tpython\nVmHWM:\t{peak} kB\nVmSwap:\t5 kB\nVmRSS:\t1000 kB\n"

    for peak, rise in ((9000, 8000 * 1024), (700, 0)):
        (tmp_path / "status").write_text("VmRSS:\t1 kB\n")
        warm_up, work = (
            partial(Path.write_text, tmp_path / "status", told(each)) for each in (123, peak)
        )
        assert measured(work, warm_up) == rise


def test_work_of_the_caller_s_own_modules_is_found(monkeypatch, tmp_path, caplog):
    """Also if they are not where the process was started; errors may be in any encoding."""
    (tmp_path / "made_by_the_caller.py").write_text(
        "import os\ndef works(): pass\n"
        "def fails():\n    os.write(2, b'\\xff\\n')\n    raise ValueError('of mine')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("made_by_the_caller")
    assert peak_memory(own.works) < 2 * MIB
    with caplog.at_level(logging.WARNING, "mfrank"):
        assert peak_memory(own.fails) is None
    assert "peak memory not measured: ValueError: of mine" in caplog.text


def test_work_that_fails_is_not_measured_and_logged(caplog):
    with caplog.at_level(logging.WARNING, "mfrank"):
        assert peak_memory(partial(math.sqrt, -1.0)) is None
        assert peak_memory(lambda: None) is None  # cannot be pickled
    assert len(caplog.records) == 2
    assert "ValueError" in caplog.text
