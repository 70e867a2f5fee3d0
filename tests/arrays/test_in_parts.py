"""Rows are copied whole and in order, however many threads there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfrank.arrays import in_parts
from mfrank.arrays.in_parts import MOST_PARTS, copy_rows, parts_of


@given(st.integers(0, 5000))
def test_parts_cover_each_place_once(size: int) -> None:
    parts = parts_of(size)
    assert len(parts) <= MOST_PARTS
    places = [place for part in parts for place in range(*part.indices(size))]
    assert places == list(range(size))


@pytest.mark.parametrize("n_threads", [0, 1, 3])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (900, 7), (900,)])
def test_rows_are_copied(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], n_threads: int
) -> None:
    monkeypatch.setattr(in_parts, "_BYTES_WORTH_A_THREAD", 64)
    rng = np.random.default_rng(0)
    table = rng.standard_normal(shape)
    whole = np.zeros_like(table)
    copy_rows(table, whole, n_threads=n_threads)
    np.testing.assert_array_equal(whole, table)
    rows = rng.integers(0, len(table), 400) if len(table) else np.zeros(0, np.int64)
    some = np.zeros((len(rows), *shape[1:]))
    copy_rows(table, some, rows, n_threads)
    np.testing.assert_array_equal(some, table[rows])
