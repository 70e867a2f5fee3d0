"""A space of the caller's own: what its options stand for, and what is refused before any work."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import mfrank
from mfrank.tuning import (
    Choices,
    Facts,
    OwnFamily,
    Range,
    Runner,
    Setting,
    named,
    option_of,
    own_space,
)
from tests.support.errors import refuses

DATA = mfrank.synthetic(60, 40, 900, random_state=0)
SETTING = Setting(Facts.of(DATA), 64, 7, 1)
ONE = mfrank.EASE()
TWO = mfrank.ALS(mfrank.IALS())


def family(model: Any, options: dict[str, Any]) -> OwnFamily:
    (found,) = own_space({model: options}).families()
    assert isinstance(found, OwnFamily)
    return found


# --- options


PLACES = st.floats(0, 1)
ENDS = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6)).map(lambda e: (e[0], e[0] + e[1]))


@given(ends=ENDS.filter(lambda ends: ends[0] < ends[1]), place=PLACES)
@example(ends=(5e-324, 1e6), place=0.5)  # the ratio of the ends is no float
def test_a_range_is_kept_and_a_point_stands_for_its_value(
    ends: tuple[float, float], place: float
) -> None:
    option = Range("x", *ends, is_whole=False)
    value = option.at(place)
    assert ends[0] <= value <= ends[1]
    assert option.at(option.snapped(place)) == pytest.approx(value, rel=1e-2, abs=1e-2)
    assert abs(value - option.axis.at(place)) <= 0.01 * max(abs(value), ends[1] - ends[0])


@given(low=st.integers(-1000, 1000), more=st.integers(1, 5000), place=PLACES)
def test_a_count_is_whole_and_its_point_the_same_for_all_that_are_rounded_to_it(
    low: int, more: int, place: float
) -> None:
    option = Range("x", low, low + more, is_whole=True)
    value = option.at(place)
    assert isinstance(value, int)
    assert low <= value <= low + more
    assert option.at(option.snapped(place)) == value
    assert option.snapped(option.snapped(place)) == option.snapped(place)


@given(n=st.integers(1, 40), place=PLACES)
def test_choices_divide_the_axis(n: int, place: float) -> None:
    option = Choices("x", tuple(range(n)))
    assert option.at(option.snapped(place)) == option.at(place)
    assert [option.at(each) for each in option.places()] == list(range(n))
    assert option.snapped(place) in list(option.places())
    assert [option.at(option.place_of(value)) for value in range(n)] == list(range(n))


def test_a_range_is_logarithmic_from_tenfold_on() -> None:
    def middle(low: float, high: float) -> float:
        option = option_of("regularization", (low, high), ONE)
        return float(option.at(0.5))

    assert middle(1, 100) == pytest.approx(10)
    assert middle(1, 10) == pytest.approx(math.sqrt(10), rel=0.01)
    assert middle(1, 9) == 5
    assert middle(1e-4, 1) == pytest.approx(0.01)
    assert option_of("user_power", (0, 1), ONE).at(0.5) == 0.5


def test_counts_are_told_by_the_type_of_the_option() -> None:
    assert isinstance(option_of("neighbors", (10, 5000), ONE).at(0.3), int)
    assert isinstance(option_of("candidates", (10, 5000), ONE).at(0.3), int)
    assert isinstance(option_of("regularization", (10, 5000), ONE).at(0.3), float)
    assert isinstance(option_of("objective__nu", (0, 1), TWO).at(0.3), float)


def test_narrow_ranges_have_more_than_one_value() -> None:
    option = option_of("regularization", (100.0, 100.1), ONE)
    assert len({option.at(place) for place in np.linspace(0, 1, 50)}) > 20


def test_numbers_of_numpy_are_those_of_python() -> None:
    option = option_of("regularization", np.logspace(0, 2, 3), ONE)
    assert isinstance(option, Choices)
    assert option.values == (1.0, 10.0, 100.0)
    assert all(type(value) is float for value in option.values)
    whole = option_of("neighbors", (np.int64(1), np.int64(9)), ONE)
    assert isinstance(whole.at(0.9), int)


# --- families


def test_what_is_not_searched_stays_as_it_is() -> None:
    model = mfrank.EASE(77, neighbors=33, item_power=0.25)
    made = family(model, {"user_power": [0.5]}).model((0.5,), 0, SETTING)
    assert made.get_params() == {**model.get_params(), "user_power": 0.5}
    assert made is not model


def test_seed_and_threads_are_the_search_s_unless_a_model_has_its_own() -> None:
    plain = family(mfrank.ALS(), {}).model((), 0, SETTING)
    assert (plain.random_state, plain.n_threads) == (7, 1)
    own = family(mfrank.ALS(random_state=3, n_threads=2), {}).model((), 0, SETTING)
    assert (own.random_state, own.n_threads) == (3, 2)
    seeds = family(mfrank.ALS(), {"random_state": [1, 2]})
    assert [seeds.model(p, 0, SETTING).random_state for p in seeds.points()] == [1, 2]


def test_the_first_point_is_the_model_as_given_where_the_space_has_it() -> None:
    found = family(mfrank.EASE(200.0), {"regularization": (10, 5000), "user_power": [0.0, 1.0]})
    made = found.model(found.first, 0, SETTING)
    assert (made.regularization, made.user_power) == (200.0, 0.0)
    off = family(mfrank.EASE(9.0), {"regularization": (10, 1000), "candidates": [5, 6, 7]})
    made = off.model(off.first, 0, SETTING)
    assert (made.regularization, made.candidates) == (100.0, 6)


@pytest.mark.parametrize(
    ("factors", "widths"),
    [
        ([64, 8, 512], (8, 64, 512)),
        ([5], (5,)),
        ((16, 1024), (16, 64, 256, 1024)),
        ((4, 8), (4, 8)),
        ((1, 2), (1, 2)),
    ],
)
def test_factors_are_the_rungs_few_first(factors: Any, widths: tuple[int, ...]) -> None:
    found = family(mfrank.ALS(), {"factors": factors})
    assert found.rungs == len(widths)
    assert tuple(found.model((), rung, SETTING).factors for rung in range(found.rungs)) == widths


def test_all_combinations_are_counted() -> None:
    grid = family(TWO, {"factors": [4, 8], "objective__nu": [0.0, 0.5, 1.0], "biases": [False]})
    assert (grid.n_points, grid.n_combinations, grid.is_grid) == (3, 6, True)
    assert len(set(grid.points())) == 3
    assert family(ONE, {"neighbors": (3, 7)}).n_points == len(
        set(family(ONE, {"neighbors": (3, 7)}).points())
    )
    for options in ({"regularization": (1, 2)}, {"neighbors": (3, 7)}):
        assert not family(ONE, options).is_grid
    assert family(ONE, {}).n_combinations == 1


def test_families_have_the_names_of_the_leaderboard() -> None:
    models = {
        mfrank.ALS(mfrank.WRMF()): {},
        mfrank.ALS(): {"objective": [mfrank.RG2(), mfrank.IALS()]},
        mfrank.Descent(mfrank.BPR()): {},
        mfrank.EASE(1.0): {},
        mfrank.EASE(2.0): {},
        mfrank.Popularity(): {},
        mfrank.Popularity(window=5): {},
    }
    names = ["WRMF", "ALS", "BPR", "EASE 1", "EASE 2", "Popularity", "RecentPopularity"]
    assert [each.name for each in own_space(models).families()] == names
    assert names[0] == named("WRMF").name


def test_whether_values_are_read_is_asked_of_every_choice() -> None:
    both = {"objective": [mfrank.IALS(), mfrank.WRMF()]}
    assert family(mfrank.ALS(mfrank.IALS()), both).uses_values
    assert not family(mfrank.ALS(mfrank.IALS()), {}).uses_values


def test_the_digest_is_that_of_what_decides_the_trials() -> None:
    spaces: list[dict[Any, Any]] = [
        {mfrank.EASE(): {"regularization": [1, 2]}},
        {mfrank.EASE(): {"regularization": [1, 3]}},
        {mfrank.EASE(): {"regularization": (1, 2)}},
        {mfrank.EASE(neighbors=3): {"regularization": [1, 2]}},
        {mfrank.ALS(): {"objective": [mfrank.RG2(), mfrank.WRMF(alpha=2)]}},
        {mfrank.ALS(): {"objective": [mfrank.RG2(), mfrank.WRMF(alpha=3)]}},
        {mfrank.ALS(): {"factors": [2, 3]}},
        {mfrank.ALS(): {"factors": [2, 4]}},
    ]
    digests = [own_space(space).own for space in spaces]
    assert len(set(digests)) == len(digests)
    assert own_space({mfrank.EASE(): {"regularization": [1, 2]}}).own == digests[0]
    threads = [own_space({mfrank.ALS(n_threads=n): {}}).own for n in (1, 2)]
    assert threads[0] == threads[1]


# --- what is refused


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no mapping": (lambda: 3, "mfrank.EASE"),
    "pairs": (lambda: [(ONE, {})], "write it as"),
    "nothing": (dict, "name one"),
    "a name": (lambda: {"EASE": {}}, "those are ALS"),
    "a class": (lambda: {mfrank.EASE: {}}, r"mfrank\.EASE\(\)"),
    "a blend": (lambda: {mfrank.Blend([ONE, TWO]): {}}, "tried anyway"),
    "walks": (lambda: {mfrank.SupervisedPageRank(): {}}, "those are ALS"),
    "no options": (lambda: {ONE: None}, "as it is"),
    "an unknown option": (lambda: {ONE: {"regularisation": [1]}}, "'regularization'"),
    "an option of the objective": (
        lambda: {TWO: {"regularization": [1]}},
        "'objective__regularization'",
    ),
    "a number for a name": (lambda: {ONE: {3: [1]}}, "it has regularization"),
    "no values": (lambda: {ONE: {"regularization": []}}, "list some"),
    "a number": (lambda: {ONE: {"regularization": 3}}, r"\[value\]"),
    "a text": (lambda: {TWO: {"solver": "cg"}}, r"\[value\]"),
    "a set": (lambda: {ONE: {"regularization": {1, 2}}}, r"\[value\]"),
    "a tuple of three": (lambda: {ONE: {"regularization": (1, 2, 3)}}, "choices as a list"),
    "a range of texts": (lambda: {TWO: {"solver": ("cg", "auto")}}, "choices as a list"),
    "a range of NaN": (lambda: {ONE: {"regularization": (math.nan, 1)}}, "choices as a list"),
    "an endless range": (lambda: {ONE: {"regularization": (1, math.inf)}}, "choices as a list"),
    "a reversed range": (lambda: {ONE: {"regularization": (5, 1)}}, "exchange"),
    "an empty range": (lambda: {ONE: {"regularization": (5, 5)}}, r"\[5\]"),
    "parts of a count": (lambda: {ONE: {"neighbors": (1.5, 5)}}, "whole numbers"),
    "NaN": (lambda: {ONE: {"regularization": [1, math.nan]}}, "leave it out"),
    "a value twice": (lambda: {ONE: {"regularization": [1, 2, 1.0]}}, "once"),
    "a loss twice": (lambda: {mfrank.Descent(): {"loss": [mfrank.BPR()] * 2}}, "once"),
    "a model twice": (lambda: {mfrank.EASE(): {}, mfrank.EASE(): {}}, "leave one out"),
    "a generator": (lambda: {mfrank.ALS(random_state=np.random.default_rng(0)): {}}, "an int"),
    "generators": (lambda: {TWO: {"random_state": [np.random.default_rng(0)]}}, "an int"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_told_before_any_work(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("a trial was run"))
    make, remedy = REFUSED[case]
    with refuses((ValueError, TypeError), "space", remedy=remedy):
        mfrank.tune(DATA, space=make(), trials=1)


@pytest.mark.parametrize(
    ("model", "options", "told"),
    [
        (ONE, {"regularization": [1, -1]}, "regularization=-1"),
        (ONE, {"regularization": (-1.0, 5.0)}, "regularization=-1.0"),
        (ONE, {"candidates": (0, 5)}, "candidates=0"),
        (TWO, {"factors": [0, 4]}, "factors=0"),
        (TWO, {"factors": (0, 4)}, "factors=0"),
        (TWO, {"factors": [2.5]}, "2.5"),
        (TWO, {"solver": ["cg", "best"]}, "solver='best'"),
        (mfrank.Descent(), {"loss": [mfrank.BPR(), mfrank.RG2()]}, "loss=RG2"),
        (mfrank.NextItem(), {"decays": (1.0, 9.0)}, "decays"),
        (TWO, {"objective": [mfrank.IALS(), mfrank.WRMF()], "objective__alpha0": [1.0]}, "WRMF"),
        (
            mfrank.ALS(),
            {"biases": [False, True], "objective": [mfrank.RG2(), mfrank.RGX()]},
            "biases=True, objective=RGX",
        ),
    ],
)
def test_values_that_a_model_refuses_are_named(
    model: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises((mfrank.InputValueError, mfrank.InputTypeError), match=told) as raised:
        own_space({model: options})
    assert raised.value.argument == "space"


def test_what_goes_together_is_not_refused_for_what_is_as_given() -> None:
    """RGX has no biases, but the space has another objective for them."""
    found = family(mfrank.ALS(mfrank.RGX()), {"objective": [mfrank.RG2()], "biases": [True]})
    assert found.n_combinations == 1


@pytest.mark.parametrize("model", [mfrank.NextItem(), mfrank.Popularity(window=9)], ids=repr)
def test_models_that_need_times_are_refused_without_them(model: Any) -> None:
    untimed = mfrank.Interactions.from_sparse(DATA.user_items)
    with refuses(ValueError, "space", remedy="leave it out"):
        mfrank.tune(untimed, space={model: {}}, trials=1)


def test_factors_are_those_of_the_space() -> None:
    with refuses(ValueError, "factors", remedy="an option of each model"):
        mfrank.tune(DATA, space={TWO: {}}, factors=8, trials=1)


# --- what a fit costs


MORE: list[tuple[Any, Any]] = [
    (mfrank.ALS(factors=8), mfrank.ALS(factors=64)),
    (mfrank.ALS(factors=512), mfrank.ALS(factors=512, dtype="float64")),
    (mfrank.AsymmetricALS(factors=8), mfrank.AsymmetricALS(factors=64)),
    (mfrank.Descent(factors=8), mfrank.Descent(factors=64)),
    (mfrank.EASE(candidates=10), mfrank.EASE(candidates=200)),
    (mfrank.EASE(candidates=10), mfrank.EASE()),
    (mfrank.ItemFilter(neighbors=5), mfrank.ItemFilter(neighbors=50)),
    (mfrank.ItemKNN(neighbors=5), mfrank.ItemKNN(neighbors=50)),
    (mfrank.NextItem((1.0,)), mfrank.NextItem((1.0, 10.0))),
    (mfrank.NextItem(candidates=10), mfrank.NextItem(candidates=500)),
    (mfrank.SequentialRules(neighbors=5), mfrank.SequentialRules(neighbors=50)),
]


@pytest.mark.parametrize(("little", "much"), MORE, ids=repr)
def test_what_is_more_takes_more_memory_and_no_less_time(little: Any, much: Any) -> None:
    setting = Setting(Facts.of(mfrank.synthetic(9000, 6000, 40_000, random_state=0)), 64, 0, 1)
    one, other = (family(model, {}) for model in (little, much))
    assert 0 < one.bytes_needed(0, setting) < other.bytes_needed(0, setting)
    assert 0 < one.work(0, setting) <= other.work(0, setting)
    between = (one.bytes_needed(0, setting) + other.bytes_needed(0, setting)) / 2
    tight = Setting(setting.facts, 64, 0, 1, between)
    assert one.refusal((), 0, tight) is None
    assert "GiB" in (other.refusal((), 0, tight) or "")


@pytest.mark.parametrize(
    ("quick", "slow"),
    [
        (mfrank.ALS(iterations=1), mfrank.ALS(iterations=5)),
        (mfrank.Descent(iterations=1), mfrank.Descent(iterations=5)),
        (mfrank.Descent(negatives=5), mfrank.Descent(negatives=None)),
        (mfrank.AsymmetricALS(iterations=1), mfrank.AsymmetricALS(iterations=5)),
        (mfrank.SequentialRules(near=1.0), mfrank.SequentialRules(near=9.0)),
        (mfrank.Popularity(), mfrank.ItemKNN()),
    ],
    ids=repr,
)
def test_more_rounds_take_longer(quick: Any, slow: Any) -> None:
    assert family(quick, {}).work(0, SETTING) < family(slow, {}).work(0, SETTING)
