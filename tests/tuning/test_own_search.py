"""A search of the caller's own space: what is tried, in which order, and what is told of it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_hinge import OwnHinge

import mfrank
from mfrank.tuning import (
    Budget,
    Facts,
    GridTried,
    Outcome,
    OwnFamily,
    Runner,
    Search,
    Setting,
    Trial,
    TuneResult,
    own_space,
)
from tests.support.errors import refuses

DATA = replace(mfrank.synthetic(150, 60, 2500, random_state=0), timestamps=None)
SPLIT = mfrank.by_ratio(DATA, random_state=1)
SETTING = Setting(Facts.of(DATA), 512, 0, 1)
ALL = 10**6
"""Trials that no grid here has, so that time does not decide."""
GRID: dict[Any, dict[str, Any]] = {
    mfrank.EASE(): {"regularization": [1, 30, 900], "user_power": [0.0, 0.5]},
    mfrank.ALS(mfrank.IALS(), iterations=2): {
        "factors": [2, 4, 8],
        "objective__regularization": [0.01, 0.1],
    },
}
WIDE: dict[Any, dict[str, Any]] = {
    mfrank.EASE(): {"regularization": (10, 5000)},
    mfrank.ALS(iterations=2): {"factors": (2, 20), "objective__regularization": (1e-3, 1.0)},
}


class Clock:
    """A clock that stands still until it is moved."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


def searched(
    space: dict[Any, Any],
    trials: int | None = None,
    seconds: float | None = None,
    took: float = 1.0,
    setting: Setting = SETTING,
) -> list[Outcome]:
    """The outcomes of a search whose trials take ``took`` seconds each, by a clock of its own."""
    clock, done = Clock(), list[Outcome]()

    def run(trial: Trial, reserve: float) -> None:
        clock.time += took
        value = math.sin(40 * sum(trial.point, 1.0)) + 2 + trial.rung
        done.append(Outcome(trial, value, 0.01, 1, took, 0.5 * took, 0.01 * took))

    Search(setting, Budget(seconds, clock), trials, own_space(space)).run(done, run)
    return done


def places(done: list[Outcome]) -> list[tuple[str, Any, int]]:
    return [(one.trial.family, one.trial.point, one.trial.rung) for one in done]


# --- which trials


@pytest.mark.parametrize("seconds", [None, 1e6])
def test_a_grid_is_tried_whole_and_each_combination_once(seconds: float | None) -> None:
    done = places(searched(GRID, None if seconds else ALL, seconds))
    assert len(done) == len(set(done)) == 12
    for family in own_space(GRID).families():
        assert isinstance(family, OwnFamily)
        every = {(family.name, p, rung) for p in family.points() for rung in range(family.rungs)}
        assert every <= set(done)


LISTS = st.lists(st.integers(1, 30), min_size=1, max_size=5, unique=True)


@settings(max_examples=25, deadline=None)
@given(neighbors=LISTS, factors=LISTS, trials=st.integers(1, 60), seed=st.integers(0, 3))
def test_no_combination_is_tried_twice_whatever_the_grid(
    neighbors: list[int], factors: list[int], trials: int, seed: int
) -> None:
    space = {
        mfrank.ItemKNN(): {"neighbors": neighbors},
        mfrank.ALS(): {"factors": factors, "iterations": [1, 2, 3]},
    }
    done = places(searched(space, trials, setting=replace(SETTING, seed=seed)))
    assert len(set(done)) == len(done) == min(trials, len(neighbors) + 3 * len(factors))


def test_ranges_have_as_many_trials_as_are_asked_for_and_models_take_turns() -> None:
    done = places(searched(WIDE, 130))
    assert len(set(done)) == len(done) == 130
    assert set(Counter(name for name, *_ in done).values()) == {65}
    assert {rung for name, _, rung in done if name == "RG2"} == {0, 1, 2}
    timed = Counter(name for name, *_ in places(searched(WIDE, None, 1e6)))
    assert timed == {"EASE": 100, "RG2": 100}


def test_few_factors_come_first_and_the_best_go_on() -> None:
    space = {mfrank.ALS(): {"factors": [4, 8, 16], "objective__regularization": (1e-3, 1.0)}}
    done = searched(space, 30)
    assert done[0].trial.rung == 0
    wide = [one for one in done if one.trial.rung == 2]
    assert 1 <= len(wide) < len(done) / 2
    before = [one for one in done if one.trial.point == wide[0].trial.point]
    assert [one.trial.rung for one in before] == sorted(one.trial.rung for one in before)


