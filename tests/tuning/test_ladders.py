"""Ladders and budgets: which points are new, which go on, and what a trial is expected to take."""

from __future__ import annotations

import numpy as np
import pytest

from mfrank.arrays import OutOfTimeError, check_time
from mfrank.tuning import FAMILIES, Budget, Ladder, Outcome, Trial, best, near, spread_out
from mfrank.tuning import successive_halving as module

ALS = FAMILIES["ALS"]
SEED = 5
N = len(ALS)


def outcome(
    family: str, rung: int, value: float | None, place: float = 0.5, *, is_new: bool = True
) -> Outcome:
    return Outcome(Trial(family, (place,) * 3, rung, is_new), value)


def new_trials(number: int, top: int, base: int, leader: Outcome) -> list[Trial]:
    """New trials after the first of each family, of which none gets better than the leader.

    Each has failed, so that none goes on.
    """
    ladder, done, found = Ladder(ALS, SEED), [leader], list[Trial]()
    done += [outcome(family.name, 0, None) for family in ALS]
    for _ in range(number):
        found.append(ladder.proposed(done, top, base))
        done.append(Outcome(found[-1], None))
    return found


LEADER = outcome("RG2", 2, 0.5, 0.25, is_new=False)


def test_every_other_new_point_is_near_the_best() -> None:
    trials = new_trials(8, 2, 0, LEADER)[::2]
    for number, trial in enumerate(trials):
        point = near(LEADER.trial.point, 2 * number, SEED)
        assert trial == Trial("RG2", point, 2, is_new=True)
        assert np.abs(np.subtract(trial.point, 0.25)).max() < 0.5
    assert len({trial.point for trial in trials}) == 4
    assert {trial.rung for trial in new_trials(8, 1, 0, LEADER)[::2]} == {1}  # not above the top


def test_the_others_fill_the_cube_of_each_family_in_turn_on_the_two_lowest_rungs() -> None:
    trials = new_trials(6 * N, 2, 0, LEADER)[1::2]
    assert [trial.family for trial in trials] == [family.name for family in ALS] * 3
    for turn in (0, 1, 2):
        for which, trial in enumerate(trials[turn * N : (turn + 1) * N]):
            assert trial.point == spread_out(3, turn, SEED + which)
            assert (trial.rung, trial.is_new) == (turn % 2, True)
    for top, base, rungs in ((0, 0, {0}), (2, 1, {1}), (2, 2, {2})):
        assert {trial.rung for trial in new_trials(4 * N, top, base, LEADER)[1::2]} == rungs


def test_without_a_best_point_all_new_ones_are_of_the_sequence() -> None:
    failed = outcome("RG2", 0, None, is_new=False)
    trials = new_trials(2 * N, 2, 0, failed)
    assert [trial.family for trial in trials[::2]] == [family.name for family in ALS]
    assert trials[0].point == trials[1].point  # the second is another turn of the same


def test_no_new_point_begins_above_the_top() -> None:
    trial = Ladder(ALS, 0).proposed([], 1, base=2)
    assert trial == Trial(ALS[0].name, ALS[0].first, 1, is_new=True)
    assert Ladder(ALS, 0).proposed([], 2, base=2).rung == 2
    assert Ladder(ALS, 0).proposed([], 2).rung == 0


def test_the_best_climbs_to_the_top_unless_one_was_there() -> None:
    ladder = Ladder(ALS, 0)
    done = [outcome("IALS", 0, 0.3, 0.1), outcome("RG2", 1, 0.2), outcome("EALS", 0, None)]
    assert ladder.climb(done, 2) == Trial("IALS", (0.1,) * 3, 2)
    assert ladder.climb(done, 1) is None
    assert ladder.climb([*done, outcome("WRMF", 2, None)], 2) is None
    assert ladder.climb(done[2:], 2) is None
    assert ladder.climb([], 2) is None


def test_the_first_of_equals_is_the_best() -> None:
    done = [outcome("IALS", 0, 0.0), outcome("RG2", 0, 0.0), outcome("EALS", 0, None)]
    assert best(done) is done[0]
    assert best(done[1:]) is done[1]
    better = outcome("RG2", 0, 0.5)
    assert best([*done, better]) is better


