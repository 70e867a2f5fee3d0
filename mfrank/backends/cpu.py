"""The compiled backend: threads, vector instructions, every row solved in the eigenbasis.

The shared matrix of a half-step is diagonalised once, M = U diag(lambda) U'; in that basis a row's
system is a diagonal plus its own few entries, and cheap (``cext/row_solver.h``). Rows that float32
cannot solve to :data:`TOLERANCE` are solved again in float64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.backends import Factors, Gram, SolveOptions
from mfrank.blas import single_threaded
from mfrank.csr import CSR
from mfrank.quadratic import CellTerm, Observed, RowProblem

try:
    import mfrank._ext as _ext
except ImportError as error:
    _WHY_MISSING: str | None = (
        f"the C++ extension is not there ({error}); install a C++17 compiler and Python's headers "
        "(Debian: apt install g++ python3-dev) and reinstall mfrank"
    )
else:
    _WHY_MISSING = None
    _ext.isa()  # A wrong MFRANK_ISA is an error now, never a silent fall-back to numpy.

TOLERANCE = {"float32": 2e-4, "float64": 1e-8}

_QUERIES_WORTH_A_SORT = 256  # Sorting the items by length takes as long as to score so many.


def why_unavailable() -> str | None:
    """None where the extension was built, else how to get it."""
    return _WHY_MISSING


def gram(factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
    """F' diag(weights) F and F' weights, summed in an order that no thread count changes."""
    return Gram(*_ext.gram(factors, weights, n_threads))


def solve_rows(
    problem: RowProblem, fixed: Factors, gram: Gram, out: Factors, options: SolveOptions
) -> None:
    """Solve every row, in the eigenbasis of the Gram matrix, into ``out``."""
    if 2 * len(problem.rows.indices) < len(fixed):  # A fold-in: few columns need the rotation.
        every = np.arange(problem.rows.n_rows)
        problem, columns = _extract(problem, every, fixed.dtype)
        fixed = fixed[columns]
    shared = _Eigenbasis.of(gram)
    failed = _solve(problem, fixed, shared, out, options)
    if not len(failed):
        return
    part, columns = _extract(problem, failed, np.float64)
    wide, solution = fixed[columns].astype(np.float64), out[failed].astype(np.float64)
    exact = replace(options, solver="cholesky")
    for r in _solve(part, wide, shared, solution, exact):
        solution[r] = _minimum_norm(part, int(r), wide, gram)
    out[failed] = solution


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum over observed cells of c s^2 - 2 d s + k."""
    return _ext.observed_value(
        rows=_rows(problem),
        observed=_terms(problem),
        users_are_rows=problem.users_are_rows,
        row_factors=row_factors,
        fixed=fixed,
        n_threads=n_threads,
    )


def top_k(
    queries: Factors,
    items: Factors,
    k: int,
    *,
    item_bias: NDArray[Any] | None = None,
    exclude: CSR | None = None,
    exclude_all: NDArray[np.int32] | None = None,
    candidates: CSR | None = None,
    n_threads: int = 0,
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Scores, filters and selection in one pass, the longest items first, which ends it early."""
    ids = np.full((len(queries), k), -1, dtype=np.int32)
    scores = np.full((len(queries), k), np.nan, dtype=items.dtype)
    shelves, lengths = _shelves(candidates, exclude_all, len(items)), None
    if shelves.n_rows == 1 and len(queries) >= _QUERIES_WORTH_A_SORT:
        shelves, lengths = _longest_first(shelves, items, item_bias)
    _ext.top_k(
        queries=queries,
        items=items,
        item_bias=item_bias,
        shelves=(shelves.indptr, shelves.indices),
        lengths=lengths,
        exclude=None if exclude is None else (exclude.indptr, exclude.indices),
        ids=ids,
        scores=scores,
        n_threads=n_threads,
    )
    return ids, scores


def _shelves(candidates: CSR | None, exclude_all: NDArray[np.int32] | None, n_items: int) -> CSR:
    """What each query may get, before its own exclusions; one row where all share it."""
    if candidates is None:
        every = np.arange(n_items, dtype=np.int32)
        candidates = CSR(np.array([0, n_items]), every, None, n_items)
    if exclude_all is None:
        return candidates
    kept = np.isin(candidates.indices, exclude_all, invert=True)
    before = np.concatenate([[0], np.cumsum(kept)])
    return CSR(before[candidates.indptr], candidates.indices[kept], None, n_items)


def _longest_first(
    shelf: CSR, items: Factors, item_bias: NDArray[Any] | None
) -> tuple[CSR, NDArray[np.float64]]:
    """A single row's items by descending length, a bias counting as a coordinate; the lengths."""
    squares = np.einsum("nk,nk->n", items, items, dtype=np.float64)
    if item_bias is not None:
        squares += item_bias.astype(np.float64) ** 2
    # Coordinates whose squares underflow still count.
    squares += (items.shape[1] + 1) * np.finfo(items.dtype).tiny
    lengths = np.sqrt(squares[shelf.indices])
    order = np.argsort(-lengths)
    return CSR(shelf.indptr, shelf.indices[order], None, shelf.n_columns), lengths[order]


def _rows(problem: RowProblem) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any] | None]:
    return problem.rows.indptr, problem.rows.indices, problem.rows.data


