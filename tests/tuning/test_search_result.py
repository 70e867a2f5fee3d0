"""A search as a whole: what it is given, what it keeps and tells, and what comes of it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.arrays import OutOfTimeError, check_time
from mfrank.evaluation import Score, to_maximize
from mfrank.tuning import (
    SPACE,
    TIMED_SPACE,
    Budget,
    Outcome,
    Runner,
    SearchResult,
    Space,
    Trial,
    TrialJournal,
    budget_of,
    finalists,
    likes_of,
    named,
    refit_seconds,
    search,
)
from mfrank.tuning import search_result as module
from tests.support.errors import refuses

PLAIN = replace(mfrank.synthetic(80, 40, 900, random_state=0), timestamps=None)
RATED = mfrank.Interactions.from_arrays(
    PLAIN.entry_users, PLAIN.user_items.indices, 1.0 + np.arange(PLAIN.nnz) % 5
)
NEW = mfrank.Interactions.from_sparse(sp.csr_array(1.0 - PLAIN.user_items.toarray()))
OPTIONS: dict[str, Any] = {"factors": 8, "seed": 3, "n_threads": 1}


def searched(data: mfrank.Interactions = PLAIN, **options: Any) -> SearchResult:
    clock = options.pop("clock", Budget(None))
    metric = options.pop("metric", mfrank.NDCG @ 5)
    return search(data, metric, clock, **{"trials": 1, **OPTIONS, **options})


@pytest.fixture
def no_fits(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """Trials have a value and take a second, without a fit; which they were."""
    ran = list[Trial]()

    def run(self: Runner, trial: Trial, reserve: float) -> Outcome:
        ran.append(trial)
        return Outcome(trial, 0.1 + len(ran) / 100, 0.01, 1, 1.0, 0.5, 0.01)

    monkeypatch.setattr(Runner, "run", run)
    monkeypatch.setattr(module, "mixed", lambda _, some, __: ([module.BlendPart(some[0])], None))
    return ran


def test_three_hundredths_of_the_minutes_are_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is planned for them; the last fit may take them."""
    now = [0.0]
    monkeypatch.setattr(module, "Budget", lambda *given, **more: Budget(*given, clock, **more))

    def clock() -> float:
        return now[0]

    budget = budget_of(2)
    assert budget.left() == pytest.approx(0.97 * 120)
    with budget.to_the_end():
        now[0] = 119.9
        check_time()
        now[0] = 120.1
        with pytest.raises(OutOfTimeError):
            check_time()
    assert budget.is_limited
    assert not budget_of(None).is_limited
    assert budget_of(None).left() == float("inf")


@pytest.mark.usefixtures("no_fits")
def test_what_is_given_reaches_every_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(memory=2.0)
    setting = found.runner.setting
    assert (setting.factors, setting.seed, setting.n_threads) == (8, 3, 1)
    assert setting.memory == 2**29  # a quarter: the best of each family stay in memory
    assert setting.facts.data is found.runner.judge.train
    assert (found.runner.judge.n_threads, found.runner.judge.metric) == (1, mfrank.NDCG @ 5)
    monkeypatch.setattr(module, "memory_free_now", lambda: 4000.0)
    assert searched().runner.setting.memory == 1000.0
    other = searched(seed=4).runner.judge
    assert (other.valid.user_items != found.runner.judge.valid.user_items).nnz


@pytest.mark.usefixtures("no_fits")
@pytest.mark.parametrize("valid", [False, True])
def test_what_is_popular_of_late_is_searched_where_the_latest_are_held_out(valid: bool) -> None:
    times = np.random.default_rng(0).permutation(PLAIN.nnz)
    timed = replace(PLAIN, timestamps=times)
    given = {"valid": NEW} if valid else {}
    assert searched(timed, **given).runner.space is TIMED_SPACE
    assert searched(PLAIN, **given).runner.space is SPACE
    at_once = replace(PLAIN, timestamps=np.zeros(PLAIN.nnz, dtype=np.int64))
    assert (searched(at_once, **given).runner.space is TIMED_SPACE) == valid
    ease = Space.of_one(named("EASE"))
    assert searched(timed, space=ease, **given).runner.space is ease


