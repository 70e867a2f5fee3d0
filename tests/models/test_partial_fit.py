"""Users and items that join or change without a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import ITEMS, als, labeled, same_factors
from problems import OBJECTIVES, toy

import mfrank
from mfrank.data import Ids
from tests.support.errors import refuses


@pytest.mark.parametrize("name", OBJECTIVES)
def test_partial_fit_stores_what_recalculation_gives(name: str) -> None:
    matrix, model = toy(), als(OBJECTIVES[name]).fit(toy())
    rows = sp.csr_array(toy(seed=5)[[0, 1, 2]])
    expected = model.recalculate_user([2, 9, 10], rows)
    items = model.item_factors
    assert model.partial_fit_users([2, 9, 10], rows) is model
    np.testing.assert_array_equal(model.user_factors[[2, 9, 10]], expected)
    np.testing.assert_array_equal(model.item_factors, items)
    assert (len(model.user_ids), model.store.n_users) == (11, 11)
    assert model.store.counts.users[[2, 9, 10]].tolist() == np.diff(rows.indptr).tolist()
    for user, row in ((2, 0), (10, 2)):
        listed = set(model.recommend(user, N=7)[0].tolist()) - {-1}
        assert listed == {0, 1, 3, 4, 5, 6} - set(rows[[row]].indices.tolist())  # 2 is nobody's
    assert matrix.shape == (9, 7)


@pytest.mark.parametrize("name", ["wrmf", "ials", "ials weighted", "rg2", "rgx"])
def test_new_items_join_and_can_be_recommended(name: str) -> None:
    model = als(OBJECTIVES[name]).fit(labeled())
    rows = sp.csr_array(np.eye(9)[[0, 4]] + np.eye(9)[[1, 5]])
    expected = model.recalculate_item(["i3", "brand new"], rows)
    model.partial_fit_items(["i3", "brand new"], rows)
    assert model.item_ids.labels.tolist() == [*ITEMS, "brand new"]
    np.testing.assert_array_equal(model.item_factors[[3, 7]], expected)
    assert model.store.counts.items[[3, 7]].tolist() == [2, 2]
    for user, has_it in (("u4", True), ("u5", True), ("u0", False)):
        assert ("brand new" in model.recommend(user, N=8)[0]) != has_it
    assert "i3" not in model.recommend("u0", N=8)[0]


def test_one_id_is_as_good_as_a_list() -> None:
    row = sp.csr_array([[1.0, 0, 0, 0, 0, 0, 1]])
    one, many = als().fit(labeled()), als().fit(labeled())
    one.partial_fit_users("new", row)
    many.partial_fit_users(["new"], row)
    assert same_factors(one, many)
    one, many = als().fit(toy()), als().fit(toy())
    assert same_factors(one.partial_fit_users(9, row), many.partial_fit_users([9], row))


def test_users_who_bring_everything_again_stay_as_they_are() -> None:
    model = als(dtype="float64").fit(labeled())
    users, counts = model.user_factors, model.store.counts
    model.partial_fit_users(model.user_ids.labels, labeled())
    np.testing.assert_allclose(model.user_factors, users, atol=1e-7)
    np.testing.assert_array_equal(model.store.counts.users, counts.users)
    model.partial_fit_users(range(9), toy(), by_row=True)
    np.testing.assert_allclose(model.user_factors, users, atol=1e-7)


def test_messy_rows_count_as_a_fit_counts_them() -> None:
    """Duplicates are one item, explicit zeros none."""
    messy = sp.csr_array(
        (np.array([1.0, 1.0, 0.0, 2.0]), np.array([5, 5, 1, 0]), np.array([0, 4])), shape=(1, 7)
    )
    model = als(mfrank.WRMF()).fit(toy()).partial_fit_users(9, messy)
    assert model.store.counts.users[9] == 2
    assert 1 in model.recommend(9, N=7)[0]
    tidy = als(mfrank.WRMF()).fit(toy()).partial_fit_users(9, sp.csr_array([[2, 0, 0, 0, 0, 2, 0]]))
    np.testing.assert_array_equal(model.user_factors, tidy.user_factors)


@pytest.mark.parametrize(
    ("data", "ids", "options"),
    [
        (toy(), [0, 0], {}),
        (toy(), [10, 9, 10], {}),
        (toy(), [10, 11], {"by_row": True}),
        (toy(), [-1, 0], {"by_row": True}),
        (toy(), [1.5, 0], {}),
        (toy(), ["u0", "u1"], {}),
        (labeled(), ["u0", "u0"], {}),
        (labeled(), ["x", "x"], {}),
        (labeled(), [0, 9], {"by_row": True}),
    ],
)
def test_ids_that_cannot_join_change_nothing(data: Any, ids: Any, options: dict[str, Any]) -> None:
    model = als().fit(data)
    store = model.store
    with refuses((ValueError, TypeError), "userids"):
        model.partial_fit_users(ids, toy()[: len(ids)], **options)
    assert model.store is store


def test_new_row_numbers_continue_the_numbering() -> None:
    matrix = toy(seed=1)
    model = als(dtype="float64").fit(toy())
    model.partial_fit_users([10, 0, 9], matrix[:3], by_row=True)
    assert model.user_ids == Ids.numbered(11)
    np.testing.assert_allclose(
        model.user_factors[[10, 0, 9]], model.recalculate_user(["x", "y", "z"], matrix[:3])
    )
    rows = sp.csr_array(toy(2, 11))
    model.partial_fit_items([7, 8], rows, by_row=True)
    assert model.item_ids == Ids.numbered(9)
    np.testing.assert_array_equal(model.store.counts.items[7:], np.diff(rows.indptr))


def test_items_are_solved_by_row_as_by_id() -> None:
    rows = sp.csr_array(toy(2, 9, density=0.6, seed=1))
    by_id = als().fit(labeled()).partial_fit_items(["i5", "i0"], rows)
    by_row = als().fit(labeled()).partial_fit_items([5, 0], rows, by_row=True)
    assert same_factors(by_id, by_row)


def with_contact(user: str, item: str) -> mfrank.Interactions:
    """The toy data, and a cell that is only seen."""
    data = labeled()
    return mfrank.Interactions.from_arrays(
        np.r_[data.entry_users, data.user_ids.rows([user])],
        np.r_[data.user_items.indices, data.item_ids.rows([item])],
        np.r_[data.user_items.data, 0],
        shape=data.user_items.shape,
        user_ids=data.user_ids,
        item_ids=data.item_ids,
    )


@pytest.mark.parametrize("door", ["partial_fit_users", "partial_fit"])
def test_rows_keep_what_is_liked_in_them_and_what_is_only_seen(door: str) -> None:
    model, plain = als().fit(labeled()), als().fit(labeled())
    user, contact = "u0", str(model.recommend("u0", N=1).ids[0])
    liked = sorted(item for item, _ in model.explain(user, None, "i0", N=9).contributions)
    data, new = with_contact(user, contact), mfrank.Interactions.from_arrays(["u1"], ["i4"])
    if door == "partial_fit_users":
        model.partial_fit_users([user, "u1"], data)
        plain.partial_fit_users([user, "u1"], labeled())
    else:
        model.partial_fit(new, user_items=data)
        plain.partial_fit(new, user_items=labeled())
    assert same_factors(model, plain)
    again = sorted(item for item, _ in model.explain(user, None, "i0", N=9).contributions)
    assert again == liked
    assert contact in plain.recommend(user, N=7).ids
    assert contact not in model.recommend(user, N=7).ids
    model.partial_fit_users(["u2", "u3"], labeled())  # others, in a model that has such cells
    again = sorted(item for item, _ in model.explain(user, None, "i0", N=9).contributions)
    assert again == liked
    own = labeled().item_ids.raw(labeled().user_items[[2]].indices)
    assert {item for item, _ in model.explain("u2", None, "i0", N=9).contributions} == {*own}
    assert contact not in model.recommend(user, N=7).ids


def test_users_and_items_may_join_in_turn() -> None:
    model = als().fit(toy())
    model.partial_fit_users([9, 10], toy()[:2]).partial_fit_items(7, sp.csr_array(np.ones((1, 11))))
    model.partial_fit_users(11, sp.csr_array([[1, 0, 0, 0, 0, 0, 0, 1]]))
    assert (model.store.n_users, model.store.n_items) == (12, 8)
    assert 7 not in model.recommend(11, N=8)[0]
    assert model.recommend_users(7, N=12)[0].tolist() == [-1] * 12


def test_without_interactions_a_model_grows_all_the_same(tmp_path: Any) -> None:
    als().fit(toy()).save(tmp_path / "m", with_seen=False)
    model: Any = mfrank.load(tmp_path / "m")
    model.partial_fit_users(9, toy()[[0]])
    assert model.recommend(9, toy()[[0]])[0].shape == (10,)