def _terms(problem: RowProblem) -> tuple[tuple[NDArray[np.float64], float], ...]:
    observed = problem.observed
    terms = (observed.curvature, observed.pull, observed.constant)
    return tuple((term.offset, term.slope) for term in terms)


class _Eigenbasis(NamedTuple):
    """U and lambda with M = U diag(lambda) U', noise set to 0 in it, and v in that basis."""

    basis: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    vector: NDArray[np.float64]

    @classmethod
    def of(cls, gram: Gram) -> Self:
        """Eigenvalues ascend; an eigenvector's largest part is positive, on every LAPACK."""
        with single_threaded():
            eigenvalues, basis = np.linalg.eigh(gram.matrix)
        noise = len(basis) * np.finfo(np.float64).eps * max(eigenvalues[-1], 0.0)
        eigenvalues[eigenvalues <= noise] = 0.0
        largest = basis[np.abs(basis).argmax(axis=0), np.arange(len(basis))]
        basis = basis * np.where(largest < 0, -1.0, 1.0)
        vector = basis.T @ gram.vector
        vector[(eigenvalues == 0) & (np.abs(vector) <= 1e-8 * np.linalg.norm(vector))] = 0.0
        return cls(basis, eigenvalues, vector)


def _solve(
    problem: RowProblem, fixed: Factors, shared: _Eigenbasis, out: Factors, options: SolveOptions
) -> NDArray[np.int64]:
    """Solve in the dtype of the factors; return the rows that it is not precise enough for."""
    return _ext.solve_rows(
        rows=_rows(problem),
        observed=_terms(problem),
        users_are_rows=problem.users_are_rows,
        weight=problem.weight,
        ridge=problem.ridge,
        fixed=fixed,
        basis=np.ascontiguousarray(shared.basis, dtype=fixed.dtype),
        eigenvalues=shared.eigenvalues,
        vector=shared.vector,
        out=out,
        solver=options.solver,
        cg_steps=options.cg_steps,
        cg_tolerance=options.cg_tolerance,
        n_threads=options.n_threads,
    )


def _extract(
    problem: RowProblem, rows: NDArray[np.int64], dtype: DTypeLike
) -> tuple[RowProblem, NDArray[np.int32]]:
    """The problem of some rows over the columns that they use, and those columns."""
    whole = problem.rows
    counts = whole.counts[rows]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    entries = np.arange(indptr[-1]) + np.repeat(whole.indptr[rows] - indptr[:-1], counts)
    columns, indices = np.unique(whole.indices[entries], return_inverse=True)
    data = None if whole.data is None else whole.data[entries].astype(dtype)
    users = rows if problem.users_are_rows else columns
    terms = (problem.observed.curvature, problem.observed.pull, problem.observed.constant)
    observed = Observed(*(CellTerm(term.offset[users], term.slope) for term in terms))
    csr = CSR(indptr, indices.astype(np.int32), data, len(columns))
    weight, ridge = problem.weight[rows], problem.ridge[rows]
    return RowProblem(csr, weight, ridge, observed, problem.users_are_rows), columns


def _minimum_norm(problem: RowProblem, r: int, fixed: Factors, gram: Gram) -> NDArray[np.float64]:
    """One row of a float64 problem by least squares; for the few that are singular."""
    one, columns = _extract(problem, np.array([r]), np.float64)
    observed = fixed[columns][one.rows.indices]
    matrix = one.weight[0] * gram.matrix + (observed.T * one.curvature()) @ observed
    matrix[np.diag_indices_from(matrix)] += one.ridge[0]
    right = observed.T @ one.pull() + one.weight[0] * gram.vector
    return np.asarray(np.linalg.lstsq(matrix, right)[0])
