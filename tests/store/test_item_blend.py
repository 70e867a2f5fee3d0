"""A blend with weights between items scores by the sum of its parts, and is a model like any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from tests.support.errors import refuses

DATA = mfrank.synthetic(40, 30, 300, random_state=0)
ALS = mfrank.ALS(factors=5, iterations=2, random_state=0).fit(DATA)
BIASED = mfrank.Descent(mfrank.SML(), factors=3, iterations=1, random_state=0).fit(DATA)
FILTER, EASE, KNN = (
    model.fit(DATA)
    for model in (mfrank.ItemFilter(neighbors=7), mfrank.EASE(5.0), mfrank.ItemKNN())
)
EVERY = np.repeat(np.arange(40), 30), np.tile(np.arange(30), 40)


def scores(model: mfrank.Recommender) -> np.ndarray:
    return model.score(*EVERY).reshape(40, 30).astype(float)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 2.0, 40.0])
@pytest.mark.parametrize("items", [FILTER, EASE, KNN], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("factors", [ALS, BIASED], ids=["ALS", "biased"])
def test_scores_are_sums(
    factors: mfrank.Recommender, items: mfrank.Recommender, weight: float
) -> None:
    for one, other in ((factors, items), (items, factors)):
        both = mfrank.ItemBlend.of(mfrank.blend(one.store, other.store, weight))
        truth = scores(one) + weight * scores(other)
        np.testing.assert_allclose(scores(both), truth, rtol=1e-5, atol=1e-5)


def test_what_ranks_by_factors_alone_refuses_the_store() -> None:
    """It would rank by a part of the blend, and nobody would see it."""
    store = mfrank.blend(ALS.store, FILTER.store, 0.5)
    with refuses(ValueError, "store", remedy=r"mfrank\.ItemBlend\.of\(store\)"):
        mfrank.Recommender.of(store)
    with refuses(ValueError, "store", remedy=r"mfrank\.ItemBlend\.of\(store\)"):
        mfrank.evaluate(store, DATA, filter_already_liked_items=False)


def test_blends_are_blended_again() -> None:
    first = mfrank.blend(ALS.store, FILTER.store, 0.5)
    whole = mfrank.blend(mfrank.blend(first, EASE.store, 2.0), BIASED.store, 3.0)
    truth = scores(ALS) + 0.5 * scores(FILTER) + 2.0 * scores(EASE) + 3.0 * scores(BIASED)
    np.testing.assert_allclose(scores(mfrank.ItemBlend.of(whole)), truth, rtol=1e-5, atol=1e-5)
    assert whole.factors == 8


def test_lists_are_the_best_after_saving_and_filters(tmp_path: Path) -> None:
    store = mfrank.blend(ALS.store, EASE.store, 0.7)
    loaded = mfrank.load(store.save(tmp_path / "both"))
    assert type(loaded) is mfrank.ItemBlend
    truth = scores(mfrank.ItemBlend.of(store))
    truth[DATA.user_items.toarray() != 0] = -np.inf
    truth[:, [3, 5]] = -np.inf
    listed = loaded.recommend(np.arange(40), DATA.user_items, N=6, filter_items=[3, 5])
    expected = np.argsort(-truth, axis=1, kind="stable")[:, :6]
    np.testing.assert_array_equal(listed.ids, expected)
    for user in (0, 17):
        alone = loaded.recommend(user, DATA.user_items, N=6, filter_items=[3, 5])
        np.testing.assert_array_equal(alone.scores, listed.scores[user])
    likes = mfrank.evaluate(loaded, DATA, filter_already_liked_items=False)
    assert likes[mfrank.NDCG @ 10].value > 0.5


def test_similar_items_are_those_of_the_factors() -> None:
    both = mfrank.ItemBlend.of(mfrank.blend(ALS.store, FILTER.store, 0.5))
    ids, cosines = both.similar_items([2, 9], N=5)
    alone = ALS.similar_items([2, 9], N=5)
    np.testing.assert_array_equal(ids, alone.ids)
    np.testing.assert_allclose(cosines, alone.scores, rtol=1e-5)


def test_damaged_weights_are_refused() -> None:
    store = mfrank.blend(ALS.store, FILTER.store, 0.5)
    for extras in ({}, {**store.extras, "neighbors": store.extras["neighbors"][:-1]}):
        with refuses(ValueError, None, place="the weights saved with the store"):
            mfrank.ItemBlend.of(replace(store, extras=extras))


def test_a_single_item_is_something_to_go_by(caplog: pytest.LogCaptureFixture) -> None:
    """Where a user has no factors; a bias of the user alone ranks nothing."""
    cells = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    data = mfrank.Interactions.from_sparse(sp.csr_array(cells.astype(float)))
    knn = mfrank.ItemKNN().fit(data)
    for biases in (None, np.array([0.0, 0.0, 0.0, 5.0, 5.0])):
        factors = mfrank.FactorStore(np.zeros((5, 2)), np.ones((4, 2)), user_biases=biases)
        both = mfrank.ItemBlend.of(mfrank.blend(factors, knn.store, 1.0))
        lists = both.recommend([3, 4], N=2, filter_already_liked_items=False)
        assert lists.ids[0, 0] >= 0
        assert lists.ids[1].tolist() == [-1, -1]
        assert caplog.messages[-1].startswith("1 of 2 users: nothing to go by")
        caplog.clear()
        filled = both.recommend(
            [3, 4], data, N=2, filter_already_liked_items=False, fallback="popularity"
        )
        assert filled.ids[:, 0].tolist() == [1, 0]  # its own best, and the most popular


def test_what_has_no_meaning_is_refused() -> None:
    with refuses(ValueError, "store", remedy="blend one of them"):
        mfrank.blend(FILTER.store, KNN.store, 1.0)
    with refuses(ValueError, "store"):
        mfrank.ItemBlend.of(mfrank.blend(ALS.store, BIASED.store, 1.0))
    model = mfrank.ItemBlend.of(mfrank.blend(ALS.store, KNN.store, 1.0))
    with refuses(TypeError, "recalculate_user", remedy="use recalculate_user=False"):
        model.recommend([0], DATA.user_items, recalculate_user=True)
