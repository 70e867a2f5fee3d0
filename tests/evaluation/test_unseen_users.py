"""Users whom the model does not know: held out whole, folded in, ranked, in one call."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.data import Ids, Interactions
from mfrank.evaluation import evaluate as anywhere
from tests.support.errors import refuses

evaluate = partial(anywhere, backend="reference")


@pytest.fixture(scope="module")
def split() -> Any:
    data = mfrank.synthetic(120, 60, 2400, random_state=0)
    return mfrank.held_out_users(data, test=30, valid=10, fold_in=0.7)


MODELS = [
    mfrank.ALS(mfrank.IALS(), factors=4, iterations=3, random_state=0),
    mfrank.ItemKNN(neighbors=10),
    mfrank.Popularity(),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_it_is_as_if_they_were_folded_in_one_by_one(split: Any, model: Any) -> None:
    model.fit(split.train)
    k = 5
    found = evaluate(model, split.test, metrics=mfrank.Recall @ k)
    given, wanted = split.test.fold_in.user_items, split.test.target.user_items
    expected = []
    for user in found.users:
        own = given[[int(user)]]
        ids, _ = model.recommend([user], own, N=k, recalculate_user=True, by_row=True)
        target = wanted[[int(user)]].indices
        assert not set(ids[0]) & set(own.indices)
        expected.append(len(set(ids[0]) & set(target)) / len(target))
    np.testing.assert_allclose(found[mfrank.Recall @ k].per_user, expected)
    assert set(found.users) <= set(split.test.users)
    assert found.n_users + found.n_without_test_items == len(split.test.users) == 30
    assert found.protocol == "full ranking, users folded in"


def test_folding_in_is_better_than_popularity_and_than_nothing() -> None:
    data = mfrank.synthetic(400, 100, 12_000, random_state=1)
    split = mfrank.held_out_users(data, test=80)
    ranked = evaluate(mfrank.ALS(factors=8, random_state=0).fit(split.train), split.test)
    popular = evaluate(mfrank.Popularity().fit(split.train), split.test)
    assert ranked["ndcg@10"].value > popular["ndcg@10"].value
    assert mfrank.paired_differences({"a": ranked, "b": popular}, "ndcg@10", samples=100)


def test_all_metrics_and_protocols_take_them(split: Any) -> None:
    model = mfrank.ALS(factors=4, random_state=0).fit(split.train)
    metrics = ["ndcg@5", "auc", "novelty@5", "intra_list_similarity@5", "coverage@5"]
    found = evaluate(model, split.test, metrics=metrics)
    assert all(np.isfinite(score.value) for score in found.scores.values())
    sampled = evaluate(model, split.test, negatives=10)
    assert sampled.protocol == "sampled: 10 negatives, random_state=0, users folded in"
    some = split.test.users[:4]
    by_row = evaluate(model, split.test, users=some, by_row=True)
    assert set(by_row.users) <= set(some)
    named = evaluate(model, split.test, users=split.test.fold_in.user_ids.raw(some))
    assert named.users.tolist() == by_row.users.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filter_already_liked_items": False}, "leave out train and filter_already_liked_items"),
        ({"train": Interactions.of(mfrank.synthetic(3, 3, 3))}, "leave out train"),
    ],
)
def test_their_fold_in_part_is_what_is_excluded(split: Any, options: Any, message: str) -> None:
    model = mfrank.Popularity().fit(split.train)
    with refuses(ValueError, "train", remedy=message):
        evaluate(model, split.test, **options)


def test_a_model_of_other_rows_is_refused(split: Any) -> None:
    """Rows of the same number, but of other users, would be ranked without a word."""
    named = [f"user {number}" for number in range(120)]
    data = mfrank.Interactions.from_arrays(np.arange(120), np.arange(120) % 60)
    model = mfrank.ALS(factors=2, iterations=1)
    whole = mfrank.held_out_users(renamed(data, named), test=9)
    model.fit(renamed(data, named[::-1]))
    with refuses(ValueError, remedy=r"fit it to split\.train"):
        evaluate(model, whole.test)
    model.fit(mfrank.synthetic(60, 60, 400, random_state=0))
    with refuses(ValueError, remedy=r"fit it to split\.train"):
        evaluate(model, split.test)


def renamed(data: Interactions, users: list[str]) -> Interactions:
    return Interactions(data.user_items, Ids.of(users), data.item_ids, None)


def test_what_cannot_fold_in_is_refused(split: Any) -> None:
    with refuses(TypeError, "model"):
        evaluate(lambda users, user_items, N: None, split.test)
    model = mfrank.ALS(factors=2, iterations=1).fit(split.train)
    other = mfrank.by_ratio(split.train, random_state=0)
    model.fit(other.train)
    bare = mfrank.Recommender.of(model.store)
    with refuses(TypeError, "recalculate_user", remedy="Use recalculate_user=False"):
        evaluate(bare, split.test)
    evaluate(bare, other.test, train=other.train)  # as the error says


def test_a_walk_begins_at_the_latest_items_of_who_is_folded_in() -> None:
    """As in its lists: rows without their timestamps would begin at all items alike."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(80), 8)
    items = (users * 3 + np.tile(np.arange(8), 80) + rng.integers(0, 3, 640)) % 25
    names = [f"u{user:02}" for user in users]
    data = mfrank.Interactions.from_arrays(names, items, timestamps=np.arange(640) * 60)
    split = mfrank.by_session(data, test=0.3)
    model = mfrank.SupervisedPageRank(random_state=0).fit(split.train)
    test = split.test
    ids = model.recommend(test.users, test.fold_in, N=5, recalculate_user=True, by_row=True).ids
    relevant = test.target.user_items.toarray()[test.users] > 0
    hits = np.take_along_axis(relevant, np.maximum(ids, 0), 1) & (ids >= 0)
    found = evaluate(model, test, metrics=["recall@5"])["recall@5"].value
    assert found == pytest.approx((hits.sum(1) / relevant.sum(1)).mean())
    on_workers = evaluate(model, test, metrics=["recall@5"], cluster=2)["recall@5"].value
    assert on_workers == pytest.approx(found)
    rows = test.fold_in.user_items[test.users]
    bare = model.recommend(test.users, rows, N=5, recalculate_user=True, by_row=True).ids
    assert not np.array_equal(bare, ids)
