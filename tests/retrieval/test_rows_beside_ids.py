"""A matrix beside ids has a row for each of them, in their order: no other order is ever assumed.

What is asked of many at once is what each is told alone; asked in another order, the answers come
in that order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from fits import als, equal
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from tests.support.errors import refuses

N_USERS, N_ITEMS = 12, 15
USERS = [f"u{(7 * u) % N_USERS:02d}" for u in range(N_USERS)]
ITEMS = [f"i{(4 * i) % N_ITEMS:02d}" for i in range(N_ITEMS)]


def likes(seed: int, n_rows: int = N_USERS, n_columns: int = N_ITEMS) -> sp.csr_array:
    values = np.random.default_rng(seed).integers(0, 4, (n_rows, n_columns))
    return sp.csr_array(np.where(values > 1, values, 0).astype(np.float32))


def interactions(matrix: sp.csr_array, labels: bool) -> mfrank.Interactions:
    ids = {"user_ids": USERS, "item_ids": ITEMS} if labels else {}
    return mfrank.Interactions.from_sparse(matrix, **ids)


def fitted(labels: bool, data: sp.csr_array | None = None) -> mfrank.ALS:
    return als().fit(interactions(likes(0) if data is None else data, labels))


SPARSE: dict[str, Callable[[sp.csr_array], Any]] = {
    "csr_array": lambda m: m,
    "csr_matrix": sp.csr_matrix,
    "csc": lambda m: m.tocsc(),
    "coo": lambda m: m.tocoo(),
    "lil": lambda m: m.tolil(),
}
FILTERS: dict[str, Callable[[sp.csr_array], Any]] = {
    **SPARSE,
    "lists": lambda m: [m[[r]].indices.tolist() for r in range(m.shape[0])],
    "one list": lambda _: [3, 1, 4],
    "none": lambda _: None,
}
IDS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "array": np.array,
    "tuple": tuple,
    "Series": pandas.Series,
}
ASKED = st.one_of(
    st.permutations(range(N_USERS)),
    st.lists(st.integers(0, N_USERS - 1), min_size=1, max_size=2 * N_USERS),
)


def named(values: Any, labels: bool, names: list[str]) -> Any:
    """A filter of row numbers in the words of a model with labels."""
    if not (labels and isinstance(values, list)):
        return values
    return [[names[i] for i in v] if isinstance(v, list) else names[v] for v in values]


@pytest.mark.parametrize("labels", [False, True])
@settings(max_examples=60, deadline=None)
@given(
    asked=ASKED,
    seen=st.sampled_from([*SPARSE, "Interactions"]),
    filters=st.tuples(st.sampled_from(list(FILTERS)), st.sampled_from(list(FILTERS))),
    ids=st.sampled_from(list(IDS)),
    recalculate=st.booleans(),
    seed=st.integers(1, 100),
)
def test_many_users_get_what_each_gets_alone(
    labels: bool,
    asked: list[int],
    seen: str,
    filters: tuple[str, str],
    ids: str,
    recalculate: bool,
    seed: int,
) -> None:
    model, had = fitted(labels), likes(seed)
    blocked, only = likes(seed + 1), likes(seed + 2)
    users = [USERS[u] if labels else u for u in asked]

    def lists(rows: list[int], userid: Any) -> Any:
        given_ = interactions(had, labels) if seen == "Interactions" else SPARSE[seen](had[rows])
        block, allow = (
            named(FILTERS[form](matrix[rows]), labels, ITEMS)
            for form, matrix in zip(filters, (blocked, only), strict=True)
        )
        return model.recommend(
            userid, given_, 6, filter_items=block, items=allow, recalculate_user=recalculate
        )

    many = lists(asked, IDS[ids](users))
    alone = [lists([row], [user]) for row, user in zip(asked, users, strict=True)]
    np.testing.assert_array_equal(many[0], np.vstack([one[0] for one in alone]))
    np.testing.assert_allclose(many[1], np.vstack([one[1] for one in alone]), rtol=1e-5)


@pytest.mark.parametrize("labels", [False, True])
@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(N_USERS)), form=st.sampled_from(list(SPARSE)))
def test_a_permutation_of_all_users_gets_its_lists_in_that_order(
    labels: bool, order: list[int], form: str
) -> None:
    model, had, blocked = fitted(labels), likes(5), likes(6)
    everyone = list(USERS) if labels else list(range(N_USERS))
    wanted = model.recommend(everyone, had, 5, filter_items=blocked)
    got = model.recommend(
        [everyone[u] for u in order],
        SPARSE[form](had[order]),
        5,
        filter_items=SPARSE[form](blocked[order]),
    )
    equal(got, [each[order] for each in wanted])
    for row, user in enumerate(order):  # and none has what that user has
        listed = got[0][row].tolist()
        rows = [ITEMS.index(item) for item in listed if item is not None] if labels else listed
        assert not set(rows) & set(had[[user]].indices.tolist())


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(N_USERS)))
def test_users_are_solved_from_their_own_rows(order: list[int]) -> None:
    model, new = fitted(False), likes(3)
    alone = np.array([model.recalculate_user(u, new[[u]]) for u in range(N_USERS)])
    solved = model.recalculate_user(order, new[order])
    np.testing.assert_allclose(solved, alone[order], rtol=1e-5, atol=1e-6)
    stored = fitted(False).partial_fit_users(order, new[order])
    np.testing.assert_allclose(stored.user_factors, alone, rtol=1e-5, atol=1e-6)
    listed = stored.recommend(range(N_USERS), N=N_ITEMS)[0]
    for user in range(N_USERS):  # and have their own rows as what they have seen
        unseen = np.flatnonzero(new[[user]].toarray().ravel() == 0)
        assert sorted(listed[user][listed[user] >= 0]) == unseen.tolist()


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(N_ITEMS)))
def test_items_are_solved_from_their_own_rows(order: list[int]) -> None:
    model, new = fitted(False), likes(3).T.tocsr()
    alone = np.array([model.recalculate_item(i, new[[i]]) for i in range(N_ITEMS)])
    solved = model.recalculate_item(order, new[order])
    np.testing.assert_allclose(solved, alone[order], rtol=1e-5, atol=1e-6)
    stored = fitted(False).partial_fit_items(order, new[order])
    np.testing.assert_allclose(stored.item_factors, alone, rtol=1e-5, atol=1e-6)
    whole = model.recommend_users(range(N_ITEMS), new, 4)
    equal(model.recommend_users(order, new[order], 4), [each[order] for each in whole])


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(N_ITEMS)))
def test_filters_of_similar_items_follow_the_items_asked_about(order: list[int]) -> None:
    model, blocked = fitted(False), likes(8, N_ITEMS, N_ITEMS)
    whole = model.similar_items(range(N_ITEMS), 5, filter_items=blocked)
    got = model.similar_items(order, 5, filter_items=blocked[order])
    equal(got, [each[order] for each in whole])


def test_the_whole_matrix_serves_some_users_which_it_cannot_be_mistaken_for() -> None:
    model, had = fitted(False), likes(5)
    for users in ([4], [7, 2], 9, [3, 3, 11]):
        equal(model.recommend(users, had), model.recommend(users, had[np.atleast_1d(users)]))
        np.testing.assert_array_equal(
            model.recalculate_user(users, had),
            model.recalculate_user(users, had[np.atleast_1d(users)]),
        )


USER_DOORS: dict[str, Callable[[Any, Any, sp.csr_array], Any]] = {
    "recommend": lambda model, users, rows: model.recommend(users, rows, N=4).ids,
    "fold in": lambda model, users, rows: (
        model.recommend(users, rows, N=4, recalculate_user=True).ids
    ),
    "recalculate": lambda model, users, rows: model.recalculate_user(users, rows),
    "similar": lambda model, users, rows: (
        model.similar_users(users, recalculate_user=True, user_items=rows).ids
    ),
    "update": lambda model, users, rows: model.partial_fit_users(users, rows).user_factors,
}
ITEM_DOORS: dict[str, Callable[[Any, Any, sp.csr_array], Any]] = {
    "recommend_users": lambda model, items, rows: model.recommend_users(items, rows, N=4).ids,
    "recalculate": lambda model, items, rows: model.recalculate_item(items, rows),
    "update": lambda model, items, rows: model.partial_fit_items(items, rows).item_factors,
}


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("side", ["user", "item"])
def test_the_matrix_of_the_fit_is_not_taken_for_rows_in_another_order(
    side: str, labels: bool
) -> None:
    matrix = likes(0) if side == "user" else sp.csr_array(likes(0).T)
    ids = (USERS if side == "user" else ITEMS) if labels else np.arange(matrix.shape[0]).tolist()
    argument = "user_items" if side == "user" else "item_users"
    for door in (USER_DOORS if side == "user" else ITEM_DOORS).values():
        in_order = door(fitted(labels), ids, matrix)
        with refuses(ValueError, argument, remedy="in their order"):
            door(fitted(labels), ids[::-1], matrix)
        backwards = door(fitted(labels), ids[::-1], matrix[::-1])
        assert len(backwards) == len(in_order)


def test_models_without_factors_refuse_it_too() -> None:
    model, backwards = mfrank.EASE().fit(likes(0)), np.arange(N_USERS)[::-1]
    for options in ({}, {"recalculate_user": True}):
        with refuses(ValueError, "user_items", remedy="in their order"):
            model.recommend(backwards, likes(0), **options)


def test_only_likes_of_the_fit_are_its_matrix_too() -> None:
    data = mfrank.Interactions.from_sparse(likes(0)).at_least(3)
    model, backwards = als().fit(data), np.arange(N_USERS)[::-1]
    for matrix in (data.user_items, data.seen):
        with refuses(ValueError, "user_items"):
            model.recommend(backwards, matrix)
        model.recommend(backwards, matrix[backwards])


@pytest.mark.parametrize("labels", [False, True])
def test_a_square_matrix_of_the_fit_is_not_taken_with_its_columns_as_rows(labels: bool) -> None:
    """A model that was fitted to item_users shows that when it is given user_items."""
    square = likes(0, N_USERS, N_USERS)
    turned, alike = sp.csr_array(square.T), sp.csr_array(square + square.T)
    ids = USERS if labels else np.arange(N_USERS).tolist()

    def model_of(matrix: sp.csr_array) -> mfrank.ALS:
        both = {"user_ids": USERS, "item_ids": ITEMS[:N_USERS]} if labels else {}
        return als().fit(mfrank.Interactions.from_sparse(matrix, **both))

    for door in USER_DOORS.values():
        with refuses(ValueError, "user_items", remedy="whose rows are users"):
            door(model_of(turned), ids, square)
        for matrix in (square, alike):
            door(model_of(matrix), ids, matrix)
        door(model_of(square), ids, likes(1, N_USERS, N_USERS))


def test_rows_that_are_all_alike_have_every_order() -> None:
    alike = sp.csr_array(np.tile(likes(0)[[0]].toarray(), (N_USERS, 1)))
    model, backwards = fitted(False, alike), np.arange(N_USERS)[::-1]
    equal(model.recommend(backwards, alike), model.recommend(backwards, alike[backwards]))


def test_a_new_row_is_no_other_order() -> None:
    """Also where the model has one row, which is given to somebody new."""
    model = fitted(False, likes(0)[[0]])
    assert model.partial_fit_users([1], likes(0)[[0]]).user_factors.shape[0] == 2


def test_interactions_are_read_by_their_ids_whoever_is_asked() -> None:
    model, had = fitted(True), interactions(likes(5), True)
    everyone = USERS[::-1]
    equal(
        model.recommend(everyone, had),
        [each[::-1] for each in model.recommend(USERS, had)],
    )


@pytest.mark.parametrize("rows", [0, 1, 3, N_USERS - 1, N_USERS + 1])
def test_any_other_number_of_rows_is_refused_with_the_remedy(rows: int) -> None:
    model, wrong = fitted(False), likes(1, rows)
    for argument in ("user_items", "filter_items", "items"):
        with refuses(ValueError, argument, remedy="the rows of these ids"):
            model.recommend([4, 7], **{argument: wrong})
    for ask in (model.recalculate_user, model.partial_fit_users):
        with refuses(ValueError, "user_items"):
            ask([4, 7], wrong)