@pytest.mark.parametrize("factors", [[4, 8, 16, 32], (4, 32)])
def test_the_best_is_lifted_to_the_most_factors_before_trials_run_out(factors: Any) -> None:
    space = {mfrank.ALS(): {"factors": factors, "objective__nu": (0.0, 1.0)}}
    for trials in (2, 5, 9):
        top = max(one.trial.rung for one in searched(space, trials))
        assert top == own_space(space).named("RG2").rungs - 1


@settings(max_examples=20, deadline=None)
@given(seconds=st.floats(1, 60), took=st.floats(0.05, 5))
def test_the_time_is_kept(seconds: float, took: float) -> None:
    """After the first trial, which is run whatever it takes, all of it ends in time."""
    done = searched(GRID, None, seconds, took)
    assert len(done) == 1 or len(done) * took <= seconds


def test_what_would_take_too_long_is_passed_over_and_the_rest_is_tried() -> None:
    large = mfrank.synthetic(4000, 3000, 60_000, random_state=0)
    setting = Setting(Facts.of(large), 512, 0, 1)
    space = own_space({mfrank.EASE(): {"candidates": [None, 20, 40]}})
    (family,) = space.families()
    assert isinstance(family, OwnFamily)
    clock, done = Clock(), list[Outcome]()

    def run(trial: Trial, reserve: float) -> None:
        took = family.work_at(trial.point, 0, setting)
        clock.time += took
        done.append(Outcome(trial, 0.1, 0.01, 1, took, 0.5 * took, 0.01 * took))

    whole = family.work_at(family.first, 0, setting)
    Search(setting, Budget(0.5 * whole + 60, clock), None, space).run(done, run)
    assert {family.model(one.trial.point, 0, setting).candidates for one in done} >= {20, 40}


def test_no_fit_is_begun_that_is_as_much_work_as_one_that_was_given_up() -> None:
    space, done = own_space({mfrank.EASE(): {"regularization": [1, 2, 3]}}), list[Outcome]()
    search = Search(SETTING, Budget(100.0, Clock()), None, space)
    first = search.next(done)
    assert first is not None
    done.append(Outcome(first, None, seconds=0.1, error="OutOfTimeError: given up after 0.1 s"))
    assert search.next(done) is None


def test_others_trials_are_not_tried_again() -> None:
    space = own_space(GRID)
    search, done = Search(SETTING, Budget(None), ALL, space), list[Outcome]()
    while trial := search.next(done):
        done.append(Outcome.pending(trial) if len(done) % 2 else Outcome(trial, 0.1))
    assert len(set(places(done))) == len(done) == 12


# --- the whole call


@pytest.fixture(scope="module")
def found() -> TuneResult:
    return mfrank.tune(DATA, space=GRID, trials=ALL, n_threads=1)


def test_all_of_a_grid_is_on_the_leaderboard_and_the_summary_says_so(found: TuneResult) -> None:
    models = [row["model"] for row in found.leaderboard if row["family"] in ("EASE", "IALS")]
    assert len(set(models)) == len(models) == 12
    assert found.grid == GridTried(12, 12)
    assert "all 12 combinations of the space were tried" in found.summary()


def test_the_best_of_a_grid_is_that_of_brute_force() -> None:
    grid = {"regularization": [1, 30, 900], "item_power": [0.0, 0.3, 0.6]}
    found = mfrank.tune(
        SPLIT.train, valid=SPLIT.valid, space={mfrank.EASE(): grid}, trials=ALL, n_threads=1
    )
    values = {}
    for regularization in grid["regularization"]:
        for power in grid["item_power"]:
            model = mfrank.EASE(regularization, item_power=power).fit(SPLIT.train)
            score = mfrank.evaluate(model, SPLIT.valid, train=SPLIT.train, metrics="ndcg@20")
            values[regularization, power] = score["ndcg@20"].value
    best = max(values, key=values.__getitem__)
    assert isinstance(found.model, mfrank.EASE)
    assert (found.model.regularization, found.model.item_power) == best
    assert found.leaderboard[0]["value"] == pytest.approx(values[best])
    told = sorted(row["value"] for row in found.leaderboard if row["family"] == "EASE")
    assert told == pytest.approx(sorted(values.values()))


