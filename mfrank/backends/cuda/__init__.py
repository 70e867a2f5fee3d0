"""A GPU through CuPy: the same systems as on the CPU, each solved by a block of threads.

Arguments may be numpy or device arrays. Results computed from device arrays stay on the device;
results computed only from numpy arrays are numpy arrays. Rows of interactions, and read-only
factors such as those of a store, are copied to the device once and stay there as long as they are
alive; rows and filters that were passed as device arrays are read in place.

The tests compile each kernel for sm_80, sm_90 and sm_100, and run all of them, and everything
around them, on an emulated device, and on a GPU where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Array, Listed, beside, on_host
from mfrank.arrays import device as gpu
from mfrank.backends import dense as symmetric
from mfrank.backends.arguments import (
    ROUNDS,
    AdamAverages,
    AdamRates,
    Chain,
    Factors,
    GatherDtype,
    ItemProbabilities,
    Moves,
    SolveOptions,
    Stationary,
    Until,
    Walked,
)
from mfrank.backends.cuda import best_items, descent, factor_sums, walks
from mfrank.backends.cuda.half_step import RowsTask, solve
from mfrank.backends.cuda.listed_filters import Filters
from mfrank.backends.cuda.resident import Resident, resident_on
from mfrank.backends.cuda.system import Fixed
from mfrank.backends.dense import ball_gradients as ball_gradients
from mfrank.backends.dense import project_rows as project_rows
from mfrank.backends.dense import tangent as tangent
from mfrank.backends.row_problem import Gram, RowProblem, Shared, in_float64, minimum_norm
from mfrank.backends.surface import RowSums
from mfrank.losses import WRITTEN_OUT, ListSums

TOLERANCE = {"float32": 2e-4, "float64": 1e-8}
GATHERS: tuple[GatherDtype, ...] = ("float16",)
PRIORS = True
SUMS: RowSums | None = None
_SMALL_MATRIX = 128


def why_unavailable() -> str | None:
    """Return None if CuPy finds a GPU that it can use, else what is missing."""
    return gpu.why_unavailable()


def place(factors: Factors) -> Factors:
    """Return the factors on the device; copies of read-only factors are kept for later calls."""
    placed: Factors = _resident().of_factors(factors)
    return placed


def gram(factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
    """F' diag(weights) F and F' weights, in float64."""
    resident = _resident()
    placed = resident.of_factors(factors), resident.of_factors(weights)
    return Gram(*factor_sums.gram(gpu.device(), *placed))


def eigh(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By cuSOLVER; a small matrix by LAPACK, because copying it there and back takes longer.

    Large eigenvectors stay on the device, beside the copy that is returned.
    """
    if len(matrix) <= _SMALL_MATRIX:
        return symmetric.eigh(matrix)
    device = gpu.device()
    values, vectors = device.xp.linalg.eigh(device.asarray(matrix))
    vectors = device.xp.ascontiguousarray(symmetric.signed(vectors))
    return device.asnumpy(values), _resident().with_copy(vectors)


