"""The CUDA backend without a GPU: its contract on an emulated one, and what is its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import emulated_gpu
import numpy as np
import pytest
import scipy.sparse as sp
import test_backends as contract
import test_top_k as lists_contract
from emulated_gpu import DeviceArray, EmulatedGPU, Launched
from problems import OBJECTIVES, toy
from sparse_on_gpu import SparseOnGPU, known_as_cupys

import mfrank
from mfrank import backends
from mfrank.als import Eigenbasis
from mfrank.arrays import CSR, Grid
from mfrank.arrays import device as gpu
from mfrank.backends import CellTerm, Shared, SolveOptions, reference
from mfrank.backends.cuda import blocks, plan
from mfrank.backends.cuda import rows as exact
from mfrank.backends.cuda.kernel_sources import Module
from mfrank.backends.cuda.resident import resident_on
from mfrank.backends.cuda.system import Fixed, System
from mfrank.data import Counts, Ids
from mfrank.retrieval import Candidates, recommend
from mfrank.store import Step
from mfrank.testing import random_lists
from tests.support.errors import refuses

if reason := emulated_gpu.why_unavailable():
    pytest.skip(reason, allow_module_level=True)

WHY_UNAVAILABLE = gpu.why_unavailable

# Tests that hold of every backend, with this module's `backend`.
_CONTRACTS = {
    contract: [
        "test_every_objective",
        "test_every_shape",
        "test_conjugate_gradients_converge",
        "test_conjugate_gradients_take_the_steps_they_are_given",
        "test_as_many_steps_as_factors_and_one_are_exact",
        "test_steps_beyond_rounding_lead_nowhere",
        "test_huge_confidences",
        "test_rank_deficient_without_ridge",
        "test_no_background_no_ridge",
        "test_centred_gram",
        "test_entries_without_curvature_among_others",
        "test_scores_and_sums_of_lists",
        "test_draws_are_the_same_on_every_backend",
    ],
    lists_contract: [
        "test_equals_a_full_sort_ties_included",
    ],
}
globals().update(
    {name: getattr(tests, name) for tests, names in _CONTRACTS.items() for name in names}
)


def solved(
    backend: Any, n_factors: int, dtype: str = "float32", **options: Any
) -> tuple[float, bytes]:
    """Error and bits of rows from empty to full, some of negative curvature."""
    rng = np.random.default_rng(3)
    density = np.array([0.0, 0.02, 0.1, 0.3, 0.6, 1.0])[:, None]
    matrix = sp.csr_array(np.ceil(5 * rng.random((6, 150))) * (rng.random((6, 150)) < density))
    matrix = contract.with_dislikes(OBJECTIVES["wrmf below one"], matrix)
    step = contract.half_step(OBJECTIVES["wrmf below one"], matrix, "users", n_factors, dtype)
    got = step.solve(backend, **options)
    return step.error(got), got.tobytes()


@pytest.mark.parametrize("n_factors", [20, 70, 130])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_the_order_of_threads_changes_no_bit(
    backend: backends.Backend, device: EmulatedGPU, n_factors: int, solver: str
) -> None:
    """A barrier that is missing would show."""
    results = []
    for device.reversed in (False, True):
        results.append(solved(backend, n_factors, solver=solver, cg_steps=5)[1])
    device.reversed = False
    assert results[0] == results[1]


def test_the_order_of_threads_changes_no_list(
    backend: backends.Backend, device: EmulatedGPU
) -> None:
    rng = np.random.default_rng(0)
    queries, items = (rng.standard_normal((n, 20)).astype(np.float32) for n in (70, 300))
    rows = random_lists(rng, 70, 300, 0.1)
    users, ids = np.arange(70), rng.integers(0, 300, (70, 9))
    results = []
    for device.reversed in (False, True):
        found = [
            *backend.top_k(queries, items, 12, exclude=[rows]),
            *backend.sum_queries(queries, 300, ids, queries[:, :9]),
            backend.sum_items(items, ids, queries[:, :9]),
            backend.draw_positives(rows, users, 5, 11),
            *backend.draw_negatives(rows, users, 5, 12),
        ]
        results.append([array.tobytes() for array in found])
    device.reversed = False
    assert results[0] == results[1]


@pytest.mark.parametrize("most", [None, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("room", [1 << 28, 20_000])
def test_heavy_rows_are_summed_in_parts(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
    dtype: str,
    most: int | None,
) -> None:
    """Also in several blocks of rows, where there is little room."""
    monkeypatch.setattr(device, "free", room)
    monkeypatch.setattr(plan, "HEAVY", 40)
    monkeypatch.setattr(exact, "HEAVY", 40)
    if most:  # matrix in memory at a time, of however many rows
        batches = exact._batches
        monkeypatch.setattr(exact, "_IN_SHARED", 0)
        monkeypatch.setattr(exact, "_batches", lambda *of: _one_by_one(batches(*of)))
    assert solved(backend, 33, dtype)[0] <= backend.TOLERANCE[dtype]


@pytest.mark.parametrize("options", [{"cg_steps": 3}, {"cg_tolerance": 1e-9}])
@pytest.mark.parametrize("n_factors", [1, 33, 300])
@pytest.mark.parametrize("room", [1 << 28, 60_000])
def test_long_rows_iterate_as_they_do_in_one_piece(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
    n_factors: int,
    options: dict[str, Any],
) -> None:
    """Their sums in parts, of as many rows at a time as there is room for, and in one."""
    rng, dtype = np.random.default_rng(4), "float64"
    matrix = sp.random_array((9, 150), density=0.4, random_state=rng, format="csr")
    step = contract.half_step(mfrank.WRMF(alpha=9.0), matrix, "users", n_factors, dtype)
    whole = step.solve(backend, solver="cg", **options)
    launched: list[str] = []
    launch = device.launch
    monkeypatch.setattr(
        device, "launch", lambda m, name, *rest: (launched.append(name), launch(m, name, *rest))[1]
    )
    monkeypatch.setattr(device, "free", room)
    monkeypatch.setattr(plan, "_plans", {})  # to be made anew
    monkeypatch.setattr(plan, "LONG", 20)
    monkeypatch.setattr("mfrank.backends.cuda.rows._PART", 7)
    parts = step.solve(backend, solver="cg", **options)
    assert {"sum_long", "step_long"} <= set(launched)
    np.testing.assert_allclose(parts, whole, rtol=1e-7, atol=1e-9 * np.abs(whole).max())


def test_long_rows_without_curvature_are_summed_in_parts(
    backend: backends.Backend, device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[str] = []
    launch = device.launch
    monkeypatch.setattr(
        device, "launch", lambda m, name, *rest: (launched.append(name), launch(m, name, *rest))[1]
    )
    monkeypatch.setattr(plan, "LONG", 20)
    monkeypatch.setattr("mfrank.backends.cuda.rows._PART", 7)
    matrix = sp.random_array(
        (9, 150), density=0.4, random_state=np.random.default_rng(4), format="csr"
    )
    step = contract.half_step(mfrank.WRMF(alpha=9.0), matrix, "users", 33, "float64")
    flat = replace(step.problem.observed, curvature=CellTerm(np.zeros(9)))
    step = contract.HalfStep(replace(step.problem, observed=flat), step.fixed, step.gram)
    assert step.error(step.solve(backend)) <= backend.TOLERANCE["float64"]
    assert "add_sums" in launched


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_factors", [32, 33, 64, 130, 300])
def test_short_rows_are_exact(
    backend: backends.Backend, device: EmulatedGPU, n_factors: int, dtype: str
) -> None:
    """Of every number of entries that a warp solves, and one more, with any start of a table."""
    rng = np.random.default_rng(5)
    dense = np.zeros((34, 150))
    for n in range(34):
        dense[n, rng.permutation(150)[:n]] = rng.integers(1, 5, n)
    for objective in (mfrank.WRMF(alpha=9.0), OBJECTIVES["rgx"]):
        step = contract.half_step(objective, sp.csr_array(dense), "users", n_factors, dtype)
        assert step.error(step.solve(backend)) <= backend.TOLERANCE[dtype]


def _one_by_one(batches: Any) -> Iterator[Any]:
    for some, workspace, grid in batches:
        for row in range(some.start, some.stop):
            yield slice(row, row + 1), workspace, grid._replace(blocks=1)


@pytest.mark.parametrize("size", ["room for few rows", "room for few matrices"])
def test_little_memory(
    backend: backends.Backend, device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    """Rows come in blocks, which are streamed, and matrices of few rows lie in global memory."""
    if size == "room for few rows":
        monkeypatch.setattr(device, "free", 1000)
    else:
        monkeypatch.setattr(device, "shared_bytes", 30 << 10)
        monkeypatch.setattr(device, "free", 200_000)
    assert solved(backend, 70)[0] <= backend.TOLERANCE["float32"]


def test_the_next_block_comes_while_this_one_is_solved(
    backend: backends.Backend, device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    upload, launch = device.upload, device.launch
    monkeypatch.setattr(device, "free", 1000)
    monkeypatch.setattr(device, "upload", lambda a: (events.append("upload"), upload(a))[1])
    monkeypatch.setattr(
        device, "launch", lambda m, name, *rest: (events.append(name), launch(m, name, *rest))[1]
    )
    solved(backend, 20)
    first = events.index("load_cells")
    assert events[: first + 1] == ["upload"] * 4 + ["load_cells"]  # columns and values of two
    assert events[first + 1 :].count("upload") > 2


def test_interactions_stay_only_beside_room_for_two_more_tables(
    device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit solves into a new one while a caller has the old, in memory that lies in pieces."""
    matrix = sp.random_array(
        (50, 40), density=0.3, random_state=np.random.default_rng(0), format="csr"
    )
    size, kept = 4 * matrix.nnz, resident_on(device)
    monkeypatch.setattr(device, "free", 4 * size)
    assert kept.rows(CSR.from_scipy(matrix, None)).indices is not None
    table = device.xp.empty(5 * size // 16, np.float32)  # 5/4 of the size
    kept.of_factors(table)
    assert kept.rows(CSR.from_scipy(matrix.copy(), None)).indices is None
    del table
    assert kept.rows(CSR.from_scipy(matrix.copy(), None)).indices is not None


def test_blocks_that_stream_are_small_however_much_is_free(
    backend: backends.Backend, device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their entries pass through pinned memory of the host."""
    sizes: list[int] = []
    upload = device.upload
    monkeypatch.setattr(device, "upload", lambda a: (sizes.append(len(a)), upload(a))[1])
    wanted = solved(backend, 20)
    assert sizes == []  # all stays on the device
    monkeypatch.setattr("mfrank.backends.cuda.resident._MOST_OF_FREE", 0)
    assert solved(backend, 20) == wanted
    assert len(sizes) == 2  # columns and values of one block
    sizes.clear()
    monkeypatch.setattr(blocks, "_MOST_STREAMED", 200)
    assert solved(backend, 20) == wanted
    assert len(sizes) > 2
    assert max(sizes) <= 200


@pytest.mark.parametrize(("confidence", "wide"), [(1.0, False), (1e6, True)])
def test_rows_that_float32_cannot_tell_are_solved_in_float64(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    confidence: float,
    wide: bool,
) -> None:
    launched: list[str] = []
    launch = device.launch
    monkeypatch.setattr(
        device, "launch", lambda m, *rest: (launched.append(m.real), launch(m, *rest))[1]
    )
    matrix = sp.csr_array((np.random.default_rng(6).random((12, 30)) < 0.6).astype(np.float64))
    for n_factors in (24, 8):  # dual and primal
        launched.clear()
        objective = mfrank.WRMF(alpha=confidence, regularization=1.0, confidence="1+alpha*r")
        contract.half_step(objective, matrix, "users", n_factors, "float32").solve(backend)
        assert ("double" in launched) is wide


def test_zeros_of_both_signs_tie(device: EmulatedGPU) -> None:
    """Products that underflow below 0 are -0."""
    scores = device.asarray(np.array([[-0.0, 0.0, -0.0, 1.0]], np.float32))
    places, best = device.xp.empty((1, 2), np.int32), device.xp.empty((1, 2), np.float32)
    args = scores, 4, 2, places, best
    device.launch(Module.of("best", np.float32), "select_best", Grid(1, 256, 1100), args)
    assert places.get().tolist() == [[0, 3]]


@pytest.mark.parametrize("excluded", [0.3, 0.95])
def test_top_k_in_chunks(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    excluded: float,
) -> None:
    """Also where fewer items than a list has places are left, or filters have no room to stay."""
    rng = np.random.default_rng(4)
    queries = rng.integers(-2, 3, (90, 7)).astype(np.float32)
    items = rng.integers(-2, 3, (200, 7)).astype(np.float32)
    filters: dict[str, Any] = {
        "exclude": [random_lists(rng, 90, 200, excluded)],
        "exclude_all": np.arange(0, 200, 7, dtype=np.int32),
    }
    whole, truth = (which.top_k(queries, items, 25, **filters) for which in (backend, reference))
    monkeypatch.setattr(device, "free", 4 * 8 * 64 * 50)
    parts = backend.top_k(queries, items, 25, **filters)
    monkeypatch.setattr("mfrank.backends.cuda.resident._MOST_OF_FREE", 0)
    filters = {"exclude": [random_lists(np.random.default_rng(5), 90, 200, excluded)]}
    sent = backend.top_k(queries, items, 25, **filters)
    without_room = reference.top_k(queries, items, 25, **filters)
    for found, wanted in ((whole, truth), (parts, truth), (sent, without_room)):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [3, 70])
def test_a_start_is_turned_to_the_same_bits_in_any_company(
    device: EmulatedGPU, k: int, dtype: type
) -> None:
    rng = np.random.default_rng(0)
    start, turn = rng.standard_normal((150, k)).astype(dtype), rng.standard_normal((k, k))
    there, fixed = device.asarray(start), Fixed.of(device.xp.ones((2, k), dtype))
    system = System.of(device, fixed, Shared(np.ones(k), np.ones(k)))
    turn = device.asarray(turn, dtype)
    every = np.arange(150, dtype=np.int32)
    whole = system.starts(there, 0, every, turn).get()
    np.testing.assert_allclose(whole, start @ turn.get(), rtol=1e-4, atol=1e-5)
    for rows in (every[:1], every[60:70], every[::-7]):
        for side in (there, start):
            np.testing.assert_array_equal(system.starts(side, 0, rows, turn).get(), whole[rows])


@pytest.mark.parametrize(("n_factors", "dtype"), [(1500, "float32"), (2048, "float64")])
def test_many_factors(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    n_factors: int,
    dtype: str,
) -> None:
    """Matrices of both kinds in global memory; the rest has room in the shared one of an A100."""
    monkeypatch.setattr(device, "shared_bytes", 163 << 10)
    rng = np.random.default_rng(4)
    matrix = sp.csr_array((rng.random((2, 300)) < [[0.02], [0.7]]).astype(np.float64))
    step = contract.half_step(mfrank.IALS(), matrix, "users", n_factors, dtype)
    for solver in ("cholesky", "cg"):
        got, problem = step.solve(backend, solver=solver, cg_steps=200), step.problem
        for r in range(2):
            seen = step.fixed[problem.rows.row(r)[0]].astype(np.float64)
            left = problem.weight[r] * step.gram.matrix @ got[r] + problem.ridge[r] * got[r]
            residual = left + seen.T @ (seen @ got[r]) - seen.sum(axis=0)
            bound = 1e-4 if solver == "cholesky" else 1e-2
            assert np.linalg.norm(residual) <= bound * np.linalg.norm(seen.sum(axis=0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_factors", [129, 250, 300, 601, 1024])
def test_products_in_registers_are_those_of_staged_factors(
    backend: backends.Backend,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    n_factors: int,
    dtype: str,
) -> None:
    """Of rows with fewer entries than a block has warps, with more, and of long ones, in parts."""
    monkeypatch.setattr("mfrank.backends.cuda.plan.LONG", 100)
    rng = np.random.default_rng(6)
    matrix = sp.csr_array((rng.random((6, 160)) < np.linspace(0.01, 1, 6)[:, None]).astype(float))
    step = contract.half_step(mfrank.IALS(), matrix, "users", n_factors, dtype)
    found = step.solve(backend, solver="cg", cg_steps=3)
    assert {one.tile for one in launched if one.kernel in ("iterate", "sum_long")} <= {2, 4, 8}
    monkeypatch.setattr("mfrank.backends.cuda.rows.QUADS", ())
    launched.clear()
    truth = step.solve(backend, solver="cg", cg_steps=3)
    assert {one.tile for one in launched if one.kernel in ("iterate", "sum_long")} == {0}
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-4 * np.abs(truth).max())


@pytest.mark.parametrize("name", ["rg2", "rgx", "rgx pure", "wrmf", "eals"])
def test_a_fit_is_the_one_of_the_cpu(device: EmulatedGPU, name: str) -> None:
    """Factors stay on the device for all of it: it refuses to mix with what is on the host."""
    data = mfrank.Interactions.from_sparse(toy(40, 30, 0.3))
    models = [
        mfrank.ALS(
            OBJECTIVES[name],
            factors=5,
            iterations=3,
            random_state=0,
            dtype="float64",
            backend=backend,
            track_objective=True,
        ).fit(data)
        for backend in ("auto", "cuda")
    ]
    for cpu, cuda in zip(*(model.store.history for model in models), strict=True):
        assert cuda["objective"] == pytest.approx(cpu["objective"], rel=1e-6)
    a, b = (model.user_factors @ model.item_factors.T for model in models)
    np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(a).max())
    ids, again = (model.recommend([0, 1, 2], N=5)[0] for model in models)
    np.testing.assert_array_equal(ids, again)
    folded = models[1].recalculate_user([0, 1], data)
    np.testing.assert_allclose(folded, models[1].user_factors[:2], atol=1e-6)


def test_factors_come_to_the_host_when_they_are_looked_at(device: EmulatedGPU) -> None:
    data = mfrank.Interactions.from_sparse(toy())
    model = mfrank.ALS(factors=3, iterations=2, random_state=0, backend="cuda").fit(data)
    held = model.placed.user_factors
    assert isinstance(held, DeviceArray)
    np.testing.assert_array_equal(model.user_factors, held.get())


def test_a_fit_that_diverges_says_so(device: EmulatedGPU) -> None:
    data = mfrank.Interactions.from_sparse(toy())
    model = mfrank.ALS(factors=3, iterations=1, backend="cuda").fit(data)
    whole, lost = device.xp.ones((9, 3)), device.xp.full((7, 3), np.nan)
    with refuses(ValueError, "item_factors", remedy="diverged"):
        model._take(model._stored(data, Step(2, 0.0, None, whole, lost), []), data)
    assert np.isfinite(model.item_factors).all()  # those of the epoch before


def test_arrays_of_the_device_are_answered_there(
    backend: backends.Backend, device: EmulatedGPU
) -> None:
    rng = np.random.default_rng(5)
    queries, items = (rng.standard_normal((n, 6)).astype(np.float32) for n in (8, 20))
    there = device.asarray(queries), device.asarray(items)
    ids, _ = backend.top_k(*there, 4)
    assert isinstance(ids, DeviceArray)
    np.testing.assert_array_equal(ids.get(), reference.top_k(queries, items, 4)[0])
    places = rng.integers(0, 20, (8, 3))
    found = backend.score(*there, device.asarray(places))
    np.testing.assert_allclose(found.get(), reference.score(queries, items, places), rtol=1e-5)
    step = contract.half_step(mfrank.IALS(), toy(8, 20), "users", 6, "float32")
    at, turned = Eigenbasis.of(step.gram), np.empty_like(step.fixed)
    at.turn(reference, step.fixed, turned)
    host, out = np.empty((8, 6), np.float32), device.asarray(np.full((8, 6), np.nan, np.float32))
    options = SolveOptions("cholesky")
    backend.solve_rows(step.problem, device.asarray(turned), at.shared, out, options)
    reference.solve_rows(step.problem, turned, at.shared, host, options)
    np.testing.assert_allclose(out.get(), host, atol=1e-5)


def test_recommend_takes_factors_on_the_device(
    backend: backends.Backend, device: EmulatedGPU
) -> None:
    rng = np.random.default_rng(6)
    users, items = (rng.standard_normal((n, 6)).astype(np.float32) for n in (8, 20))
    candidates = Candidates(exclude_all=np.arange(0, 20, 3, dtype=np.int32))
    there = device.asarray(users), device.asarray(items)
    ids, scores = recommend(*there, n=4, candidates=candidates, backend=backend)
    wanted = recommend(users, items, n=4, candidates=candidates)
    np.testing.assert_array_equal(ids.get(), wanted[0])
    np.testing.assert_allclose(scores.get(), wanted[1], rtol=1e-5)
    store = mfrank.FactorStore(
        *there,
        Ids.numbered(8),
        Ids.numbered(20),
        counts=Counts(np.zeros(8, int), np.zeros(20, int)),
    )
    np.testing.assert_array_equal(store.on_host().item_factors, items)


def test_sparse_matrices_of_cupy_are_data() -> None:
    with known_as_cupys():
        for make in (mfrank.Interactions.of, mfrank.Interactions.from_sparse):
            for given in (toy(), toy().tocsc()):
                assert (make(SparseOnGPU(given)).user_items != toy()).nnz == 0


def test_rows_are_put_on_the_device_once(
    backend: backends.Backend, device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, users = CSR.from_scipy(toy(), None), np.arange(9)
    backend.draw_negatives(rows, users, 2, 0)
    problem = mfrank.IALS().user_problem(rows, Counts(rows.counts, np.ones(7, np.int64)))
    fixed, out = np.ones((7, 3), np.float32), np.empty((9, 3), np.float32)
    step = problem, fixed, Shared(np.ones(3), np.ones(3)), out, SolveOptions()
    backend.solve_rows(*step)
    put: list[int] = []
    asarray = device.asarray
    monkeypatch.setattr(
        device, "asarray", lambda a, *rest: (put.append(id(a)), asarray(a, *rest))[1]
    )
    backend.draw_negatives(rows, users, 2, 0)
    backend.solve_rows(*step)
    kept = rows.indptr, rows.indices, problem.rows.indices, problem.weight, problem.ridge
    assert not {id(array) for array in kept} & set(put)
    resident = resident_on(device)
    assert resident.rows(rows).indices is resident.rows(problem.rows).indices
    assert id(fixed) in put  # may have changed


def test_a_row_larger_than_a_block_of_memory(device: EmulatedGPU) -> None:
    """No block is empty, and together they are the rows in their order."""
    rows = CSR.from_scipy(toy(9, 7, 0.8), None)
    cut = list(blocks._cut(rows, slice(0, 9), 3, 2))
    assert [r for part in cut for r in range(part.start, part.stop)] == list(range(9))
    assert all(part.stop - part.start <= 2 for part in cut)


def test_the_emulation_finds_what_is_wrong(device: EmulatedGPU) -> None:
    """Barriers that some threads pass by, and writes beyond an array, do not go unseen."""
    scores = device.asarray(np.zeros((1, 4), np.float32))
    places = device.xp.empty((1, 2), np.int32)
    best = device.xp.empty((1, 2), np.float32)
    module, grid = Module.of("best", np.float32), Grid(1, 256, 1100)
    with pytest.raises(RuntimeError, match="behind its argument"):
        device.launch(module, "select_best", grid, (scores, 4, 3, places, best))
    with pytest.raises(RuntimeError, match="beyond its shared memory"):
        device.launch(module, "select_best", Grid(1, 256, 1000), (scores, 4, 2, places, best))
    with pytest.raises(RuntimeError, match="bad grid"):  # more threads than its launch bounds
        device.launch(module, "select_best", Grid(1, 512, 1100), (scores, 4, 2, places, best))
    with pytest.raises(AssertionError, match="no device array"):
        device.launch(module, "select_best", grid, (np.zeros(4), 4, 2, places, best))
    with pytest.raises(TypeError):
        scores + np.ones((1, 4), np.float32)


def test_cupy_knows_every_function_that_was_called(device: EmulatedGPU) -> None:
    """Near the end of this file: by then all of them were."""
    test_a_fit_is_the_one_of_the_cpu(device, "rgx")
    cupy = pytest.importorskip("cupy", reason="CuPy, which imports without a GPU")
    assert DeviceArray.asked["functions"].keys() > {"einsum", "isfinite", "argsort"}
    assert not emulated_gpu.unknown_to(cupy)


def test_what_cupy_does_not_take_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions, keywords and a number of arguments that numpy takes."""
    cupy = pytest.importorskip("cupy", reason="CuPy, which imports without a GPU")
    monkeypatch.setattr(DeviceArray, "asked", {"functions": {}, "attributes": {}})
    there = DeviceArray(np.eye(2))
    np.argsort(there, axis=1, kind="stable")
    assert not emulated_gpu.unknown_to(cupy)
    np.argsort(there, 1, "stable", None)
    np.count_nonzero(there, axis=1, keepdims=True)
    np.insert(there, 0, 0)
    assert {each.partition("(")[0] for each in emulated_gpu.unknown_to(cupy)} == {
        "argsort",
        "count_nonzero",
        "insert",
    }


def test_without_cupy_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "why_unavailable", WHY_UNAVAILABLE)
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    with refuses(ValueError, "backend"):
        backends.choose("cuda")


def test_auto_imports_nothing_of_cuda() -> None:
    code = (
        "import sys, mfrank; from mfrank.backends import choose; choose(); "
        "assert not [m for m in sys.modules if m.startswith(('cupy', 'mfrank.backends.cuda'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
