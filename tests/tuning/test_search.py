"""Which trial comes next: halving, turns of ladders, and time by a clock that the tests move."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.tuning import (
    BASELINES,
    FAMILIES,
    Budget,
    Facts,
    Ladder,
    Outcome,
    Search,
    Setting,
    Space,
    Trial,
    best,
    finalists,
    named,
    refit_seconds,
)

DATA = mfrank.synthetic(300, 200, 4000, random_state=0)
SETTING = Setting(Facts.of(DATA), 64, 0, 1)
ALS = FAMILIES["ALS"]
IDS = {family.name for family in ALS}


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def value_of(trial: Trial) -> float:
    """A value that depends on the point, and grows with the rung."""
    return math.sin(40 * sum(trial.point, 1.0)) + trial.rung


def searched(trials: int | None, minutes: float | None = None, slowness: float = 1.0) -> Clock:
    clock = Clock()
    done: list[Outcome] = []

    def run(trial: Trial, reserve: float) -> None:
        took = slowness * named(trial.family).work(trial.rung, SETTING)
        clock.time += took
        done.append(Outcome(trial, value_of(trial), 0.01, 3, took, 0.6 * took, 0.01 * took))

    budget = Budget(None if minutes is None else 60 * minutes, clock)
    Search(SETTING, budget, trials).run(done, run)
    clock.done = done  # type: ignore[attr-defined]
    return clock


def outcomes_of(clock: Clock) -> list[Outcome]:
    found: list[Outcome] = clock.done  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("trials", [1, 2, 7, 20])
def test_as_many_trials_as_were_asked_for_beside_the_baselines(trials: int) -> None:
    done = outcomes_of(searched(trials))
    baselines = {family.name for family in BASELINES}
    assert sum(one.trial.family not in baselines for one in done) == trials
    assert {one.trial.family for one in done} >= baselines


def test_the_same_trials_whatever_they_take() -> None:
    quick, slow = searched(20), searched(20, slowness=50.0)
    assert [one.trial for one in outcomes_of(quick)] == [one.trial for one in outcomes_of(slow)]


@pytest.mark.parametrize("trials", [6, 20, 60])
def test_the_best_of_each_ladder_is_lifted_to_the_top(trials: int) -> None:
    done = outcomes_of(searched(trials))
    for families in FAMILIES.values():
        ladder = Ladder(families, 0)
        assert max(one.trial.rung for one in ladder.of(done)) == ladder.top


def test_no_trial_is_run_twice() -> None:
    trials = [one.trial for one in outcomes_of(searched(60))]
    places = {(trial.family, trial.point, trial.rung) for trial in trials}
    assert len(places) == len(trials)


@settings(max_examples=15, deadline=None)
@given(
    minutes=st.floats(0.001, 0.5),
    slowness=st.floats(0.1, 30.0),
)
def test_the_time_is_kept(minutes: float, slowness: float) -> None:
    """After the first trials, which are run whatever they take, all of it ends in time."""
    clock = searched(None, minutes, slowness)
    done = outcomes_of(clock)
    left = 100.0 + 60 * minutes - clock.time
    searching = [one for one in done if one.trial.family not in {b.name for b in BASELINES}]
    if len(searching) > 2:  # of each ladder one was measured before the last
        leader = best(searching)
        assert leader is not None
        assert left >= refit_seconds(leader)


def test_time_that_is_there_is_used() -> None:
    clock = searched(None, 0.3)
    done = outcomes_of(clock)
    ladders = len(done) < 2 * 100
    used = (clock.time - 100.0) / 18.0
    assert used > 0.5 or not ladders


def test_where_there_is_time_for_wide_fits_the_search_does_not_begin_narrow() -> None:
    short, long = (outcomes_of(searched(None, minutes)) for minutes in (0.02, 20.0))
    rungs = [
        [one.trial.rung for one in done if one.trial.family in IDS][2:] for done in (short, long)
    ]
    assert 0 in rungs[0]
    assert 0 not in rungs[1]
    assert set(rungs[1]) == {2}


def test_one_of_three_goes_on() -> None:
    ladder = Ladder(ALS, 0)
    points = [tuple(p) for p in np.linspace(0, 1, 9)[:, None].repeat(3, 1).tolist()]
    done = [Outcome(Trial("IALS", p, 0), v) for v, p in enumerate(points)]  # type: ignore[arg-type]
    promoted = []
    for _ in range(3):
        trial = ladder.proposed(done, ladder.top)
        assert trial.rung == 1
        promoted.append(trial.point)
        done.append(Outcome(trial, -1.0))
    assert promoted == points[:-4:-1]
    highest = ladder.proposed(done, ladder.top)
    assert highest.rung == 2  # the best of three on rung 1
    assert ladder.proposed([*done, Outcome(highest, 0.0)], ladder.top).is_new
    assert ladder.proposed(done, 0).rung == 0


def test_first_the_first_point_of_each_family() -> None:
    ladder, done = Ladder(ALS, 0), list[Outcome]()
    for family in ALS:
        trial = ladder.proposed(done, 0)
        assert trial == Trial(family.name, family.first, 0, is_new=True)
        done.append(Outcome(trial, 0.0))


def test_failures_are_no_candidates() -> None:
    failed = Outcome(Trial("IALS", (0.1, 0.1, 0.1), 0), None, error="FloatingPointError: diverged")
    good = Outcome(Trial("IALS", (0.2, 0.2, 0.2), 0), 0.0)
    assert best([failed]) is None
    assert best([failed, good]) is good
    assert finalists([failed]) == []
    assert finalists([failed, good]) == [good]


def test_more_of_a_family_are_candidates_if_they_are_good_and_memory_holds_them() -> None:
    values = {"RG2": (0.5, 0.49, 0.48, 0.47), "IALS": (0.4, 0.39), "EASE": (0.3,)}
    done = [
        Outcome(Trial(family, (0.1 * place, 0.5, 0.5), 2), value)
        for family, some in values.items()
        for place, value in enumerate(some)
    ]

    def found(memory: float) -> list[float | None]:
        setting = Setting(Facts.of(DATA), 8, 0, 1, memory)
        return sorted((one.value for one in finalists(done, setting=setting)), reverse=True)

    assert found(math.inf) == [0.5, 0.49, 0.48, 0.4, 0.3]
    one = named("RG2").bytes_needed(2, Setting(Facts.of(DATA), 8, 0, 1))
    assert found(one / 2) == [0.5, 0.49, 0.4, 0.3]
    assert found(0.4 * one) == [0.5, 0.4, 0.3]
    assert found(0) == [0.5, 0.4, 0.3]


def test_the_best_of_every_family_becomes_as_wide_as_others_were_twice() -> None:
    ladder = Ladder(ALS, 0)

    def outcome(family: str, value: float | None, rung: int, place: float = 0.5) -> Outcome:
        return Outcome(Trial(family, (place,) * 3, rung, is_new=True), value)

    done = [outcome(family.name, 0.1, 0) for family in ALS]
    done += [outcome("RG2", 0.2, 0, 0.3), outcome("IALS", 0.3, 2), outcome("WRMF", None, 2)]
    assert ladder.proposed(done, 2).rung < 2  # one was there, and may have been slow
    done.append(outcome("IALS", 0.4, 2, 0.6))
    lifted = []
    for _ in range(2):
        trial = ladder.proposed(done, 2)
        lifted.append((trial.family, trial.point[0], trial.rung))
        done.append(Outcome(trial, 0.1))
    assert lifted == [("RG2", 0.3, 2), ("EALS", 0.5, 2)]
    assert ladder.proposed(done, 2).family == "IALS"


def test_a_ladder_that_only_fails_is_left() -> None:
    done: list[Outcome] = []

    def run(trial: Trial, reserve: float) -> None:
        error = "MemoryError: too wide" if trial.family == "SampledSoftmax" else None
        done.append(Outcome(trial, None if error else value_of(trial), error=error))

    Search(SETTING, Budget(None), 20).run(done, run)
    assert sum(one.error is not None for one in done) == 3


def test_rungs_that_do_not_fit_memory_are_not_tried_again() -> None:
    done: list[Outcome] = []

    def run(trial: Trial, reserve: float) -> None:
        error = "MemoryError: too wide" if trial.rung == 2 else None
        done.append(Outcome(trial, None if error else value_of(trial), error=error))

    Search(SETTING, Budget(None), 80).run(done, run)
    for ladder in (Ladder(families, 0) for families in FAMILIES.values()):
        failed = sum(one.error is not None for one in ladder.of(done))
        assert failed == (ladder.top == 2)


@settings(max_examples=20, deadline=None)
@given(st.floats(4, 8))
def test_no_fit_takes_more_memory_than_it_may(digits: float) -> None:
    setting = Setting(Facts.of(DATA), 64, 0, 1, 10**digits)
    done: list[Outcome] = []

    def run(trial: Trial, reserve: float) -> None:
        done.append(Outcome(trial, value_of(trial)))

    Search(setting, Budget(None), 40).run(done, run)
    above = [one.trial for one in done if not named(one.trial.family).fits(one.trial.rung, setting)]
    assert not any(trial.rung for trial in above)  # the narrowest are fitted whatever they take
    assert not any(named(trial.family).rungs == 1 for trial in above)


def test_a_model_without_rungs_that_would_take_the_time_of_all_others_is_left_out() -> None:
    def regression_seconds() -> float:
        return named("EASE").work(0, SETTING)

    for share, tried in ((0.5, False), (0.01, True)):
        done = outcomes_of(searched(None, regression_seconds() / share / 60, slowness=0.01))
        assert any(one.trial.family == "EASE" for one in done) == tried


def test_a_model_that_is_to_be_quick_is_not_given_all_of_the_time() -> None:
    clock, given = Clock(), dict[str, float]()
    budget, done = Budget(60.0, clock), list[Outcome]()

    def run(trial: Trial, reserve: float) -> None:
        given[trial.family] = budget.left() - reserve
        clock.time += 0.5
        done.append(Outcome(trial, value_of(trial), 0.01, 3, 0.5, 0.3, 0.01))

    Search(SETTING, budget, 12).run(done, run)
    assert given["ItemKNN"] <= 0.2 * 60
    assert given["ItemFilter"] <= 0.52 * 60
    assert given["EASE"] <= 0.52 * 60
    assert given["Popularity"] == 60.0


def test_a_model_without_rungs_that_is_searched_alone_may_take_more_of_the_time() -> None:
    ease = named("EASE")
    budget = Budget(4 * ease.work(0, SETTING), Clock())
    assert Search(SETTING, budget, None).left_out([])["EASE"].startswith("left out: a fit would")
    alone = Search(SETTING, budget, None, Space.of_one(ease))
    assert alone.next([]) == Trial("EASE", ease.first, 0, is_new=True)


def test_a_ladder_that_has_time_for_hardly_a_trial_is_not_begun_beside_others() -> None:
    softmax = named("SampledSoftmax")
    least = 3 * 1.5 * softmax.work(0, SETTING)  # of a trial and its refit, as long as none is known
    ladders = len(FAMILIES)
    for trials, begun in ((1.5, False), (2.5, True)):
        seconds = trials * ladders * least
        done = outcomes_of(searched(None, seconds / 60, slowness=0.01))
        assert any(one.trial.family == softmax.name for one in done) == begun
        search = Search(SETTING, Budget(seconds, Clock()), None)
        assert ("SampledSoftmax" in search.left_out(done)) != begun
    alone = Search(SETTING, Budget(1.5 * least, Clock()), None, Space.of_one(softmax))
    first = alone.next([])
    assert first is not None
    clock, known = Clock(), [Outcome(first, 0.1, 0.01, 3, least / 5, least / 9, 0.0)]
    again = Search(SETTING, Budget(1.5 * least, clock), None, Space.of_one(softmax)).next(known)
    assert again is not None


def test_what_was_left_out_says_why() -> None:
    little = Setting(Facts.of(DATA), 64, 0, 1, 1e5)
    assert list(Search(little, Budget(None), 1).left_out([])) == ["ItemFilter", "EASE"]
    assert Search(SETTING, Budget(None), 1).left_out([]) == {}
    short = Search(SETTING, Budget(1e-4, Clock()), None)
    popularity = Outcome(Trial("Popularity", (), 0), 0.1)
    reasons = short.left_out([popularity])
    assert set(reasons) == {"ItemKNN", "SampledSoftmax", "ItemFilter", "EASE", *IDS}
    assert "left out: there was no time for it" in reasons["IALS"]
    assert "and may take 1.3e-05" in reasons["EASE"]


def test_popularity_is_fitted_however_short_the_time_is() -> None:
    done = outcomes_of(searched(None, 1e-9, slowness=1e6))
    assert [one.trial.family for one in done][:1] == ["Popularity"]


def test_a_ladder_whose_narrowest_fit_is_too_slow_is_left() -> None:
    done: list[Outcome] = []

    def run(trial: Trial, reserve: float) -> None:
        error = "OutOfTimeError: given up" if trial.family in ("ItemFilter", "IALS") else None
        done.append(Outcome(trial, None if error else value_of(trial), error=error))

    Search(SETTING, Budget(None), 20).run(done, run)
    families = [one.trial.family for one in done]
    assert families.count("ItemFilter") == 1
    assert sum(family in IDS for family in families) == 1


def test_time_spent_before_counts() -> None:
    clock = Clock()
    budget = Budget(60.0, clock)
    budget.spend(45.0)
    clock.time += 5
    assert budget.left() == pytest.approx(10.0)
    assert Budget(None, clock).left() == math.inf
