"""One call of tune: what of it reaches the search, how two parts are joined, and the last fit."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.arrays import OutOfTimeError
from mfrank.tuning import (
    BlendPart,
    Budget,
    Facts,
    Leaderboard,
    Outcome,
    Runner,
    SearchResult,
    Setting,
    Trial,
    TrialJudge,
    TuneResult,
    _fitted,
)
from mfrank.tuning import one_call as module
from tests.support.errors import refuses

DATA = replace(mfrank.synthetic(40, 20, 300, random_state=0), timestamps=None)
NEW = mfrank.Interactions.from_sparse(sp.csr_array(1.0 - DATA.user_items.toarray()))


class Asked(Exception):
    """The search is not begun."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """With what the search was called."""
    given: dict[str, Any] = {}

    def noted(data: Any, metric: Any, clock: Budget, **options: Any) -> None:
        given.update(options, data=data, metric=metric, clock=clock)
        raise Asked

    monkeypatch.setattr(module, "search", noted)
    return given


def test_what_is_asked_reaches_the_search(asked: dict[str, Any]) -> None:
    own: dict[str, Any] = {
        "trials": 1,
        "factors": 1,
        "n_threads": 2,
        "memory": 0.5,
        "storage": "search.sqlite",
        "show_progress": True,
    }
    with pytest.raises(Asked):
        mfrank.tune(DATA, random_state=5, metric="recall@7", **own)
    assert {name: asked[name] for name in own} == own
    assert (asked["seed"], asked["metric"], asked["valid"]) == (5, mfrank.Recall @ 7, None)
    assert asked["data"] is DATA
    with pytest.raises(Asked):
        mfrank.tune(DATA.user_items)
    usual = {"trials": None, "factors": 512, "n_threads": 0, "memory": None, "storage": None}
    assert {name: asked[name] for name in usual} == usual
    assert (asked["seed"], asked["metric"], asked["show_progress"]) == (0, mfrank.NDCG @ 20, False)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, 600.0),
        ({"minutes": 2}, 120.0),
        ({"minutes": 2, "trials": 3}, 120.0),
        ({"trials": 3}, math.inf),
    ],
)
def test_ten_minutes_unless_trials_are_counted(
    options: dict[str, Any], seconds: float, asked: dict[str, Any]
) -> None:
    with pytest.raises(Asked):
        mfrank.tune(DATA, **options)
    assert 0.9 * seconds < asked["clock"].left() <= seconds or seconds == math.inf
    assert asked["clock"].is_limited == (seconds < math.inf)


@pytest.mark.parametrize(
    ("options", "error", "argument"),
    [
        ({"memory": 0}, ValueError, "memory"),
        ({"memory": "much"}, ValueError, "memory"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"factors": "wide"}, TypeError, "factors"),
        ({"trials": None, "minutes": math.inf}, ValueError, "minutes"),
    ],
)
def test_arguments_out_of_range_are_named(
    options: dict[str, Any], error: type[Exception], argument: str, asked: dict[str, Any]
) -> None:
    with refuses(error, argument):
        mfrank.tune(DATA, **options)
    assert not asked


# --- two parts


def test_both_parts_have_the_rows_of_both(asked: dict[str, Any]) -> None:
    data = mfrank.Interactions.from_arrays(["a", "b"], ["x", "y"])
    valid = mfrank.Interactions.from_arrays(["b", "c"], ["z", "x"])
    with pytest.raises(Asked):
        mfrank.tune(data, valid=valid)
    for part, pairs in ((asked["data"], {"ax", "by"}), (asked["valid"], {"bz", "cx"})):
        assert part.user_items.shape == (3, 3)
        users, items = (
            part.user_ids.raw(part.entry_users),
            part.item_ids.raw(part.user_items.indices),
        )
        assert {f"{user}{item}" for user, item in zip(users, items, strict=True)} == pairs


@pytest.mark.parametrize("sides", ["user", "item", "both"])
def test_a_matrix_has_the_rows_of_data_that_have_ids(sides: str, asked: dict[str, Any]) -> None:
    ids = {
        f"{side}_ids": [f"{side} {row}" for row in range(number)]
        for side, number in (("user", 40), ("item", 20))
        if sides in (side, "both")
    }
    data = mfrank.Interactions.from_sparse(DATA.user_items, **ids)
    with pytest.raises(Asked):
        mfrank.tune(data, valid=NEW.user_items)
    np.testing.assert_array_equal(asked["valid"].user_items.toarray(), NEW.user_items.toarray())
    assert asked["valid"].user_ids == data.user_ids
    assert asked["valid"].item_ids == data.item_ids
    with refuses(ValueError, "valid"):
        mfrank.tune(data, valid=sp.csr_array(np.ones((40, 19))))


@pytest.mark.parametrize(
    ("data", "valid", "fault"),
    [
        (
            DATA,
            replace(NEW, timestamps=np.arange(NEW.nnz)),
            {"remedy": "give both"},
        ),
        (replace(DATA, timestamps=np.arange(300)), NEW, {"remedy": "give both"}),
        (
            DATA,
            sp.csr_array(np.ones((41, 20))),
            {"argument": "valid", "remedy": "give valid the shape"},
        ),
        (
            DATA,
            sp.csr_array(np.ones((40, 21))),
            {"argument": "valid", "remedy": "give valid the shape"},
        ),
        (
            mfrank.Interactions.from_arrays(np.arange(1, 41), np.arange(40) % 20),
            mfrank.Interactions.from_sparse(sp.csr_array(np.ones((40, 20)))),
            {"argument": "valid", "remedy": "the users of valid"},
        ),
    ],
)
def test_parts_that_do_not_match_are_refused(
    data: Any, valid: Any, fault: dict[str, str], asked: dict[str, Any]
) -> None:
    with refuses((ValueError, KeyError), **fault):
        mfrank.tune(data, valid=valid)
    assert not asked


def test_values_below_the_threshold_of_the_data_are_told(
    asked: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    rated = mfrank.Interactions.from_sparse(
        sp.csr_array(DATA.user_items.toarray() * (1 + np.arange(20) % 5))
    )
    given = mfrank.Interactions.from_sparse(3.0 * NEW.user_items)
    with pytest.raises(Asked), caplog.at_level(logging.WARNING, "mfrank"):
        mfrank.tune(rated.at_least(4), valid=given)
    (told,) = [text for text in caplog.messages if text.startswith("valid has")]
    assert "below 4" in told
    assert "count as hits and likes" in told
    caplog.clear()
    with pytest.raises(Asked), caplog.at_level(logging.WARNING, "mfrank"):
        mfrank.tune(rated.at_least(4), valid=given.at_least(1))
    assert not [text for text in caplog.messages if "below" in text]


# --- the last fit

JUDGE = TrialJudge.of(DATA, mfrank.NDCG @ 5, 0, 1)
TRIAL = Trial("IALS", (0.5,) * 3, 0)
OUTCOME = Outcome(TRIAL, 0.2, 0.01, 2, 9.0, 5.0, 0.1)


def found(
    parts: list[BlendPart], left: float = math.inf, outcomes: list[Outcome] | None = None
) -> SearchResult:
    model = mfrank.ALS(mfrank.IALS(), factors=2, iterations=1, random_state=0).fit(JUDGE.train)
    budget = Budget(left, lambda: 0.0)
    runner = Runner(Setting(Facts.of(JUDGE.train), 4, 0, 1), JUDGE, budget, {TRIAL: model})
    return SearchResult(runner, outcomes or [], {}, parts, None)


@pytest.mark.parametrize(("left", "again"), [(5.1, True), (5.0, False), (0.0, False)])
def test_the_best_is_fitted_to_all_data_if_there_is_time(left: float, again: bool) -> None:
    result = found([BlendPart(OUTCOME)], left)
    model = _fitted(result, DATA)
    kept = result.runner.kept[TRIAL]
    assert (len(model.store.history) == 2) == again
    assert np.array_equal(model.item_factors, kept.item_factors) != again
    assert model.seen is not None
    assert model.seen.matrix.nnz == DATA.nnz


def test_a_model_that_is_not_there_is_fitted_however_late_it_is() -> None:
    result = found([BlendPart(OUTCOME)], 0.0)
    result.runner.kept.clear()
    assert len(_fitted(result, DATA).store.history) == 2


def test_a_last_fit_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> None:
        raise OutOfTimeError

    result = found([BlendPart(OUTCOME)])
    monkeypatch.setattr(Runner, "refitted", slow)
    model = _fitted(result, DATA)
    np.testing.assert_array_equal(model.item_factors, result.runner.kept[TRIAL].item_factors)


def test_without_a_fit_the_model_is_popularity_unless_memory_was_short() -> None:
    late = Outcome(TRIAL, None, error="OutOfTimeError: late")
    wide = Outcome(TRIAL, None, error="MemoryError: too wide")
    for outcomes in ([], [late], [replace(late, error=None)]):
        model = _fitted(found([], outcomes=outcomes), DATA)
        assert isinstance(model, mfrank.Popularity)
        np.testing.assert_array_equal(model.store.counts.items, DATA.counts.items)
    with pytest.raises(MemoryError, match="no fit succeeded: MemoryError: too wide"):
        _fitted(found([], outcomes=[late, wide]), DATA)


# --- what is told of it


@pytest.mark.parametrize(
    ("uses", "told"),
    [(None, []), (True, ["it reads their values"]), (False, ["it does not read their values"])],
)
def test_a_result_says_what_it_was_chosen_by_and_what_it_reads(
    uses: bool | None, told: list[str]
) -> None:
    model = mfrank.Popularity().fit(DATA)
    result = TuneResult(model, Leaderboard(()), "as given", uses)
    head = ["the best of 0 models is Popularity", "chosen on interactions held out as given", *told]
    assert repr(result).splitlines()[: len(head)] == head
    assert repr(result).endswith(str(result.leaderboard))
    assert all(text in result._repr_html_() for text in head[1:])


@pytest.mark.parametrize(("family", "uses"), [("WRMF", True), ("IALS", False)])
def test_whether_a_result_reads_values_is_that_of_its_parts(
    family: str, uses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = BlendPart(replace(OUTCOME, trial=Trial("IALS", (0.5,) * 3, 0)))
    part = BlendPart(replace(OUTCOME, trial=Trial(family, (0.5,) * 3, 0)))
    monkeypatch.setattr(module, "search", lambda *_, **__: found([plain, part]))
    rated = mfrank.Interactions.from_sparse(
        sp.csr_array(DATA.user_items.toarray() * (1 + np.arange(20) % 5))
    )
    assert mfrank.tune(rated, trials=1).uses_values is uses
    assert mfrank.tune(DATA, trials=1).uses_values is None
    assert mfrank.tune(rated, trials=1).validation == "per user"
