"""Trees over what a search chose: kept only if ahead where they did not learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import mfrank
from mfrank.tuning import Budget, learned_order

pytest.importorskip("catboost", reason="the extra rerank is not installed")
DATA = mfrank.synthetic(150, 60, 4000, names=True, random_state=0)
SEARCH = {"trials": 2, "factors": 4, "n_threads": 1, "predict": "any"}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_order, "_FEWEST_USERS", 20)
    small = {"candidates": 20, "iterations": 5, "depth": 2}
    monkeypatch.setattr(learned_order, "_OPTIONS", {**learned_order._OPTIONS, **small})


def test_few_users_are_not_asked() -> None:
    found = mfrank.tune(DATA, **SEARCH)
    assert found.trees.model is None
    assert "trees over it are not tried" in found.summary()
    assert "users could judge them" in found.summary()


@pytest.mark.usefixtures("few")
def test_trees_that_are_not_ahead_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_order, "_STANDARD_ERRORS", np.inf)
    found = mfrank.tune(DATA, **SEARCH)
    assert not isinstance(found.model, mfrank.Reranker)
    assert found.trees is not None
    assert "left out" in found.summary()
    assert found.leaderboard[-1]["family"] == "trees"


@pytest.mark.usefixtures("few")
def test_trees_that_are_ahead_are_the_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(learned_order, "_STANDARD_ERRORS", -np.inf)
    one, other = (mfrank.tune(DATA, storage=tmp_path / f"{n}.sqlite", **SEARCH) for n in ("a", "b"))
    users = DATA.user_ids.labels
    assert isinstance(one.model, mfrank.Reranker)
    for lists in zip(one.model.recommend(users), other.model.recommend(users), strict=True):
        np.testing.assert_array_equal(*lists)
    assert {row["family"] for row in one.leaderboard} >= {"trees"}
    assert "trees over" in one.summary()
    assert one.days is not None
    assert one.days[0]["model"].startswith("trees over")
    split = mfrank.by_ratio(DATA, train=0.9, valid=0.1, test=0.0, random_state=0)
    names = {"data": DATA, "train": split.train, "valid": split.valid}
    exec(one.code, names)
    assert type(names["model"]) is mfrank.Reranker
    one.model.save(tmp_path / "model")
    assert type(mfrank.load(tmp_path / "model")) is mfrank.Reranker
    assert type(one.refit(DATA)) is mfrank.Reranker


def test_a_later_part_is_learned_from_in_its_order() -> None:
    judge = mfrank.tuning.TrialJudge.of(DATA, mfrank.NDCG @ 20, 0, 1, predict="later")
    ((learns, asked),) = learned_order._folds(judge, 0)
    assert learns.timestamps.max() < asked.timestamps.min()
    assert learns.nnz + asked.nnz == judge.valid.nnz


@pytest.mark.usefixtures("few")
def test_trees_are_not_ahead_by_being_newer() -> None:
    """News: the trees see what is read now, and so does a model that is fitted again."""
    rng = np.random.default_rng(0)
    times = np.sort(rng.integers(0, 1000, 12_000))
    is_new = rng.random(len(times)) < 0.7
    news = 10 * (times // 200) + rng.integers(0, 10, len(times))
    items = np.where(is_new, news, rng.integers(0, 50, len(times)))
    data = mfrank.Interactions.from_arrays(
        rng.integers(0, 1500, len(times)), items, timestamps=times, timestamp_unit="s"
    )
    judge = mfrank.tuning.TrialJudge.of(data, mfrank.NDCG @ 20, 0, 1, predict="later")
    train = judge.train.take(judge.train.timestamps < 800)  # before what is new
    judge = replace(judge, train=train, left_out=train)
    setting = SimpleNamespace(seed=0, n_threads=1)
    runner = SimpleNamespace(judge=judge, setting=setting, budget=Budget(None))
    fits = []

    def again(data: mfrank.Interactions) -> mfrank.Popularity:
        fits.append(data)
        return mfrank.Popularity(window=60).fit(data)

    model = mfrank.Popularity(window=60).fit(train)
    of_use = learned_order.learned(runner, model, again, 0.0)
    of_old = learned_order.learned(runner, model, lambda _: model, 0.0)
    assert of_old.gain > 0.05
    assert of_use.gain < 0.2 * of_old.gain
    (fitted,) = fits
    assert train.nnz < fitted.nnz < train.nnz + judge.valid.nnz


def test_halves_of_the_users_are_alike() -> None:
    few = mfrank.synthetic(400, 60, 1600, random_state=0)  # of most users, nothing is held out
    judge = mfrank.tuning.TrialJudge.of(few, mfrank.NDCG @ 20, 0, 1, predict="any")
    sizes = [len(np.unique(asked.entry_users)) for _, asked in learned_order._folds(judge, 0)]
    assert sum(sizes) == len(np.unique(judge.valid.entry_users))
    assert min(sizes) > 0.3 * sum(sizes)
