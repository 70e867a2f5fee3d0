"""What ``cluster`` may be, and what is said of everything else before any work."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import scipy.sparse as sp
from engines import Shuffled

import mfrank
from mfrank.backends.sharded import (
    Arithmetic,
    Worker,
    arithmetic,
    backend,
    check_one_place,
    machine,
    refuse_other,
    same_workers,
    threads_of_a_task,
)
from mfrank.cluster import connecting
from mfrank.pagerank import pagerank
from tests.support.errors import refuses

DATA = mfrank.synthetic(30, 20, 200, random_state=0)


@pytest.mark.parametrize(
    ("cluster", "error"),
    [
        (0, ValueError),
        (10**6, ValueError),
        (True, TypeError),
        (2.0, TypeError),
        (Shuffled, TypeError),
        ("here", ValueError),
        ("tcp://here", ValueError),
    ],
)
def test_what_names_no_cluster_is_refused(cluster: Any, error: type[Exception]) -> None:
    with refuses(error, "cluster"):
        mfrank.ALS(factors=2).fit(object(), cluster=cluster)  # the data are not looked at


def test_an_address_without_dask_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install mfrank[dask]")):
        mfrank.ALS(factors=2).fit(object(), cluster="tcp://127.0.0.1:8786")


class Client:
    """As Dask's, for an address at which nobody answers."""

    def __init__(self, address: str = "", asynchronous: bool = False, **options: Any) -> None:
        if address:
            assert not options["set_as_default"]  # it is not the caller's
            assert options["timeout"] == 10
            raise OSError("refused")
        self.asynchronous, self.status = asynchronous, options.get("status", "running")


def test_a_client_of_dask_must_be_connected_and_an_address_must_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with refuses(TypeError, "cluster"):
        mfrank.ALS(factors=2).fit(object(), cluster=Client())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client))
    engine = SimpleNamespace(Dask=lambda client: Shuffled(2))  # the real one imports distributed
    monkeypatch.setitem(sys.modules, "mfrank.cluster.dask", engine)
    for client, remedy in (
        (Client(asynchronous=True), "make one with asynchronous=False"),
        (Client(status="closed"), "connect a new"),
    ):
        with refuses(ValueError, "cluster", remedy=remedy):
            mfrank.ALS(factors=2).fit(object(), cluster=client)  # type: ignore[arg-type]
    with refuses(TypeError, remedy=r"make them with Interactions\.from_arrays"):
        mfrank.ALS(factors=2).fit(object(), cluster=Client())  # type: ignore[arg-type]
    with pytest.raises(ConnectionError, match=r"answers at 'tcp://here:1' \(refused\).*dask sch"):
        mfrank.ALS(factors=2).fit(DATA, cluster="tcp://here:1")


def test_worker_processes_need_posix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "INHERITS_PIPES", False)
    with refuses(ValueError, "cluster", remedy=r"pass a dask\.distributed\.Client"):
        mfrank.ALS(factors=2).fit(object(), cluster=2)


@pytest.mark.parametrize("connected", [False, True])
def test_this_process_is_part_of_a_ray_cluster_while_it_needs_one(
    connected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[Any]()
    ray = SimpleNamespace(
        is_initialized=lambda: connected,
        init=lambda **options: told.append(options),
        shutdown=lambda: told.append("shutdown"),
    )
    engine = SimpleNamespace(Ray=lambda: told.append("engine") or Shuffled(2))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "mfrank.cluster.ray", engine)
    mfrank.ALS(factors=2, iterations=1).fit(DATA, cluster="ray")
    alone = [{"address": "auto"}, "engine", "shutdown"]
    assert told == (["engine"] if connected else alone)

    def refuse(**_: Any) -> None:
        raise ConnectionError("none found")

    if not connected:
        ray.init = refuse
        with pytest.raises(
            ConnectionError, match=r"no Ray cluster \(none found\); run `ray start`"
        ):
            mfrank.ALS(factors=2).fit(DATA, cluster="ray")


