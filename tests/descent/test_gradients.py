"""Sums at rows that are joined are the sums of both."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mfrank.descent.gradients import Sums, SumsAt, joined

ROWS = st.sets(st.integers(0, 9)).map(sorted)


def at(rows: list[int], seed: int) -> SumsAt:
    rng = np.random.default_rng(seed)
    sums = Sums(rng.normal(size=(len(rows), 3)), rng.normal(size=len(rows)))
    return SumsAt(np.array(rows, dtype=np.int64), sums)


@given(ROWS, ROWS)
def test_every_row_has_the_sum_of_both(first: list[int], second: list[int]) -> None:
    parts = at(first, 0), at(second, 1)
    values, totals = np.zeros((10, 3)), np.zeros(10)
    for rows, sums in parts:
        values[rows] += sums.values
        totals[rows] += sums.totals
    found = joined(*parts)
    np.testing.assert_array_equal(found.rows, sorted({*first, *second}))
    np.testing.assert_allclose(found.sums.values, values[found.rows])
    np.testing.assert_allclose(found.sums.totals, totals[found.rows])
