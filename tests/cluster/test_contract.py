"""What every engine owes: the calls of ``task_engine.Engine``, and the bits of one process."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from children import PATHS

import mfrank
from mfrank.backends.sharded import blocks
from mfrank.cluster import Engine, Processes
from mfrank.descent.rotation import layout
from mfrank.pagerank import pagerank
from mfrank.pagerank import plain as on_workers
from mfrank.retrieval import all_lists

DATA = mfrank.synthetic(300, 150, 4000, random_state=0)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")


@contextmanager
def of_dask() -> Iterator[Engine]:
    distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    from mfrank.cluster.dask import Dask

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(PATHS))
        with (
            distributed.LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                dashboard_address=None,
                worker_dashboard_address=None,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield Dask(client)


@contextmanager
def of_ray() -> Iterator[Engine]:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from mfrank.cluster.ray import Ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(PATHS))
        ray.init(
            num_cpus=2,
            object_store_memory=100 << 20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
        )
        try:
            yield Ray()
        finally:
            ray.shutdown()


ENGINES = {"processes": lambda: Processes(2), "dask": of_dask, "ray": of_ray}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with ENGINES[request.param]() as made:
        yield made


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 1000)
    monkeypatch.setattr(layout, "_FEWEST_VISITS", 30)
    monkeypatch.setattr(layout, "_FEWEST_ITEMS", 30)
    monkeypatch.setattr(all_lists, "_PLACES_AT_ONCE", 500)
    monkeypatch.setattr(on_workers, "_CELLS", 1)


def square(number: int) -> int:
    return number * number


def total(array: np.ndarray) -> float:
    return float(array.sum())


def ready(number: int, mark: Path) -> int:
    while not mark.exists():
        time.sleep(0.01)
    return number


def end_once(mark: Path) -> str:
    """End the process at the first call."""
    if mark.exists():
        return "done"
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def wrong(text: str) -> None:
    raise KeyError(text)


def test_results_come_in_the_order_of_the_tasks(engine: Engine) -> None:
    tasks = [engine.submit(square, number) for number in range(20)]
    assert engine.gather(tasks) == [number**2 for number in range(20)]
    assert engine.gather([]) == []


def test_an_argument_may_be_a_task_or_large(engine: Engine) -> None:
    assert engine.gather([engine.submit(square, engine.submit(square, 3))]) == [81]
    large = engine.submit(np.ones, 1 << 20)
    assert engine.gather([engine.submit(total, large) for _ in range(3)]) == [1 << 20] * 3
    assert engine.gather([engine.submit(total, np.arange(1 << 18))]) == [
        (1 << 18) * (2**18 - 1) / 2
    ]


def test_wait_returns_when_the_first_is_done(engine: Engine, tmp_path: Path) -> None:
    slow = engine.submit(ready, 3, tmp_path / "mark")
    quick = engine.submit(square, 2)
    assert engine.wait([slow, quick]) == {quick}
    (tmp_path / "mark").touch()
    assert engine.wait([slow]) == {slow}
    assert engine.gather([slow, quick]) == [3, 4]


def test_an_error_is_raised_here(engine: Engine) -> None:
    failed = engine.submit(wrong, "absent")
    assert engine.wait([failed]) == {failed}
    with pytest.raises(KeyError, match="absent"):
        engine.gather([failed])
    assert engine.gather([engine.submit(square, 2)]) == [4]


def test_every_worker_is_asked(engine: Engine) -> None:
    told = engine.workers(os.getpid)
    assert len(told) == 2
    assert all(name and pid != os.getpid() for name, pid in told)


def test_the_task_of_a_killed_worker_is_done_again(engine: Engine, tmp_path: Path) -> None:
    kept = engine.submit(square, 5)
    tasks = [engine.submit(end_once, tmp_path / "mark")]
    tasks += [engine.submit(square, kept) for _ in range(4)]
    assert engine.gather(tasks) == ["done", *([625] * 4)]


def fitted(**where: Any) -> tuple[bytes, bytes]:
    model = mfrank.ALS(mfrank.RGX(), factors=8, iterations=3, random_state=0).fit(DATA, **where)
    return model.user_factors.tobytes(), model.item_factors.tobytes()


def test_a_fit_survives_the_death_of_a_worker(engine: Engine) -> None:
    killed = []

    def kill(epoch: int, *_: object) -> None:
        if epoch == 1:
            killed.extend(engine.gather([engine.submit(os.getpid)]))
            os.kill(killed[0], signal.SIGKILL)

    assert fitted(cluster=engine, callback=kill) == fitted()
    assert killed


def test_a_descent_has_the_bits_of_worker_processes(engine: Engine) -> None:
    def descended(where: Any) -> tuple[bytes, bytes]:
        model = mfrank.Descent(mfrank.BPR(), factors=8, iterations=2, random_state=0)
        model.fit(DATA, cluster=where)
        return model.user_factors.tobytes(), model.item_factors.tobytes()

    assert descended(engine) == descended(1) != descended(None)


def test_walks_have_the_bits_of_one_process(engine: Engine) -> None:
    links = sp.random_array((200, 200), density=0.03, random_state=0, format="csr")
    restarts = np.eye(200)[:, :30]
    there = pagerank(links, restarts, cluster=engine)
    np.testing.assert_array_equal(there, pagerank(links, restarts))


def test_an_evaluation_has_the_numbers_of_one_process(engine: Engine) -> None:
    split = mfrank.by_ratio(DATA, train=0.8, valid=0.0, test=0.2, random_state=0)
    model = mfrank.ALS(factors=4, iterations=1, random_state=0).fit(split.train)
    alone = mfrank.evaluate(model, split.test)
    assert mfrank.evaluate(model, split.test, cluster=engine).to_dict() == alone.to_dict()


@pytest.mark.parametrize("kind", ["factors", "walk"])
def test_lists_of_all_users_are_those_of_one_process(
    engine: Engine, tmp_path: Path, kind: str
) -> None:
    model: mfrank.Recommender = mfrank.ALS(factors=4, iterations=1, random_state=0).fit(DATA)
    if kind == "walk":
        model = mfrank.SupervisedPageRank(method=None).fit(DATA)
    alone = model.recommend_all(tmp_path / "a", N=5, format="csv")
    there = model.recommend_all(tmp_path / "b", N=5, format="csv", cluster=engine)
    assert sorted(path.name for path in there.iterdir()) == sorted(os.listdir(alone))
    parts = sorted(alone.glob("part-*"))
    assert len(parts) == 3
    for path in parts:
        assert (there / path.name).read_bytes() == path.read_bytes()
