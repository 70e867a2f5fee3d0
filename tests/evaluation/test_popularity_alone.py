"""Reports say what popularity alone gets, which is what Popularity gets when it is evaluated."""

from __future__ import annotations

import pickle
import pkgutil
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rankings import problem

import mfrank
from mfrank import NDCG, Popularity, Recall
from mfrank.evaluation import LimitedAUC
from mfrank.evaluation import evaluate as anywhere

evaluate = partial(anywhere, backend="reference")
METRICS = (NDCG @ 4, Recall @ 3, mfrank.UnbiasedRecall @ 5, NDCG, LimitedAUC @ 3)


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.users, other.users)
    for metric, score in one.scores.items():
        np.testing.assert_array_equal(score.per_user, other[metric].per_user)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([None, 3]),
    st.booleans(),
)
def test_it_is_the_evaluation_of_popularity(
    seed: int, n_users: int, n_items: int, size: int | None, negatives: int | None, filters: bool
) -> None:
    model, train, test = problem(seed, n_users, n_items)
    if not train.nnz:
        return
    metrics = METRICS[:4] if negatives else METRICS
    options: dict[str, Any] = {"metrics": metrics, "negatives": negatives, "batch_size": size}
    popular = Popularity().fit(train)
    if filters:
        found = evaluate(model, test, train=train, **options)
    else:
        found = evaluate(popular, test, filter_already_liked_items=False, **options)
        options["filter_already_liked_items"] = False
    alone = found.popularity
    assert list(alone) == ["all"]
    same(alone["all"], evaluate(popular, test, **options))
    assert alone["all"].compare(found, "ndcg@4").n_users == found.n_users


def _timed(seed: int, drift: bool) -> mfrank.Interactions:
    """Items that are popular one after the other, or all the time."""
    rng = np.random.default_rng(seed)
    n = 3000
    times = np.sort(rng.integers(0, 10**6, n))
    now = times // 20_000 if drift else np.zeros(n, np.int64)
    items = (now + rng.geometric(0.3, n)) % 60
    return mfrank.Interactions.from_arrays(rng.integers(0, 200, n), items, timestamps=times)


def test_recent_popularity_is_that_within_a_window_and_is_told_where_it_is_ahead() -> None:
    split = mfrank.by_time(_timed(0, drift=True), test=0.1)
    model = mfrank.ItemKNN().fit(split.train)
    found = evaluate(model, split.test, train=split.train, metrics=METRICS)
    assert list(found.popularity) == ["all", "recent"]
    share = float(re.search(r"latest ([\d.]+) %", found.popularity.of["recent"])[1]) / 100
    assert share < 0.2
    times = np.sort(split.train.timestamps)
    begin = times[len(times) - round(share * len(times))]
    popular = Popularity(window=int(times[-1] - begin)).fit(split.train)
    same(found.popularity["recent"], evaluate(popular, split.test, metrics=METRICS))
    alone = found.popularity
    assert alone["recent"]["ndcg@4"].value > 1.5 * alone["all"]["ndcg@4"].value
    lines = [line for line in str(found).splitlines() if "popularity alone" in line]
    assert lines == alone.lines()
    for line, name in zip(lines, alone, strict=True):
        assert alone.of[name] in line
        assert f"NDCG@4 {alone[name]['ndcg@4'].value:.5f}" in line
    told = found.to_dict()["popularity"]
    assert told["recent"]["metrics"]["NDCG@4"]["value"] == alone["recent"]["ndcg@4"].value


def test_the_window_is_chosen_without_the_test_part() -> None:
    """And there is none where popularity does not change, or where there are no times."""
    split = mfrank.by_time(_timed(1, drift=True), test=0.1)
    other = replace(split.test, timestamps=None)
    model = mfrank.ItemKNN().fit(split.train)
    texts = {
        evaluate(model, t, train=split.train).popularity.of["recent"] for t in (split.test, other)
    }
    assert len(texts) == 1
    still = replace(split.train, timestamps=np.zeros_like(split.train.timestamps))
    for train in (replace(split.train, timestamps=None), still, split.train.user_items):
        numbered = isinstance(train, mfrank.Interactions)
        test = split.test if numbered else split.test.user_items
        assert list(evaluate(model, test, train=train).popularity) == ["all"]


@pytest.fixture(scope="module")
def split() -> mfrank.Split:
    data = mfrank.synthetic(80, 40, 1600, random_state=0)
    return mfrank.by_ratio(replace(data, timestamps=None), random_state=0)


def _saved(model: Any, folder: Any) -> Any:
    model.save(folder)
    return mfrank.load(folder)