def test_what_was_wide_above_the_top_leaves_nobody_behind() -> None:
    ladder = Ladder(ALS, 0)
    done = [outcome(family.name, 0, 0.1) for family in ALS]
    wide = [outcome("IALS", 2, 0.3, place) for place in (0.1, 0.2)]
    assert ladder.proposed([*done, *wide], 2).rung == 2
    assert ladder.proposed([*done, *wide], 1).rung != 2
    assert ladder.proposed(done[:1], 2).family != "IALS"  # one alone leads nobody


def test_of_less_than_three_trials_none_goes_on() -> None:
    ladder = Ladder(ALS[:1], 0)
    done = [outcome("IALS", 0, value, value) for value in (0.1, 0.2)]
    assert ladder.proposed(done, 2).is_new
    done.append(outcome("IALS", 0, 0.0, 0.3))
    assert ladder.proposed(done, 2) == Trial("IALS", (0.2,) * 3, 1)
    done.append(outcome("IALS", 0, None, 0.4))  # what failed does not count
    done.append(outcome("IALS", 1, 0.1, 0.2, is_new=False))
    assert ladder.proposed(done, 2).is_new


def test_what_is_pending_has_taken_no_time_and_is_no_failure() -> None:
    waiting = Outcome.pending(Trial("IALS", (0.5,) * 3, 0))
    assert waiting.is_pending
    assert not outcome("IALS", 0, None).is_pending
    assert (waiting.seconds, waiting.fit_seconds, waiting.judge_seconds) == (0, 0, 0)
    assert not waiting.trial.is_new


# --- time


def test_a_budget_is_what_is_left_by_its_clock() -> None:
    now = [5.0]
    budget = Budget(10.0, lambda: now[0])
    assert (budget.left(), budget.now(), budget.is_limited) == (10.0, 5.0, True)
    now[0] = 7.0
    assert (budget.left(), budget.now()) == (8.0, 7.0)


@pytest.mark.parametrize(
    ("reserve", "share", "ends"), [(0.0, 1.0, 10.0), (4.0, 1.0, 6.0), (4.0, 0.5, 3.0)]
)
def test_a_body_may_take_its_share_of_what_is_not_reserved(
    reserve: float, share: float, ends: float
) -> None:
    now = [0.0]
    with Budget(10.0, lambda: now[0], spare=1.0).keeping(reserve, share):
        now[0] = ends - 0.01
        check_time()
        now[0] = ends + 0.01
        with pytest.raises(OutOfTimeError):
            check_time()


def test_the_spare_time_is_for_the_end() -> None:
    now = [0.0]

    def clock() -> float:
        return now[0]

    for spare, more in ((0.0, {}), (1.0, {"spare": 1.0})):
        now[0] = 0.0
        with Budget(10.0, clock, **more).to_the_end():
            now[0] = 10.0 + spare - 0.01
            check_time()
            now[0] = 10.0 + spare + 0.01
            with pytest.raises(OutOfTimeError):
                check_time()


def test_a_trial_takes_as_long_as_the_slowest_of_those_nearest_in_work() -> None:
    def took(seconds: float) -> Outcome:
        return Outcome(Trial("IALS", (), 0), 0.1, seconds=seconds)

    done = [(1.0, took(2.0)), (4.0, took(4.0)), (4.0, took(12.0)), (100.0, took(900.0))]
    assert module.predicted_seconds(8.0, done) == pytest.approx(24.0)
    assert module.predicted_seconds(1.5, done) == pytest.approx(3.0)
    assert module.predicted_seconds(0.5, done) == pytest.approx(1.0)
    assert module.predicted_seconds(2.0, done[:2]) == pytest.approx(4.0)  # as near to either
    assert module.predicted_seconds(50.0, done) == pytest.approx(450.0)
    assert module.predicted_seconds(8.0, []) == pytest.approx(24.0)  # the plan may be too short
