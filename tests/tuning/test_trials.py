"""A trial: how it is judged, when its fit ends, and what of it is kept."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.arrays import OutOfTimeError, check_time
from mfrank.evaluation import Score
from mfrank.tuning import (
    CAUTION,
    Budget,
    Facts,
    Outcome,
    Runner,
    Setting,
    Trial,
    TrialJudge,
    TrialWatch,
    named,
)

DATA = mfrank.synthetic(150, 60, 2500, random_state=0)


def test_the_latest_are_held_out_where_there_are_times() -> None:
    times = np.random.default_rng(0).integers(0, 10**6, DATA.nnz)
    cells = DATA.entry_users, DATA.user_items.indices
    data = mfrank.Interactions.from_arrays(*cells, timestamps=times)
    judge = TrialJudge.of(data, mfrank.NDCG @ 20, 0, 1)
    assert judge.kind == "by time"
    assert judge.train.timestamps is not None
    assert judge.valid.timestamps is not None
    assert judge.train.timestamps.max() < judge.valid.timestamps.min()
    assert (judge.train.counts.users[judge.users] > 0).all()


@pytest.mark.parametrize("times", ["none", "one", "no user on both sides"])
def test_a_part_of_each_users_is_held_out_where_time_does_not_serve(times: str) -> None:
    users = DATA.entry_users
    timestamps = {"none": None, "one": np.zeros(DATA.nnz, np.int64)}.get(times, users * 1000)
    data = mfrank.Interactions.from_arrays(users, DATA.user_items.indices, timestamps=timestamps)
    judge = TrialJudge.of(data, mfrank.NDCG @ 20, 0, 1)
    assert judge.kind == "per user"
    assert judge.train.nnz + judge.valid.nnz == data.nnz
    assert len(judge.users) > 100


def test_at_most_five_thousand_users_are_judged() -> None:
    data = mfrank.synthetic(9_000, 50, 90_000, random_state=0)
    judge = TrialJudge.of(data, mfrank.NDCG @ 20, 0, 1, predict="next")
    assert len(np.unique(judge.users)) == 5_000
    assert (judge.valid.counts.users[judge.users] > 0).all()


class _Slow:
    """A clock that every judgment and every epoch moves."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time

    def score(self, factors: object) -> SimpleNamespace:
        self.time += 1.0
        return SimpleNamespace(value=self.time)  # rises with every epoch


def epochs_within(seconds: float, reserve: float) -> tuple[int, float]:
    slow = _Slow()
    watch = TrialWatch(slow, Budget(seconds, slow), reserve)  # type: ignore[arg-type]
    values: list[float] = []
    while True:
        slow.time += 9.0
        values.append(watch.value(None, DATA, "auto", 1))
        if watch.is_over(values) or len(values) == 1000:
            return len(values), slow.time - 100.0


@pytest.mark.parametrize("seconds", [60.0, 200.0, 1000.0])
@pytest.mark.parametrize("reserve", [0.0, 30.0])
def test_a_fit_ends_while_there_is_time_to_fit_it_again(seconds: float, reserve: float) -> None:
    epochs, now = epochs_within(seconds, reserve)
    refit = 9.0 * epochs
    assert now + refit + reserve <= seconds
    assert epochs_within(seconds + 100, reserve)[0] > epochs


@pytest.mark.parametrize(
    ("values", "falls", "over"),
    [
        ([0.5, 0.49], True, True),
        ([0.5, 0.49], False, False),
        ([0.5, 0.499], True, False),
        ([0.5, 0.499, 0.4985], False, True),
        ([0.5, 0.499, 0.501], True, False),
    ],
)
def test_a_clear_fall_is_not_waited_out_where_epochs_have_no_noise(
    values: list[float], falls: bool, over: bool
) -> None:
    slow = _Slow()
    watch = TrialWatch(slow, Budget(1e6, slow), 0.0, falls=falls)  # type: ignore[arg-type]
    watch.value(None, DATA, "auto", 1)
    assert watch.is_over(values) == over


def test_a_fall_is_waited_out_unless_it_is_said_that_epochs_have_no_noise() -> None:
    slow = _Slow()
    watch = TrialWatch(slow, Budget(1e6, slow), 0.0)  # type: ignore[arg-type]
    watch.value(None, DATA, "auto", 1)
    assert not watch.is_over([0.5, 0.1])


class Ticking:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 1.0
        return self.time


def run_with(seconds: float, trial: Trial, factors: int = 8) -> tuple[Runner, Outcome]:
    judge = TrialJudge.of(DATA, mfrank.NDCG @ 20, 0, 1)
    setting = Setting(Facts.of(judge.train), factors, 0, 1)
    runner = Runner(setting, judge, Budget(seconds, Ticking()), {})
    return runner, runner.run(trial, 0.0)


@pytest.mark.parametrize("family", ["IALS", "SampledSoftmax", "ItemFilter", "EASE", "ItemKNN"])
def test_a_fit_without_time_for_an_epoch_is_given_up(family: str) -> None:
    runner, outcome = run_with(4.0, Trial(family, (0.5,) * len(named(family).axes), 0))
    assert outcome.value is None
    assert outcome.error is not None
    assert outcome.error.startswith("OutOfTimeError: ")
    assert not runner.kept