DOORS: dict[str, Callable[..., Any]] = {
    "the model": lambda m, s, f: evaluate(m, s.test),
    "a saved model": lambda m, s, f: evaluate(_saved(m, f), s.test),
    "the training part": lambda m, s, f: evaluate(m, s.test, train=s.train),
    "a matrix": lambda m, s, f: evaluate(m, s.test.user_items, train=s.train.to_scipy()),
    "a store": lambda m, s, f: evaluate(m.store, s.test, train=s.train),
    "factors": lambda m, s, f: evaluate(
        SimpleNamespace(user_factors=m.user_factors, item_factors=m.item_factors),
        s.test.user_items,
        train=s.train.to_scipy(),
    ),
    "steered": lambda m, s, f: evaluate(m, s.test, steer=mfrank.Steering(diversity=0.3)),
    "a cluster": lambda m, s, f: evaluate(m, s.test, cluster=2),
}


@pytest.mark.parametrize("door", DOORS)
def test_whatever_is_evaluated_it_is_the_same(door: str, split: Any, tmp_path: Any) -> None:
    model = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(split.train)
    found = DOORS[door](model, split, tmp_path / "model")
    same(found.popularity["all"], evaluate(Popularity().fit(split.train), split.test))
    assert found.popularity.of == {"all": "the training data"}


def test_counts_of_a_fit_are_enough_and_without_any_there_is_no_line(split: Any) -> None:
    model = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(split.train)
    options: dict[str, Any] = {"filter_already_liked_items": False}
    popular = evaluate(Popularity().fit(split.train), split.test, **options)
    same(evaluate(model.store, split.test, **options).popularity["all"], popular)
    bare = SimpleNamespace(user_factors=model.user_factors, item_factors=model.item_factors)
    found = evaluate(bare, split.test.user_items, **options)
    assert not found.popularity
    assert "popularity" not in str(found)
    whole = evaluate(model, split.test, metrics=["auc", "coverage@3"])
    assert not whole.popularity  # which has no metric of the top ranks
    drawn = evaluate(model, split.test, negatives=5, random_state=np.random.default_rng(0))
    assert not drawn.popularity  # its sample cannot be drawn again


def test_held_out_users_are_judged_by_the_popularity_of_the_fit() -> None:
    data = mfrank.synthetic(120, 60, 2400, random_state=0)
    parts = mfrank.held_out_users(data, test=30, valid=10, fold_in=0.7)
    model = mfrank.ItemKNN().fit(parts.train)
    found = evaluate(model, parts.test)
    same(found.popularity["all"], evaluate(Popularity().fit(parts.train), parts.test))


def test_lists_that_leave_out_something_else_are_beside_its_popularity(split: Any) -> None:
    """Such as purchases, of a model of all events."""
    model = mfrank.ItemKNN().fit(split.train).leave_out(split.valid)
    alone = evaluate(model, split.test).popularity
    assert alone.of == {"all": "what lists leave out"}
    same(alone["all"], evaluate(Popularity().fit(split.valid), split.test, train=split.valid))


def test_it_is_judged_once_when_it_is_read_and_pickles_without_the_data(
    split: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Popularity().fit(split.train)
    made = list[str]()
    place = "mfrank.evaluation.popularity.PopularItems.ranker"
    ranker = pkgutil.resolve_name(place)
    monkeypatch.setattr(place, lambda *args: made.append("judged") or ranker(*args))
    found = evaluate(model, split.test)
    assert not made
    again = pickle.loads(pickle.dumps(found))
    assert str(found) == str(again) == str(pickle.loads(pickle.dumps(again)))
    assert made == ["judged"]


def test_comparisons_and_searches_say_it() -> None:
    data = _timed(2, drift=True)
    split = mfrank.by_time(data, test=0.1)
    compared = mfrank.compare(split, models={"kNN": mfrank.ItemKNN()}, repeats=1, peak_memory=False)
    found = evaluate(
        mfrank.ItemKNN().fit(split.train), split.test, train=split.train,
        metrics=["recall@20", "ndcg@20", "mrr@20", "map@20"],
    ).popularity.lines()  # fmt: skip
    assert len(found) == 2
    assert [note for note in compared.notes if "popularity alone" in note] == found
    told = mfrank.tune(data, trials=2, factors=4)
    by_family = {
        name: max(r["value"] for r in told.leaderboard if r["family"] == name and r["value"])
        for name in ("Popularity", "RecentPopularity")
    }
    line = next(t for t in told.summary().splitlines() if "popularity alone" in t)
    assert all(f"{value:.4f}" in line for value in by_family.values())
