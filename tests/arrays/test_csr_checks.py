"""Arrays are rows of a sparse matrix, or it is said why they are not; scipy is not trusted."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mfrank.arrays import (
    all_finite,
    check_csr,
    check_indptr,
    checked_rows,
    csr_checks,
    is_canonical,
)
from tests.support.errors import refuses

DTYPES = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, ">i4"]
small = st.integers(-2, 6)


def is_csr(indptr: list[int], indices: list[int], n_rows: int, n_columns: int) -> bool:
    """The definition, number by number."""
    return (
        len(indptr) == n_rows + 1
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and all(indptr[r] <= indptr[r + 1] for r in range(n_rows))
        and all(0 <= column < n_columns for column in indices)
    )


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[int], list[int], int, int]:
    """Rows of a matrix, and rows that are none, often by a single number."""
    n_columns = draw(st.integers(0, 5))
    columns = st.lists(st.integers(0, n_columns - 1)) if n_columns else st.just([])
    lists = draw(st.lists(columns, max_size=4))
    indptr, indices = [0, *np.cumsum([len(row) for row in lists]).tolist()], list(chain(*lists))
    for array in (indptr, indices):
        if array and draw(st.booleans()):
            array[draw(st.integers(0, len(array) - 1))] = draw(small)
    return indptr, indices, draw(st.sampled_from([len(lists)] * 3 + [0, 2])), n_columns


@given(rows(), st.sampled_from(DTYPES))
def test_what_the_definition_says_is_what_is_refused(
    given_rows: tuple[list[int], list[int], int, int], dtype: Any
) -> None:
    indptr, indices, n_rows, n_columns = given_rows
    with np.errstate(all="ignore"):
        arrays = [np.array(array, np.int64).astype(dtype) for array in (indptr, indices)]
    as_they_are = [array.tolist() for array in arrays]  # -1 is the largest unsigned number
    if is_csr(*as_they_are, n_rows, n_columns):
        check_csr(*arrays, n_rows, n_columns, "m")
    else:
        with refuses(ValueError, "m"):
            check_csr(*arrays, n_rows, n_columns, "m")


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=5), st.sampled_from(DTYPES))
def test_rows_are_canonical_where_each_ascends(lists: list[list[int]], dtype: Any) -> None:
    indptr = np.cumsum([0, *map(len, lists)]).astype(dtype)
    indices = np.array(list(chain(*lists)), dtype)
    wanted = all(row == sorted(set(row)) for row in lists)
    for at_once in (1, 2, 3, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csr_checks, "_ENTRIES_AT_ONCE", at_once)
            assert is_canonical(indptr, indices) == wanted


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [1, 4, 9])
def test_a_value_that_is_not_finite_is_found_anywhere(
    monkeypatch: pytest.MonkeyPatch, size: int, odd: float
) -> None:
    monkeypatch.setattr(csr_checks, "_ENTRIES_AT_ONCE", 4)
    assert all_finite(np.ones(0))
    assert all_finite(np.ones(size))
    for place in range(size):
        values = np.ones(size)
        values[place] = odd
        assert not all_finite(values)


def matrix_of(
    indptr: list[int], indices: list[int], n_rows: int, n_columns: int
) -> tuple[sp.csr_array, np.ndarray[Any, Any]]:
    """A matrix of these arrays, whether they fit each other or not, and its values."""
    matrix = sp.csr_array((n_rows, n_columns))
    matrix.indptr, matrix.indices = np.array(indptr, np.int64), np.array(indices, np.int32)
    matrix.data = np.arange(1.0, len(indices) + 1)
    return matrix, matrix.data


@given(rows(), st.data())
def test_of_a_damaged_matrix_the_sound_rows_are_read_and_no_others(
    given_rows: tuple[list[int], list[int], int, int], data: st.DataObject
) -> None:
    indptr, indices, n_rows, n_columns = given_rows
    matrix, values = matrix_of(*given_rows)
    asked = data.draw(st.lists(st.integers(0, n_rows - 1), max_size=4) if n_rows else st.just([]))
    entries = [range(*(indptr[r : r + 2] if r + 2 <= len(indptr) else (0, -1))) for r in asked]
    is_sound = len(indptr) == n_rows + 1 and all(
        0 <= indptr[r] <= indptr[r + 1] <= len(indices)
        and all(0 <= indices[at] < n_columns for at in places)
        for r, places in zip(asked, entries, strict=True)
    )
    if not is_sound:
        with refuses(ValueError, "m"):
            checked_rows(matrix, "m", np.array(asked, np.int64))
        return
    found = checked_rows(matrix, "m", np.array(asked, np.int64))
    expected = np.zeros((len(asked), n_columns))
    for row, places in enumerate(entries):
        np.add.at(expected[row], [indices[at] for at in places], values[places.start : places.stop])
    np.testing.assert_array_equal(found.toarray(), expected)


@pytest.mark.parametrize("part", ["indptr", "indices", "data"])
def test_some_rows_of_arrays_of_another_kind_are_refused_by_name(part: str) -> None:
    matrix, _ = matrix_of([0, 1, 2], [3, 4], 2, 5)
    whole = getattr(matrix, part)
    for odd in (whole[:, None], whole[:-1]) if part == "data" else (whole[:, None], whole + 0.5):
        setattr(matrix, part, odd)
        with pytest.raises(ValueError, match=rf"m\.{part} must"):
            checked_rows(matrix, "m", np.array([0]))


BAD: list[tuple[Any, Any, str]] = [
    ([0, 2**31 - 1, 0], [], r"m\.indptr must not fall, got 2147483647 and then 0 at row 1"),
    ([0, 3, 2], [0, 1], r"m\.indptr must not fall, got 3 and then 2 at row 1"),
    ([0, -1, 2], [0, 1], r"m\.indptr must not fall, got 0 and then -1 at row 0"),
    ([1, 1, 2], [0, 1], r"m\.indptr must begin at 0, got 1"),
    ([0, 1, 1], [0, 1], r"m\.indptr must end at 2, the number of entries, got 1"),
    ([0, 1, 2**60], [0, 1], r"m\.indptr must end at 2, the number of entries, got 1152921504606"),
    ([0, 2], [0, 1], r"m\.indptr must have 3 offsets, one more than rows, got 2"),
    ([], [], r"m\.indptr must have 3 offsets"),
    ([0, 1, 2], [0, 5], r"m\.indices must lie in 0\.\.4, got 5"),
    ([0, 1, 2], [-1, 9], r"m\.indices must lie in 0\.\.4, got -1"),
    ([0, 1, 2], [0.0, 1.0], r"m\.indices must be a one-dimensional .*got float64 of shape \(2,\)"),
    ([[0, 1, 2]], [0, 1], r"m\.indptr must be a one-dimensional .*of shape \(1, 3\)"),
    ([False, True, True], [0], r"m\.indptr must be .*whole numbers, got bool"),
]


@pytest.mark.parametrize(("indptr", "indices", "message"), BAD)
def test_the_error_names_the_array_and_the_number(indptr: Any, indices: Any, message: str) -> None:
    made = np.array(indptr), np.array(indices, dtype=None if indices else np.int32)
    with pytest.raises(ValueError, match=message):
        check_csr(made[0] if indptr else made[0].astype(int), made[1], 2, 5, "m")


def test_what_scipy_passes_is_refused() -> None:
    matrix = sp.csr_array((3, 5))
    matrix.indptr[1] = 2**31 - 1
    matrix.check_format(full_check=True)
    with refuses(ValueError, "m"):
        check_csr(matrix.indptr, matrix.indices, 3, 5, "m")


def test_numbers_beyond_64_bits_signed_do_not_wrap() -> None:
    huge = np.array([0, 2**64 - 1, 2], np.uint64)
    with pytest.raises(ValueError, match="18446744073709551615 and then 2 at row 1"):
        check_csr(huge, np.zeros(2, np.uint64), 2, 5, "m")
    with pytest.raises(ValueError, match=r"must lie in 0\.\.4, got 18446744073709551615"):
        check_csr(np.array([0, 2]), np.array([0, 2**64 - 1], np.uint64), 1, 5, "m")
    with pytest.raises(ValueError, match="must end at 2, the number of entries, got 1844674407"):
        check_indptr(huge[:2], 2, 1, "m")


def test_values_are_as_many_as_columns() -> None:
    indptr, indices = np.array([0, 1, 2]), np.array([4, 0])
    check_csr(indptr, indices, 2, 5, "m", data=np.ones(2))
    for data in (np.ones(1), np.ones((2, 1))):
        with refuses(ValueError, "m"):
            check_csr(indptr, indices, 2, 5, "m", data=data)


def test_lists_are_no_arrays() -> None:
    with refuses(ValueError, "m.indptr"):
        check_csr([0, 1], np.array([0]), 1, 1, "m")  # type: ignore[arg-type]
