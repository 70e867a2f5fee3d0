"""Rows of few entries, which the native code solves many at a time, one in each vector lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mfrank.arrays import CSR, single_threaded
from mfrank.backends import CellTerm, ObservedLoss, RowProblem, Shared, SolveOptions, cpu, reference

if reason := cpu.why_unavailable():
    pytest.skip(reason, allow_module_level=True)

DTYPES = ["float32", "float64"]
N_COLUMNS = 120

Solution = tuple[NDArray[Any], NDArray[np.float64]]


def problem(lengths: list[int], dtype: str, seed: int = 0) -> RowProblem:
    """Rows of these lengths; every row has a weight, a ridge and coefficients of its own."""
    rng = np.random.default_rng(seed)
    n_rows = len(lengths)
    columns = [np.sort(rng.permutation(N_COLUMNS)[:length]) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indices = np.concatenate([*columns, []]).astype(np.int32)
    data = rng.integers(1, 6, size=len(indices)).astype(dtype)
    curvature, pull = (CellTerm(rng.uniform(0.1, 1, n_rows), slope) for slope in (0.5, 0.3))
    observed = ObservedLoss(curvature, pull, CellTerm(np.zeros(n_rows)))
    weight, ridge = rng.uniform(0.1, 1, n_rows), rng.uniform(0.1, 1, n_rows)
    return RowProblem(CSR(indptr, indices, data, N_COLUMNS), weight, ridge, observed, True)


def with_terms(work: RowProblem, curvature: CellTerm, pull: CellTerm) -> RowProblem:
    observed = ObservedLoss(curvature, pull, work.observed.constant)
    return RowProblem(work.rows, work.weight, work.ridge, observed, work.users_are_rows)


def flat(work: RowProblem) -> RowProblem:
    """Cells of value 1 keep their pull and have no curvature, the others have both."""
    ones = np.ones(work.rows.n_rows)
    return with_terms(work, CellTerm(-ones, 1.0), work.observed.pull)


def without_curvature(work: RowProblem) -> RowProblem:
    return with_terms(work, CellTerm(np.zeros(work.rows.n_rows)), work.observed.pull)


def partly_negative(work: RowProblem) -> RowProblem:
    """Every third row has cells of negative curvature, small enough to leave it definite."""
    offset = np.where(np.arange(work.rows.n_rows) % 3 == 0, -0.502, 0.1)
    ridge = np.full(work.rows.n_rows, 90.0)
    negative = with_terms(work, CellTerm(offset, 0.5), work.observed.pull)
    return RowProblem(negative.rows, work.weight, ridge, negative.observed, True)


def shared(n_factors: int, vector: bool) -> Shared:
    rng = np.random.default_rng(7)
    values = np.sort(rng.uniform(0.5, 20, n_factors))
    return Shared(values, rng.standard_normal(n_factors) * vector)


def factors(n_factors: int, dtype: str) -> NDArray[Any]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((N_COLUMNS, n_factors)).astype(dtype)


def solved(
    backend: Any,
    work: RowProblem,
    n_factors: int,
    dtype: str,
    vector: bool,
    n_threads: int = 1,
    fixed: NDArray[Any] | None = None,
) -> Solution:
    out = np.zeros((work.rows.n_rows, n_factors), dtype)
    options = SolveOptions(solver="cholesky", n_threads=n_threads)
    fixed = factors(n_factors, dtype) if fixed is None else fixed.astype(dtype)
    with single_threaded():
        return out, backend.solve_rows(work, fixed, shared(n_factors, vector), out, options)


KINDS: dict[str, Callable[[RowProblem], RowProblem]] = {
    "all curved": lambda work: work,
    "some flat": flat,
    "all flat": without_curvature,
    "some negative": partly_negative,
}
MIXED = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20, 23, 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65]
LENGTHS = [*MIXED, 96, 97, 120, *[11] * 40, *[1] * 5, 70]


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_factors", [1, 5, 16, 33, 64, 150])
def test_every_length_is_solved(n_factors: int, kind: str, dtype: str, vector: bool) -> None:
    """Lengths on both sides of every switch; solution and gain are the reference's."""
    work = KINDS[kind](problem(LENGTHS, dtype))
    truth, true_gain = solved(reference, work, n_factors, "float64", vector)
    got, gain = solved(cpu, work, n_factors, dtype, vector)
    size = np.maximum(np.linalg.norm(truth, axis=1), 1e-12)
    tolerance = cpu.TOLERANCE[dtype]
    assert (np.linalg.norm(got - truth, axis=1) / size).max() <= tolerance
    np.testing.assert_allclose(gain, true_gain, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n_factors", [33, 100])
def test_rows_that_float32_cannot_tell_apart_are_solved_in_float64(n_factors: int) -> None:
    """Nearly parallel factors, whose large weights ask for different scores.

    Lengths are on both sides of every switch: each way to solve a row knows what it cannot.
    """
    rng, work = np.random.default_rng(3), problem(LENGTHS, "float32")
    weights, pulls = rng.uniform(0.1, 1, (2, work.rows.n_rows))
    work = with_terms(work, CellTerm(1e5 * weights), CellTerm(1e5 * pulls, 3e4))
    fixed = rng.standard_normal(n_factors) + 0.01 * rng.standard_normal((N_COLUMNS, n_factors))
    fixed = fixed.astype("float32")
    truth, _ = solved(reference, work, n_factors, "float64", True, fixed=fixed)
    got, _ = solved(cpu, work, n_factors, "float32", True, fixed=fixed)
    size = np.maximum(np.linalg.norm(truth, axis=1), 1e-12)
    assert (np.linalg.norm(got - truth, axis=1) / size).max() <= 1e-6


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_the_same_whatever_is_solved_beside_it(
    kind: str, dtype: str, vector: bool
) -> None:
    """Permuted rows, a part of them, each alone, more threads: the same bits per row."""
    work = KINDS[kind](problem(LENGTHS, dtype))
    together = solved(cpu, work, 40, dtype, vector)
    rng = np.random.default_rng(2)
    n_rows = work.rows.n_rows
    orders = [rng.permutation(n_rows), np.flatnonzero(rng.random(n_rows) < 0.4)]
    orders += [np.array([r]) for r in range(0, n_rows, 3)]
    for order in orders:
        part = rows_of(work, order)
        for got, expected in zip(solved(cpu, part, 40, dtype, vector), together, strict=True):
            np.testing.assert_array_equal(got, expected[order])
    for got, expected in zip(solved(cpu, work, 40, dtype, vector, 3), together, strict=True):
        np.testing.assert_array_equal(got, expected)


def rows_of(work: RowProblem, order: NDArray[np.int64]) -> RowProblem:
    """Those rows, in that order, over the same columns."""
    cells = [work.rows.row(int(r)) for r in order]
    indptr = np.concatenate([[0], np.cumsum(work.rows.counts[order])])
    indices = np.concatenate([columns for columns, _ in cells])
    data = np.concatenate([values for _, values in cells])
    terms = work.observed.curvature, work.observed.pull, work.observed.constant
    observed = ObservedLoss(*(CellTerm(term.offset[order], term.slope) for term in terms))
    rows = CSR(indptr, indices, data, work.rows.n_columns)
    return RowProblem(rows, work.weight[order], work.ridge[order], observed, True)


@pytest.mark.parametrize("hard", ["growth", "spread"])
def test_a_row_too_hard_for_its_type_leaves_its_neighbors_alone(hard: str) -> None:
    """It is solved again in float64, and to its precision; the rows beside it keep their bits."""
    work = problem([6] * 30, "float32")
    easy, _ = solved(cpu, work, 24, "float32", False)
    values = shared(24, False).values
    weight, ridge = work.weight.copy(), work.ridge.copy()
    if hard == "growth":
        weight[11], ridge[11] = 1e-7, 1e-6
    else:
        weight[11], ridge[11] = 1.0, -values[0] * (1 - 1e-8)
    mixed = RowProblem(work.rows, weight, ridge, work.observed, True)
    got, _ = solved(cpu, mixed, 24, "float32", False)
    truth, _ = solved(reference, mixed, 24, "float64", False)
    others = np.arange(30) != 11
    np.testing.assert_array_equal(got[others], easy[others])
    assert np.linalg.norm(got[11] - truth[11]) <= 1e-6 * np.linalg.norm(truth[11])
