"""Rows in the kernels' layout: picked, cut into blocks and read one by one as scipy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mfrank.arrays import CSR

N_COLUMNS = 5


@st.composite
def matrices(draw: st.DrawFn) -> sp.csr_array:
    """Of 0 to 7 rows, some of them empty."""
    n_rows = draw(st.integers(0, 7))
    dense = draw(
        st.lists(
            st.lists(st.integers(0, 3), min_size=N_COLUMNS, max_size=N_COLUMNS),
            min_size=n_rows,
            max_size=n_rows,
        )
    )
    return sp.csr_array(np.array(dense, dtype=np.float64).reshape(n_rows, N_COLUMNS))


def dense(rows: CSR) -> Any:
    data = np.ones(len(rows.indices)) if rows.data is None else rows.data
    return sp.csr_array((data, rows.indices, rows.indptr), (rows.n_rows, rows.n_columns)).toarray()


@given(matrices(), st.sampled_from([np.float32, np.float64, None]))
def test_rows_are_those_of_the_matrix(matrix: sp.csr_array, dtype: Any) -> None:
    rows = CSR.from_scipy(matrix, dtype)
    assert (rows.n_rows, rows.n_columns) == matrix.shape
    assert (rows.indptr.dtype, rows.indices.dtype) == (np.int64, np.int32)
    assert (rows.data is None) if dtype is None else (rows.data.dtype == dtype)
    wanted = matrix.toarray()
    np.testing.assert_array_equal(dense(rows), wanted > 0 if dtype is None else wanted)
    np.testing.assert_array_equal(dense(rows.pattern()), wanted > 0)
    np.testing.assert_array_equal(rows.counts, (wanted > 0).sum(1))
    for r, row in enumerate(wanted):
        columns, values = rows.row(r)
        np.testing.assert_array_equal(columns, np.flatnonzero(row))
        if values is not None:
            np.testing.assert_array_equal(values, row[row > 0])
    assert dtype is not None or all(rows.row(r)[1] is None for r in range(rows.n_rows))


def test_values_are_in_single_precision_unless_another_is_asked_for() -> None:
    rows = CSR.from_scipy(sp.csr_array(np.eye(3)))
    assert rows.data is not None
    assert rows.data.dtype == np.float32


def test_the_matrix_across_is_kept() -> None:
    """It spares who has it to compute it once more."""
    columns = CSR.from_scipy(sp.csr_array(np.eye(3)))
    rows = CSR.from_scipy(sp.csr_array(np.eye(3)), across=columns)
    assert rows.across is rows.pattern().across is columns
    assert columns.across is None


@given(matrices(), st.data())
def test_picked_rows_are_in_the_order_of_the_picks(matrix: sp.csr_array, data: Any) -> None:
    n_rows = matrix.shape[0]
    picks = st.lists(st.integers(0, n_rows - 1), max_size=9) if n_rows else st.just([])
    at = np.array(data.draw(picks), dtype=np.int64)
    picked = CSR.from_scipy(matrix).pick(at)
    assert (picked.n_rows, picked.data) == (len(at), None)
    np.testing.assert_array_equal(dense(picked), matrix.toarray()[at] > 0)


def test_a_single_row_is_picked_without_a_copy() -> None:
    rows = CSR.from_scipy(sp.csr_array(np.eye(3)))
    assert np.shares_memory(rows.pick(np.array([1])).indices, rows.indices)


@given(matrices(), st.integers(1, 12))
def test_blocks_are_as_long_as_may_be_and_never_cut_a_row(
    matrix: sp.csr_array, n_entries: int
) -> None:
    rows = CSR.from_scipy(matrix)
    blocks = list(rows.blocks(n_entries))
    assert [row for block in blocks for row in range(*block)] == list(range(rows.n_rows))
    for first, last in blocks:
        held = rows.indptr[last] - rows.indptr[first]
        assert held <= n_entries or last == first + 1
        if last < rows.n_rows:
            assert rows.indptr[last + 1] - rows.indptr[first] > n_entries


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_arrays_of_the_right_dtype_are_shared(kind: Any) -> None:
    matrix = sp.csr_array(np.eye(3, dtype=np.float32))
    matrix.indices, matrix.indptr = matrix.indices.astype(kind), matrix.indptr.astype(kind)
    rows = CSR.from_scipy(matrix)
    assert rows.data is matrix.data
    assert (rows.indices is matrix.indices) == (kind is np.int32)
    assert (rows.indptr is matrix.indptr) == (kind is np.int64)
