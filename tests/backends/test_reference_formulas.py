"""The specification itself: what it computes is what its formulas say, place by place."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mfrank.arrays import CSR
from mfrank.backends import Chain, Moves, Until, reference
from mfrank.losses import WRITTEN_OUT

RNG = np.random.default_rng(0)
QUERIES = RNG.normal(size=(4, 3)).astype(np.float32)
ITEMS = RNG.normal(size=(6, 3)).astype(np.float32)
IDS = np.array([[0, 5, 2], [2, 2, 1]])
OWN = IDS[[0, 0, 1, 1]]
"""The list of each query: two lists are divided among four queries in order."""


@pytest.mark.parametrize("distances", [False, True])
def test_scores_are_products_or_negative_squared_distances(*, distances: bool) -> None:
    how = {"distances": True} if distances else {}
    found = reference.score(QUERIES, ITEMS, IDS, **how)
    assert found.dtype == np.float32
    for q, ids in enumerate(OWN):
        for place, item in enumerate(ids):
            query, each = QUERIES[q].astype(float), ITEMS[item].astype(float)
            truth = -((query - each) ** 2).sum() if distances else query @ each
            assert found[q, place] == pytest.approx(truth, rel=1e-6)


def test_gradients_are_summed_over_items_and_over_queries() -> None:
    gradients = RNG.normal(size=(4, 3)).astype(np.float32)
    gradients[:, 1] = 0
    found = reference.sum_items(ITEMS, IDS, gradients)
    truth = [sum(g * ITEMS[item] for g, item in zip(row, ids, strict=True))
             for row, ids in zip(gradients, OWN, strict=True)]  # fmt: skip
    np.testing.assert_allclose(found, truth, rtol=1e-5)
    touched, sums, totals = reference.sum_queries(QUERIES, 6, IDS, gradients)
    assert touched.tolist() == [0, 1, 2]  # 5 has no gradient
    for item, row, total in zip(touched, sums, totals, strict=True):
        of_item = np.where(item == OWN, gradients, 0)
        np.testing.assert_allclose(row, of_item.sum(1) @ QUERIES, rtol=1e-5, atol=1e-6)
        assert total == pytest.approx(of_item.sum(), abs=1e-6)
    assert found.dtype == sums.dtype == totals.dtype == np.float32


def test_one_list_may_be_that_of_all_queries() -> None:
    found = reference.score(QUERIES, ITEMS, IDS[:1])
    np.testing.assert_allclose(found, QUERIES @ ITEMS[IDS[0]].T, rtol=1e-5, atol=1e-6)


def test_no_lists_are_no_scores() -> None:
    none = np.empty((0, 3), np.int64)
    assert reference.score(QUERIES[:0], ITEMS, none).shape == (0, 3)
    assert reference.sum_items(ITEMS, none, QUERIES[:0]).shape == (0, 3)


def test_a_product_is_computed_in_float64() -> None:
    left, right = np.array([[1e8, 1.0, -1e8]], np.float32), np.ones((3, 1), np.float32)
    found = reference.product(left, right)
    assert (found.dtype, found.item()) == (np.float32, 1.0)


def test_a_rotation_drops_the_noise_of_each_row_in_null_directions() -> None:
    turn = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    factors = np.array([[1e6, 2e6, 1e-3], [1e-3, 2e-3, 1e-9], [3.0, 0.0, 1.0], [1, 1, 1]])
    out = np.empty((4, 3))
    reference.rotate(factors, turn, 2, out)
    turned = factors @ turn
    turned[0, 0] = 0  # 1e-3 is noise beside 1e6, and 1e-9 is none beside 1e-3
    np.testing.assert_array_equal(out, turned)
    some = np.empty((2, 3))
    reference.rotate(factors, turn, 2, some, rows=np.array([2, 0]))
    np.testing.assert_array_equal(some, out[[2, 0]])


def test_losses_are_written_out() -> None:
    assert reference.list_sums() is WRITTEN_OUT


def test_an_empty_walk_changes_by_nothing() -> None:
    """No column: the largest norm of none is 0."""
    rows = CSR(np.array([0, 1]), np.zeros(1, np.int32), np.ones(1), 1)
    nothing = np.empty((1, 0))
    for norm in ("sum", "spread"):
        until = Until(3, None, norm)  # type: ignore[arg-type]
        walked = reference.walk(Chain(rows, np.array([0, 1])), nothing, nothing, 0.5, until)
        assert walked.changes.tolist() == [0.0]


def test_a_walk_ends_at_its_tolerance_met_exactly() -> None:
    """X becomes 1, then 1.5, then 1.75: changes of 1, 0.5, 0.25."""
    rows = CSR(np.array([0, 1]), np.zeros(1, np.int32), np.ones(1), 1)
    one, until = np.ones((1, 1)), Until(9, np.array([0.5]))
    walked = reference.walk(Chain(rows, np.array([0, 1])), one, 0 * one, 0.5, until)
    assert (walked.steps.tolist(), walked.changes.tolist()) == ([2], [0.5])


@pytest.mark.parametrize("tolerance", [1e-1, 1e-4])
def test_a_stationary_distribution_takes_no_more_steps_than_it_needs(tolerance: float) -> None:
    """The bound on its errors was above the tolerance one step earlier."""
    links = sp.csr_array(np.array([[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0]]))
    restarts = CSR.from_scipy(sp.csr_array(np.array([[1.0, 0, 0], [0, 0.5, 0.5]])), np.float64)
    given = Moves.of(links), restarts, 0.2, tolerance
    found = reference.stationary(*given, 1000)
    assert found.steps.dtype == np.int64
    assert (found.errors <= tolerance).all()
    assert (found.steps > 1).all()
    for row, steps in enumerate(found.steps):
        assert reference.stationary(*given, int(steps) - 1).errors[row] > tolerance
