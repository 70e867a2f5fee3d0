"""With on_unknown="skip" the known are answered as if they were alone, the unknown with padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from emulated_gpu import DeviceArray, EmulatedGPU
from fits import als, equal, labeled
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import toy
from rerankers import fitted as fitted_reranker
from served import N_ITEMS, N_USERS, serving, store

import mfrank
from tests.support.errors import refuses

NAMED, NUMBERED = als().fit(labeled()), als().fit(toy())
SEEN = toy()

CALLS: dict[str, Callable[..., Any]] = {
    "recommend": lambda model, ids, **how: model.recommend(ids, N=4, **how),
    "recommend_users": lambda model, ids, **how: model.recommend_users(ids, N=4, **how),
    "similar_items": lambda model, ids, **how: model.similar_items(ids, N=4, **how),
    "similar_users": lambda model, ids, **how: model.similar_users(ids, N=4, **how),
}
ROWS = st.lists(st.sampled_from([0, 1, 3, 6, 77, -5, 1000]), max_size=6)


def names(rows: list[int], call: str) -> list[str]:
    return [f"{'i' if call in ('recommend_users', 'similar_items') else 'u'}{r}" for r in rows]


def rows_match(lists: Any, known: NDArray[np.bool_], alone: Any) -> None:
    """Whether lists have the rows of ``alone`` where ids are known, and padding elsewhere."""
    ids, scores = lists
    assert len(ids) == len(scores) == len(known)
    equal((ids[known], scores[known]), alone)
    assert np.isin(ids[~known], [-1, None]).all()
    assert np.isnan(scores[~known]).all()


@pytest.mark.parametrize("call", CALLS)
@settings(max_examples=25, deadline=None)
@given(rows=ROWS, labels=st.booleans())
def test_rows_match_the_ids_that_were_asked(call: str, rows: list[int], labels: bool) -> None:
    known = np.array([0 <= row < 7 for row in rows], dtype=bool)
    model, ids = (NAMED, names(rows, call)) if labels else (NUMBERED, rows)
    alone = [each for each, is_known in zip(ids, known, strict=True) if is_known]
    lists = CALLS[call](model, ids, on_unknown="skip")
    rows_match(lists, known, CALLS[call](model, alone))


@settings(max_examples=25, deadline=None)
@given(rows=ROWS, whole=st.booleans())
def test_what_is_given_beside_the_ids_stays_beside_them(rows: list[int], whole: bool) -> None:
    known = np.array([0 <= row < 7 for row in rows], dtype=bool)
    place = np.where(known, rows, 0).astype(int)
    alone = place[known]
    beside = SEEN if whole else SEEN[place]
    blocked = [[int(row) % 7] for row in place]
    lists = NUMBERED.recommend(rows, beside, N=4, filter_items=blocked, on_unknown="skip")
    expected = NUMBERED.recommend(
        alone, SEEN[alone], N=4, filter_items=[[int(row) % 7] for row in alone]
    )
    rows_match(lists, known, expected)


def test_interactions_need_not_know_the_unknown() -> None:
    today = mfrank.Interactions.from_arrays(["u1", "u1"], ["i2", "i5"])
    got = NAMED.recommend(["u1", "zoe"], today, N=3, on_unknown="skip")
    equal([part[0] for part in got], NAMED.recommend("u1", today, N=3))
    equal(NAMED.recommend("zoe", today, N=2, on_unknown="skip"), ([None] * 2, [np.nan] * 2))


@pytest.mark.parametrize("argument", ["filter_items", "items"])
@pytest.mark.parametrize(
    ("given_", "known"),
    [
        (["i2", "pie", "i4"], ["i2", "i4"]),
        (["pie"], []),
        ([["i2", "pie"], ["pie"]], [["i2"], []]),
    ],
)
def test_unknown_items_are_left_out_of_filters(argument: str, given_: Any, known: Any) -> None:
    asked = ["u1", "u3"]
    got = NAMED.recommend(asked, N=7, **{argument: given_}, on_unknown="skip")
    equal(got, NAMED.recommend(asked, N=7, **{argument: known}))


def test_unknown_items_of_somebody_new_are_left_out() -> None:
    got = NAMED.recommend_from_items(
        ["pie", "i2", "i4", "jam"], N=5, values=[9, 1, 3, 9], on_unknown="skip"
    )
    equal(got, NAMED.recommend_from_items(["i2", "i4"], N=5, values=[1, 3]))
    nobody = NAMED.recommend_from_items(["pie"], N=5, on_unknown="skip")
    equal(nobody, NAMED.recommend_from_items([], N=5))


def test_pairs_with_an_unknown_user_or_item_have_no_score() -> None:
    scores = NAMED.score(["u1", "zoe", "u1"], ["i2", "i2", "pie"], on_unknown="skip")
    np.testing.assert_array_equal(scores[:1], NAMED.score(["u1"], ["i2"]))
    np.testing.assert_array_equal(np.isnan(scores), [False, True, True])


def test_new_users_are_no_unknown_users() -> None:
    new = {"user_items": SEEN[:2], "recalculate_user": True, "N": 3}
    equal(NAMED.recommend(["zoe", "yan"], **new, on_unknown="skip"), NAMED.recommend([0, 1], **new))


@pytest.mark.parametrize("call", [*CALLS, "recommend_from_items", "score"])
def test_there_is_no_third_way(call: str) -> None:
    call_of = {**CALLS, "score": lambda model, ids, **how: model.score(ids, ids, **how)}.get(
        call, lambda model, ids, **how: model.recommend_from_items(ids, **how)
    )
    with refuses(ValueError, "on_unknown"):
        call_of(NUMBERED, [1], on_unknown="ignore")


def test_walks_skip_too() -> None:
    times = np.arange(SEEN.nnz)
    users, items = SEEN.nonzero()
    data = mfrank.Interactions.from_arrays(users, items, timestamps=times, shape=SEEN.shape)
    model = mfrank.SupervisedPageRank(method=None).fit(data)
    known = np.array([True, False, True])
    for call in ("recommend", "similar_items"):
        lists = CALLS[call](model, [1, 77, 3], on_unknown="skip")
        rows_match(lists, known, CALLS[call](model, [1, 3]))
        assert np.isnan(CALLS[call](model, [77, -5], on_unknown="skip")[1]).all()
    scores = model.score([1, 77, 3, 1], [2, 2, 0, 77], on_unknown="skip")
    np.testing.assert_allclose(
        scores, [*model.score([1], [2]), np.nan, *model.score([3], [0]), np.nan]
    )


def test_a_second_stage_skips_too() -> None:
    model, _ = fitted_reranker()
    lists = model.recommend(["u1", "zoe", "u3"], N=4, on_unknown="skip")
    rows_match(lists, np.array([True, False, True]), model.recommend(["u1", "u3"], N=4))
    assert np.isnan(model.recommend("zoe", N=4, on_unknown="skip")[1]).all()


@pytest.mark.parametrize("call", CALLS)
def test_ids_on_a_gpu_are_skipped_there(call: str, device: EmulatedGPU) -> None:
    asked = np.array([2, 77, -1, 5])
    how: dict[str, Any] = {"on_unknown": "skip"}
    if "recommend" in call:
        what = "users" if call == "recommend_users" else "items"
        how[f"filter_already_liked_{what}"] = False
    held = store()
    expected = CALLS[call](serving(held, "reference"), asked, **how)
    got = CALLS[call](serving(held, "cuda"), DeviceArray(asked), **how)
    assert all(isinstance(part, DeviceArray) for part in got)
    np.testing.assert_array_equal(got[0].get(), expected[0])
    np.testing.assert_allclose(got[1].get(), expected[1])


def test_a_table_of_filters_on_a_gpu_is_skipped_in(device: EmulatedGPU) -> None:
    table = np.array([[1, 77], [N_ITEMS, 2]])
    how: dict[str, Any] = {"N": N_ITEMS, "filter_already_liked_items": False}
    model = serving(store(), "cuda")
    got = model.recommend(
        [0, N_USERS - 1], filter_items=DeviceArray(table), on_unknown="skip", **how
    )
    equal(got, model.recommend([0, N_USERS - 1], filter_items=[[1], [2]], **how))


def test_a_matrix_of_filters_has_no_ids_to_skip() -> None:
    with refuses(ValueError, "filter_items"):
        NAMED.recommend(["u1"], filter_items=sp.csr_array((1, 9)), on_unknown="skip")
