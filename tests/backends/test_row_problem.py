"""A row problem's sums are those of its coefficients, however the rows are cut into blocks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from problems import toy

from mfrank.arrays import CSR
from mfrank.backends import (
    CellTerm,
    ObservedLoss,
    RowProblem,
    Shared,
    SolveOptions,
    reference,
    row_problem,
)


@given(counts=st.lists(st.integers(0, 9), max_size=12), at_once=st.integers(1, 20))
def test_blocks_cut_the_rows_into_consecutive_parts(counts: list[int], at_once: int) -> None:
    indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    rows = CSR(indptr, np.zeros(indptr[-1], np.int32), None, 1)
    blocks = list(rows.blocks(at_once))
    assert [row for first, last in blocks for row in range(first, last)] == list(range(len(counts)))
    for first, last in blocks:
        assert last == first + 1 or indptr[last] - indptr[first] <= at_once


@pytest.mark.parametrize("at_once", [1, 5, 1000])
@pytest.mark.parametrize("users_are_rows", [True, False])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_users", [1, 9])
def test_row_sums_are_those_of_the_matrix(
    at_once: int,
    users_are_rows: bool,
    signed: bool,
    slope: float,
    n_users: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_problem, "_ENTRIES_AT_ONCE", at_once)
    dense = toy(values="dislikes", seed=1).toarray()[:n_users]
    matrix = sp.csr_array(dense)
    term = CellTerm(np.linspace(1, 2, len(dense)), slope)
    cells = np.where(dense != 0, term.offset[:, None] + slope * np.abs(dense), 0)
    if signed:
        cells[dense < 0] = 0
    rows = CSR.from_scipy(matrix if users_are_rows else sp.csr_array(matrix.T), "f4")
    nothing = np.zeros(rows.n_rows)
    problem = RowProblem(rows, nothing, nothing, ObservedLoss(term, term, term), users_are_rows)
    expected = cells.sum(axis=1 if users_are_rows else 0)
    only: dict[str, bool] = {"signed": True} if signed else {}
    np.testing.assert_allclose(problem.row_sums(term, **only), expected)


@pytest.mark.parametrize("wide", [0, 1000])
@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("users_are_rows", [True, False])
def test_on_the_used_columns_it_is_the_same_problem(
    n_rows: int, users_are_rows: bool, wide: int
) -> None:
    """Whether few of the columns are used or many."""
    matrix = sp.csr_array(toy(values="counts")[:n_rows] * 1.0)
    matrix.resize((n_rows, matrix.shape[1] + wide))
    rows = CSR.from_scipy(matrix, "f8")
    term = CellTerm(np.linspace(1, 2, n_rows if users_are_rows else rows.n_columns), 0.5)
    nothing = np.zeros(n_rows)
    problem = RowProblem(rows, nothing, nothing, ObservedLoss(term, term, term), users_are_rows)
    part, columns = problem.on_used_columns()
    np.testing.assert_array_equal(columns, np.unique(rows.indices))
    np.testing.assert_array_equal(columns[part.rows.indices], rows.indices)
    assert part.rows.n_columns == len(columns) < rows.n_columns
    assert columns.dtype == part.rows.indices.dtype == np.int32
    np.testing.assert_array_equal(part.curvature(), problem.curvature())
    np.testing.assert_array_equal(part.pull(), problem.pull())
    turned = columns[::-1]
    places = np.full(rows.n_columns, -1, np.int32)
    places[turned] = np.arange(len(turned))
    placed = problem.placed(places, turned)
    np.testing.assert_array_equal(turned[placed.rows.indices], rows.indices)
    assert placed.rows.n_columns == len(turned)
    np.testing.assert_array_equal(placed.curvature(), problem.curvature())
    np.testing.assert_array_equal(placed.pull(), problem.pull())


def of_one_row(values: list[float] | None, offset: float, slope: float) -> RowProblem:
    """One user with three items, whose cells all have one term."""
    data = None if values is None else np.array(values, np.float32)
    rows = CSR(np.array([0, 3]), np.arange(3, dtype=np.int32), data, 3)
    term = CellTerm(np.array([offset]), slope)
    return RowProblem(rows, np.ones(1), np.ones(1), ObservedLoss(term, term, term), True)


def test_only_what_is_above_zero_is_liked() -> None:
    problem = of_one_row([-2, 0, 3], 1.0, 0.5)
    np.testing.assert_array_equal(problem.curvature(), [2, 1, 2.5])
    for of_likes in (problem.pull(), problem.constant()):
        np.testing.assert_array_equal(of_likes, [0, 0, 2.5])
    assert problem.row_sums(problem.observed.pull, signed=True) == 2.5


def test_without_values_every_cell_is_one() -> None:
    with_ones, without = of_one_row([1, 1, 1], 0.5, 2.0), of_one_row(None, 0.5, 2.0)
    for problem in (with_ones, without):
        np.testing.assert_array_equal(problem.curvature(), [2.5] * 3)
        np.testing.assert_array_equal(problem.pull(), [2.5] * 3)


def test_coefficients_are_products_in_float64() -> None:
    found = of_one_row([0.1, 0.7, 1e8], 0.1, 0.3).curvature()
    values = np.array([0.1, 0.7, 1e8], np.float32).astype(np.float64)
    np.testing.assert_array_equal(found, 0.1 + 0.3 * values)


@pytest.mark.parametrize(
    ("offset", "slope", "curved"), [(0.0, 0.0, False), (0.1, 0.0, True), (0.0, 0.1, True)]
)
def test_an_offset_or_a_slope_makes_it_curved(offset: float, slope: float, curved: bool) -> None:
    assert of_one_row(None, offset, slope).curved is curved


@pytest.mark.parametrize(
    ("null", "expected"), [(0, [[2, 0, 1]]), (1, [[2], [0, 1]]), (2, [[2, 1], [0]])]
)
def test_rows_are_divided_by_whether_they_reach_null_directions(
    null: int, expected: list[list[int]]
) -> None:
    """Row 2 reaches the first direction by one of two items, row 1 the second, row 0 none."""
    fixed = np.array([[0, 0, 1], [0, 2, 1], [3, 0, 1]], np.float32)
    columns = np.array([0, 1, 0, 2], np.int32)
    rows = CSR(np.array([0, 1, 2, 4]), columns, None, 3)
    term = CellTerm(np.ones(3))
    problem = RowProblem(rows, np.ones(3), np.ones(3), ObservedLoss(term, term, term), True)
    shared = Shared(np.array([0.0] * null + [1.0] * (3 - null)), np.zeros(3))
    found = row_problem.alike(problem, np.array([2, 0, 1]), fixed, shared)
    assert [some.tolist() for some in found] == expected
    assert not row_problem.alike(problem, np.array([], np.int64), fixed, shared)


@pytest.mark.parametrize("pulled", [True, False])
@pytest.mark.parametrize("null", [0, 2])
def test_the_least_squares_solution_of_a_row_is_the_references(null: int, pulled: bool) -> None:
    """With two null directions and no ridge, the smallest of many solutions."""
    rng = np.random.default_rng(0)
    matrix = toy(values="dislikes", seed=1)
    rows = CSR.from_scipy(matrix, "f8")
    terms = [CellTerm(rng.random(rows.n_rows), slope) for slope in (0.5, 0.3, 0.2)]
    ridge = np.zeros(rows.n_rows) if null else rng.random(rows.n_rows)
    problem = RowProblem(rows, rng.random(rows.n_rows), ridge, ObservedLoss(*terms), True)
    fixed = rng.normal(size=(rows.n_columns, 4))
    fixed[:, :null] = 0
    shared = Shared(np.array([0.0] * null + [2.0] * (4 - null)), rng.normal(size=4))
    shared.vector[:null] = 0
    prior = rng.normal(size=(rows.n_rows, 4)) if pulled else None
    truth = np.empty((rows.n_rows, 4))
    gains = reference.solve_rows(problem, fixed, shared, truth, SolveOptions(), prior=prior)
    for r in range(rows.n_rows):
        solution, gain = row_problem.minimum_norm(problem, r, fixed, shared, prior)
        np.testing.assert_allclose(solution, truth[r], atol=1e-12)
        np.testing.assert_allclose(gain, gains[r], rtol=1e-9)
