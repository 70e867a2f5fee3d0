"""Sums at rows that are joined are the sums of both; rows that no list has are left alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mfrank.backends import choose
from mfrank.descent import SGD, Drawn, FactorTables, GradientSums, SumsAt, joined
from mfrank.losses import WRITTEN_OUT, Gradients, Lists

ROWS = st.sets(st.integers(0, 9)).map(sorted)


def at(rows: list[int], seed: int) -> SumsAt:
    rng = np.random.default_rng(seed)
    sums = GradientSums(rng.normal(size=(len(rows), 3)), rng.normal(size=len(rows)))
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


def test_shared_items_that_no_list_may_have_are_not_touched() -> None:
    """Both users like item 5 of the sample, besides what was drawn of their likes."""
    rng, two = np.random.default_rng(0), np.ones(2)
    tables = FactorTables(
        rng.normal(size=(2, 3)), rng.normal(size=(6, 3)), None, choose("reference")
    )
    before, rule = tables.items.copy(), SGD()
    tables.begin(rule)
    lists = Lists(
        gains=np.ones((2, 1)),
        negatives=np.array([[True, False], [True, False]]),
        n_positives=2 * two,
        n_items=6 * two,
        ideal=two,
        cells=np.array([[0], [1]]),
        users=np.array([0, 1]),
        sums=WRITTEN_OUT,
        positive_items=np.array([[1], [2]]),
    )
    slopes = Gradients(-np.ones((2, 1)), np.array([[1.0, 0.0], [-1.0, 0.0]]), two)
    tables.update(Drawn(lists, np.array([3, 5])), slopes, rule, decay=0.1, clip=None)
    touched = (tables.items != before).any(axis=1)
    assert touched.tolist() == [False, True, True, True, False, False]
