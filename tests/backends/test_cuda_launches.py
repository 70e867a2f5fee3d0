"""What the CUDA backend launches, on an emulated GPU: nothing that has nothing to do.

A block too many computes nothing, and shared memory that no thread writes keeps other blocks away:
results are the same, so only a look at the launches shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
import test_backends as contract
from emulated_gpu import DeviceArray, EmulatedGPU, Launched
from problems import OBJECTIVES, rows_of

import mfrank
from mfrank import backends
from mfrank.arrays import CSR, Grid
from mfrank.backends import AdamAverages, AdamRates, CellTerm, Until, none_of
from mfrank.backends.cuda import best_items, plan
from mfrank.backends.cuda import rows as exact
from mfrank.backends.cuda.kernel_sources import Module, modules
from mfrank.testing import chain, random_lists

_PADDING = 32  # bytes behind the last line of a stage (kernels/tile.cuh)


class Worth(NamedTuple):
    """A launch: whether its last block wrote anything, and bytes of shared memory not used."""

    kernel: str
    is_busy: bool
    unused: int


@pytest.fixture
def worth(device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch) -> list[Worth]:
    seen: list[Worth] = []
    launch, known = device.launch, {*modules()}

    def noted(module: Module, kernel: str, grid: Grid, args: Any) -> None:
        assert module in known  # and so those who compile all of them before have it
        arrays = [array.on_host for array in args if isinstance(array, DeviceArray)]
        before = [array.copy() for array in arrays]

        def written(blocks: Any) -> list[bytes]:
            for array, old in zip(arrays, before, strict=True):
                array[...] = old
            launch(module, kernel, grid._replace(blocks=blocks), args)
            return [array.tobytes() for array in arrays]

        without = [written(fewer) for fewer in _one_less(grid.blocks)]
        whole = written(grid.blocks)
        seen.append(Worth(kernel, whole not in without, grid.shared - device.used_bytes))

    monkeypatch.setattr(device, "launch", noted)
    monkeypatch.setattr(
        "mfrank.backends.cuda._solve_precisely", lambda *_: pytest.fail("rows are not solved")
    )
    return seen


def _one_less(blocks: int | tuple[int, int]) -> Iterator[int | tuple[int, int]]:
    """The grid without its last blocks along each axis."""
    if isinstance(blocks, int):
        yield from [blocks - 1][: blocks - 1]
        return
    x, y = blocks
    yield from [(x - 1, y)][: x - 1]
    yield from [(x, y - 1)][: y - 1]


def tables(backend: Any) -> None:
    """Gram matrices, rotations of directions in which there is noise alone, sparse products."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((70, 70)))[0]
    for dtype in (np.float32, np.float64):
        factors = (rng.standard_normal((300, 67)) @ basis[:, 3:].T).astype(dtype)
        backend.gram(factors, rng.random(300))
        backend.rotate(factors, basis, 3, np.empty_like(factors))
        backend.extrapolate(factors.copy(), 0.5, factors, basis, none_of(factors), basis)
        rows = sp.random_array((90, 300), density=0.95, random_state=rng, format="csr")
        backend.sparse_product(CSR.from_scipy(rows, dtype), factors)


def solved(backend: Any, n_factors: int, dtype: Any, counts: Any, **options: Any) -> None:
    """Rows of so many entries, whose factors are turned before and after."""
    step = contract.half_step(OBJECTIVES["rgx"], rows_of(counts), "users", n_factors, dtype)
    step.solve(backend, **options)
    backend.observed_value(step.problem, step.start(), step.fixed)


def short_rows(backend: Any) -> None:
    for most in (8, 16, 32):
        solved(backend, 130, np.float32, [most] * 9)
        solved(backend, 40, np.float64, [most] * 9)


def exact_rows(backend: Any) -> None:
    """By matrices of entries, of factors, in shared memory and in that of all, and in parts."""
    for n_factors, counts in ((140, [64, 60, 128, 120]), (30, [50, 40]), (60, [61, 100])):
        for dtype in (np.float32, np.float64):
            solved(backend, n_factors, dtype, counts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_IN_SHARED", 0)
        solved(backend, 140, np.float32, [128, 250, 250])
        patch.setattr(plan, "HEAVY", 100)
        patch.setattr(exact, "HEAVY", 100)
        solved(backend, 100, np.float32, [250, 120])


def iterated_rows(backend: Any) -> None:
    """In one piece, and long ones in parts; rows without entries have a diagonal matrix."""
    for n_factors in (40, 130, 300):
        for dtype in (np.float32, np.float64):
            solved(backend, n_factors, dtype, [64, 128, 256, 0, 0], solver="cg", cg_steps=2)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(plan, "LONG", 20)
                patch.setattr(exact, "_PART", 90)
                solved(backend, n_factors, dtype, [100, 250], solver="cg", cg_steps=2)


def rows_of_halves(backend: Any) -> None:
    """Factors that kernels read in float16."""
    how: dict[str, Any] = {"gather_dtype": "float16"}
    for dtype in (np.float32, np.float64):
        solved(backend, 40, dtype, [*[8, 9, 30] * 4, 36, 250], **how)
        solved(backend, 100, dtype, [90], **how)
        solved(backend, 20, dtype, [90, 0], **how)
        solved(backend, 40, dtype, [64, 0], solver="cg", cg_steps=2, **how)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan, "LONG", 20)
            patch.setattr(exact, "_PART", 90)
            solved(backend, 40, dtype, [100], solver="cg", cg_steps=2, **how)


