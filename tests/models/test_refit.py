"""A recipe fitted again is the model: options, epochs, parts and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
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


# What is unlike the data for which the options were chosen is told.


def rated(seed: int = 0, first: int = 0, write: Any = int, scale: float = 1.0) -> Any:
    rng = np.random.default_rng(seed)
    users, items = (rng.integers(first, first + n, 600) for n in (50, 30))
    ids = ([write(each) for each in side.tolist()] for side in (users, items))
    values = scale * (rng.integers(1, 6, 600))
    return mfrank.Interactions.from_arrays(*ids, values, duplicates="last")


def wrmf() -> mfrank.ALS:
    return mfrank.ALS(mfrank.WRMF(), factors=3, iterations=1, random_state=0)


def bought(where: Any) -> mfrank.Interactions:
    pandas = pytest.importorskip("pandas")
    users, items = rated().entry_users, rated().user_items.indices
    kinds = np.where(np.arange(len(users)) % 2, "view", "purchase")
    frame = pandas.DataFrame({"user": users, "item": items, "event": kinds})
    return mfrank.Interactions.from_frame(frame, where=where)


def of_weights() -> Any:
    users, items = rated().entry_users, rated().user_items.indices
    kinds = np.where(np.arange(len(users)) % 2, "view", "purchase")
    events = mfrank.Events.from_arrays(users, items, kinds)
    weights = {"view": 0.5, "purchase": 1.0}
    return mfrank.tune(events, target="purchase", weights=weights, trials=1, factors=2).model


ODD: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "scale": (lambda: wrmf().fit(rated()), lambda: rated(1, scale=0.1), "as of one unit"),
    "ids as text": (lambda: wrmf().fit(rated()), lambda: rated(1, write=str), "to one type"),
    "other ids": (lambda: wrmf().fit(rated()), lambda: rated(1, first=900), "chooses them anew"),
    "ratings": (
        lambda: wrmf().fit(rated().at_least(4)),
        lambda: rated(1),
        "`user_items.at_least(4)`".replace("`", ""),
    ),
    "rows": (
        lambda: wrmf().fit(bought({"event": "purchase"})),
        lambda: bought(None),
        "where={'event': 'purchase'}",
    ),
    "weights": (of_weights, lambda: bought(None), "weights={'purchase': 1.0, 'view': 0.5}"),
}


@pytest.mark.parametrize("kind", ODD)
def test_data_unlike_those_of_the_model_are_told_once(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit, read, text = ODD[kind]
    model, data = fit(), read()
    model.save(tmp_path / "model")
    for known in (model, mfrank.load(tmp_path / "model")):
        caplog.clear()
        mfrank.refit(known, data)
        assert sum(text in each for each in caplog.messages) == 1


def test_ordinary_data_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """The next day's, with new users and items; fewer; and those of the fit, weighted as before."""
    for model, data in (
        (wrmf().fit(rated()), rated(1) + rated(2, first=25)),
        (wrmf().fit(rated()), rated().take(np.arange(rated().nnz) % 3 == 0)),
        (wrmf().fit(rated().at_least(4)), rated(1).at_least(4)),
        (wrmf().fit(bought({"event": "purchase"})), bought({"event": "purchase"})),
        (mfrank.ALS(factors=2, iterations=1).fit(DATA), DATA.user_items),
    ):
        caplog.clear()
        mfrank.refit(model, data)
        assert not [each for each in caplog.messages if "user_items" in each or "model" in each]


def test_lists_of_the_new_model_leave_out_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mfrank")
    model = wrmf().fit(rated())
    mfrank.refit(model, rated())
    assert "leave_out" not in caplog.text
    model.leave_out(rated().take(rated().user_items.data > 4))
    mfrank.refit(model, rated())
    assert "leave out all that users have" in caplog.text


def test_the_command_line_tells_of_data_unlike_those_of_the_model(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrmf().fit(rated()).save(tmp_path / "model")
    replace(rated(1, first=900), timestamps=None).to_pandas().to_csv(
        tmp_path / "other.csv", index=False
    )
    paths = [str(tmp_path / name) for name in ("other.csv", "model", "newer")]
    assert main(["tune", paths[0], "--refit", paths[1], "--model", paths[2]]) == 0
    assert "the file has hardly any of the users and items" in capfd.readouterr().err


@pytest.mark.parametrize("side", ["user", "item"])
def test_a_model_of_features_is_not_fitted_again_without_them(side: str) -> None:
    n_rows = DATA.n_users if side == "user" else DATA.n_items
    given = {f"{side}_features": np.random.default_rng(0).normal(size=(n_rows, 3))}
    model = mfrank.ALS(mfrank.IALS(), factors=4, random_state=0).fit(DATA, **given)
    with refuses(ValueError, "model", remedy=f"{side}_features="):
        mfrank.refit(model, DATA)
