"""How much of the memory that is free the CUDA backend takes at a time, on an emulated GPU.

With less than all needs it takes more steps, to the same result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import test_backends as contract
from emulated_gpu import DeviceArray, EmulatedGPU, Launched
from problems import OBJECTIVES, rows_of

import mfrank
from mfrank import backends
from mfrank.arrays import CSR
from mfrank.backends import CellTerm, Shared, SolveOptions, reference
from mfrank.backends.cuda import best_items, blocks, plan, resident
from mfrank.backends.cuda import rows as exact
from mfrank.data import Counts


def half_step(n_factors: int, counts: list[int], dtype: Any = np.float32) -> contract.HalfStep:
    objective = mfrank.WRMF(alpha=2.0)
    return contract.half_step(objective, rows_of(counts), "users", n_factors, dtype)


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


@pytest.mark.parametrize(("with_prior", "batches"), [(False, [4, 4, 4]), (True, [3, 3, 3, 3])])
def test_rows_of_a_block_take_a_quarter(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    with_prior: bool,
    batches: list[int],
) -> None:
    """Their starts, also turned, their solutions and what they are pulled to."""
    step, out = half_step(200, [1] * 12), np.empty((12, 200), np.float32)
    monkeypatch.setattr(device, "free", int(4 * 4.1 * 3 * 200 * 4))
    prior = np.zeros_like(out) if with_prior else None
    shared = Shared(np.ones(200), np.zeros(200))
    gain = backend.solve_rows(step.problem, step.fixed, shared, out, SolveOptions(), prior=prior)
    assert isinstance(gain, np.ndarray)
    assert [one.args[4] for one in launched if one.kernel == "load_cells"] == batches


@pytest.mark.parametrize(
    ("n_entries", "batches"), [(99, [3, 3, 3]), (90, [3, 3, 3]), (29, [1] * 9)]
)
def test_entries_of_a_block_take_a_quarter(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    n_entries: int,
    batches: list[int],
) -> None:
    """40 bytes each, in all that is made of them; a row with more is a block of its own."""
    step = half_step(2, [30] * 9)
    monkeypatch.setattr(device, "free", 4 * 40 * n_entries)
    assert step.error(step.solve(backend)) <= backend.TOLERANCE["float32"]
    cells = [one for one in launched if one.kernel == "load_cells"]
    assert [one.args[4] for one in cells] == batches
    assert {len(one.args[1]) for one in cells} == {30 * batches[0]}


def test_few_threads_are_for_24_kib_at_most(
    backend: backends.Backend, launched: list[Launched]
) -> None:
    for n_factors, threads in ((12, 128), (13, 256)):
        half_step(n_factors, [250], np.float64).solve(backend, solver="cg", cg_steps=2)
        (grid,) = (one.grid for one in launched if one.kernel == "iterate")
        launched.clear()
        assert grid.threads == threads


@pytest.mark.parametrize(
    ("dtype", "room", "n_streamed"),
    [(np.float32, 1.0, 0), (None, 1.0, 0), (np.float64, 6.0, 1), (np.float64, 0.0, 2)],
    ids=["all stay", "all stay without values", "values stream", "all stream"],
)
def test_blocks_are_small_only_if_something_streams(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    dtype: Any,
    room: float,
    n_streamed: int,
) -> None:
    """Columns that stay do not stream with the values: these have no room, at 8 bytes each."""
    counts, sizes = [30] * 9, list[int]()
    upload = device.upload
    monkeypatch.setattr(device, "upload", lambda a: (sizes.append(len(a)), upload(a))[1])
    monkeypatch.setattr(blocks, "_MOST_STREAMED", 60)
    if room != 1:
        monkeypatch.setattr(resident, "_MOST_OF_FREE", room * sum(counts) / device.free)
    rows = CSR.from_scipy(rows_of(counts), dtype)
    numbers = Counts(rows.counts, np.bincount(rows.indices, minlength=300))
    problem = mfrank.WRMF(alpha=2.0).user_problem(rows, numbers)
    fixed = np.random.default_rng(0).random((300, 4)).astype(dtype or np.float32)
    shared = Shared(np.ones(4), np.zeros(4))
    found, wanted = (np.zeros((9, 4), fixed.dtype) for _ in range(2))
    backend.solve_rows(problem, fixed, shared, found, SolveOptions())
    reference.solve_rows(problem, fixed, shared, wanted, SolveOptions())
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert sizes == [60] * n_streamed * 4 + [30] * n_streamed
    loads = [one for one in launched if one.kernel == "load_cells"]
    assert len(loads) == (5 if n_streamed else 1)


@pytest.mark.parametrize("side", ["users", "items"])
@pytest.mark.parametrize("name", ["rg2 sampled", "rg2", "eals"])
def test_rows_of_each_block_have_their_own_numbers(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    side: str,
) -> None:
    """Those of users, whether these are rows or columns."""
    matrix = rows_of([3, 9, 1, 0, 12, 5, 40, 2], 40)
    step = contract.half_step(OBJECTIVES[name], matrix, side, 5, np.float64)
    monkeypatch.setattr(device, "free", 1500)
    assert step.error(step.solve(backend)) <= backend.TOLERANCE["float64"]


@pytest.mark.parametrize(("short_of", "loads"), [(0, 1), (1, 2)])
def test_coefficients_stay_if_they_take_a_sixteenth(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    short_of: int,
    loads: int,
) -> None:
    """Of one long row here: those of many rows that are a single block take less."""
    step = half_step(5, [250])
    monkeypatch.setattr(device, "free", 16 * 250 * 4 - short_of)
    for _ in range(2):
        assert step.error(step.solve(backend)) <= backend.TOLERANCE["float32"]
    assert [one.kernel for one in launched].count("load_cells") == loads


def test_solutions_are_written_where_they_belong(
    backend: backends.Backend, device: EmulatedGPU, launched: list[Launched]
) -> None:
    """On the device, where the rows' table is there: a fit takes no more than it."""
    step, shared = half_step(40, [50, 90, 20]), Shared(np.ones(40), np.zeros(40))
    out = device.asarray(step.start())
    fixed = device.asarray(step.fixed)
    gain = backend.solve_rows(step.problem, fixed, shared, out, SolveOptions())
    assert isinstance(gain, DeviceArray)
    solving = [one for one in launched if one.kernel.startswith("solve_")]
    assert solving
    assert all(np.shares_memory(one.args[-3].on_host, out.on_host) for one in solving)


