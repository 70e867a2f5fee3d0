"""Models that know features of users and items: who is new, who returns, what is saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import USERS, als, labeled
from problems import toy

import mfrank
from mfrank.store import check_features
from tests.support.errors import refuses

N_USERS, N_ITEMS, KINDS = 400, 200, 8
COLD = np.arange(0, N_ITEMS, 5)


def planted() -> tuple[mfrank.Interactions, sp.csr_array, sp.csr_array]:
    """Interactions of users and items of eight kinds that go together, and the kinds."""
    rng = np.random.default_rng(0)
    tastes = rng.standard_normal((KINDS, KINDS))
    user_kinds, item_kinds = rng.integers(0, KINDS, N_USERS), rng.integers(0, KINDS, N_ITEMS)
    liking = 2 * tastes[user_kinds][:, item_kinds] + rng.standard_normal((N_USERS, N_ITEMS))
    liking += rng.standard_normal(N_ITEMS)  # popularity that no kind explains
    likes = sp.csr_array((liking > np.quantile(liking, 0.93)).astype(np.float32))
    return mfrank.Interactions.from_sparse(likes), _kinds(user_kinds), _kinds(item_kinds)


def _kinds(numbers: Any) -> sp.csr_array:
    rows = np.arange(len(numbers))
    return sp.csr_array((np.ones(len(rows)), (rows, numbers)), (len(rows), KINDS))


def hits(model: Any, data: mfrank.Interactions, users: Any, items: Any) -> float:
    """The part of the users' best five of the items that they like."""
    ids = model.recommend(users, N=5, items=items, filter_already_liked_items=False).ids
    liked = data.user_items.toarray()[np.asarray(users)[:, None], ids] > 0
    return float(liked.mean())


OBJECTIVES = [mfrank.IALS(alpha0=0.1, regularization=0.02), mfrank.RG2(), mfrank.WRMF(alpha=5)]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_cold_items_and_users_rank_by_their_features(objective: Any) -> None:
    data, users, items = planted()
    cold_user = np.arange(N_USERS) % 5 == 0
    cold_item = np.isin(np.arange(N_ITEMS), COLD)
    warm = data.take(~cold_user[data.entry_users] & ~cold_item[data.user_items.indices])
    options = {"factors": 12, "iterations": 8, "random_state": 0}
    model = mfrank.ALS(objective, **options).fit(warm, user_features=users, item_features=items)
    plain = mfrank.ALS(objective, **options).fit(warm)
    popular = mfrank.Popularity().fit(warm)
    old, new, on = np.flatnonzero(~cold_user), np.flatnonzero(cold_user), np.arange(N_ITEMS)
    for asked, among in ((old, COLD), (new, on), (new, COLD)):
        assert hits(model, data, asked, among) > 1.3 * hits(popular, data, asked, among)
    assert hits(model, data, old, COLD) > 1.3 * hits(plain, data, old, COLD)


def test_warm_users_do_not_lose() -> None:
    data, users, items = planted()
    split = mfrank.by_ratio(data, train=0.7, valid=0, test=0.3, random_state=0)
    with_features = mfrank.ALS(OBJECTIVES[0], factors=12, iterations=8, random_state=0).fit(
        split.train, user_features=users, item_features=items
    )
    without = mfrank.ALS(OBJECTIVES[0], factors=12, iterations=8, random_state=0).fit(split.train)
    values = [
        mfrank.evaluate(model, split.test, train=split.train, metrics=["ndcg@10"])["ndcg@10"].value
        for model in (with_features, without)
    ]
    assert values[0] > values[1]


def small(objective: Any = None, **options: Any) -> mfrank.ALS:
    """A model of the toy data, in which the user u4 and the item i2 have no interactions."""
    rng = np.random.default_rng(3)
    return als(objective, dtype="float64", **options).fit(
        labeled(),
        user_features=rng.standard_normal((9, 2)),
        item_features=rng.standard_normal((7, 3)),
    )