@pytest.mark.parametrize("seconds", [25.0, 35.0, 50.0])
def test_a_fit_that_is_stopped_keeps_the_epochs_it_had(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrialWatch, "is_over", lambda *_: False)
    trial = Trial("IALS", (0.5,) * 3, 2)
    runner, outcome = run_with(seconds, trial)
    assert outcome.value is not None
    model = runner.model(trial).set_params(iterations=outcome.epochs).fit(runner.judge.train)
    np.testing.assert_array_equal(runner.kept[trial].item_factors, model.item_factors)
    assert outcome.value == runner.judge.score(model).value


def scored(*values: float) -> SimpleNamespace:
    """A judge with these values, epoch by epoch, each of which takes a second."""
    left = iter(values)
    judge = SimpleNamespace(train=DATA, now=100.0)

    def score(_: object) -> Score:
        judge.now += 1.0
        return Score(next(left), 0.01)

    judge.score = score
    return judge


class Epochs:
    """A model whose epochs take nine seconds, until it is stopped or fails."""

    def __init__(self, judge: SimpleNamespace, number: int, error: Exception | None) -> None:
        self.judge, self.number, self.error = judge, number, error

    def fit(self, train: object, stopping: TrialWatch) -> None:
        values: list[float] = []
        assert train is self.judge.train
        for _ in range(self.number):
            self.judge.now += 9.0
            values.append(stopping.value(None, DATA, "auto", 1))
            if stopping.is_over(values):
                return
        if self.error:
            raise self.error


TRIAL = Trial("SampledSoftmax", (0.5, 0.5), 0)


def ran(
    values: tuple[float, ...], error: Exception | None = None, monkeypatch: Any = None
) -> tuple[Runner, Outcome]:
    judge: Any = scored(*values)
    budget = Budget(1e4, lambda: judge.now)
    runner = Runner(Setting(Facts.of(DATA), 8, 0, 1), judge, budget, {})
    model = Epochs(judge, len(values), error)
    monkeypatch.setattr(Runner, "model", lambda *_: model)
    return runner, runner.run(TRIAL, 0.0)


def test_an_outcome_is_that_of_the_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, outcome = ran((0.1, 0.3, 0.2, 0.25, 0.9), monkeypatch=monkeypatch)
    assert outcome == Outcome(
        TRIAL, 0.3, 0.01, epochs=2, seconds=40, fit_seconds=18, judge_seconds=1
    )
    assert list(runner.kept) == [TRIAL]