def rows_without_curvature(backend: Any) -> None:
    rng = np.random.default_rng(2)
    matrix = sp.csr_array(rng.integers(0, 3, (5, 150)).astype(np.float64))
    step = contract.half_step(mfrank.WRMF(), matrix, "users", 40, np.float32)
    flat = replace(step.problem.observed, curvature=CellTerm(np.zeros(5)))
    step.problem = replace(step.problem, observed=flat)
    step.solve(backend)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LONG", 20)
        patch.setattr(plan, "_plans", {})
        step.solve(backend)


def ranked_lists(backend: Any) -> None:
    """Draws, scores, both sums, and a step of Adam."""
    rng = np.random.default_rng(3)
    for dtype, k in ((np.float32, 40), (np.float64, 130)):
        queries, items = (rng.standard_normal((n, k)).astype(dtype) for n in (30, 50))
        ids, slopes = rng.integers(0, 50, (30, 7)), rng.random((30, 7)).astype(dtype)
        backend.score(queries, items, ids)
        backend.sum_items(items, ids, slopes)
        backend.sum_queries(queries, 50, ids, slopes)
        averages = AdamAverages(np.zeros_like(items), np.zeros_like(items), np.zeros(50, np.int64))
        backend.adam(items, np.arange(9), items[:9].copy(), averages, AdamRates(0.1, 0.9, 0.99, 1))
    rows, users = random_lists(rng, 30, 50, 0.3), np.arange(30)
    backend.draw_positives(rows, users, 5, 1)
    backend.draw_negatives(rows, users, 5, 1)


def walks(backend: Any) -> None:
    rng = np.random.default_rng(4)
    for k in (3, 40, 150):
        steps, dense = chain([520, 3, 20], 0.01, "float64")
        base, start = rng.random((2, len(dense), k))
        backend.walk(steps, base, start, 0.5, Until(2))


def best_of_lists(backend: Any) -> None:
    rng = np.random.default_rng(5)
    for dtype, n_queries in ((np.float32, 90), (np.float64, 20)):
        queries, items = (rng.standard_normal((n, 9)).astype(dtype) for n in (n_queries, 301))
        lists: dict[str, Any] = {
            "exclude": [random_lists(rng, n_queries, 301, 0.3)],
            "candidates": random_lists(rng, n_queries, 301, 0.5),
            "item_bias": rng.random(301).astype(dtype),
        }
        backend.top_k(queries, items, 5, **lists)


def best_of_shortlists(backend: Any) -> None:
    """By sketches; all items are as good as each other, so these are the longest shortlists."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_items, "_LEAST_QUERIES", 1)
        patch.setattr(best_items, "_LEAST_ITEMS", 1)
        for dtype in (np.float32, np.float64):
            bias = np.ones(1021, dtype)
            backend.top_k(np.ones((2, 9), dtype), np.ones((1021, 9), dtype), 5, item_bias=bias)


OPERATIONS: dict[Callable[[Any], None], str] = {
    tables: "sum_floats sum_doubles add_parts drop_noise widen displace sum_parts add_row_parts",
    short_rows: "load_cells solve_short row_values",
    exact_rows: "add_pulls solve_dual solve_primal sum_part sum_pulls add_sums",
    iterated_rows: "turn_rows iterate sum_long step_long solve_diagonal",
    rows_of_halves: "solve_short solve_dual solve_primal iterate sum_long step_long",
    rows_without_curvature: "solve_diagonal sum_pulls add_sums",
    ranked_lists: "score sum_terms adam draw_positives draw_negatives",
    walks: "advance sum_chunks add_chunks",
    best_of_lists: "score_tiles select_best drop_listed keep_listed",
    best_of_shortlists: "norms sketch_items sketch_queries best_of_shortlist",
}
"""And the kernels that each is there for."""


@pytest.mark.parametrize(
    ("operation", "kernels"), OPERATIONS.items(), ids=[each.__name__ for each in OPERATIONS]
)
def test_no_block_and_no_shared_memory_is_idle(
    backend: backends.Backend,
    worth: list[Worth],
    operation: Callable[[Any], None],
    kernels: str,
) -> None:
    operation(backend)
    assert {one.kernel for one in worth} >= {*kernels.split()}
    assert not {one.kernel for one in worth if not one.is_busy}
    assert not {(one.kernel, one.unused) for one in worth if one.unused > _PADDING}


def test_each_chunk_of_a_walk_is_summed_by_one_block(
    backend: backends.Backend, launched: list[Launched]
) -> None:
    """256 rows of a block, and what is left of it."""
    steps, dense = chain([512, 513, 3], 0.01, "float64")
    base = np.ones((len(dense), 1))
    backend.walk(steps, base, base, 0.5, Until(1))
    summing = [one for one in launched if one.kernel == "sum_chunks"]
    assert {one.grid.blocks for one in summing} == {2 + 3 + 1}
    assert {one.args[-1].shape for one in summing} == {(6, 4, 1)}  # four sums of each