def test_ray_without_ray_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install mfrank[ray]")):
        mfrank.ALS(factors=2).fit(object(), cluster="ray")


def test_workers_are_asked_for_and_must_have_the_same_arithmetic() -> None:
    here = Worker(arithmetic(), "one", 4, 1e9)
    refuse_other([("a", here), ("b", here)])
    with refuses(ValueError, "cluster"):
        refuse_other([])
    for other in (Arithmetic("0.0.1", here.arithmetic[1]), Arithmetic(here.arithmetic[0], "sse")):
        with refuses(ValueError, remedy="install the same version"):
            refuse_other([("a", here), ("b", here._replace(arithmetic=other))])


def test_a_backend_on_a_gpu_has_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpu = SimpleNamespace(place=lambda array: array.tolist())
    monkeypatch.setattr(backend, "choose", lambda name: on_gpu)
    check_one_place(None, "cuda")
    with refuses(ValueError, "cluster"):
        check_one_place(2, "cuda")


def test_a_worker_that_cannot_run_the_backend_says_so() -> None:
    for name in ("cpu", "reference"):
        assert [worker for worker, _ in same_workers(Shuffled(2), name)] == ["worker 0", "worker 1"]
    with refuses(ValueError, "backend"):
        same_workers(Shuffled(2), "gpu")


def test_the_arithmetic_is_that_of_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(arithmetic()) == f"mfrank {mfrank.__version__} with {machine.ext.isa()}"
    monkeypatch.setattr(machine, "ext", None)
    assert str(arithmetic()) == f"mfrank {mfrank.__version__} with numpy alone"


class OfOthers(Shuffled):
    """Workers that have another arithmetic."""

    def workers(self, probe: Callable[[], Any]) -> list[tuple[str, Any]]:
        other = Arithmetic("0.0.1", "sse")
        return [(name, it._replace(arithmetic=other)) for name, it in super().workers(probe)]


def test_workers_of_another_arithmetic_begin_no_fit() -> None:
    with pytest.raises(ValueError, match="cluster mixes arithmetics"):
        mfrank.ALS(factors=2).fit(DATA, cluster=OfOthers(2))


TASKS: dict[str, Callable[[Any], object]] = {
    "half-step": lambda engine: mfrank.ALS(factors=2).fit(DATA, cluster=engine),
    "meeting": lambda engine: mfrank.Descent(factors=2).fit(DATA, cluster=engine),
    "walk": lambda engine: pagerank(sp.eye_array(3), cluster=engine),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_worker_that_joins_with_another_arithmetic_ends_the_fit(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mfrank.backends.sharded import machine as told

    monkeypatch.setattr(told, "arithmetic", lambda: Arithmetic("0.0.1", "sse"))
    with pytest.raises(RuntimeError, match=r"a worker joined with mfrank 0.0.1 with sse"):
        TASKS[task](Shuffled(2))


def test_cores_of_a_machine_are_divided_among_its_workers() -> None:
    workers = [("a", Worker(arithmetic(), "one", 8, 1e9)) for _ in range(3)]
    assert threads_of_a_task(workers, 0) == 2
    assert threads_of_a_task([*workers, ("b", Worker(arithmetic(), "two", 1, 1e9))], 0) == 1
    assert threads_of_a_task(workers, 5) == 5


def test_memory_of_a_machine_is_divided_among_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    from mfrank.backends.sharded import machine as told

    here = [("a", Worker(arithmetic(), "one", 8, 3e9)) for _ in range(3)]
    other = ("b", Worker(arithmetic(), "two", 1, 5e8))
    monkeypatch.setattr(told, "memory_free_now", lambda: 2e9)
    assert told.memory_of_a_task(here) == 1e9
    assert told.memory_of_a_task([*here, other]) == 5e8
    monkeypatch.setattr(told, "memory_free_now", lambda: 1e8)  # this process sends them all
    assert told.memory_of_a_task([*here, other]) == 1e8
