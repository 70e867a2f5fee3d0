"""Ray's own: how it is named, and what is said of it; all else is in ``test_contract.py``."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from children import PATHS

import mfrank
from mfrank.backends.sharded import blocks

ray = pytest.importorskip("ray", reason="Ray is not installed")

DATA = mfrank.synthetic(300, 150, 4000, random_state=0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 1000)


def begin(init: Any = ray.init) -> None:
    init(
        num_cpus=2,
        object_store_memory=100 << 20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.CRITICAL,
    )


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(PATHS))
    begin()
    yield
    ray.shutdown()


def fitted(**where: Any) -> bytes:
    model = mfrank.ALS(mfrank.WRMF(), factors=8, iterations=2, random_state=0).fit(DATA, **where)
    return model.user_factors.tobytes() + model.item_factors.tobytes()


def test_by_its_name_it_is_the_cluster_that_this_process_is_connected_to(begun: None) -> None:
    assert fitted(cluster="ray") == fitted()
    assert ray.is_initialized()
    from mfrank.cluster.ray import Ray

    engine = Ray()
    with pytest.raises(RuntimeError, match="one task ended several of Ray's workers"):
        engine.gather([engine.submit(os._exit, 3)])


def test_a_cluster_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(address: str) -> None:
        assert address == "auto"
        raise ConnectionError("nobody")

    monkeypatch.setattr(ray, "init", nobody)
    with pytest.raises(ConnectionError, match=r"no Ray cluster \(nobody\)"):
        fitted(cluster="ray")


def test_what_was_connected_to_is_left_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(PATHS))
    with monkeypatch.context() as patch:
        init = ray.init
        patch.setattr(ray, "init", lambda address: begin(init))
        assert fitted(cluster="ray") == fitted()
    assert not ray.is_initialized()


def test_workers_without_mfrank_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    # mfrank may be installed for all programs here; this one stands before it.
    (tmp_path / "mfrank.py").write_text("raise ModuleNotFoundError(\"No module named 'mfrank'\")")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    begin()
    try:
        with pytest.raises(ModuleNotFoundError, match=r"cannot import mfrank \(.*No module .*\);"):
            fitted(cluster="ray")
    finally:
        ray.shutdown()
