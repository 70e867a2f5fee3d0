"""The C++ extension: threads, vector instructions, every row solved in the eigenbasis.

The shared matrix of a half-step is diagonalized once, M = U diag(lambda) U'. In that basis a row's
system is a diagonal plus one rank-one term per entry, which is cheap to solve
(``cext/kernels/rows/row_solver.h``). Rows that float32 cannot solve to :data:`TOLERANCE` are solved
again in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Listed, on_host, union, why_missing
from mfrank.arrays import ext as _ext
from mfrank.backends.arguments import Factors, GatherDtype
from mfrank.backends.cpu import half_step as row_sums
from mfrank.backends.cpu.descent import adam as adam
from mfrank.backends.cpu.descent import ball_gradients as ball_gradients
from mfrank.backends.cpu.descent import draw_negatives as draw_negatives
from mfrank.backends.cpu.descent import draw_positives as draw_positives
from mfrank.backends.cpu.descent import project_rows as project_rows
from mfrank.backends.cpu.descent import score as score
from mfrank.backends.cpu.descent import sum_items as sum_items
from mfrank.backends.cpu.descent import sum_queries as sum_queries
from mfrank.backends.cpu.descent import tangent as tangent
from mfrank.backends.cpu.half_step import cells_of
from mfrank.backends.cpu.half_step import solve_rows as solve_rows
from mfrank.backends.cpu.native_sums import NativeSums
from mfrank.backends.cpu.search_order import shelves_for
from mfrank.backends.cpu.walks import stationary as stationary
from mfrank.backends.cpu.walks import walk as walk
from mfrank.backends.dense import eigh as eigh
from mfrank.backends.dense import of_both
from mfrank.backends.dense import product as product
from mfrank.backends.dense import sparse_product as sparse_product
from mfrank.backends.row_problem import Gram, RowProblem
from mfrank.backends.surface import RowSums
from mfrank.losses import ListSums

TOLERANCE = {"float32": 2e-4, "float64": 1e-8}
GATHERS: tuple[GatherDtype, ...] = ()
PRIORS = True
SUMS: RowSums | None = row_sums


def why_unavailable() -> str | None:
    """Return None if the extension was built, else how to get it."""
    return why_missing


def place(factors: Factors) -> Factors:
    """Return a numpy array: the factors themselves, or a copy of a device array."""
    return on_host(factors)


def gram(factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
    """F' diag(weights) F and F' weights, summed in the same order for any number of threads."""
    matrix, vector = _ext.gram(factors, weights, n_threads)
    if factors.dtype == np.float32 and not np.isfinite(matrix).all():
        # Partial sums are float32: products of factors beyond 1e19 overflow them.
        matrix, vector = _ext.gram(factors.astype(np.float64), weights, n_threads)
    return Gram(matrix, vector)


def rotate(
    factors: Factors,
    basis: NDArray[np.float64],
    n_null: int,
    out: Factors,
    n_threads: int = 0,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """Multiply in the dtype of the factors, in blocks of rows."""
    columns = np.ascontiguousarray(basis, dtype=factors.dtype)
    _ext.rotate(factors, columns, n_null, out, n_threads, rows)


def extrapolate(
    solved: Factors,
    weight: float,
    before: Factors,
    basis: NDArray[np.float64],
    displacements: Factors,
    turn: NDArray[np.float64],
    n_threads: int = 0,
) -> None:
    """In one pass over the tables."""
    turns = basis, of_both(turn, basis)
    by, turned = (np.ascontiguousarray(each, dtype=solved.dtype) for each in turns)
    _ext.extrapolate(solved, weight, before, by, displacements, turned, n_threads)


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum of c s^2 - 2 d s + k over observed cells."""
    return _ext.observed_value(
        **cells_of(problem),
        row_factors=row_factors,
        fixed=fixed,
        n_threads=n_threads,
    )


def list_sums(n_threads: int = 0) -> ListSums:
    """See :meth:`mfrank.backends.Backend.list_sums`."""
    return NativeSums(n_threads)


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
    """Score, filter and select in one pass."""
    ids = np.empty((len(queries), k), dtype=np.int32)
    scores = np.empty(ids.shape, dtype=items.dtype)
    ids.fill(-1)  # numpy.full takes longer than some lists
    scores.fill(np.nan)
    excluded = union(exclude)
    shelves = shelves_for(len(queries), items, item_bias, candidates, exclude_all, n_threads)
    rows = shelves.rows
    _ext.top_k(
        queries=queries,
        items=items,
        item_bias=item_bias,
        shelves=None if rows is None else (rows.indptr, rows.indices),
        sketch=shelves.sketch,
        lengths=shelves.lengths,
        allowed=shelves.allowed,
        exclude=None if excluded is None else (excluded.indptr, excluded.indices),
        ids=ids,
        scores=scores,
        n_threads=n_threads,
    )
    return ids, scores
