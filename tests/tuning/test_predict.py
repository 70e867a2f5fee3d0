"""What a model is for decides what is held out, and what is searched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank import Interactions
from mfrank.tuning import SPACE, TIMED_SPACE, TrialJudge, trials
from tests.support.errors import refuses

METRIC = mfrank.NDCG @ 20


def walks(n_users: int, length: int, gap: int = 1, seed: int = 0) -> Interactions:
    """Users who go on from an item to the next one of a circle of 40, each in their own days."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), length)
    steps = np.tile(np.arange(length), n_users)
    items = (rng.integers(0, 40, n_users)[users] + steps) % 40
    return Interactions.from_arrays(users, items, timestamps=10**9 + gap * users + steps)


def kind_of(data: Interactions, predict: Any = None) -> str:
    return TrialJudge.of(data, METRIC, 0, 1, predict=predict).kind


def test_by_default_the_data_tell_what_is_held_out() -> None:
    assert kind_of(walks(50, 20)) == "by time"  # users who overlap
    assert kind_of(walks(50, 6, gap=1000)) == "session"
    assert kind_of(walks(50, 20, gap=1000)) == "per user"  # long histories, one after another
    assert kind_of(replace(walks(50, 6, gap=1000), timestamps=None)) == "per user"
    assert kind_of(replace(walks(50, 6), timestamps=np.ones(300, np.int64))) == "per user"


def test_each_choice_holds_out_what_it_says() -> None:
    data = walks(50, 20)
    judge = TrialJudge.of(data, METRIC, 0, 1, predict="next")
    assert judge.kind == "next"
    assert judge.valid.counts.users.tolist() == [1] * 50
    last = np.maximum.reduceat(data.timestamps, data.user_items.indptr[:-1])
    assert judge.valid.timestamps.tolist() == last.tolist()
    assert kind_of(data, "session") == "session"
    later = TrialJudge.of(data, METRIC, 0, 1, predict="later")
    assert later.kind == "by time"
    assert later.train.timestamps.max() <= later.valid.timestamps.min()
    gaps = TrialJudge.of(data, METRIC, 0, 1, predict="any")
    assert gaps.kind == "per user"
    assert gaps.valid.timestamps.min() < gaps.train.timestamps.max()


def test_sessions_are_judged_by_those_that_end_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of those of several items, or enough to judge by, but not too many."""
    data = walks(50, 6, gap=1000)
    data = data.take((data.entry_users < 49) | (data.timestamps == data.timestamps.max()))
    for enough, most, judged in ((5, 5000, 5), (2, 5000, 4), (2, 3, 3), (1000, 5000, 49)):
        monkeypatch.setattr(trials, "_ENOUGH", enough)
        monkeypatch.setattr(trials, "_USERS", most)
        judge = TrialJudge.of(data, METRIC, 0, 1, predict="session")
        users = np.flatnonzero(judge.valid.counts.users)
        assert users.tolist() == list(range(49 - judged, 49))
        assert judge.valid.nnz == judged
        assert judge.train.nnz == data.nnz - judged
        assert (judge.train + judge.valid).nnz == data.nnz
        assert judge.users.tolist() == users.tolist()
        last = np.maximum.reduceat(data.timestamps, data.user_items.indptr[:-1])
        assert judge.valid.timestamps.tolist() == last[users].tolist()


def test_what_follows_is_searched_and_found_where_it_is_asked_for(tmp_path: Path) -> None:
    data, path = walks(80, 6, gap=1000), tmp_path / "search.sqlite"
    found = mfrank.tune(data, trials=4, factors=4, storage=path)
    assert found.validation == "session"
    assert "the last of the latest sessions" in str(found)
    nexts = mfrank.tune(data, trials=2, factors=4, predict="next")
    assert nexts.validation == "next"
    assert "the next of each user" in str(nexts)
    assert {"NextItem", "NextItem of two decays"} & {row["family"] for row in found.leaderboard}
    assert found.model.recommend_from_items([3, 4, 5], N=1).ids.tolist() == [6]
    other = mfrank.tune(data, trials=2, factors=4, predict="any")
    assert other.validation == "per user"
    assert not any("NextItem" in row["family"] for row in other.leaderboard)


def test_spaces_are_of_what_is_predicted() -> None:
    assert not {f.name for f in SPACE.families()} & {"NextItem", "RecentPopularity"}
    timed = {"AsymmetricALS", "NextItem", "RecentPopularity", "SequentialRules"}
    assert {f.name for f in TIMED_SPACE.families()} > timed


@pytest.mark.parametrize(
    ("data", "options", "argument", "remedy"),
    [
        (walks(9, 5), {"predict": "clicks"}, "predict", ""),
        (walks(9, 5), {"predict": "next", "valid": walks(9, 6)}, "predict", "leave out"),
        (replace(walks(9, 5), timestamps=None), {"predict": "later"}, "predict", "any"),
        (walks(30, 5, gap=1000), {"predict": "later"}, "predict", "any"),
        (replace(walks(9, 5), timestamps=None), {"predict": "next"}, "predict", "from_arrays"),
        (replace(walks(9, 5), timestamps=None), {"predict": "session"}, "predict", "from_arrays"),
    ],
)
def test_what_cannot_be_predicted_is_refused(
    data: Interactions, options: dict[str, Any], argument: str, remedy: str
) -> None:
    with refuses(ValueError, argument, remedy=remedy):
        mfrank.tune(data, trials=1, factors=2, **options)