@pytest.mark.parametrize(
    ("n_queries", "numbers", "parts"),
    [
        (90, 10**6, [(90, 200)]),
        (90, 90 * 200, [(90, 200)]),
        (90, 90 * 200 - 1, [(89, 200), (1, 200)]),
        (90, 64 * 93 + 5, [(64, 93), (64, 93), (64, 14), (26, 93), (26, 93), (26, 14)]),
        (60, 50 * 25, [(50, 25)] * 8 + [(10, 25)] * 8),
        (3, 10, [(1, 25)] * 3 * 8),
    ],
    ids=["all", "exactly", "one too many", "chunks", "few", "none"],
)
def test_scores_take_an_eighth(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    n_queries: int,
    numbers: int,
    parts: list[tuple[int, int]],
) -> None:
    """Of all items for 64 queries at least, else of some items, but of as many as a list has."""
    rng = np.random.default_rng(4)
    queries, items = (rng.standard_normal((n, 3)).astype(np.float32) for n in (n_queries, 200))
    monkeypatch.setattr(device, "free", 8 * 4 * numbers + 4)
    found, truth = backend.top_k(queries, items, 25), reference.top_k(queries, items, 25)
    np.testing.assert_array_equal(found[0], truth[0])
    scored = [one.args for one in launched if one.kernel == "score_tiles"]
    assert [(n_asking, n) for _, n_asking, _, n, *_ in scored] == parts


@pytest.mark.parametrize(("n_queries", "tile"), [(32, 32), (33, 64)])
def test_few_queries_are_scored_in_small_tiles(
    backend: backends.Backend, launched: list[Launched], n_queries: int, tile: int
) -> None:
    rng = np.random.default_rng(5)
    queries, items = (rng.standard_normal((n, 3)).astype(np.float32) for n in (n_queries, 65))
    backend.top_k(queries, items, 2)
    (grid,) = (one.grid for one in launched if one.kernel == "score_tiles")
    assert grid.blocks == (-(-65 // tile), 1)
    assert grid.threads == (tile // 4) ** 2


def test_no_more_queries_are_scored_at_a_time_than_a_grid_has_blocks(
    backend: backends.Backend, monkeypatch: pytest.MonkeyPatch, launched: list[Launched]
) -> None:
    assert 1 <= best_items.MOST_QUERIES < 2**16
    monkeypatch.setattr(best_items, "MOST_QUERIES", 40)
    queries = np.ones((90, 3), np.float32)
    backend.top_k(queries, np.ones((5, 3), np.float32), 2)
    assert [one.args[1] for one in launched if one.kernel == "score_tiles"] == [40, 40, 10]


LEAST = {"free": 1 << 30, "n_queries": 128, "shape": (2048, 10), "k": 192}


@pytest.mark.parametrize(
    ("change", "is_worthwhile"),
    [
        ({}, True),
        ({"n_queries": 127}, False),
        ({"shape": (2047, 10)}, False),
        ({"k": 193}, False),
        ({"free": 8 * 2 * 2048 * 128}, True),  # scores of 128 queries, in float16
        ({"free": 8 * 2 * 2048 * 128 - 8}, False),
        ({"free": 8 * 2 * 2048 * 140, "shape": (2048, 70)}, True),  # sketches, and as much again
        ({"free": 8 * 2 * 2048 * 140 - 8, "shape": (2048, 70)}, False),
    ],
    ids=str,
)
def test_sketches_are_for_many_queries_of_many_items(
    change: dict[str, Any], is_worthwhile: bool
) -> None:
    """And of lists that are not too long, where an eighth of what is free has room for them."""
    assert best_items.is_worthwhile(**LEAST | change) is is_worthwhile