def test_the_code_makes_the_same_model(found: TuneResult) -> None:
    made: dict[str, Any] = {"data": DATA}
    exec(found.code, made)
    users = np.arange(30)
    np.testing.assert_array_equal(
        made["model"].recommend(users, N=5).ids, found.model.recommend(users, N=5).ids
    )


def test_the_code_imports_a_loss_of_the_caller() -> None:
    space = {mfrank.Descent(OwnHinge(), factors=4, iterations=1): {"loss__margin": [0.5, 1.0]}}
    found = mfrank.tune(DATA, space=space, trials=ALL, n_threads=1)
    assert f"from {OwnHinge.__module__} import OwnHinge" in found.code
    made: dict[str, Any] = {"data": DATA}
    exec(found.code, made)
    np.testing.assert_array_equal(made["model"].item_factors, found.model.item_factors)


def test_ranges_are_kept_by_all_that_is_fitted() -> None:
    space = {mfrank.EASE(): {"regularization": (20, 40), "neighbors": (5, 9)}}
    found = mfrank.tune(DATA, space=space, trials=12, n_threads=1)
    rows = [row for row in found.leaderboard if row["family"] == "EASE"]
    models = [eval(row["model"], {"EASE": mfrank.EASE}) for row in rows]
    assert len({repr(model) for model in models}) == 12
    assert all(20 <= model.regularization <= 40 for model in models)
    assert {model.neighbors for model in models} == {5, 6, 7, 8, 9}
    assert found.grid is None


