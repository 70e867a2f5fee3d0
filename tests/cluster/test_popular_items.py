"""Items that many users have are summed range by range: no worker has the factors of all users."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import Delayed, Shuffled

import mfrank
from mfrank.backends import SolveOptions, choose
from mfrank.backends.sharded import Sent, Sharded, backend, blocks, sum_rows
from mfrank.backends.sharded import blocks as cuts
from mfrank.cluster import Processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others have no such limit")

USERS, ITEMS, FACTORS = 150_000, 40, 128
FANS = 34_000
SLACK = 24 << 20
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
    """Everybody has the first two items, and one other."""
    return two_of_all(USERS, ITEMS)


def two_of_all(n_users: int, n_items: int) -> mfrank.Interactions:
    """Everybody has the first two items, and one other."""
    others = np.random.default_rng(0).integers(2, n_items, n_users)
    items = np.concatenate([np.repeat([0, 1], n_users), others])
    return mfrank.Interactions.from_arrays(np.tile(np.arange(n_users), 3), items)


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
    assert told + SLACK < 0.6 * everybody
    before = [name for name, _ in two.workers(partial(limit, told + SLACK))]
    fitted = model().fit(data, cluster=two)
    assert [name for name, _ in two.workers(bool)] == before  # none has died of it
    assert fitted.user_factors.tobytes() == model().fit(data).user_factors.tobytes()


class Noted(Shuffled):
    """Notes what tasks there are, and the bytes of those that sum."""

    def __init__(self) -> None:
        super().__init__(3)
        self.submitted, self.out, self.back = list[Any](), 0, 0

    def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
        self.submitted.append(function)
        if function is sum_rows:
            self.out += sum(arg.factors.nbytes for arg in args if isinstance(arg, Sent))
        return super().submit(function, *args)

    def gather(self, tasks: Iterable[Delayed]) -> list[Any]:
        tasks = list(tasks)
        new = [task for task in tasks if not task.results and task.function is sum_rows]
        results = super().gather(tasks)
        self.back += sum(task.results[0].nbytes for task in new)
        return results


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("objective", [mfrank.IALS(), mfrank.RG2(), mfrank.RGX()])
def test_the_bits_are_those_of_one_process(
    objective: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = two_of_all(FANS, 9)
    monkeypatch.setattr(backend, "_SHARE_OF_MEMORY", 0.0)
    monkeypatch.setattr(cuts, "_SUMS_AT_ONCE", 1)  # each item by itself
    small = mfrank.ALS(objective, 5, iterations=2, random_state=0, n_threads=2, dtype=dtype)
    alone = small.fit(data).item_factors.copy()
    engine = Noted()
    there = small.fit(data, cluster=engine)
    assert there.item_factors.tobytes() == alone.tobytes()
    n_sums = engine.submitted.count(sum_rows)
    assert n_sums >= 2 * 2 * 16  # RGX solves them again and again
    assert n_sums % (2 * 16) == 0


def test_bytes_are_those_of_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each user's factors go out once for both items, and two sums come back for each range."""
    monkeypatch.setattr(backend, "_SHARE_OF_MEMORY", 0.0)
    engine, width, noted = Noted(), 64, list[tuple[int, int]]()
    model = mfrank.ALS(mfrank.IALS(), width, 2, random_state=0, n_threads=1, solver="cholesky")
    model.fit(
        two_of_all(FANS, 9),
        cluster=engine,
        callback=lambda *_: noted.append((engine.out, engine.back)),
    )
    out, back = (after - before for before, after in zip(*noted, strict=True))
    assert out == FANS * width * 4
    assert back == 16 * 2 * width * (width + 1) * 4


def test_less_is_an_error(data: mfrank.Interactions, two: Processes) -> None:
    two.workers(partial(limit, 4 << 20))
    with pytest.raises(MemoryError):
        model().fit(data, cluster=two)
