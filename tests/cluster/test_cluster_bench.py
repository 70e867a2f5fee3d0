"""The formulas of the cluster benches are those of what is sent and of a possible schedule."""

from __future__ import annotations

import argparse
import importlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engines import Delayed, Shuffled
from hypothesis import given
from hypothesis import strategies as st

import mfrank
from mfrank.backends import choose
from mfrank.backends.sharded import backend, blocks, solve
from mfrank.cluster import held

BENCH = Path(__file__).parents[2] / "bench"
DATA = mfrank.synthetic(600, 200, 12_000, random_state=0)

pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the benches are not here")


def harness(name: str) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        return importlib.import_module(f"harness.{name}")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 1500)


class Weighed(Shuffled):
    """Notes the bytes of solving tasks and of their results."""

    def __init__(self) -> None:
        super().__init__(1)
        self.random = np.random.default_rng(10)
        self.out = self.back = 0

    def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
        if function in (solve, held):
            travelling = [arg for arg in args if not isinstance(arg, Delayed)]
            self.out += len(pickle.dumps(travelling, -1))
        return super().submit(function, *args)

    def gather(self, tasks: Any) -> list[Any]:
        tasks = list(tasks)
        new = [task for task in tasks if not task.results and task.function is solve]
        results = super().gather(tasks)
        self.back += sum(len(pickle.dumps(task.results[0], -1)) for task in new)
        return results


