"""How much of the memory that is free the CUDA backend takes at a time, on an emulated GPU.

With less than all needs it takes more steps, to the same result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
import test_backends as contract
from emulated_gpu import EmulatedGPU
from problems import iterate_plainly

import mfrank
from mfrank import backends
from mfrank.arrays import Grid
from mfrank.backends import CellTerm
from mfrank.backends.cuda import plan
from mfrank.backends.cuda import rows as exact


class Launched(NamedTuple):
    kernel: str
    grid: Grid
    args: tuple[Any, ...]


@pytest.fixture(scope="module")
def backend(device: EmulatedGPU) -> backends.Backend:
    return backends.choose("cuda")


@pytest.fixture
def launched(device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch) -> list[Launched]:
    """What is launched; no row needs another way than its own."""
    seen: list[Launched] = []
    launch = device.launch

    def noted(module: Any, kernel: str, grid: Grid, args: Any) -> None:
        seen.append(Launched(kernel, grid, args))
        launch(module, kernel, grid, args)

    monkeypatch.setattr(device, "launch", noted)
    monkeypatch.setattr(
        "mfrank.backends.cuda._solve_precisely", lambda *_: pytest.fail("rows are not solved")
    )
    monkeypatch.setattr(plan, "_plans", {})
    return seen


def half_step(n_factors: int, counts: list[int]) -> contract.HalfStep:
    """Rows of so many entries."""
    rng = np.random.default_rng(1)
    matrix = np.zeros((len(counts), 300))
    for row, count in zip(matrix, counts, strict=True):
        row[rng.permutation(300)[:count]] = rng.integers(1, 5, count)
    return contract.half_step(
        mfrank.WRMF(alpha=2.0), sp.csr_array(matrix), "users", n_factors, np.float32
    )


def without_curvature(step: contract.HalfStep) -> contract.HalfStep:
    problem = step.problem
    flat = replace(problem.observed, curvature=CellTerm(np.zeros(problem.rows.n_rows)))
    return contract.HalfStep(replace(problem, observed=flat), step.fixed, step.gram)


@pytest.mark.parametrize(
    ("room", "batches"), [(0.5, [1] * 7), (3.5, [3, 3, 1]), (7.0, [7]), (100.0, [7])]
)
def test_large_matrices_take_a_quarter(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    room: float,
    batches: list[int],
) -> None:
    """As many at a time as fit, and no more than there are rows; always one."""
    step, bytes_of_one = half_step(200, [250] * 7), 256 * 256 * 4
    monkeypatch.setattr(device, "free", int(4 * room * bytes_of_one))
    assert step.error(step.solve(backend)) <= backend.TOLERANCE["float32"]
    solving = [one for one in launched if one.kernel == "solve_primal"]
    assert [one.grid.blocks for one in solving] == batches
    assert {one.args[-4].nbytes for one in solving} == {batches[0] * bytes_of_one}


def test_matrices_of_192_rows_have_room_in_shared_memory(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
) -> None:
    """If the GPU has as much as they need, exactly."""
    step = half_step(192, [250])
    step.solve(backend)
    (shared,) = (one for one in launched if one.kernel == "solve_primal")
    assert shared.args[-4] is None
    for room, has_room in ((shared.grid.shared, True), (shared.grid.shared - 1, False)):
        launched.clear()
        monkeypatch.setattr(device, "shared_bytes", room)
        assert step.error(step.solve(backend)) <= backend.TOLERANCE["float32"]
        (one,) = (one for one in launched if one.kernel == "solve_primal")
        assert (one.args[-4] is None) is has_room


def test_parts_of_heavy_matrices_take_an_eighth(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
) -> None:
    """Rows are taken as long as there is room for a part of the next."""
    monkeypatch.setattr(plan, "HEAVY", 100)
    monkeypatch.setattr(exact, "HEAVY", 100)
    step, bytes_of_one = half_step(130, [250] * 7), 192 * 192 * 4
    monkeypatch.setattr(device, "free", int(8 * 7.5 * bytes_of_one))
    assert step.error(step.solve(backend)) <= backend.TOLERANCE["float32"]
    parts = [one.args[-1].shape for one in launched if one.kernel == "sum_part"]
    assert parts == [(n, 6, 64, 64) for n in (9, 6, 6)]  # a triangle of 3 x 3 tiles


def test_sums_of_iterated_rows_take_an_eighth(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
) -> None:
    monkeypatch.setattr(plan, "LONG", 20)
    monkeypatch.setattr(exact, "_PART", 9)
    step, bytes_of_one = half_step(200, [27] * 7), 2 * 200 * 4
    monkeypatch.setattr(device, "free", int(8 * 7.5 * bytes_of_one))
    step.solve(backend, solver="cg", cg_steps=2)
    summing = [one for one in launched if one.kernel == "sum_long"]
    # A beginning and two steps for each batch of rows.
    assert [len(one.args[-2]) for one in summing] == [9] * 3 + [6] * 6
    assert [one.args[-1] is None for one in summing] == [False, True, True] * 3


def test_sums_of_rows_without_curvature_take_an_eighth(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
) -> None:
    monkeypatch.setattr(plan, "LONG", 20)
    monkeypatch.setattr(exact, "_PART", 9)
    step, bytes_of_one = without_curvature(half_step(200, [27] * 7)), 200 * 4
    monkeypatch.setattr(device, "free", int(8 * 10.5 * bytes_of_one))
    assert step.error(step.solve(backend)) <= backend.TOLERANCE["float32"]
    sums = [len(one.args[-1]) for one in launched if one.kernel == "sum_pulls"]
    assert sums == [12, 9]
    monkeypatch.setattr(device, "free", 100)
    step.solve(backend)
    assert [len(one.args[-1]) for one in launched if one.kernel == "sum_pulls"][2:] == [3] * 7


@pytest.mark.parametrize("shared", [227 << 10, 40 << 10, 30 << 10, 20 << 10])
def test_as_many_factors_are_staged_as_leave_room_for_other_blocks(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    shared: int,
) -> None:
    """48 KiB of them at most; few threads for few, which have fewer sums (``spared``)."""
    monkeypatch.setattr(device, "shared_bytes", shared)
    for n_factors, line, spared in ((40, 44, 672), (100, 100, 832), (6, 12, 224)):
        step = half_step(n_factors, [60, 120, 250])
        step.solve(backend, solver="cg", cg_steps=2)
        iterating = [one for one in launched if one.kernel == "iterate"]
        launched.clear()
        assert len(iterating) == 3
        for one, size in zip(iterating, (256, 128, 64), strict=True):
            most, bytes_of_line = one.args[13], 4 * line
            assert most <= size
            assert most * bytes_of_line <= 48 << 10
            assert one.grid.threads == (128 if most * bytes_of_line <= 24 << 10 else 256)
            others = one.grid.shared - most * (bytes_of_line + 4)
            others += spared if one.grid.threads == 128 else 0
            assert (
                most == size
                or (most + 1) * bytes_of_line > 48 << 10
                or (most + 1) * bytes_of_line + 4 * size + others > shared
            )


def test_rows_iterate_as_long_as_an_exact_solution_would_take(
    backend: backends.Backend, launched: list[Launched]
) -> None:
    """To a tolerance, however few steps are asked for; without one, as many as are asked for."""
    step = half_step(100, [150] * 3)
    step.solve(backend, solver="cg", cg_steps=1, cg_tolerance=1e-3)
    kernels = {one.kernel for one in launched}
    assert "iterate" in kernels
    assert not kernels & {"solve_dual", "solve_primal"}
    got = step.solve(backend, solver="cg", cg_steps=1)
    wanted = iterate_plainly(step.problem, step.fixed, step.gram, step.start(), 1)
    np.testing.assert_allclose(got, wanted, atol=1e-4)
