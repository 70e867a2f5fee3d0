"""A prior added to a model counts in every answer, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mfrank
from tests.support.errors import refuses

DATA = mfrank.synthetic(30, 20, 300, names=True, random_state=0)
USER, ITEM = DATA.user_ids.labels[0], DATA.item_ids.labels[0]
KNOWN = mfrank.Interactions.from_arrays([USER, "fresh"], [ITEM, ITEM])
NEW = mfrank.Interactions.from_arrays([USER, USER], [ITEM, "fresh"])


def als(tmp_path: Any, **options: Any) -> mfrank.ALS:
    """A model with a prior, saved and loaded."""
    model = mfrank.ALS(mfrank.IALS(), factors=4, iterations=2, random_state=0, **options).fit(DATA)
    share = DATA.counts.items / DATA.counts.items.sum()
    mfrank.with_prior(replace(model.store, item_prior=share), 2.0).save(tmp_path / "model")
    return mfrank.ALS.load(tmp_path / "model")


def test_every_answer_has_the_prior(tmp_path: Any) -> None:
    model = als(tmp_path)
    expected = model.score([USER] * 20, DATA.item_ids.labels)
    listed = model.recommend(USER, DATA, 20, False)
    folded = model.recommend(USER, DATA, 20, False, recalculate_user=True)
    own = DATA.item_ids.labels[DATA.user_items[[0]].indices]
    new = model.recommend_from_items(own, N=20)
    for answer in (listed, folded, new):
        known = ~np.isnan(answer.scores)
        rows = model.item_ids.rows(answer.ids[known])
        np.testing.assert_allclose(answer.scores[known], expected[rows], rtol=1e-3, atol=1e-4)
    explained = [model.explain(USER, DATA, item).score for item in DATA.item_ids.labels]
    np.testing.assert_allclose(explained, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", [mfrank.EASE, mfrank.ItemKNN, mfrank.ItemFilter])
def test_models_that_would_not_read_it_refuse_it(kind: Callable[[], Any], tmp_path: Any) -> None:
    with refuses(ValueError, "store", remedy="a model with factors"):
        mfrank.with_prior(kind().fit(DATA).store, 1.0, als(tmp_path).store)
    walk = mfrank.SupervisedPageRank(random_state=0).fit(DATA)
    with refuses(ValueError, "store", remedy="a model with factors"):
        mfrank.with_prior(walk.store, 1.0)


SOLVE: dict[str, Callable[[mfrank.ALS], Any]] = {
    "partial_fit": lambda model: model.partial_fit(KNOWN, user_items=DATA),
    "partial_fit_users": lambda model: model.partial_fit_users([USER], DATA),
    "recalculate_user": lambda model: model.recalculate_user(USER, DATA),
    "recalculate_item": lambda model: model.recalculate_item(ITEM, DATA),
    "recommend_from_items": lambda model: model.recommend_from_items([ITEM]),
    "recommend": lambda model: model.recommend(USER, DATA, recalculate_user=True),
    "explain": lambda model: model.explain(USER, DATA, ITEM),
}


@pytest.mark.parametrize("name", list(SOLVE))
def test_rows_are_not_solved_against_biases_with_a_prior_in_them(name: str, tmp_path: Any) -> None:
    SOLVE[name](als(tmp_path))
    model = als(tmp_path, biases=True)
    with refuses(ValueError, remedy=r"add it by mfrank\.with_prior afterwards"):
        SOLVE[name](model)


@pytest.mark.parametrize(
    "update",
    [
        lambda model: model.partial_fit(NEW, user_items=DATA),
        lambda model: model.partial_fit_items(["fresh"], NEW),
    ],
)
def test_new_items_would_have_no_prior(update: Callable[[mfrank.ALS], Any], tmp_path: Any) -> None:
    model = als(tmp_path)
    with refuses(ValueError, remedy="load the model without"):
        update(model)
    assert "fresh" not in model.item_ids


def test_new_users_and_known_items_need_no_prior(tmp_path: Any) -> None:
    model = als(tmp_path)
    before = model.store.item_biases.copy()
    model.partial_fit_users(["fresh"], KNOWN).partial_fit_items([ITEM], DATA)
    assert "fresh" in model.user_ids
    np.testing.assert_array_equal(model.store.item_biases, before)
