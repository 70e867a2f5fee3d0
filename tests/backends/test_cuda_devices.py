"""Several GPUs share the rows of a half-step, emulated ones here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_backends as contract
from emulated_gpu import EmulatedGPU
from problems import rows_of, toy
from test_cuda import solved

import mfrank
from mfrank import backends
from mfrank.arrays import CSR
from mfrank.arrays import device as gpu
from mfrank.backends import Shared, SolveOptions, reference
from mfrank.backends.cuda import half_step as workers


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_two_devices_share_the_rows(
    backend: backends.Backend, device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch, solver: str
) -> None:
    wanted = solved(backend, 20, solver=solver)
    launched: list[EmulatedGPU] = []

    class Second(EmulatedGPU):
        def launch(self, *args: Any) -> None:
            launched.append(self)
            super().launch(*args)

    both = device, Second()
    monkeypatch.setattr(gpu, "devices", lambda: both)
    monkeypatch.setattr(workers, "WORTH_A_DEVICE", 1)
    assert solved(backend, 20, solver=solver) == wanted
    assert launched
    matrix = toy(8, 20)
    step = contract.half_step(mfrank.IALS(), matrix, "users", 6, "float32")
    there, out = device.asarray(step.fixed), device.asarray(step.start())
    shared = Shared(np.ones(6), np.zeros(6))
    options = SolveOptions(solver, cg_steps=50, cg_tolerance=1e-6)
    gain = backend.solve_rows(step.problem, there, shared, out, options)
    truth = step.start()
    again = reference.solve_rows(step.problem, step.fixed, shared, truth, options)
    np.testing.assert_allclose(out.get(), truth, atol=1e-4)
    np.testing.assert_allclose(gain, again, rtol=1e-4)


@pytest.mark.parametrize(("n_times", "n_devices"), [(0.9, 1), (1, 1), (2, 2), (3, 3), (9, 3)])
def test_a_device_more_is_taken_where_there_is_work_for_it(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    n_times: float,
    n_devices: int,
) -> None:
    """Others read what the first has computed, and it goes on with what they have."""
    events: list[tuple[str, EmulatedGPU]] = []

    class Noting(EmulatedGPU):
        def launch(self, *args: Any) -> None:
            events.append(("launch", self))
            super().launch(*args)

        def synchronize(self) -> None:
            events.append(("wait", self))

    devices = Noting(), Noting(), Noting()
    monkeypatch.setattr(gpu, "devices", lambda: devices)
    monkeypatch.setattr(gpu, "device", lambda: devices[0])
    matrix = toy(30, 20)
    step = contract.half_step(mfrank.IALS(), matrix, "users", 6, "float32")
    monkeypatch.setattr(workers, "WORTH_A_DEVICE", int(matrix.nnz * 6 / n_times))
    options, out = SolveOptions("cholesky"), step.start()
    backend.solve_rows(step.problem, step.fixed, Shared(np.ones(6), np.zeros(6)), out, options)
    assert {each for what, each in events if what == "launch"} == {*devices[:n_devices]}
    waits = [at for at, event in enumerate(events) if event == ("wait", devices[0])]
    assert waits == ([] if n_devices == 1 else [0, len(events) - 1])


@pytest.mark.parametrize("n_devices", [1, 3])
@pytest.mark.parametrize("room", [1 << 28, 4000])
def test_each_row_is_pulled_to_its_own_prior(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
    n_devices: int,
) -> None:
    """Whichever block of whichever device has it."""
    devices = [device, EmulatedGPU(free=room), EmulatedGPU(free=room)][:n_devices]
    monkeypatch.setattr(device, "free", room)
    monkeypatch.setattr(gpu, "devices", lambda: devices)
    monkeypatch.setattr(workers, "WORTH_A_DEVICE", 1)
    step = contract.half_step(mfrank.IALS(), toy(30, 20), "users", 6, "float32")
    shared, prior = Shared(np.ones(6), np.zeros(6)), 9 * step.start()
    for solver in ("cholesky", "cg"):
        options = SolveOptions(solver, cg_steps=30)
        found, wanted = step.start(), step.start()
        gains = [
            which.solve_rows(step.problem, step.fixed, shared, out, options, prior=prior)
            for which, out in ((backend, found), (reference, wanted))
        ]
        np.testing.assert_allclose(found, wanted, atol=1e-4)
        np.testing.assert_allclose(*gains, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "counts",
    [[3, 0, 1, 2] * 20, [0] * 100 + [10] * 10, [1] * 30 + [200], [200] + [1] * 30],
    ids=["mixed", "empty first", "long last", "long first"],
)
def test_shares_are_all_rows_and_about_equal(counts: list[int]) -> None:
    """A row costs one more than its entries."""
    rows = CSR.from_scipy(rows_of(counts), None)
    shares = workers._shares(rows, 4)
    assert len(shares) == 4
    assert [r for share in shares for r in range(share.start, share.stop)] == list(
        range(rows.n_rows)
    )
    costs = [int((rows.counts[share] + 1).sum()) for share in shares]
    fair, most = sum(costs) / 4, max(counts) + 1
    assert all(abs(cost - fair) <= most for cost in costs)
