"""Plans of a search: what is reserved, whose turn it is, and what a ladder may still do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import mfrank
from mfrank.tuning import (
    FAMILIES,
    SPACE,
    Budget,
    Facts,
    Outcome,
    Search,
    Setting,
    Space,
    Trial,
    named,
)

SETTING = Setting(Facts.of(mfrank.synthetic(300, 200, 4000, random_state=0)), 64, 0, 1)
BASELINES = [Outcome(Trial(name, (), 0), 0.01) for name in ("Popularity", "ItemKNN")]


def done(
    family: str,
    value: float | None,
    seconds: float = 0.0,
    rung: int = 0,
    *,
    place: float = 0.5,
    fit: float = 0.0,
    judge: float = 0.0,
    error: str | None = None,
) -> Outcome:
    point = (place,) * len(named(family).axes)
    trial = Trial(family, point, rung, is_new=True)
    return Outcome(trial, value, 0.01, 1, seconds, fit, judge, error)


def plan(seconds: float | None = None, trials: int | None = None, **more: Any) -> Search:
    return Search(SETTING, Budget(seconds, lambda: 0.0), trials, **more)


# --- time that is reserved


def test_the_best_three_can_be_fitted_again_and_weighed() -> None:
    """Each refit is expected to take 1.6 times its fit; to list and weigh a model, 7 judgments."""
    outcomes = [
        done("IALS", 0.5, fit=10, judge=1),
        done("RG2", 0.4, fit=1000, judge=1),  # not the best of its ladder
        done("SampledSoftmax", 0.4, fit=20, judge=2),
        done("ItemFilter", 0.3, fit=30, judge=0),
        done("EASE", 0.2, fit=5, judge=0),
    ]
    costs = 1.6 * (10 + 20 + 30) + 7 * (1 + 2)
    assert plan(1000.0).reserve(outcomes) == pytest.approx(60 + costs)  # 6 % for the mixing itself
    assert plan(None, 50).reserve(outcomes) == pytest.approx(costs)  # by trials no time is planned
    assert plan(1000.0).reserve(outcomes[:1]) == pytest.approx(60 + 16 + 7)
    assert plan(1000.0).reserve([]) == 0
    assert plan(1000.0).reserve(BASELINES) == 0


def test_nothing_is_reserved_for_slow_parts_but_for_the_best() -> None:
    slow = [done("IALS", 0.5, fit=500), done("SampledSoftmax", 0.4, fit=100)]
    assert plan(1000.0).reserve(slow) == pytest.approx(60 + 800)  # 160 s are above 15 %
    quick = [slow[0], done("SampledSoftmax", 0.4, fit=90)]
    assert plan(1000.0).reserve(quick) == pytest.approx(60 + 800 + 144)
    at_most = [done("IALS", 0.1), done("SampledSoftmax", 0.0, fit=150 / 1.6)]
    assert plan(1000.0).reserve(at_most) == pytest.approx(60 + 150)
    last = [done("IALS", 0.3, fit=100), done("SampledSoftmax", 0.5, fit=500)]
    assert plan(1000.0).reserve(last) == pytest.approx(60 + 800)
    nothing = [done("IALS", 0.1, fit=10), done("SampledSoftmax", 0.0, fit=500)]
    assert plan(1000.0).reserve(nothing) == pytest.approx(60 + 16)


def test_a_single_family_is_not_blended() -> None:
    alone = plan(1000.0, space=Space.of_one(named("IALS")))
    assert alone.reserve([done("IALS", 0.5, fit=10, judge=1)]) == pytest.approx(16 + 7)


def test_a_quick_family_may_take_four_times_its_share_and_no_more() -> None:
    """Baselines 4 times 5 %, item-to-item models 4 times 13 %, unless they are searched alone."""
    left = dict[str, float]()

    def run(trial: Trial, reserve: float) -> None:
        left.setdefault(trial.family, 1000.0 - reserve)
        outcomes.append(Outcome(trial, 0.1, 0.01, 1, 1.0, 0.0, 0.0))

    outcomes = list[Outcome]()
    plan(1000.0, 5).run(outcomes, run)
    assert left["Popularity"] == 1000.0
    assert left["ItemKNN"] == pytest.approx(200.0)
    assert left["ItemFilter"] == left["EASE"] == pytest.approx(520.0)
    assert left["SampledSoftmax"] == pytest.approx(1000.0 - 60.0)
    for search in (plan(1000.0, 1, space=Space.of_one(named("EASE"))), plan(None, 5)):
        outcomes.clear()
        left.clear()
        search.run(outcomes, run)
        assert left["EASE"] == 1000.0


# --- turns


def first_of(search: Search, outcomes: list[Outcome]) -> str:
    trial = search.next([*BASELINES, *outcomes])
    assert trial is not None
    return trial.family


def test_the_ladder_that_had_the_least_time_is_next() -> None:
    outcomes = [
        done("IALS", 0.1, 3.0),
        done("SampledSoftmax", 0.1, 2.0),
        done("ItemFilter", 0.1, 1.0),
        done("EASE", 0.1, 1.0),
    ]
    assert first_of(plan(1e4), outcomes) == "SampledSoftmax"  # 3 times 1 second is more than 2
    quick = [*outcomes[:2], done("ItemFilter", 0.1, 0.6), outcomes[3]]
    assert first_of(plan(1e4), quick) == "ItemFilter"


def test_the_ladder_that_had_the_fewest_trials_is_next() -> None:
    outcomes = [done("IALS", 0.1, place=place) for place in (0.1, 0.2)]
    outcomes += [done("SampledSoftmax", 0.1), done("ItemFilter", 0.1), done("EASE", 0.1)]
    assert first_of(plan(None, 100), outcomes) == "SampledSoftmax"
    outcomes += [done("SampledSoftmax", 0.1, place=place) for place in (0.1, 0.2, 0.3)]
    outcomes += [done("IALS", 0.1, place=place) for place in (0.3, 0.4)]
    assert first_of(plan(None, 100), outcomes) in ("ItemFilter", "EASE")


def test_a_search_ends_with_its_time_or_trials() -> None:
    one = done("IALS", 0.1)
    assert plan(0.0).next(BASELINES) is None
    assert plan(0.0).next([]) == Trial("Popularity", (), 0)  # whatever it takes
    assert plan(1e-9).next(BASELINES) is not None  # one trial is run, if it can be
    assert plan(None, 1).next([*BASELINES, one]) is None
    assert plan(None, 2).next([*BASELINES, one]) is not None
    assert plan(100.0).next([*BASELINES, done("IALS", 0.1, 99.0)]) is not None
    assert plan(None, 5, space=Space({}, ())).next([]) is None


# --- ladders that are over


def tried(search: Search, outcomes: list[Outcome], family: str) -> bool:
    """Whether a family is tried again in a long search that has these outcomes."""
    ladder = {one.name for one in FAMILIES[SPACE.ladder_of(family) or ""]}
    found = [*BASELINES, *outcomes]
    for _ in range(12):
        trial = search.next(found)
        if trial is None:
            return False
        if trial.family in ladder:
            return True
        found.append(Outcome(trial, 0.1, 0.01, 1, 5.0, 0.0, 0.0))
    return False


@pytest.mark.parametrize(("failures", "goes_on"), [(2, True), (3, False)])
def test_a_ladder_of_which_three_trials_fail_is_left(failures: int, goes_on: bool) -> None:
    failed = [
        done("SampledSoftmax", None, place=place, error="FloatingPointError: diverged")
        for place in (0.1, 0.2, 0.3)[:failures]
    ]
    assert tried(plan(None, 1000), failed, "SampledSoftmax") == goes_on
    pending = [Outcome.pending(one.trial) for one in failed]  # what still runs has not failed
    assert tried(plan(None, 1000), pending, "SampledSoftmax")
    assert tried(plan(None, 1000), [*failed, done("SampledSoftmax", 0.0)], "SampledSoftmax")


@pytest.mark.parametrize(("number", "goes_on"), [(7, True), (8, False)])
def test_a_ladder_with_one_rung_has_eight_trials(number: int, goes_on: bool) -> None:
    trials = [done("ItemFilter", 0.1, place=place / 10) for place in range(number)]
    search = plan(None, 1000, space=Space.of_one(named("ItemFilter")))
    assert (search.next(trials) is not None) == goes_on


@pytest.mark.parametrize(("number", "goes_on"), [(99, True), (100, False)])
def test_a_ladder_has_a_hundred_trials(number: int, goes_on: bool) -> None:
    trials = [done("IALS", 0.1, place=place / 1000) for place in range(number)]
    search = plan(None, 1000, space=Space.of_one(named("IALS")))
    assert (search.next(trials) is not None) == goes_on


@pytest.mark.parametrize(("seconds", "goes_on"), [(29.0, True), (30.0, False)])
def test_a_quick_ladder_has_six_hundredths_of_the_time_after_two_trials(
    seconds: float, goes_on: bool
) -> None:
    two = [done("ItemFilter", 0.1, seconds, place=place) for place in (0.1, 0.2)]
    busy = [done(name, 0.1, 400.0) for name in ("IALS", "SampledSoftmax", "EASE")]
    busy += [done("EASE", 0.1, 400.0, place=0.1)]
    assert tried(plan(1000.0), [*two, *busy], "ItemFilter") == goes_on
    one = [done("ItemFilter", 0.1, 2 * seconds)]
    assert tried(plan(1000.0), [*one, *busy], "ItemFilter")


def test_a_ladder_whose_narrowest_rung_is_too_slow_is_left_and_a_higher_one_is_not_tried() -> None:
    def late(rung: int) -> Outcome:
        return done("IALS", None, 1.0, rung, place=0.3, error="OutOfTimeError: late")

    alone = Space.of_one(named("IALS"))
    good = [done("IALS", 0.1, 1.0, place=place / 10) for place in range(9)]
    assert plan(None, 1000, space=alone).next([*good, late(0)]) is None
    short, wide, bad = "OutOfTimeError", "MemoryError", "FloatingPointError"
    for error, rung, top in ((short, 2, 1), (wide, 2, 1), (wide, 1, 0), (bad, 2, 2)):
        failed = [*good, done("IALS", None, 1.0, rung, place=0.3, error=f"{error}: for a reason")]
        found = list[Outcome](failed)
        rungs = set[int]()
        for _ in range(30):
            trial = plan(None, 1000, space=alone).next(found)
            assert trial is not None
            rungs.add(trial.rung)
            found.append(Outcome(trial, 0.2, 0.01, 1, 1.0, 0.5, 0.01))
        assert max(rungs) == top


# --- rungs by time


IALS, SOFTMAX, EASE, RG2 = map(named, ("IALS", "SampledSoftmax", "EASE", "RG2"))
COSTS = [1.5 * IALS.work(rung, SETTING) / IALS.work(0, SETTING) for rung in range(3)]
"""Seconds of a trial of IALS and of the refit of its best, if the narrowest takes a second."""
FIRST = done("IALS", 0.1, 1.0, place=0.3)
OTHER = done("SampledSoftmax", 0.1, 1.0)
ONE = Space.of_one(IALS)
TWO = Space({"a": (IALS,), "b": (SOFTMAX,), "quick": (EASE,)})


@pytest.mark.parametrize("rung", [1, 2])
def test_the_best_climbs_as_high_as_the_time_of_its_ladder_allows(rung: int) -> None:
    """Quick ladders and those that are over leave the time to the others."""
    lifted = Trial("IALS", FIRST.trial.point, rung)
    enough, little = 1.01 * COSTS[rung], 0.99 * COSTS[rung]
    assert COSTS[0] + COSTS[rung] > enough  # or else there is time for a new point, too
    assert plan(enough, space=ONE).next([FIRST]) == lifted
    assert plan(little, space=ONE).next([FIRST]) != lifted
    both = [FIRST, replace(OTHER, seconds=2.0), done("EASE", 0.1, 1.0)]
    assert plan(2 * enough + 0.06 * 2 * enough / 0.94, space=TWO).next(both) == lifted
    assert plan(2 * little, space=TWO).next(both) != lifted
    failed = [
        done("SampledSoftmax", None, 2.0, place=place, error="FloatingPointError: diverged")
        for place in (0.1, 0.2, 0.3)
    ]
    assert plan(enough / 0.94, space=TWO).next([FIRST, *failed, both[2]]) == lifted


def test_time_for_refits_is_not_spent_on_trials() -> None:
    long = replace(FIRST, fit_seconds=100.0)
    assert plan(160 + 1.01 * 1.5, space=ONE).next([long]) is not None
    assert plan(160 + 0.99 * 1.5, space=ONE).next([long]) is None


def test_a_narrow_trial_may_take_more_than_the_share_of_its_ladder() -> None:
    search = plan(1.9 * 1.5 / 0.94, space=TWO)
    trial = search.next([FIRST, OTHER, done("EASE", 0.1, 1.0)])
    assert trial is not None
    assert (trial.family, trial.rung) == ("IALS", 0)


def test_a_ladder_whose_trials_take_too_long_leaves_its_time_to_the_others() -> None:
    enough = 1.01 * COSTS[1]
    both = [FIRST, replace(OTHER, seconds=2 * enough), done("EASE", 0.1, 1.0)]
    trial = plan(enough / 0.94, space=TWO).next(both)
    assert trial == Trial("IALS", FIRST.trial.point, 1)


def test_the_rungs_of_a_quick_leader_are_not_priced_by_a_slow_family() -> None:
    outcomes = [done("RG2", 0.1, 100.0), done("IALS", 0.5, 1.0)]
    space = Space({"ALS": (IALS, RG2)})
    trial = plan(1.01 * COSTS[1] / 0.94, space=space).next(outcomes)
    assert trial == Trial("IALS", outcomes[1].trial.point, 1)


@pytest.mark.parametrize(("leader", "goes_on"), [("IALS", True), ("RG2", False)])
def test_a_trial_takes_as_long_as_others_of_its_family(leader: str, goes_on: bool) -> None:
    values = {"IALS": 0.1, "RG2": 0.1, leader: 0.5}
    took = {"IALS": 1.0, "RG2": 100.0}
    outcomes = [done(family, values[family], took[family]) for family in took]
    search = plan(100.0, space=Space({"ALS": (IALS, RG2)}))
    running = [Outcome.pending(Trial(family, (0.9,) * 3, 0)) for family in took]
    trial = search.next([*outcomes, *running])
    assert (trial is not None) == goes_on


@pytest.mark.parametrize("ladders", [1, 2])
def test_new_points_are_as_wide_as_24_trials_of_each_ladder_may_be(ladders: int) -> None:
    space = ONE if ladders == 1 else Space({"a": (IALS,), "b": (SOFTMAX,)})
    outcomes = [FIRST, done("IALS", None, place=0.4, error="FloatingPointError: diverged")]
    outcomes += [replace(OTHER, seconds=1e3)] * (ladders - 1)
    for rung in range(3):
        for more, base in ((1.01, rung), (0.99, max(0, rung - 1))):
            trial = plan(24 * ladders * more * COSTS[rung], space=space).next(outcomes)
            assert trial is not None
            assert (trial.family, trial.rung, trial.is_new) == ("IALS", base, True)
    trial = plan(None, 100, space=space).next(outcomes)
    assert trial is not None
    assert trial.rung == 0  # where no time is counted


def test_the_last_trial_of_a_ladder_lifts_its_best_to_the_top() -> None:
    alone = Space.of_one(named("IALS"))
    some = [done("IALS", 0.1 + place / 10, 1.0, place=place / 10) for place in (1, 2)]
    assert plan(None, 4, space=alone).next(some).is_new  # type: ignore[union-attr]
    assert plan(None, 3, space=alone).next(some) == Trial("IALS", (0.2,) * 3, 2)
    two = Space({"a": (named("IALS"),), "b": (named("SampledSoftmax"),)})
    other = [done("SampledSoftmax", 0.1, place=place) for place in (0.1, 0.2, 0.3)]
    trial = plan(None, 6, space=two).next([*some, *other])
    assert trial == Trial("IALS", (0.2,) * 3, 2)


# --- what was left out


def test_families_are_left_out_for_memory_or_time() -> None:
    wide = Setting(SETTING.facts, 64, 0, 1, 1e5)
    told = Search(wide, Budget(None), 1).left_out([])
    for name in ("ItemFilter", "EASE"):
        needed = named(name).bytes_needed(0, wide) / 2**30
        assert told[name] == (
            f"left out: a fit would take about {needed:.3g} GiB, and may take {1e5 / 2**30:.3g}"
        )
    short = plan(0.005)
    told = short.left_out(BASELINES)
    work = named("EASE").work(0, SETTING)
    assert told["EASE"] == f"left out: a fit would take about {work:.3g} s, and may take 0.00065"
    assert told["IALS"] == "left out: there was no time for it"
    assert "IALS" not in short.left_out([*BASELINES, done("IALS", 0.1)])
    knn = named("ItemKNN").work(0, SETTING)
    little = Search(SETTING, Budget(19 * knn, lambda: 0.0), None)
    assert "a fit would take" in little.left_out([])["ItemKNN"]
    enough = Search(SETTING, Budget(21 * knn, lambda: 0.0), None)
    assert enough.left_out([])["ItemKNN"] == "left out: there was no time for it"
    for seconds, told in ((0.7, True), (1.3, False)):  # alone it may take all of the time
        alone = plan(seconds * work, space=Space.of_one(named("EASE")))
        assert ("a fit would take" in alone.left_out([])["EASE"]) == told
