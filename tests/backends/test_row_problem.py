"""A row problem's sums are those of its coefficients, however the rows are cut into blocks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from problems import toy

from mfrank.arrays import CSR
from mfrank.backends import CellTerm, ObservedLoss, RowProblem, row_problem


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
@pytest.mark.parametrize("likes_only", [True, False])
@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_row_sums_are_those_of_the_matrix(
    at_once: int,
    users_are_rows: bool,
    likes_only: bool,
    slope: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_problem, "_ENTRIES_AT_ONCE", at_once)
    matrix = toy(values="dislikes")
    dense = matrix.toarray()
    term = CellTerm(np.linspace(1, 2, len(dense)), slope)
    cells = np.where(dense != 0, term.offset[:, None] + slope * np.abs(dense), 0)
    if likes_only:
        cells[dense < 0] = 0
    rows = CSR.from_scipy(matrix if users_are_rows else sp.csr_array(matrix.T), "f4")
    nothing = np.zeros(rows.n_rows)
    problem = RowProblem(rows, nothing, nothing, ObservedLoss(term, term, term), users_are_rows)
    expected = cells.sum(axis=1 if users_are_rows else 0)
    np.testing.assert_allclose(problem.row_sums(term, likes_only=likes_only), expected)


@pytest.mark.parametrize("wide", [0, 1000])
@pytest.mark.parametrize("n_rows", [1, 3])
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