def test_a_fit_that_is_stopped_has_its_last_epoch_whichever_is_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, outcome = ran((0.3, 0.2), OutOfTimeError("late"), monkeypatch)
    assert outcome == Outcome(
        TRIAL, 0.2, 0.01, epochs=2, seconds=20, fit_seconds=18, judge_seconds=1
    )


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ((0.3,), FloatingPointError("diverged")),
        ((0.3,), MemoryError("too wide")),
        ((), OutOfTimeError("late")),
    ],
)
def test_a_fit_that_fails_has_no_value(
    values: tuple[float, ...], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, outcome = ran(values, error, monkeypatch)
    said = f"{type(error).__name__}: {error}"
    assert outcome == Outcome(TRIAL, None, seconds=10.0 * len(values), error=said)
    assert not runner.kept


@pytest.mark.parametrize(("family", "epochs"), [("IALS", 2), ("SampledSoftmax", 6)])
def test_only_als_ends_with_the_first_clear_fall(family: str, epochs: int) -> None:
    judge: Any = scored(0.5, 0.4, 0.45, 0.3, 0.3, 0.3)
    setting = Setting(Facts.of(DATA), 8, 0, 1)
    runner = Runner(setting, judge, Budget(1e9, lambda: judge.now), {})
    outcome = runner.run(Trial(family, named(family).first, 0), 0.0)
    assert outcome.epochs == 1
    assert judge.now == 100.0 + epochs


@pytest.mark.parametrize("is_baseline", [True, False])
def test_a_fit_in_one_go_leaves_time_to_fit_it_again(
    is_baseline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the 78 seconds beyond the reserve; a refit is expected to take CAUTION times as long."""
    judge: Any = scored(0.5)
    within: list[float] = []

    class OneGo(mfrank.Popularity if is_baseline else Epochs):  # type: ignore[misc]
        def fit(self, train: Any, stopping: Any = None) -> Any:
            for took in (5.0, 29.9, 30.1, 77.9, 78.1):
                judge.now = 100.0 + took
                try:
                    check_time()
                except OutOfTimeError:
                    break
                within.append(took)
            judge.now = 105.0
            if stopping is not None:
                stopping.value(self, train, "auto", 1)
            return self

    made = OneGo() if is_baseline else OneGo(judge, 1, None)
    monkeypatch.setattr(Runner, "model", lambda *_: made)
    budget = Budget(100.0, lambda: judge.now)
    outcome = Runner(Setting(Facts.of(DATA), 8, 0, 1), judge, budget, {}).run(TRIAL, 22.0)
    assert CAUTION == 1.6  # of 78 seconds, 30 are for the first fit
    assert within == ([5.0, 29.9] if is_baseline else [5.0, 29.9, 30.1, 77.9])
    assert (outcome.value, outcome.epochs, outcome.fit_seconds) == (0.5, 1, 5.0)


SLOWEST = [
    ((50.0,), 51.0),
    ((50.0, 9.0), 10.0),
    ((50.0, 29.0, 9.0), 30.0),
    ((50.0, 9.0, 29.0, 9.0), 30.0),
]


def test_a_fit_ends_where_there_is_no_time_for_an_epoch_like_its_longest_and_a_refit() -> None:
    """The first epoch has the start of the fit in it, and counts only until there is a second."""
    for epochs, longest in SLOWEST:
        needed = longest + CAUTION * (sum(epochs) + longest)
        for more, over in ((0.1, False), (-0.1, True)):
            slow = _Slow()
            seconds = sum(epochs) + len(epochs) + needed + 20.0 + more  # 20 seconds are reserved
            watch = TrialWatch(slow, Budget(seconds, slow), 20.0)  # type: ignore[arg-type]
            values = []
            for epoch in epochs:
                slow.time += epoch
                values.append(watch.value(None, DATA, "auto", 1))
            assert watch.is_over(values) == over


def test_the_best_models_are_kept_and_others_fitted_again() -> None:
    judge = TrialJudge.of(DATA, mfrank.NDCG @ 20, 0, 1)
    runner = Runner(Setting(Facts.of(judge.train), 8, 0, 1), judge, Budget(None), {})
    trials = [Trial(name, named(name).first, 0) for name in ("IALS", "RG2", "ItemFilter")]
    outcomes = [runner.run(trial, 0.0) for trial in trials]
    runner.keep(outcomes[1:])
    assert list(runner.kept) == trials[1:]
    assert runner.fitted(outcomes[1]) is runner.kept[trials[1]]
    again = runner.fitted(outcomes[0])
    assert runner.kept[trials[0]] is again
    assert runner.fitted(outcomes[0]) is again
    model = runner.model(trials[0]).set_params(iterations=outcomes[0].epochs).fit(judge.train)
    np.testing.assert_array_equal(again.item_factors, model.item_factors)
    whole = runner.refitted(outcomes[0], DATA)
    assert whole.seen.matrix.nnz == DATA.nnz
    assert len(whole.store.history) == outcomes[0].epochs


# --- who judges


def test_a_tenth_is_held_out() -> None:
    for data in (DATA, replace(DATA, timestamps=None)):
        judge = TrialJudge.of(data, mfrank.NDCG @ 20, 0, 1)
        assert judge.valid.nnz == pytest.approx(data.nnz / 10, rel=0.05)


@pytest.mark.parametrize(("both", "kind"), [(11, "by time"), (10, "session")])
def test_time_serves_where_a_tenth_of_the_users_are_on_both_sides(both: int, kind: str) -> None:
    """Of 109 users, who have ten interactions each, and of whom most have all before or after."""
    users, items = np.repeat(np.arange(109), 10), np.tile(np.arange(10), 109)
    times = np.where(users >= 99, 5, np.arange(1090) % 2)
    times = np.where((users < both) & (items == 9), 5, times)
    data = mfrank.Interactions.from_arrays(users, items, timestamps=times)
    assert TrialJudge.of(data, mfrank.NDCG @ 20, 0, 1).kind == kind


@pytest.mark.parametrize(("n_users", "judged"), [(5000, 5000), (5001, 5000)])
def test_five_thousand_users_judge_if_there_are_as_many(n_users: int, judged: int) -> None:
    matrix = sp.csr_array(np.tile([[1.0, 1.0, 0.0]], (n_users, 1)))
    new = sp.csr_array(np.tile([[0.0, 0.0, 1.0]], (n_users, 1)))
    data, valid = (mfrank.Interactions.from_sparse(each) for each in (matrix, new))
    one, again, other = (
        TrialJudge.of(data, mfrank.NDCG @ 20, seed, 1, valid).users for seed in (0, 0, 1)
    )
    assert len(one) == judged
    assert (np.diff(one) > 0).all()
    np.testing.assert_array_equal(one, again)
    assert (judged == n_users) == np.array_equal(one, other)


def test_users_judge_by_likes_that_are_new_to_them() -> None:
    """Not: without training entries, with a known like alone, or with a 0."""
    train = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0], [1, 1, 0]])
    valid = np.array([[0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 1]])
    data, given = (mfrank.Interactions.from_sparse(sp.csr_array(m * 1.0)) for m in (train, valid))
    judge = TrialJudge.of(data, mfrank.NDCG @ 2, 0, 1, given)
    np.testing.assert_array_equal(judge.users, [0, 2, 4])
    assert judge.kind == "as given"
    assert judge.train is data
    found = judge.evaluation(mfrank.Popularity().fit(data))
    np.testing.assert_array_equal(found.users, [0, 2, 4])
    assert list(found.scores) == [mfrank.NDCG @ 2]