@pytest.mark.parametrize("objective", [mfrank.IALS(), mfrank.RG2(), mfrank.WRMF(), mfrank.RGX()])
def test_without_interactions_factors_are_features_times_weights(objective: Any) -> None:
    model, rng = small(objective), np.random.default_rng(3)
    extras = model.store.extras
    for side, row, shape in (("user", 4, (9, 2)), ("item", 2, (7, 3))):
        told = rng.standard_normal(shape) @ extras[f"{side}_feature_weights"]
        np.testing.assert_allclose(extras[f"{side}_feature_means"], told, atol=1e-12)
        factors = getattr(model, f"{side}_factors")
        np.testing.assert_allclose(factors[row], told[row], atol=1e-12)
        assert np.abs(factors[row]).max() > 1e-3


@pytest.mark.parametrize("objective", [mfrank.IALS(), mfrank.RG2(), mfrank.WRMF()])
def test_fold_in_and_explanations_are_those_of_the_fit(objective: Any) -> None:
    model = small(objective)
    again = model.recalculate_user(USERS, labeled())
    np.testing.assert_allclose(again, model.user_factors, atol=1e-9)
    score, contributions, weights = model.explain("u8", None, "i0", N=10)
    assert score == pytest.approx(model.score(["u8"], ["i0"])[0], abs=1e-9)
    baseline = model.explain("u8", None, "i0").baseline
    assert score == pytest.approx(sum(part for _, part in contributions) + baseline)
    empty = sp.csr_array((1, 7))
    np.testing.assert_allclose(
        model.recalculate_user("u8", empty), model.store.extras["user_feature_means"][8], atol=1e-9
    )
    np.testing.assert_allclose(model.recalculate_user("new", empty), 0)
    np.testing.assert_allclose(
        model.recalculate_item("i6", sp.csr_array((1, 9))),
        model.store.extras["item_feature_means"][6],
        atol=1e-9,
    )
    assert weights.parts.shape[1] == 4