def rotate(
    factors: Factors,
    basis: NDArray[np.float64],
    n_null: int,
    out: Factors,
    n_threads: int = 0,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """Multiply by cuBLAS in the dtype of the factors, in blocks of rows."""
    device = gpu.device()
    given = _resident().of_factors(factors if rows is None else factors[beside(rows, factors)])
    turned = out if device.holds(out) else device.xp.empty_like(given)
    factor_sums.rotate(device, given, basis, n_null, turned)
    if turned is not out:
        out[:] = device.asnumpy(turned)


def extrapolate(
    solved: Factors,
    weight: float,
    before: Factors,
    basis: NDArray[np.float64],
    displacements: Factors,
    turn: NDArray[np.float64],
    n_threads: int = 0,
) -> None:
    """By two products."""
    device, resident = gpu.device(), _resident()
    table, last, moved = map(resident.of_factors, (solved, before, displacements))
    factor_sums.extrapolate(device, table, weight, last, basis, moved, turn)
    if not device.holds(solved):
        solved[:], displacements[:] = map(device.asnumpy, (table, moved))


def solve_rows(
    problem: RowProblem,
    fixed: Factors,
    shared: Shared,
    out: Factors,
    options: SolveOptions,
    start: Factors | None = None,
    turn: NDArray[np.float64] | None = None,
    *,
    prior: Factors | None = None,
) -> NDArray[np.float64]:
    """Solve every row into ``out``, in float64 if the dtype is not precise enough.

    Large problems are divided among all GPUs that CUDA_VISIBLE_DEVICES leaves visible.
    """
    device, factors = gpu.device(), _resident().of_factors(fixed)
    read = Fixed.of(factors)
    if options.gather_dtype == "float16":
        read = Fixed.in_float16(device, factors)
    begin = out if start is None else start
    gain: NDArray[np.float64]
    task = RowsTask(problem, read, shared, options, begin, turn, prior)
    gain, failed = solve(gpu.devices(), task, out)
    if len(failed):
        part, columns = problem.part(failed)
        wide = read.wide(device.asarray(columns))
        towards = (
            None if prior is None else on_host(prior[beside(failed, prior)]).astype(np.float64)
        )
        solved, precise = _solve_precisely(in_float64(part), wide, shared, options, towards)
        if device.holds(gain):
            gain[device.asarray(failed)] = device.asarray(precise)
        else:
            gain[failed] = precise
        if device.holds(out):
            out[device.asarray(failed)] = device.asarray(solved, read.dtype)
        else:
            out[failed] = solved
    return gain


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum of c s^2 - 2 d s + k over observed cells."""
    resident = _resident()
    left, right = resident.of_factors(row_factors), resident.of_factors(fixed)
    return factor_sums.observed_value(gpu.device(), resident, problem, left, right)


def product(left: Factors, right: Factors, n_threads: int = 0) -> Factors:
    """Multiply by cuBLAS."""
    device = gpu.device()
    return _beside(device.asarray(left) @ device.asarray(right), left, right)


def sparse_product(rows: CSR, table: Factors) -> Factors:
    """In parts of rows, one warp each."""
    device = gpu.device()
    found = factor_sums.sparse_product(device, _resident(), rows, device.asarray(table))
    return _beside(found, table)


def score(
    queries: Factors,
    items: Factors,
    ids: NDArray[np.int64],
    n_threads: int = 0,
    *,
    distances: bool = False,
) -> Factors:
    """One warp per place."""
    device = gpu.device()
    found = descent.score(device, device.asarray(queries), *_listed(items, ids), distances)
    return _beside(found, queries, items)


def sum_items(
    items: Factors, ids: NDArray[np.int64], gradients: Factors, n_threads: int = 0
) -> Factors:
    """One block per list, which always sums in the same order."""
    device = gpu.device()
    found = descent.sum_items(device, *_listed(items, ids), device.asarray(gradients))
    return _beside(found, items, gradients)


def sum_queries(
    queries: Factors, n_items: int, ids: NDArray[np.int64], gradients: Factors, n_threads: int = 0
) -> tuple[NDArray[np.int64], Factors, Factors]:
    """Sort the terms by item; one block per item."""
    device = gpu.device()
    touched, sums, totals = descent.sum_queries(
        device, device.asarray(queries), device.asarray(ids), device.asarray(gradients)
    )
    return (
        _beside(touched, queries, gradients),
        _beside(sums, queries, gradients),
        _beside(totals, queries, gradients),
    )


def adam(
    table: Factors,
    rows: NDArray[np.int64],
    gradients: Factors,
    averages: AdamAverages,
    rates: AdamRates,
    n_threads: int = 0,
) -> None:
    """One thread per number; the rows of a host table are copied to the device and back."""
    device = gpu.device()
    at, steps = device.asarray(rows), device.asarray(gradients)
    if device.holds(table):
        descent.adam(device, table, at, steps, averages, rates)
        return
    # Copy only these rows, renumbered from 0.
    parts = [device.asarray(array[rows]) for array in (table, *averages)]
    few = device.xp.arange(len(rows))
    descent.adam(device, parts[0], few, steps, AdamAverages(*parts[1:]), rates)
    for array, part in zip((table, *averages), parts, strict=True):
        array[rows] = device.asnumpy(part)


def list_sums(n_threads: int = 0) -> ListSums:
    """See :meth:`mfrank.backends.Backend.list_sums`."""
    return WRITTEN_OUT


def draw_positives(
    rows: CSR, users: NDArray[np.int64], n_places: int, key: int, n_threads: int = 0
) -> NDArray[np.int64]:
    """One block per list, which finds the smallest random numbers by radix selection."""
    device = gpu.device()
    cells = descent.draw_positives(device, _rows(rows), device.asarray(users), n_places, key)
    return _beside(cells, users)


def draw_negatives(
    rows: CSR,
    users: NDArray[np.int64],
    n_places: int,
    key: int,
    chances: ItemProbabilities | None = None,
    n_threads: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """One thread per place."""
    device, resident = gpu.device(), _resident()
    cumulative = None if chances is None else resident.array(chances.cumulative)
    items, filled = descent.draw_negatives(
        device, _rows(rows), device.asarray(users), n_places, key, cumulative, ROUNDS
    )
    return _beside(items, users), _beside(filled, users)


def walk(
    chain: Chain,
    base: Factors,
    start: Factors,
    scale: float,
    until: Until,
    n_threads: int = 0,
) -> Walked:
    """Iterate all blocks at once; blocks that have stopped keep their values."""
    device = gpu.device()
    on_device = device.asarray(base), device.asarray(start)
    walked = walks.walk(device, chain, *on_device, scale, until)
    return walked._replace(values=_beside(walked.values, start))


def stationary(
    moves: Moves,
    restarts: CSR,
    alpha: float,
    tolerance: float,
    most: int,
    n_threads: int = 0,
) -> Stationary:
    """Power iteration, for several restart distributions at a time."""
    return walks.stationary(gpu.device(), moves, restarts, alpha, tolerance, most)


def top_k(
    queries: Factors,
    items: Factors,
    k: int,
    *,
    item_bias: NDArray[Any] | None = None,
    exclude: Sequence[Listed] = (),
    exclude_all: NDArray[np.int32] | None = None,
    candidates: Listed | None = None,
    n_threads: int = 0,
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Score all items, set filtered scores to NaN, select the best.

    Many queries at once are scored in float16 first, then their shortlists exactly.
    """
    device, resident = gpu.device(), _resident()
    bias = None if item_bias is None else resident.of_factors(item_bias)
    filters = Filters.of(device, len(items), candidates, exclude_all, exclude)
    placed = resident.of_factors(queries), resident.of_factors(items)
    ids, scores = best_items.top_k(device, *placed, k, bias, filters)
    return _beside(ids, queries), _beside(scores, queries)


def _beside(result: Array, *given: Any) -> NDArray[Any]:
    """Return ``result`` in numpy if all of ``given`` are numpy arrays, else on the device."""
    if all(isinstance(each, np.ndarray) for each in given):
        return gpu.device().asnumpy(result)
    on_device: NDArray[Any] = result
    return on_device


def _listed(items: Factors, ids: NDArray[np.int64]) -> tuple[Array, Array]:
    """Items and ids on the device; of host items, only those in ``ids`` are copied."""
    device, resident = gpu.device(), _resident()
    if device.holds(items) or device.holds(ids) or len(items) <= ids.size:
        return resident.of_factors(items), device.asarray(ids)
    rows, at = np.unique(ids, return_inverse=True)
    return device.asarray(items[rows]), device.asarray(at.reshape(ids.shape))


def _rows(rows: CSR) -> descent.Rows:
    device, resident = gpu.device(), _resident()
    kept = resident.rows(rows)
    columns = device.asarray(rows.indices) if kept.indices is None else kept.indices
    return kept.indptr, columns, rows.n_columns


def _resident() -> Resident:
    return resident_on(gpu.device())


def _solve_precisely(
    problem: RowProblem,
    fixed: Fixed,
    shared: Shared,
    options: SolveOptions,
    prior: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Solutions and gains in float64; rows that are singular even there, by least squares."""
    out = np.zeros((problem.rows.n_rows, fixed.k))
    exact = replace(options, solver="cholesky")
    task = RowsTask(problem, fixed, shared, exact, out, prior=prior)
    gain, failed = solve(gpu.devices(), task, out)
    wide: Any = gpu.device().asnumpy(fixed.values) if len(failed) else None
    for r in failed:
        out[r], gain[r] = minimum_norm(problem, int(r), wide, shared, prior)
    return out, gain
