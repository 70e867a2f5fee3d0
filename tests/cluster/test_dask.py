"""A fit on the workers of a Dask cluster; what all engines owe is in ``test_contract.py``."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from children import PATHS

import mfrank
from mfrank.als import HalfSteps
from mfrank.backends.sharded import blocks
from mfrank.cluster import connecting
from tests.support.errors import refuses

distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")

DATA = mfrank.synthetic(300, 150, 4000, random_state=0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(PATHS))
        with distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            worker_dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as started:
            yield started


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster, set_as_default=False) as connected:
        yield connected


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 1000)


def fitted(**where: Any) -> tuple[bytes, bytes]:
    model = mfrank.ALS(mfrank.WRMF(), factors=8, iterations=3, random_state=0).fit(DATA, **where)
    return model.user_factors.tobytes(), model.item_factors.tobytes()


def test_a_fit_by_a_client_has_the_bits_of_one_process_and_leaves_nothing(client: Any) -> None:
    left = sum(len(blocks.bounds(rows)) - 1 for rows in (DATA.user_rows(), DATA.item_rows()))

    def settle(*_: object) -> None:
        """After each epoch the scheduler has the tasks of the blocks alone."""
        until = time.monotonic() + 20
        while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) != left:
            assert time.monotonic() < until
            time.sleep(0.05)

    assert fitted(cluster=client, callback=settle) == fitted()
    assert client.status == "running"
    left = 0
    settle()


def test_a_fit_by_an_address_does(cluster: Any) -> None:
    assert fitted(cluster=cluster.scheduler_address) == fitted()


@pytest.fixture
def scheduler() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """One in a process of its own, with a worker, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    common = ["--no-dashboard", "--host", "127.0.0.1"]
    programs = (
        ["distributed.cli.dask_scheduler", *common, "--port", address.rpartition(":")[2]],
        ["distributed.cli.dask_worker", *common, address, "--nthreads", "1", "--no-nanny"],
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", *program],
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join(PATHS),
                # Else it keeps its last 1,000 messages of less than a megabyte.
                "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "10",
            },
            stderr=subprocess.DEVNULL,
        )
        for program in programs
    ]
    try:
        with distributed.Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
        yield address, processes[0]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_fit_whose_scheduler_is_killed_goes_on_from_its_last_half_step(
    scheduler: tuple[str, subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (address, process), begun = scheduler, list[str]()

    def noted(name: str) -> Any:
        step = getattr(HalfSteps, name)

        def half_step(*args: Any, **options: Any) -> Any:
            begun.append(name)
            if len(begun) == 5:  # the users of the second epoch
                process.kill()
            return step(*args, **options)

        return half_step

    for name in ("solve_users", "solve_items"):
        monkeypatch.setattr(HalfSteps, name, noted(name))
    caplog.set_level(logging.CRITICAL, "distributed.client")  # it prints that it was lost
    with pytest.raises(ConnectionError, match="the Dask scheduler was lost"):
        fitted(cluster=address, checkpoint=tmp_path / "state")
    assert begun[-1] == "solve_users"
    del begun[:]
    gone_on = fitted(checkpoint=tmp_path / "state")
    assert begun == ["solve_users", "solve_items", "solve_users"]
    assert gone_on == fitted()


def test_a_client_that_cannot_be_used_is_refused(client: Any) -> None:
    client.close()
    with refuses(ValueError, "cluster"):
        fitted(cluster=client)


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_SECONDS", 0.5)
    with pytest.raises(ConnectionError, match="cluster: no Dask scheduler answers at 'tcp://127"):
        fitted(cluster="tcp://127.0.0.1:9")


def held() -> int:
    """Bytes of memory of the process that runs this."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_tasks_and_memory_do_not_grow_with_the_epochs(
    scheduler: tuple[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 12_000)
    data = mfrank.synthetic(3000, 1000, 20_000, random_state=0)
    left = sum(len(blocks.bounds(rows)) - 1 for rows in (data.user_rows(), data.item_rows()))
    epochs, tasks, memory = 30, list[int](), list[list[int]]()
    model = mfrank.ALS(mfrank.IALS(), 128, iterations=epochs, random_state=0, n_threads=1)

    with distributed.Client(scheduler[0], set_as_default=False) as client:

        def note(*_: object) -> None:
            until, now = time.monotonic() + 10, 0
            while now != left and time.monotonic() < until:  # they are forgotten a moment later
                now = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
            tasks.append(now)
            memory.append([client.run_on_scheduler(held), *client.run(held).values()])

        model.fit(data, cluster=client, callback=note)
    assert tasks == [left] * epochs
    shipped = 4 * 128 * (data.n_users + data.n_items)  # in an epoch, at least
    growth = max(after - before for before, after in zip(memory[4], memory[-1], strict=True))
    assert growth < 0.2 * (epochs - 5) * shipped


def test_workers_may_come_and_go_while_they_are_asked() -> None:
    """One comes after the threads of all could have been counted, one goes before."""
    from mfrank.cluster.dask import Dask

    asked: list[str] = []

    def run(probe: Any) -> dict[str, Any]:
        asked.append("run")
        return {"here": probe(), "new": probe(), "gone": probe()}

    def nthreads() -> dict[str, int]:
        return {"here": 2, "new": 1} if asked else {"here": 2, "gone": 1}

    client: Any = SimpleNamespace(run=run, nthreads=nthreads)
    assert Dask(client).workers(lambda: 7) == [("here", 7), ("here", 7), ("new", 7)]


def test_workers_without_mfrank_are_told_apart_from_other_errors() -> None:
    from mfrank.cluster.dask import Dask

    def of(error: Exception) -> Dask:
        def run(probe: Any) -> Any:
            raise error

        return Dask(SimpleNamespace(run=run))  # type: ignore[arg-type]

    with pytest.raises(ModuleNotFoundError, match=r"cannot import mfrank .*install the version"):
        of(RuntimeError("No module named 'mfrank.cluster'")).workers(held)
    with pytest.raises(RuntimeError, match="no room"):
        of(RuntimeError("no room")).workers(held)
