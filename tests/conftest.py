"""Fixtures that several test files share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import emulated_gpu
import numpy as np
import pytest
from emulated_gpu import DeviceArray, EmulatedGPU, Launched
from hypothesis import settings
from numpy.typing import NDArray

from mfrank.arrays import Grid

# No test is timed: a busy machine must not fail one.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")


def pytest_report_header() -> str:
    """How long all of it takes, so that nobody waits without knowing."""
    return "mfrank: all tests take about ten minutes in two processes; a skip says why"


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """One thread for what tests compute with BLAS: its threads spin while others need the core.

    The package limits its own calls, and tests of just that set what they need; children of this
    process have the usual number.
    """
    if find_spec("threadpoolctl") is None:
        yield
        return
    import scipy.linalg  # noqa: F401 (its BLAS is its own, and must be there to be limited)
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_disks() -> Iterator[None]:
    """Nothing is forced onto the disk: killed processes lose nothing, and no machine is turned off.

    ``files/test_durable.py`` says what would be forced, and when.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets, or skip: MFRANK_DATA, or ../shared/data beside the project."""
    folder = Path(os.environ.get("MFRANK_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not there (set MFRANK_DATA to its folder)")
    return folder


@pytest.fixture(scope="module")
def device() -> Iterator[EmulatedGPU]:
    """An emulated GPU, the only one there is while the module's tests run."""
    if reason := emulated_gpu.why_unavailable():
        pytest.skip(reason)
    with emulated_gpu.installed() as emulated:
        yield emulated


@pytest.fixture
def launched(device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch) -> list[Launched]:
    """What is launched on the emulated GPU, where no row needs another way than its own."""
    seen: list[Launched] = []
    launch = device.launch

    def noted(module: Any, kernel: str, grid: Grid, args: Any) -> None:
        seen.append(Launched(kernel, grid, args, module.tile))
        launch(module, kernel, grid, args)

    def not_solved(*_: Any) -> None:
        pytest.fail("rows are not solved in their dtype")

    monkeypatch.setattr(device, "launch", noted)
    monkeypatch.setattr("mfrank.backends.cuda._solve_precisely", not_solved)
    monkeypatch.setattr("mfrank.backends.cuda.plan._plans", {})
    return seen


@pytest.fixture
def went(device: EmulatedGPU) -> list[int]:
    """Numbers in each array that went from the host to the emulated GPU."""
    DeviceArray.went.clear()
    return DeviceArray.went


@pytest.fixture
def came(device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers in each array that came from the emulated GPU to the host."""
    sizes: list[int] = []

    def seen(array: DeviceArray) -> NDArray[Any]:
        sizes.append(array.on_host.size)
        return np.array(array.on_host)

    monkeypatch.setattr(DeviceArray, "get", seen)
    monkeypatch.setattr(device, "asnumpy", seen)
    return sizes
