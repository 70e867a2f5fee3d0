"""A recipe fitted again is the model: options, epochs, parts and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from tests.support.errors import refuses

DATA = mfrank.synthetic(60, 30, 700, random_state=0)
TIMED = mfrank.Interactions.from_arrays(
    DATA.entry_users, DATA.user_items.indices, timestamps=np.arange(DATA.nnz), timestamp_unit="s"
)
ALS = mfrank.ALS(mfrank.IALS(), factors=4, iterations=5, random_state=0)
COSINES = mfrank.Descent(factors=3, iterations=5, random_state=0)


def ended(model: Any, epochs: int) -> Any:
    return model.fit(DATA, callback=lambda epoch, *_: epoch + 1 == epochs)


MODELS: dict[str, Any] = {
    "als": lambda: mfrank.ALS(mfrank.IALS(), factors=4, random_state=0).fit(DATA),
    "als that ended early": lambda: ended(mfrank.ALS(factors=4, iterations=5, random_state=0), 2),
    "descent that ended early": lambda: ended(
        mfrank.Descent(factors=3, iterations=5, random_state=0), 3
    ),
    "ease": lambda: mfrank.EASE(5.0).fit(DATA),
    "popularity in a window": lambda: mfrank.Popularity(window=100).fit(TIMED),
    "walk": lambda: mfrank.SupervisedPageRank(random_state=0).fit(TIMED),
    "blend": lambda: mfrank.Blend(
        [mfrank.EASE(5.0), ALS, COSINES], [1, 0.4, 0.2], [None, 2, 3]
    ).fit(DATA),
}


@pytest.mark.parametrize("kind", MODELS)
def test_the_same_data_give_the_same_model(kind: str, tmp_path: Path) -> None:
    model = MODELS[kind]()
    data = TIMED if kind in ("popularity in a window", "walk") else DATA
    model.save(tmp_path / "model")
    for known in (model, mfrank.load(tmp_path / "model")):
        again = mfrank.refit(known, data)
        assert type(again) is type(model)
        users = model.user_ids.labels[:9]
        one, other = (each.recommend(users, N=9) for each in (model, again))
        assert one.ids.tolist() == other.ids.tolist()
        np.testing.assert_array_equal(one.scores, other.scores)


def test_updates_count_as_no_epochs() -> None:
    model = ended(mfrank.ALS(factors=4, iterations=5, random_state=0), 2)
    model.partial_fit(mfrank.Interactions.from_arrays([1], [2]))
    assert len(model.store.history) == 3
    assert len(mfrank.refit(model, DATA).store.history) == 2


def test_the_best_of_a_search_is_fitted_to_other_data() -> None:
    found = mfrank.tune(DATA, trials=2, factors=8)
    again = found.refit(DATA)
    users = DATA.user_ids.labels[:9]
    assert again.recommend(users).ids.tolist() == found.model.recommend(users).ids.tolist()
    fewer = DATA.take(DATA.entry_users < 40).k_core(1)
    assert len(found.refit(fewer).user_ids) == fewer.n_users


def test_what_has_no_recipe_is_refused() -> None:
    bare = mfrank.Recommender.of(MODELS["als"]().store)
    for given in (bare, "model", MODELS["als"]().store):
        with refuses(TypeError, "model"):
            mfrank.refit(given, DATA)
    with pytest.raises(mfrank.NotFittedError):
        mfrank.refit(mfrank.ALS(), DATA)


@pytest.mark.parametrize("side", ["user", "item"])
def test_a_model_of_features_is_not_fitted_again_without_them(side: str) -> None:
    n_rows = DATA.n_users if side == "user" else DATA.n_items
    given = {f"{side}_features": np.random.default_rng(0).normal(size=(n_rows, 3))}
    model = mfrank.ALS(mfrank.IALS(), factors=4, random_state=0).fit(DATA, **given)
    with refuses(ValueError, "model", remedy=f"{side}_features="):
        mfrank.refit(model, DATA)
