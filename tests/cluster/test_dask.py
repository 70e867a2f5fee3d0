"""A fit on the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import PATHS

import mfrank
from mfrank.backends.sharded import blocks
from mfrank.cluster import connecting
from mfrank.descent.rotation import layout
from mfrank.retrieval import all_lists

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


def test_a_fit_survives_the_death_of_a_worker(client: Any) -> None:
    killed = []

    def kill(epoch: int, *_: object) -> None:
        if epoch == 1:
            killed.append(client.submit(os.getpid, pure=False).result())
            os.kill(killed[0], signal.SIGKILL)

    assert fitted(cluster=client, callback=kill) == fitted()
    assert killed


def test_lists_of_all_users_are_those_of_one_process(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_lists, "_PLACES_AT_ONCE", 500)
    model = mfrank.ALS(factors=4, iterations=1, random_state=0).fit(DATA)
    alone = model.recommend_all(tmp_path / "a", N=5, format="csv")
    there = model.recommend_all(tmp_path / "b", N=5, format="csv", cluster=client)
    assert sorted(path.name for path in there.iterdir()) == sorted(os.listdir(alone))
    parts = sorted(alone.glob("part-*"))
    assert len(parts) == 3
    for path in parts:
        assert (there / path.name).read_bytes() == path.read_bytes()


def test_a_descent_has_the_bits_of_worker_processes(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_FEWEST_VISITS", 30)
    monkeypatch.setattr(layout, "_FEWEST_ITEMS", 30)

    def descended(where: Any) -> tuple[bytes, bytes]:
        model = mfrank.Descent(mfrank.BPR(), factors=8, iterations=2, random_state=0)
        model.fit(DATA, cluster=where)
        return model.user_factors.tobytes(), model.item_factors.tobytes()

    assert descended(client) == descended(1) != descended(None)


def test_a_client_that_cannot_be_used_is_refused(client: Any) -> None:
    client.close()
    with pytest.raises(ValueError, match="cluster is a Client that is closed; connect a new one"):
        fitted(cluster=client)


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_SECONDS", 0.5)
    with pytest.raises(ConnectionError, match="cluster: no Dask scheduler answers at 'tcp://127"):
        fitted(cluster="tcp://127.0.0.1:9")