def test_models_that_read_values_are_first_where_values_vary(no_fits: list[Trial]) -> None:
    for data, first in ((RATED, "WRMF"), (PLAIN, "IALS")):
        no_fits.clear()
        searched(data)
        families = [trial.family for trial in no_fits]
        assert families == ["Popularity", "ItemKNN", first]


def test_the_time_of_earlier_searches_counts(no_fits: list[Trial], tmp_path: Path) -> None:
    storage = {"storage": tmp_path / "search.sqlite"}
    clock = Budget(60.0, lambda: 0.0)
    searched(clock=clock, **storage)
    ran = len(no_fits)
    assert clock.left() == 60.0  # its own time is that of the clock
    again = Budget(60.0, lambda: 0.0)
    searched(clock=again, trials=ran + 5, **storage)
    assert again.left() == 60.0 - ran
    over = Budget(ran - 0.5, lambda: 0.0)
    no_fits.clear()
    searched(clock=over, trials=100, **storage)
    assert no_fits == []


@pytest.mark.usefixtures("no_fits")
def test_a_file_has_one_search_of_the_same_data(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    searched(storage=path)
    searched(storage=path, trials=2, n_threads=2, memory=5.0)  # these change no outcome
    others: list[dict[str, Any]] = [
        {"metric": mfrank.NDCG @ 6},
        {"factors": 9},
        {"seed": 4},
    ]
    for data in ({}, {"data": RATED}, {"valid": NEW}):  # of other data are other days
        searched(storage=path, **data)
        for other in others:
            with refuses(ValueError, "storage", remedy="name another file"):
                searched(storage=path, **data, **other)


@pytest.mark.parametrize(("left", "waits"), [(0.5, True), (0.0, False)])
def test_others_are_waited_for_while_there_is_time(
    left: float, waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[bool]()

    def claimed(self: TrialJournal, propose: object, may_wait: Callable[[], bool]) -> None:
        told.append(may_wait())

    monkeypatch.setattr(TrialJournal, "claimed", claimed)
    searched(storage=tmp_path / "search.sqlite", clock=Budget(left, lambda: 0.0))
    assert told == [waits]


def test_a_trial_that_is_interrupted_is_free_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "run", interrupted)
    path = tmp_path / "search.sqlite"
    with pytest.raises(KeyboardInterrupt):
        searched(storage=path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM claims").fetchall() == []


def test_only_models_that_may_be_in_the_result_stay_in_memory() -> None:
    found = searched(trials=6)
    best = max(found.outcomes, key=lambda one: one.value or 0.0)
    candidates = finalists(found.outcomes, found.runner.space, found.runner.setting)
    assert set(found.runner.kept) == {one.trial for one in (best, *candidates)}
    assert len(found.outcomes) > len(found.runner.kept)


@pytest.mark.usefixtures("no_fits")
def test_families_without_memory_are_told() -> None:
    assert searched(memory=4e-9).left_out["EASE"].endswith("GiB, and may take 1e-09")
    assert searched(memory=64.0).left_out == {}


# --- the best model, or a blend


def chosen(blend: float | None, *, late: bool = False) -> SearchResult:
    """What comes of a search whose blend has this value; None if it is a single model."""
    parts = [module.BlendPart(Outcome(Trial("EASE", (0.5,) * 3, 0), 0.2))] * (
        1 if blend is None else 2
    )

    def mixed(runner: Runner, candidates: Any, former: Any) -> Any:
        if late:
            raise OutOfTimeError
        return parts, None if blend is None else Score(blend, 0.01)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "mixed", mixed)
        return searched()


def test_a_blend_is_taken_if_it_is_as_good_as_the_best(no_fits: list[Trial]) -> None:
    best = 0.13  # of the third trial
    for value, taken in ((0.2, True), (best, True), (0.12, False)):
        no_fits.clear()
        found = chosen(value)
        assert len(found.parts) == (2 if taken else 1)
        assert (found.score.value if found.score else None) == (value if taken else None)
    assert [part.outcome.trial.family for part in chosen(None).parts] == ["EASE"]
    no_fits.clear()
    late = chosen(0.2, late=True)
    assert [part.outcome.value for part in late.parts] == [best]
    assert (late.parts[0].weight, late.score) == (1.0, None)


def test_a_value_of_0_is_one(no_fits: list[Trial], monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(chosen(0.0).parts) == 1
    monkeypatch.setattr(Runner, "run", lambda self, trial, reserve: Outcome(trial, 0.0, 0.0))
    assert len(chosen(0.0).parts) == 2


def test_only_values_below_0_are_dislikes() -> None:
    small = mfrank.Interactions.from_arrays([0, 1, 1], [0, 0, 1], [0.5, 0.25, 0.0])
    assert likes_of(small) is small
    disliked = mfrank.Interactions.from_arrays([0, 1, 1], [0, 0, 1], [0.5, 0.25, -0.5])
    for name, given in (("data", {}), ("train", {"name": "train"})):
        with refuses(ValueError, name):
            likes_of(disliked, **given)


def test_a_search_in_which_all_fails_has_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Runner,
        "run",
        lambda self, trial, reserve: Outcome(trial, None, error="MemoryError: too wide"),
    )
    found = searched(trials=3)
    assert (found.parts, found.score) == ([], None)


@pytest.mark.usefixtures("no_fits")
def test_the_time_to_fit_the_best_again_is_left_after_blending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = list[float]()

    def mixed(runner: Runner, candidates: Any, former: Any) -> Any:
        now[0] = 100.0 - refit_seconds(candidates[0]) - 0.01
        check_time()
        now[0] += 0.02
        with pytest.raises(OutOfTimeError):
            check_time()
        left.append(now[0])
        return [module.BlendPart(candidates[0])], None

    now = [0.0]
    monkeypatch.setattr(module, "mixed", mixed)
    searched(clock=Budget(100.0, lambda: now[0]))
    assert left


# --- what is told


def test_progress_says_what_was_tried_and_what_is_best(
    no_fits: list[Trial], capsys: pytest.CaptureFixture[str]
) -> None:
    searched()
    assert capsys.readouterr().err == ""
    no_fits.clear()
    searched(show_progress=True, clock=Budget(120.0, lambda: 0.0))
    read = capsys.readouterr()
    assert read.out == ""
    first, *_, last = read.err.splitlines()
    assert first == (
        "mfrank: trial 1, Popularity on rung 0: NDCG@5 0.1100 in 1.0 s; best 0.1100, Popularity, "
        "2.0 min left"
    )
    assert re.fullmatch(r"mfrank: trial 3, IALS on rung \d: NDCG@5 .* best 0.1300, IALS, .*", last)


def test_progress_says_that_a_trial_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Runner,
        "run",
        lambda self, trial, reserve: Outcome(trial, None, seconds=2.0, error="MemoryError: wide"),
    )
    searched(show_progress=True)
    line = capsys.readouterr().err.splitlines()[0]
    assert line == "mfrank: trial 1, Popularity on rung 0: failed in 2.0 s"


# --- judged by one user


def test_a_search_that_one_user_judges_is_resumed(tmp_path: Path) -> None:
    """One value has no standard error, which is none in the file, too."""
    new = sp.csr_array(PLAIN.user_items.shape)
    rest = np.flatnonzero(PLAIN.user_items.toarray()[5] == 0)[:3]
    new = sp.csr_array((np.ones(3), (np.full(3, 5), rest)), shape=new.shape)
    given = {"valid": mfrank.Interactions.from_sparse(new), "storage": tmp_path / "search.sqlite"}
    found = searched(**given)
    assert {one.standard_error for one in found.outcomes} == {None}
    assert searched(**given).outcomes == found.outcomes


def test_metrics_are_read_by_name_and_checked() -> None:
    assert to_maximize("recall@7") == mfrank.Recall @ 7
    assert to_maximize(mfrank.MRR @ 3) == mfrank.MRR @ 3
    assert to_maximize(mfrank.AUC()) == mfrank.AUC()