def test_the_same_call_gives_the_same_bits_and_a_search_goes_on(
    tmp_path: Path, found: TuneResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, real = tmp_path / "search.sqlite", Runner.run
    ran: list[Trial] = []

    def run(self: Runner, trial: Trial, reserve: float) -> Outcome:
        ran.append(trial)
        if len(ran) == 6:
            raise KeyboardInterrupt
        return real(self, trial, reserve)

    monkeypatch.setattr(Runner, "run", run)
    with pytest.raises(KeyboardInterrupt):
        mfrank.tune(DATA, space=GRID, trials=ALL, n_threads=1, storage=file)
    again = mfrank.tune(DATA, space=GRID, trials=ALL, n_threads=1, storage=file)
    assert len(ran) == 12 + 1
    assert again.code == found.code
    np.testing.assert_array_equal(again.model.item_factors, found.model.item_factors)
    mfrank.tune(DATA, space=GRID, trials=ALL, n_threads=1, storage=file)
    assert len(ran) == 12 + 1


def test_a_file_of_another_space_is_refused_for_the_same_data(tmp_path: Path) -> None:
    file, ease = tmp_path / "search.sqlite", mfrank.EASE()
    mfrank.tune(DATA, space={ease: {}}, trials=1, storage=file)
    for options in ({"space": {ease: {"regularization": [3]}}}, {"factors": 4}):
        with refuses(ValueError, "storage", remedy="another file"):
            mfrank.tune(DATA, trials=1, storage=file, **options)


@pytest.mark.parametrize("same", [True, False])
def test_the_next_day_begins_with_what_the_same_space_found(tmp_path: Path, same: bool) -> None:
    """What another one found is at other places of its axes."""
    file, newer = tmp_path / "search.sqlite", mfrank.synthetic(150, 60, 2600, random_state=3)
    newer = replace(newer, timestamps=None)
    space = {mfrank.EASE(): {"regularization": (10, 5000)}}
    found = mfrank.tune(DATA, space=space, trials=5, storage=file)
    if not same:
        space = {mfrank.EASE(): {"regularization": (1, 9)}}
    later = mfrank.tune(newer, space=space, trials=2, storage=file)
    former = [row for row in later.leaderboard if row["day"]]
    assert len(former) == same
    if same:
        assert former[0]["model"] == found.leaderboard[0]["model"]


def test_a_combination_without_memory_is_told_and_the_others_are_tried() -> None:
    space: dict[Any, Any] = {mfrank.ALS(iterations=1): {"factors": [2, 4, 5000]}}
    found = mfrank.tune(DATA, space=space, trials=ALL, memory=0.1, n_threads=1)
    failed = [row for row in found.leaderboard if row["error"] and row["factors"]]
    assert [row["factors"] for row in failed] == [5000]
    assert "GiB" in failed[0]["error"]
    assert found.grid == GridTried(3, 3, 1)
    assert "1 of them gave no model" in found.summary()


def test_what_a_fit_refuses_is_told_and_does_not_end_the_search() -> None:
    space: dict[Any, Any] = {mfrank.ALS(iterations=1): {"gather_dtype": ["float16", None]}}
    found = mfrank.tune(DATA, space=space, trials=ALL, n_threads=1)
    assert found.grid == GridTried(2, 2, 1)
    assert "gather_dtype" in next(row["error"] for row in found.leaderboard if row["error"])


def test_where_nothing_could_be_fitted_it_is_told_and_nothing_else_takes_its_place() -> None:
    space: dict[Any, Any] = {mfrank.ALS(): {"gather_dtype": ["float16"]}}
    with refuses(ValueError, "space", remedy="other models or options"):
        mfrank.tune(DATA, space=space, trials=ALL)
    with pytest.raises(MemoryError, match="GiB"):
        mfrank.tune(DATA, space={mfrank.ALS(factors=5000): {}}, trials=ALL, memory=0.01)


def test_only_what_was_named_is_searched(found: TuneResult) -> None:
    tried = {row["family"] for row in found.leaderboard} - {"blend", "trees"}
    assert tried == {"EASE", "IALS"}
    alone = mfrank.tune(DATA, space={mfrank.ItemKNN(): {}}, trials=ALL)
    assert isinstance(alone.model, mfrank.ItemKNN)
    assert "the one combination of the space was tried" in alone.summary()


def test_every_model_that_a_blend_may_have_is_searched() -> None:
    timed = mfrank.synthetic(80, 40, 1500, random_state=0)
    timed = replace(timed, timestamps=np.arange(timed.nnz))
    space: dict[Any, Any] = {
        mfrank.ALS(factors=3, iterations=1, biases=True): {},
        mfrank.AsymmetricALS(): {"factors": [2, 3], "decays": [(1.0,), (1.0, 5.0)]},
        mfrank.Descent(factors=3, iterations=1): {"negatives": [5, None]},
        mfrank.EASE(): {"candidates": [None, 5]},
        mfrank.ItemFilter(): {"user_power": (0, 1)},
        mfrank.ItemKNN(): {"neighbors": (3, 30)},
        mfrank.NextItem(): {"candidates": [None, 5]},
        mfrank.Popularity(): {"window": [None, 500.0]},
        mfrank.SequentialRules(): {"near": [1.0, 3.0]},
    }
    found = mfrank.tune(timed, space=space, trials=18, n_threads=1)
    assert not [
        row["error"] for row in found.leaderboard if row["error"] and row["family"] != "trees"
    ]
    assert len({row["family"] for row in found.leaderboard} - {"blend", "trees"}) == len(space)


def test_events_of_a_kind_are_ranked_by_the_space_alone() -> None:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, [[60], [40]], (2, 2000))
    kinds = rng.choice(["view", "purchase"], 2000, p=[0.7, 0.3])
    events = mfrank.Events.from_arrays(users, items, kinds)
    space = {mfrank.ItemKNN(): {"own_items": [0.0, 30.0]}}
    found = mfrank.tune(
        events, target="purchase", weights={"view": 1, "purchase": 2}, space=space, trials=ALL
    )
    assert isinstance(found.model, mfrank.ItemKNN)
    assert found.grid == GridTried(2, 2)
    assert found.uses_values


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        (GridTried(12, 12), "all 12 combinations of the space were tried"),
        (GridTried(5, 12), "5 of 12 combinations of the space were tried: there was no time"),
        (GridTried(2, 12, 1), "; 1 of them gave no model"),
    ],
)
def test_how_much_of_a_grid_was_tried_is_told(grid: GridTried, told: str) -> None:
    assert told in str(grid)


def test_a_grid_that_was_cut_short_says_by_what() -> None:
    space = {mfrank.EASE(): {"regularization": [1, 2, 3, 4]}}
    counted = mfrank.tune(DATA, space=space, trials=2)
    assert "2 of 4 combinations of the space were tried: it was to try 2" in counted.summary()
