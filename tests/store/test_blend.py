"""A blend scores by the sum of what it is made of, and is a store like any."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank import FactorStore
from mfrank.store import has_features
from tests.support.errors import refuses

DATA = mfrank.synthetic(40, 30, 300, random_state=0)
ALS = mfrank.ALS(factors=5, iterations=2, random_state=0).fit(DATA)
CML = mfrank.Descent(mfrank.SML(), factors=3, iterations=1, random_state=0, dtype="float64")
BIASED = CML.fit(DATA)  # distances are stored with biases of both sides


def scores(store: FactorStore) -> np.ndarray:
    found = store.user_factors.astype(np.float64) @ store.item_factors.T
    for biases in (store.user_biases, store.item_biases):
        if biases is not None:
            found = found + (biases[:, None] if biases is store.user_biases else biases)
    return found


@pytest.mark.parametrize("weight", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("pair", [(ALS, BIASED), (BIASED, ALS), (BIASED, BIASED), (ALS, ALS)])
def test_scores_are_sums(pair: tuple[mfrank.Recommender, ...], weight: float) -> None:
    one, other = (model.store for model in pair)
    both = mfrank.blend(one, other, weight)
    np.testing.assert_allclose(scores(both), scores(one) + weight * scores(other), atol=1e-5)
    assert both.factors == one.factors + other.factors
    assert both.dtype == one.dtype


def test_a_blend_tells_what_it_is_made_of() -> None:
    both = mfrank.blend(ALS.store, BIASED.store, 2)
    options = {"weight": 2.0, "of": ["ALS", "Descent"]}
    assert both.fitter == {"name": "blend", "options": options}
    assert both.history == ()  # neither fit's epochs are those of both


@pytest.mark.parametrize("side", ["user", "item"])
@pytest.mark.parametrize("again", [False, True])
def test_a_blend_tells_which_sides_have_features(side: str, again: bool) -> None:
    """Rows of such a side have factors although nobody met them: they are not left out."""
    n_rows = {"user": len(DATA.user_ids), "item": len(DATA.item_ids)}[side]
    features = np.random.default_rng(0).random((n_rows, 2))
    fitted = mfrank.ALS(mfrank.IALS(), factors=2, iterations=1, random_state=0).fit(
        DATA, **{f"{side}_features": features}
    )
    both = mfrank.blend(ALS.store, fitted.store, 0.5)
    if again:
        both = mfrank.blend(both, ALS.store, 0.5)
    for each in ("user", "item"):
        assert has_features(both, each) == (each == side)


def test_a_blend_is_saved_loaded_and_recommends_its_best(tmp_path: Path) -> None:
    both = mfrank.blend(ALS.store, BIASED.store, 0.5)
    loaded = mfrank.load(both.save(tmp_path / "both"))
    ids, values = loaded.recommend([0, 7], DATA.user_items, N=3, filter_already_liked_items=False)
    truth = scores(both)[[0, 7]]
    np.testing.assert_array_equal(ids, np.argsort(-truth, axis=1)[:, :3])
    np.testing.assert_allclose(values, -np.sort(-truth, axis=1)[:, :3], atol=1e-5)


@pytest.mark.parametrize("folder", [False, True])
def test_models_that_do_not_score_by_factors_are_refused(tmp_path: Path, folder: bool) -> None:
    walk = mfrank.SupervisedPageRank(None).fit(DATA).store
    store = FactorStore.load(walk.save(tmp_path / "walk")) if folder else walk
    for parts, name in (((store, ALS.store), "store"), ((ALS.store, store), "other")):
        with refuses(ValueError, name):
            mfrank.blend(*parts, 0.5)
    assert mfrank.blend(ALS.store, mfrank.Popularity().fit(DATA).store, 0.5).factors == 6
    assert mfrank.with_prior(ALS.store, 0.5, walk).item_biases is not None
    pack = tmp_path / "als"  # whose extras have the rows of seen items
    assert mfrank.blend(FactorStore.load(ALS.save(pack)), ALS.store, 0.5).factors == 10


def test_what_does_not_go_together_is_refused() -> None:
    other = mfrank.ALS(factors=5, iterations=1).fit(mfrank.synthetic(41, 30, 300, random_state=0))
    with refuses(ValueError, "user_ids"):
        mfrank.blend(ALS.store, other.store, 1.0)
    with refuses(TypeError, "other"):
        mfrank.blend(ALS.store, ALS, 1.0)  # type: ignore[arg-type]
    with refuses(ValueError, "weight"):
        mfrank.blend(ALS.store, ALS.store, -1.0)


LATE = DATA.item_ids.raw([0, 1])[0]
EARLY = DATA.take(DATA.user_items.indices != 0)
PARTS: dict[str, Callable[[], Any]] = {
    "ALS": lambda: mfrank.ALS(mfrank.IALS(), factors=4, iterations=2, random_state=0),
    "BPR": lambda: mfrank.Descent(mfrank.BPR(), factors=4, iterations=2, random_state=0),
    "SML": lambda: mfrank.Descent(mfrank.SML(), factors=3, iterations=1, random_state=0),
    "EASE": mfrank.EASE,
    "ItemKNN": mfrank.ItemKNN,
    "ItemFilter": mfrank.ItemFilter,
}


PAIRS = [pair for pair in product(PARTS, repeat=2) if {"ALS", "BPR", "SML"} & {*pair}]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("known", "unknown"), PAIRS)
def test_an_item_that_one_part_has_met_is_listed_by_its_scores(
    known: str, unknown: str, first: bool
) -> None:
    """The models may be of two days: what only one of them knows counts by that one."""
    whole, part = PARTS[known]().fit(DATA), PARTS[unknown]().fit(EARLY)
    pair = (whole, part) if first else (part, whole)
    store = mfrank.blend(pair[0].store, pair[1].store, 0.5)
    kind = mfrank.ItemBlend if store.fitter["name"] == "ItemBlend" else mfrank.Recommender
    model = kind.of(store)
    weight = 1.0 if first else 0.5

    def of_late(model: Any) -> Any:
        return model.recommend(range(40), N=1, items=[LATE], filter_already_liked_items=False)

    expected, listed = of_late(whole), of_late(model)
    assert (listed.ids == LATE).sum() == (expected.ids == LATE).sum() > 0
    if store.user_biases is None:  # else those of the other part add to all items of a user
        np.testing.assert_allclose(listed.scores, weight * expected.scores, atol=1e-4)
    assert store.known_counts.items.tolist() == DATA.counts.items.tolist()
    assert store.known_counts.users.tolist() == DATA.counts.users.tolist()


def test_at_weight_0_the_other_part_knows_nothing() -> None:
    whole, part = PARTS["ALS"]().fit(DATA), PARTS["BPR"]().fit(EARLY)
    store = mfrank.blend(part.store, whole.store, 0)
    lists = mfrank.Recommender.of(store).recommend(0, DATA, N=30)
    np.testing.assert_array_equal(lists.ids, part.recommend(0, DATA, N=30).ids)
