"""A GPU through CuPy: the same systems as on the CPU, solved by a block of threads each.

Arrays may lie on either side. What is computed from factors on the device stays there; what is
computed from numpy arrays comes back as such. Rows of interactions, and factors that are read-only
as those of a store are, are put on the device once and stay there while they live; rows and
filters that were given there are read where they lie.

**No kernel of this backend has run on a GPU yet.** The tests compile each for sm_80, sm_90 and
sm_100, and run all of them, and everything around them, on an emulated device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import (
    ROUNDS,
    AdamAverages,
    AdamRates,
    Chances,
    Factors,
    GatherDtype,
    Gram,
    Shared,
    SolveOptions,
)
from mfrank.chains import Chain, Moves, Settled, Until, Walked
from mfrank.csr import CSR
from mfrank.cuda import best, draws, factor_sums, lists, walks
from mfrank.cuda import device as gpu
from mfrank.cuda.device import Array
from mfrank.cuda.filters import Filters
from mfrank.cuda.fixed import Fixed
from mfrank.cuda.resident import Resident, resident_on
from mfrank.cuda.workers import RowsTask, solve
from mfrank.picked import Listed
from mfrank.precise import in_float64, minimum_norm
from mfrank.quadratic import RowProblem

TOLERANCE = {"float32": 2e-4, "float64": 1e-8}
GATHERS: tuple[GatherDtype, ...] = ("float16",)


def why_unavailable() -> str | None:
    """None where CuPy and a GPU are there, else what is missing."""
    return gpu.why_unavailable()


def place(factors: Factors) -> Factors:
    """The factors on the device; read-only ones stay there for the next call."""
    placed: Factors = _resident().of_factors(factors)
    return placed


def gram(factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
    """F' diag(weights) F and F' weights by cuBLAS, in float64."""
    return Gram(*factor_sums.gram(gpu.device(), _resident().of_factors(factors), weights))


def rotate(
    factors: Factors,
    basis: NDArray[np.float64],
    n_null: int,
    out: Factors,
    n_threads: int = 0,
) -> None:
    """The product in the dtype of the factors by cuBLAS, in blocks of rows."""
    device = gpu.device()
    given = _resident().of_factors(factors)
    turned = out if device.holds(out) else device.xp.empty_like(given)
    factor_sums.rotate(device, given, basis, n_null, turned)
    if turned is not out:
        out[:] = device.asnumpy(turned)


def solve_rows(
    problem: RowProblem,
    fixed: Factors,
    shared: Shared,
    out: Factors,
    options: SolveOptions,
    start: Factors | None = None,
    turn: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Solve every row into ``out``, the few that the dtype is too coarse for in float64.

    Large problems are shared among all GPUs that CUDA_VISIBLE_DEVICES leaves visible.
    """
    device, factors = gpu.device(), _resident().of_factors(fixed)
    read = Fixed.of(factors)
    if options.gather_dtype == "float16":
        read = Fixed.in_float16(device, factors)
    begin = out if start is None else start
    gain, failed = solve(gpu.devices(), RowsTask(problem, read, shared, options, begin, turn), out)
    if len(failed):
        part, columns = problem.part(failed)
        wide = read.wide(device.asarray(columns))
        solved, gain[failed] = _solve_precisely(in_float64(part), wide, shared, options)
        if device.holds(out):
            out[device.asarray(failed)] = device.asarray(solved, read.dtype)
        else:
            out[failed] = solved
    return gain


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum over observed cells of c s^2 - 2 d s + k."""
    resident = _resident()
    left, right = resident.of_factors(row_factors), resident.of_factors(fixed)
    return factor_sums.observed_value(gpu.device(), resident, problem, left, right)


def product(left: Factors, right: Factors, n_threads: int = 0) -> Factors:
    """By cuBLAS."""
    device = gpu.device()
    return _beside(device.asarray(left) @ device.asarray(right), left, right)


def score(
    queries: Factors,
    items: Factors,
    ids: NDArray[np.int64],
    n_threads: int = 0,
    *,
    distances: bool = False,
) -> Factors:
    """A warp a place."""
    device = gpu.device()
    found = lists.score(device, device.asarray(queries), *_asked(items, ids), distances)
    return _beside(found, queries, items)


def sum_items(
    items: Factors, ids: NDArray[np.int64], slopes: Factors, n_threads: int = 0
) -> Factors:
    """A block a list, sums in an order that is always the same."""
    device = gpu.device()
    found = lists.sum_items(device, *_asked(items, ids), device.asarray(slopes))
    return _beside(found, items, slopes)


def sum_queries(
    queries: Factors, n_items: int, ids: NDArray[np.int64], slopes: Factors, n_threads: int = 0
) -> tuple[NDArray[np.int64], Factors, Factors]:
    """The terms sorted by item; a block an item."""
    device = gpu.device()
    touched, sums, totals = lists.sum_queries(
        device, device.asarray(queries), device.asarray(ids), device.asarray(slopes)
    )
    return (
        _beside(touched, queries, slopes),
        _beside(sums, queries, slopes),
        _beside(totals, queries, slopes),
    )


def adam(
    table: Factors,
    rows: NDArray[np.int64],
    slopes: Factors,
    averages: AdamAverages,
    rates: AdamRates,
    n_threads: int = 0,
) -> None:
    """A thread a number; of a table on the host, the rows go there and back."""
    device = gpu.device()
    at, steps = device.asarray(rows), device.asarray(slopes)
    if device.holds(table):
        lists.adam(device, table, at, steps, averages, rates)
        return
    # The host's rows, numbered anew.
    parts = [device.asarray(array[rows]) for array in (table, *averages)]
    few = device.xp.arange(len(rows))
    lists.adam(device, parts[0], few, steps, AdamAverages(*parts[1:]), rates)
    for array, part in zip((table, *averages), parts, strict=True):
        array[rows] = device.asnumpy(part)


def draw_likes(
    rows: CSR, users: NDArray[np.int64], n_places: int, key: int, n_threads: int = 0
) -> NDArray[np.int64]:
    """A block a list, which keeps the smallest numbers by their digits."""
    device = gpu.device()
    cells = draws.draw_likes(device, _rows(rows), device.asarray(users), n_places, key)
    return _beside(cells, users)


def draw_others(
    rows: CSR,
    users: NDArray[np.int64],
    n_places: int,
    key: int,
    chances: Chances | None = None,
    n_threads: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A thread a place."""
    device, resident = gpu.device(), _resident()
    cumulative = None if chances is None else resident.array(chances.cumulative)
    items, filled = draws.draw_others(
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
    """All blocks at once; those that are done stand still."""
    device = gpu.device()
    there = device.asarray(base), device.asarray(start)
    walked = walks.walk(device, chain, *there, scale, until)
    return walked._replace(values=_beside(walked.values, start))


def settle(
    moves: Moves,
    restarts: CSR,
    alpha: float,
    tolerance: float,
    most: int,
    n_threads: int = 0,
) -> Settled:
    """Power iteration, some restarts at a time."""
    return walks.settle(gpu.device(), moves, restarts, alpha, tolerance, most)


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
    """Scores of all items the lists share, those that filters forbid struck out, the best kept."""
    device, resident = gpu.device(), _resident()
    bias = None if item_bias is None else resident.of_factors(item_bias)
    filters = Filters.of(device, len(items), candidates, exclude_all, exclude)
    asked, answering = resident.of_factors(queries), resident.of_factors(items)
    ids, scores = best.top_k(device, asked, answering, k, bias, filters)
    return _beside(ids, queries), _beside(scores, queries)


def _beside(result: Array, *given: Any) -> NDArray[Any]:
    """In numpy where everything given is, else on the device."""
    if all(isinstance(each, np.ndarray) for each in given):
        return gpu.device().asnumpy(result)
    there: NDArray[Any] = result
    return there


def _asked(items: Factors, ids: NDArray[np.int64]) -> tuple[Array, Array]:
    """Items and ids on the device; of items on the host only those that have an id."""
    device, resident = gpu.device(), _resident()
    if device.holds(items) or device.holds(ids) or len(items) <= ids.size:
        return resident.of_factors(items), device.asarray(ids)
    rows, at = np.unique(ids, return_inverse=True)
    return device.asarray(items[rows]), device.asarray(at.reshape(ids.shape))


def _rows(rows: CSR) -> draws.Rows:
    device, resident = gpu.device(), _resident()
    kept = resident.rows(rows)
    columns = device.asarray(rows.indices) if kept.indices is None else kept.indices
    return kept.indptr, columns, rows.n_columns


def _resident() -> Resident:
    return resident_on(gpu.device())


def _solve_precisely(
    problem: RowProblem, fixed: Fixed, shared: Shared, options: SolveOptions
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Solutions and gains in float64; the rows singular even there by least squares."""
    out = np.zeros((problem.rows.n_rows, fixed.k))
    exact = replace(options, solver="cholesky")
    gain, failed = solve(gpu.devices(), RowsTask(problem, fixed, shared, exact, out), out)
    wide: Any = gpu.device().asnumpy(fixed.values) if len(failed) else None
    for r in failed:
        out[r], gain[r] = minimum_norm(problem, int(r), wide, shared)
    return out, gain
