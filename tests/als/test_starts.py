"""A warm start goes on from the factors of another fit, matched by ids."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als, labeled
from numpy.typing import NDArray
from problems import toy

import mfrank
from mfrank.als import as_step, first_biases, first_factors
from mfrank.als import engine as momentum
from mfrank.backends import choose
from tests.support.errors import refuses


def scores(model: mfrank.ALS) -> NDArray[np.float32]:
    return model.user_factors @ model.item_factors.T


def test_a_warm_start_goes_on_where_the_other_stopped() -> None:
    """By plain steps to the bit but for rounding; momentum begins anew, and goes on down."""
    for most in (0.0, momentum._MOST):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(momentum, "_MOST", most)
            whole = als(iterations=5, track_objective=True).fit(toy())
            half = als(iterations=2, track_objective=True).fit(toy())
            reached = half.store.history[-1]["objective"]
            for start in (half, half.store):
                resumed = als(iterations=3, track_objective=True).fit(toy(), start=start)
                assert resumed.store.history[0]["objective"] < reached
                if not most:
                    # Its factors were rotated once more, which rounds.
                    np.testing.assert_allclose(scores(resumed), scores(whole), rtol=1e-3, atol=1e-5)
            half.set_params(iterations=3).fit(toy(), start=half)
            np.testing.assert_array_equal(scores(half), scores(resumed))


def test_a_warm_start_leaves_the_other_model_as_it_is() -> None:
    start = als().fit(toy())
    before = start.user_factors.copy(), start.item_factors.copy()
    als().fit(toy(), start=start)
    np.testing.assert_array_equal(start.user_factors, before[0])
    np.testing.assert_array_equal(start.item_factors, before[1])


def other_rows() -> mfrank.Interactions:
    """Three of the labeled users and two of the items, among new ones; "nobody" likes nothing."""
    values = [[0, 1, 0], [3, 4, 0], [1, 2, 3], [4, 0, 1], [0, 0, 0]]
    return mfrank.Interactions.from_sparse(
        sp.csr_array(np.array(values, dtype=float)),
        user_ids=["new", "u5", "u0", "u3", "nobody"],
        item_ids=["i6", "also new", "i1"],
    )


def test_a_start_of_its_own_has_only_items() -> None:
    """A fit begins by solving the users."""
    users, items = first_factors(other_rows(), 4, "float64", 3, None, choose())
    assert users.shape == (5, 4)
    assert not users.any()
    assert items.any(axis=1).all()


def test_a_warm_start_matches_labels_in_any_order_and_number() -> None:
    start = als(dtype="float64").fit(labeled())
    found_users, found_items = first_factors(other_rows(), 4, "float64", 3, start.store, choose())
    np.testing.assert_array_equal(found_users[1:4], start.user_factors[[5, 0, 3]])
    np.testing.assert_array_equal(found_items[[0, 2]], start.item_factors[[6, 1]])
    for new in (found_users[0], found_items[1]):
        assert 0 < np.linalg.norm(new) < 0.3
    assert not found_users[4].any()


@pytest.mark.parametrize("biases", [False, True])
def test_a_start_is_an_epoch_before_the_first(biases: bool) -> None:
    """In the rows of the data, where whoever is new has no bias."""
    start = als(dtype="float64", biases=biases).fit(labeled()).store
    step = as_step(other_rows(), "float64", 3, start, choose())
    assert (step.epoch, step.seconds, step.objective) == (0, 0, None)
    for found, expected in zip(
        (step.user_factors, step.item_factors),
        first_factors(other_rows(), 4, "float64", 3, start, choose()),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    if not biases:
        assert step.user_biases is None
        assert step.item_biases is None
        return
    of_users, of_items = start.user_biases[[5, 0, 3]], start.item_biases[[6, 1]]
    np.testing.assert_array_equal(step.user_biases, [0, *of_users, 0])
    np.testing.assert_array_equal(step.item_biases, [of_items[0], 0, of_items[1]])
    again = first_biases(other_rows(), start, np.array([7.0, 8.0, 9.0]))
    np.testing.assert_array_equal(again, [of_items[0], 8, of_items[1]])


def test_a_warm_start_may_add_numbered_rows_but_not_lose_them() -> None:
    small, large = als().fit(toy()), als().fit(toy(12, 8))
    model = als()
    model.fit(toy(12, 8), start=small)
    assert model.user_factors.shape == (12, 4)
    with refuses(ValueError, "start"):
        als().fit(toy(), start=large)


def test_a_warm_start_that_does_not_fit_is_refused() -> None:
    with refuses(ValueError, "start", remedy=r"use set_params\(factors=4\) to match"):
        als(factors=5).fit(toy(), start=als().fit(toy()))
    with refuses(ValueError, "start", remedy="fit without start"):
        als().fit(labeled(), start=als().fit(toy()))
    with refuses(TypeError, "start"):
        als().fit(toy(), start=toy())  # type: ignore[arg-type]
    with pytest.raises(mfrank.NotFittedError, match="call fit"):
        als().fit(toy(), start=als())
