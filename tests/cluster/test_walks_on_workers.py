"""Walks from many restarts, on workers, have the bits of one process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engines import Delayed, Shuffled
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.cluster import Call, Processes, as_done
from mfrank.pagerank import RandomWalk, pagerank
from mfrank.pagerank import plain as on_workers
from mfrank.retrieval import all_lists
from tests.support.errors import refuses


def graph(n: int, seed: int = 0, *, weighted: bool = True) -> sp.csr_array:
    """Some nodes have no edges from them."""
    rng = np.random.default_rng(seed)
    links = sp.random_array((n, n), density=min(1.0, 6 / n), random_state=rng, format="csr")
    if not weighted:
        links.data[:] = 1
    return sp.csr_array(links)


def restarts(n: int, k: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    begin = rng.random((n, k)) * (rng.random((n, k)) < 0.3)
    begin[rng.integers(0, n, k), np.arange(k)] = 1
    return begin


@pytest.fixture(autouse=True, scope="module")
def small_tasks() -> Any:
    """Sixteen walks each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_workers, "_CELLS", 1)
        yield


@settings(max_examples=25)
@given(
    st.integers(1, 60),
    st.integers(1, 70),
    st.sampled_from([1, 2, 3, 7]),
    st.booleans(),
    st.sampled_from([1e-2, 1e-6, 1e-11]),
)
def test_any_number_of_workers_has_the_bits_of_one_process(
    n: int, k: int, n_workers: int, weighted: bool, tolerance: float
) -> None:
    walk, begin = RandomWalk.of(graph(n, weighted=weighted)), restarts(n, k)
    alone = walk.rank(begin, tolerance=tolerance)
    there = walk.rank(begin, tolerance=tolerance, cluster=Shuffled(n_workers, seed=k))
    np.testing.assert_array_equal(there, alone)


@pytest.mark.parametrize("n_threads", [1, 4])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_any_backend_and_number_of_threads_do(backend: str, n_threads: int) -> None:
    links, begin = graph(200), restarts(200, 50)
    how = {"alpha": 0.3, "tolerance": 1e-9, "backend": backend}
    alone = pagerank(links, begin, **how)
    there = pagerank(links, begin, **how, n_threads=n_threads, cluster=Shuffled(3))
    np.testing.assert_array_equal(there, alone)


def test_walks_that_do_not_settle_by_sweeps_do() -> None:
    """A tolerance below rounding: power iteration goes on."""
    walk, begin = RandomWalk.of(graph(40)), restarts(40, 40)
    alone = walk.rank(begin, tolerance=1e-16)
    np.testing.assert_array_equal(walk.rank(begin, tolerance=1e-16, cluster=Shuffled(2)), alone)


@pytest.mark.parametrize("begin", [None, np.arange(1.0, 31)])
def test_a_single_walk_does(begin: Any) -> None:
    walk = RandomWalk.of(graph(30))
    there = walk.rank(begin, cluster=Shuffled(2))
    np.testing.assert_array_equal(there, walk.rank(begin))
    assert there.shape == (30,)


def test_the_graph_is_sent_once_and_each_restart_once() -> None:
    sent = list[tuple[Any, ...]]()

    class Watched(Shuffled):
        def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
            sent.append(args)
            return super().submit(function, *args)

    engine, walk = Watched(2), RandomWalk.of(graph(50))
    walk.rank(restarts(50, 65), cluster=engine)
    assert [args[0] for args in sent if not isinstance(args[0], Delayed)] == [walk.moves]
    assert [args[1].n_rows for args in sent[1:]] == [16, 16, 16, 16, 1]
    del sent[:]
    assert not engine.alive


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_the_death_of_a_worker_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    walk, begin = RandomWalk.of(graph(60)), restarts(60, 50)
    with Processes(2) as engine:
        killed, submit = list[int](), engine.submit

        def kill_one(function: Callable[..., Any], *args: Any) -> Any:
            if function is on_workers._settled and not killed:
                killed.append(engine._workers[0].process.pid)
                os.kill(killed[0], signal.SIGKILL)
            return submit(function, *args)

        monkeypatch.setattr(engine, "submit", kill_one)
        there = walk.rank(begin, cluster=engine)
    assert killed
    np.testing.assert_array_equal(there, walk.rank(begin))


@pytest.mark.parametrize("n_workers", [1, 2, 3, 7])
def test_lists_by_learned_walks_are_those_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_workers: int
) -> None:
    monkeypatch.setattr(all_lists, "_PLACES_AT_ONCE", 50)
    data = mfrank.synthetic(60, 40, 800, random_state=0)
    method = mfrank.pagerank.GBN(iterations=2)
    model = mfrank.SupervisedPageRank(method, queries=10, random_state=0).fit(data)
    there, alone = tmp_path / "there", tmp_path / "alone"
    model.recommend_all(there, N=5, format="csv", cluster=Shuffled(n_workers, seed=n_workers))
    model.recommend_all(alone, N=5, format="csv")
    parts = sorted(path.name for path in alone.glob("part-*"))
    assert len(parts) == 6
    for name in parts:
        assert (there / name).read_bytes() == (alone / name).read_bytes()


@pytest.mark.parametrize(
    ("how", "error", "argument"),
    [
        ({"cluster": 0}, ValueError, "cluster"),
        ({"cluster": "here"}, ValueError, "cluster"),
        ({"cluster": Shuffled(0)}, ValueError, "cluster"),
    ],
)
def test_what_names_no_cluster_is_refused(
    how: dict[str, Any], error: type[Exception], argument: str
) -> None:
    with refuses(error, argument):
        pagerank(graph(5), **how)


@given(st.integers(0, 30), st.integers(1, 4))
def test_calls_are_taken_when_there_is_room_and_each_is_told_once(
    n_calls: int, n_workers: int
) -> None:
    engine, taken = Shuffled(n_workers, seed=n_calls), list[int]()

    def calls() -> Any:
        for number in range(n_calls):
            taken.append(number)
            yield number, Call(abs, (-number,))

    told = dict[int, int]()
    for number, result in as_done(engine, n_workers, calls()):
        assert number not in told
        told[number] = result
        assert len(taken) - len(told) < 2 * n_workers
    assert told == {number: number for number in range(n_calls)}
