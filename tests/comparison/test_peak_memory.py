"""Memory measured in a child process is that of the work, and nothing else."""

from __future__ import annotations

import logging
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mfrank.comparison.peak_memory import peak_memory

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


def test_work_that_fails_is_not_measured_and_logged(caplog):
    with caplog.at_level(logging.WARNING, "mfrank"):
        assert peak_memory(partial(math.sqrt, -1.0)) is None
        assert peak_memory(lambda: None) is None  # cannot be pickled
    assert len(caplog.records) == 2
    assert "ValueError" in caplog.text