@pytest.mark.parametrize("everywhere", [True, False])
def test_bytes_are_within_a_tenth_of_the_formula(
    everywhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not everywhere:
        monkeypatch.setattr(backend, "_SHARE_OF_MEMORY", 0.0)
    cost, engine, width = harness("cluster_cost"), Weighed(), 64
    noted: list[tuple[int, int]] = []
    mfrank.ALS(mfrank.IALS(), width, 3, random_state=0, n_threads=1).fit(
        DATA, cluster=engine, callback=lambda *_: noted.append((engine.out, engine.back))
    )
    wanted = backs = 0.0
    for side in (DATA.user_rows("float32"), DATA.item_rows("float32")):
        some = cost.blocks_of(side, width)
        assert len(some) > 4
        wanted += 8 * width * (width + 2) * len(some)  # of the basis, which small blocks notice
        table = cost.sent_everywhere(some, side.n_columns, width, copies=1)
        assert table is not None
        if everywhere:
            wanted += table + sum(block.start(width) for block in some)
        else:
            wanted += sum(block.out(width) for block in some)
        backs += sum(block.back(width) for block in some)
    out, back = (after - before for before, after in zip(*noted[-2:], strict=True))
    assert out == pytest.approx(wanted, rel=0.1)
    assert back == pytest.approx(backs, rel=0.1)


def test_long_rows_are_counted_as_they_are_sent() -> None:
    """An item of all 40,000 users is no part of a block, and returns a matrix for each range."""
    cost, width = harness("cluster_cost"), 8
    users = np.concatenate([np.arange(40_000), np.arange(0, 40_000, 50)])
    items = np.concatenate([np.zeros(40_000, int), np.arange(1, 801)])
    some = cost.blocks_of(mfrank.Interactions.from_arrays(users, items).item_rows(), width)
    ranges = [block for block in some if block.summed]
    assert len(ranges) == 16
    assert sum(block.touched for block in ranges) == 40_000
    assert sum(block.entries for block in some) == 40_800
    assert sum(block.touched for block in some if not block.summed) == 800
    assert {block.back(width) for block in ranges} == {4 * width * (width + 1)}
    n_items, n_users = np.bincount(items).astype(float), np.bincount(users).astype(float)
    expected = cost.expected_blocks(cost.Side(n_items, 1.0), cost.Side(n_users, 1.0), width)
    for what in ("rows", "entries", "summed", "multiply_adds"):
        numbers = [sum(getattr(block, what) for block in each) for each in (some, expected)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.01), what


@pytest.mark.parametrize("everywhere", [True, False])
def test_the_simulator_predicts_what_a_fit_sends(
    everywhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not everywhere:
        monkeypatch.setattr(backend, "_SHARE_OF_MEMORY", 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        simulator = importlib.import_module("cluster_simulator")
    cost, engine, width = harness("cluster_cost"), Weighed(), 64
    noted: list[tuple[int, int]] = []
    mfrank.ALS(mfrank.IALS(), width, 3, random_state=0, n_threads=1).fit(
        DATA, cluster=engine, callback=lambda *_: noted.append((engine.out, engine.back))
    )
    sides = [
        cost.blocks_of(rows, width)
        for rows in (DATA.user_rows("float32"), DATA.item_rows("float32"))
    ]
    rates = cost.Rates(1e9, 1e9, 1e9, 1e9, 1e-3, 1e-6, 0.0)
    copies = 1 if everywhere else None
    told = simulator.predicted(*sides, width, rates, 2, 2, copies=copies)
    basis = 8 * width * (width + 2) * sum(map(len, sides))  # which large blocks do not notice
    out, back = (after - before for before, after in zip(*noted[-2:], strict=True))
    assert told["mib_out"] * 2**20 == pytest.approx(out - basis, rel=0.1)
    assert told["mib_back"] * 2**20 == pytest.approx(back, rel=0.1)


def test_relayed_is_told_with_the_memory_that_a_fit_wants_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that has it free gets all factors of either side, and one that has less does not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        simulator = importlib.import_module("cluster_simulator")
    rates = harness("cluster_cost").Rates(1e9, 1e9, 1e9, 1e9, 1e-3, 1e-6, 0.0)
    monkeypatch.setattr(simulator, "measured", lambda *_: rates)
    monkeypatch.setattr(simulator, "_SAMPLE", 1000)
    width, shape = 16, {"users": 600.0, "items": 200.0, "entries": 9000.0}
    args = argparse.Namespace(factors=width, workers=2, cores=1, gbit=10.0, **shape)
    client, relayed, peers = simulator.large(args)
    assert [row["case"] for row in (client, relayed, peers)] == ["client", "relayed", "peers"]
    needed = relayed["mib_free_a_worker"] * 2**20
    for free, sends in ((needed, True), (0.99 * needed, False)):
        monkeypatch.setattr(backend, "memory_of_a_task", lambda _, free=free: free)
        there = backend.Sharded(choose("cpu"), "cpu", Shuffled(2))
        table = 600 * width * 4
        assert there._sends_all(10**6, 600, table) is sends


def test_a_block_touches_about_as_many_rows_as_expected() -> None:
    cost = harness("cluster_cost")
    rng = np.random.default_rng(0)
    dense = rng.random((3000, 1)) ** 4 @ rng.random((1, 400)) > rng.random((3000, 400)) * 3
    data = mfrank.Interactions.of(sp.csr_array(dense.astype(np.float32)))
    users, items = (cost.Side(n.astype(float), 1.0) for n in (data.counts.users, data.counts.items))
    for rows, sides in ((data.user_rows(), (users, items)), (data.item_rows(), (items, users))):
        found, expected = cost.blocks_of(rows, 8), cost.expected_blocks(*sides, 8)
        assert len(found) > 5
        assert abs(len(found) - len(expected)) <= 1
        for what in ("rows", "entries", "touched", "multiply_adds"):
            numbers = [sum(getattr(block, what) for block in some) for some in (found, expected)]
            assert numbers[0] == pytest.approx(numbers[1], rel=0.15), what


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10), st.floats(0, 10)), min_size=1),
    st.integers(1, 6),
)
def test_a_schedule_is_possible_and_wastes_no_more_than_it_must(
    tasks: list[tuple[float, float, float]], n_workers: int
) -> None:
    class Timed(tuple[float, float, float]):
        """Seconds to send, to solve and to return."""

        multiply_adds = property(lambda self: self[1])

        def out(self, factors: int) -> float:
            return self[0]

        def back(self, factors: int) -> float:
            return self[2]

    cost = harness("cluster_cost")
    rates = cost.Rates(1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    some = [Timed(task) for task in tasks]
    seconds = cost.half_step_seconds(some, 1, rates, 1.0, n_workers, n_workers)
    client = sum(task[0] + task[2] for task in tasks)
    solving = sum(task[1] for task in tasks)
    assert seconds >= max(client, solving / n_workers, *map(sum, tasks)) - 1e-9
    assert seconds <= client + solving + 1e-9
    if n_workers == 1:
        assert seconds == pytest.approx(client + solving)


def test_expected_degrees_add_up() -> None:
    degrees = harness("drawn_folder").expected_degrees(10_000, 1000, 100_000)
    assert [len(side) for side in degrees] == [10_000, 1000]
    assert [side.sum() for side in degrees] == pytest.approx([100_000, 100_000], rel=0.05)
    assert (np.diff(degrees[0]) >= 0).all()
    assert (np.diff(degrees[1]) <= 0).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_rates_are_measured() -> None:
    rates = harness("cluster_rates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rates, "_MESSAGE", 1 << 16)
        patch.setattr(rates, "_EMPTY_TASKS", 2)
        patch.setattr(rates, "_ROUNDS", 1)
        found = rates.measured(DATA, 8)
    assert min(found.users, found.items, found.out, found.back, found.task) > 0
    assert found.row >= 0
    assert found.worker > 1 << 20
