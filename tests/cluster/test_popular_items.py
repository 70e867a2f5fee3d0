"""An item that many users have is one task, in memory for its users' factors, not for all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mfrank
from mfrank.backends.registry import choose
from mfrank.backends.sharded import backend, blocks
from mfrank.backends.sharded.backend import Sharded
from mfrank.backends.solve_options import SolveOptions
from mfrank.cluster.processes import Processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others have no such limit")

USERS, ITEMS, FACTORS = 150_000, 40, 128
SLACK = 12 << 20
"""Of the allocator, and of what is loaded when a task is first run."""


def limit(more: int) -> None:
    """Let the process have so many bytes of private memory more."""
    import resource

    choose("cpu")
    lines = Path("/proc/self/status").read_text().splitlines()
    (held,) = (int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (held + more, -1))


@pytest.fixture(scope="module")
def data() -> mfrank.Interactions:
    """30 % of the users have the first item, and all have one other."""
    rng = np.random.default_rng(0)
    fans = np.flatnonzero(rng.random(USERS) < 0.3)
    users = np.concatenate([np.arange(USERS), fans])
    items = np.concatenate([rng.integers(1, ITEMS, USERS), np.zeros(len(fans), int)])
    return mfrank.Interactions.from_arrays(users, items)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 1000)
    monkeypatch.setattr(backend, "_SHARE_OF_MEMORY", 0.0)  # each block gets its own factors
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    with Processes(2) as engine:
        yield engine


def model() -> mfrank.ALS:
    return mfrank.ALS(mfrank.IALS(), FACTORS, iterations=1, random_state=0, n_threads=1)


def test_it_is_solved_in_the_memory_that_was_told(
    data: mfrank.Interactions, two: Processes
) -> None:
    there = Sharded(choose("cpu"), "cpu", two)
    options = SolveOptions("auto", 3, None, 1)
    row = np.dtype(np.float32)
    sides = data.user_rows(row), data.item_rows(row)
    told = max(there.shipped(side, FACTORS, row, options).task for side in sides)
    everybody = USERS * FACTORS * 4
    assert told + SLACK < 1.3 * everybody  # so that the limit is one that tells
    two.workers(partial(limit, told + SLACK))
    fitted = model().fit(data, cluster=two)
    assert fitted.user_factors.tobytes() == model().fit(data).user_factors.tobytes()


def test_less_is_an_error(data: mfrank.Interactions, two: Processes) -> None:
    two.workers(partial(limit, 4 << 20))
    with pytest.raises(MemoryError):
        model().fit(data, cluster=two)