@pytest.mark.parametrize("mmap", [False, True])
def test_a_loaded_model_is_the_same(tmp_path: Path, mmap: bool) -> None:
    model = small()
    model.save(tmp_path / "m")
    loaded = mfrank.ALS.load(tmp_path / "m", mmap=mmap)
    assert loaded.feature_regularization == model.feature_regularization
    np.testing.assert_array_equal(loaded.user_factors, model.user_factors)
    for one, other in zip(
        loaded.recalculate_user(USERS, labeled()),
        model.recalculate_user(USERS, labeled()),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_new_items_and_users_come_with_their_features() -> None:
    model, rng = small(mfrank.WRMF()), np.random.default_rng(0)
    new = mfrank.Interactions.from_arrays(
        ["u1", "late"],
        ["i0", "i3"],
        user_ids=["u1", "late", "shy"],
        item_ids=["i0", "i3", "unseen"],
    )
    features = rng.standard_normal((3, 2)), rng.standard_normal((3, 3))
    weights = [model.store.extras[f"{side}_feature_weights"] for side in ("user", "item")]
    untouched = model.store.extras["item_feature_means"][6]
    model.partial_fit(new, user_features=features[0], item_features=features[1])
    np.testing.assert_allclose(model.user_factors[-1], features[0][2] @ weights[0])
    np.testing.assert_allclose(model.item_factors[-1], features[1][2] @ weights[1])
    means = model.store.extras["item_feature_means"]
    np.testing.assert_allclose(means[[0, 3, 7]], features[1] @ weights[1])
    np.testing.assert_array_equal(means[6], untouched)
    both = labeled() + new
    np.testing.assert_allclose(
        model.recalculate_user(["u1", "late"], both), model.user_factors[[1, 9]], atol=1e-9
    )
    assert "unseen" in model.recommend("late", N=8).ids


def test_partial_fits_without_features_keep_what_is_known() -> None:
    model = small()
    means = model.store.extras["user_feature_means"]
    model.partial_fit_users(["u1", "new"], toy()[[1, 2]])
    grown = model.store.extras["user_feature_means"]
    np.testing.assert_array_equal(grown[:9], means)
    assert not grown[9].any()
    model.partial_fit_items(["newer"], sp.csr_array(np.ones((1, 10))))
    model.partial_fit(mfrank.Interactions.from_arrays(["u0", "newest"], ["i1", "newer"]))
    assert model.store.extras["user_feature_means"].shape == (11, 4)
    assert model.store.extras["item_feature_means"].shape == (8, 4)


def test_what_is_removed_takes_its_features_along() -> None:
    model = small()
    means = model.store.extras["user_feature_means"]
    weights = model.store.extras["user_feature_weights"]
    model.remove(users=["u0", "u8"], items="i3")
    np.testing.assert_array_equal(model.store.extras["user_feature_means"], means[1:8])
    np.testing.assert_array_equal(model.store.extras["user_feature_weights"], weights)
    assert model.store.extras["item_feature_means"].shape == (6, 4)
    rows = sp.csr_array(toy()[[1]][:, [0, 1, 2, 4, 5, 6]])
    assert model.recalculate_user("u1", rows).shape == (4,)


def test_a_warm_start_goes_on() -> None:
    data, users, items = planted()
    options: dict[str, Any] = {"factors": 6, "random_state": 0, "track_objective": True}
    features = {"user_features": users, "item_features": items}
    first = mfrank.ALS(OBJECTIVES[0], iterations=6, **options).fit(data, **features)
    on = mfrank.ALS(OBJECTIVES[0], iterations=2, **options).fit(data, start=first, **features)
    assert on.store.history[-1]["objective"] <= first.store.history[-1]["objective"]


@pytest.mark.parametrize(
    ("features", "options", "fault"),
    [
        ({"item_features": np.ones((9, 2))}, {}, {"argument": "item_features"}),
        ({"user_features": np.ones(9)}, {}, {"argument": "user_features"}),
        (
            {"user_features": np.ones((9, 0))},
            {},
            {"argument": "user_features", "remedy": "leave it out"},
        ),
        (
            {"user_features": np.full((9, 1), np.nan)},
            {},
            {"argument": "user_features", "remedy": "use 0 for what is missing"},
        ),
        (
            {"item_features": np.full((7, 1), "drama")},
            {},
            {"argument": "item_features", "remedy": "make categories columns"},
        ),
        (
            {"item_features": np.ones((7, 1))},
            {"objective": mfrank.IALS(regularization=0)},
            {"argument": "item_features"},
        ),
    ],
)
def test_features_that_cannot_be_used_are_refused(
    features: Any, options: Any, fault: dict[str, str]
) -> None:
    model = als(**options)
    with refuses((ValueError, TypeError), **fault):
        model.fit(labeled(), **features)
    assert not hasattr(model, "user_factors")


@pytest.mark.parametrize(
    "features",
    [
        {"item_features": np.ones((7, 2))},
        {"item_features": np.ones((6, 3))},
    ],
)
def test_a_day_with_other_features_changes_nothing(features: Any) -> None:
    model = small()
    store = model.store
    with refuses(ValueError, "item_features"):
        model.partial_fit(labeled(), **features)
    assert model.store is store
    with refuses(ValueError, "item_features"):
        als().fit(labeled()).partial_fit(labeled(), item_features=np.ones((7, 1)))


def test_damaged_weights_are_refused() -> None:
    store = small().store
    for name, array in store.extras.items():
        wrong = {**store.extras, name: array[:-1, :-1]}
        with refuses(ValueError, remedy="restore it"):
            mfrank.ALS._from_store(replace(store, extras=wrong))


@pytest.mark.parametrize("side", ["user", "item"])
@pytest.mark.parametrize("missing", ["weights", "means"])
def test_weights_without_means_are_refused(side: str, missing: str) -> None:
    """Whichever side it is, and whether or not the other one has features."""
    extras = {f"{side}_feature_weights": np.ones((2, 3)), f"{side}_feature_means": np.ones((4, 3))}
    store = mfrank.FactorStore(np.ones((4, 3)), np.ones((4, 3)), extras=extras)
    check_features(store)
    del extras[f"{side}_feature_{missing}"]
    with refuses(ValueError, remedy="restore it"):
        check_features(replace(store, extras=extras))


def test_weights_of_fewer_columns_than_the_table_had_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    items = labeled().item_ids.labels
    frame = pd.DataFrame({"item": items, "price": 1.0 * np.arange(len(items))})
    store = als().fit(labeled(), item_features=frame).store
    check_features(store)
    weights = store.extras["item_feature_weights"]
    for wrong in (weights[:-1], np.concatenate([weights, weights])):
        with refuses(
            ValueError, place="the items' feature columns saved with the model", remedy="restore it"
        ):
            check_features(replace(store, extras={**store.extras, "item_feature_weights": wrong}))
