"""One model against many: intervals and p-values that hold for all at once."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import NDCG, paired_differences
from mfrank.evaluation import Evaluation, Score
from tests.support.errors import refuses

METRIC = NDCG @ 10
WAYS = list(product(("bootstrap", "permutation"), ("max-t", "holm")))


def evaluation(values: np.ndarray, weights: np.ndarray | None = None) -> Evaluation:
    given = np.ones(len(values)) if weights is None else weights
    return Evaluation({METRIC: Score.of_users(values, given)}, np.arange(len(values)), 0, 0)


def drawn(n_users: int, n_models: int, seed: int, lead: float = 0.0) -> dict[str, Evaluation]:
    """Models whose values differ by noise, the first by ``lead`` from the others."""
    values = np.random.default_rng(seed).random((n_models, n_users))
    values[0] += lead
    return {f"model {number}": evaluation(row) for number, row in enumerate(values)}


@pytest.mark.parametrize(("method", "correction"), WAYS)
def test_no_model_is_found_different_more_often_than_promised(method: Any, correction: Any) -> None:
    """If none differs, some p-value is < .05 in 5 % of comparisons; of t-tests in far more."""
    corrected = uncorrected = 0
    for seed in range(200):
        results = drawn(80, 11, seed)
        found = paired_differences(
            results, METRIC, method=method, correction=correction, samples=300, random_state=seed
        )
        corrected += min(one.p_value for one in found.values()) < 0.05
        first, *others = results.values()
        uncorrected += min(first.compare(other, METRIC).p_value for other in others) < 0.05
    assert corrected <= scipy.stats.binom.ppf(0.999, 200, 0.05)
    assert uncorrected > 2 * corrected


@pytest.mark.parametrize(("method", "correction"), WAYS)
def test_the_intervals_cover_all_differences_at_once(method: Any, correction: Any) -> None:
    covered = 0
    for seed in range(200):
        results = drawn(80, 6, seed, lead=0.1)
        found = paired_differences(
            results, METRIC, method=method, correction=correction, samples=300
        )
        covered += all(one.low <= 0.1 <= one.high for one in found.values())
    assert covered >= scipy.stats.binom.ppf(0.001, 200, 0.93)


@pytest.mark.parametrize(("method", "correction"), WAYS)
def test_a_clear_lead_is_found(method: Any, correction: Any) -> None:
    results = drawn(400, 8, 0, lead=0.3)
    found = paired_differences(results, METRIC, method=method, correction=correction)
    assert all(one.p_value < 0.005 for one in found.values())
    assert all(one.low > 0 for one in found.values())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("method", "correction"), WAYS)
def test_of_two_it_is_about_the_t_test(weighted: bool, method: Any, correction: Any) -> None:
    rng = np.random.default_rng(0)
    weights = rng.random(500) + 0.5 if weighted else np.ones(500)
    pair = [evaluation(rng.random(500) + shift, weights) for shift in (0.03, 0.0)]
    one = paired_differences(
        *({"a": pair[0], "b": pair[1]}, METRIC),
        method=method,
        correction=correction,
        samples=4000,
    )["b"]
    two = pair[0].compare(pair[1], METRIC)
    assert (one.mean, one.standard_error, one.n_users) == (two.mean, two.standard_error, 500)
    assert one.p_value == pytest.approx(two.p_value, abs=0.03)
    assert (one.low, one.high) == pytest.approx((two.low, two.high), abs=0.004)
    assert one.high - one.mean == pytest.approx(one.mean - one.low)


def test_by_default_2000_samples_of_seed_0() -> None:
    results = drawn(200, 3, 0, lead=0.5)
    found = paired_differences(results, METRIC)
    assert found == paired_differences(results, METRIC, samples=2000, random_state=0)
    assert found["model 1"].p_value == 1 / 2001


def test_one_user_who_differs_says_nothing_by_signs_and_something_by_resamples() -> None:
    """The ratio is 1 whatever the sign; of resamples, many do not have this user."""
    values = np.eye(1, 100)[0]
    pair = {"a": evaluation(values), "b": evaluation(np.zeros(100))}
    by_signs, by_resamples = (
        paired_differences(pair, METRIC, method=method)["b"].p_value
        for method in ("permutation", "bootstrap")
    )
    assert by_signs == 1
    assert by_resamples < 0.9


def test_more_models_make_a_difference_less_sure() -> None:
    results = drawn(100, 20, 1, lead=0.08)
    few = dict(list(results.items())[:2])
    alone = paired_differences(few, METRIC)["model 1"]
    among = paired_differences(results, METRIC)["model 1"]
    assert among.mean == alone.mean
    assert among.p_value > alone.p_value
    assert among.low < alone.low


def test_any_model_can_be_the_one_compared() -> None:
    results = drawn(50, 3, 0)
    found = paired_differences(results, METRIC, to="model 1")
    assert list(found) == ["model 0", "model 2"]
    assert found["model 0"].mean == -paired_differences(results, METRIC)["model 1"].mean


def t(values: np.ndarray, weights: np.ndarray) -> float:
    """|mean / standard error|, as the equation of Score has it."""
    score = Score.of_users(values, weights)
    if np.ptp(values) == 0:  # no error but of rounding
        return math.inf if values[0] else 0.0
    return abs(score.value) / score.standard_error


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_users", range(2, 9))
def test_a_permutation_of_few_users_counts_all_signs(n_users: int, weighted: bool) -> None:
    rng = np.random.default_rng(n_users)
    weights = rng.random(n_users) + 0.5 if weighted else np.ones(n_users)
    lead = np.array([np.full(n_users, 0.3), np.zeros(n_users)])
    for values in (rng.random((2, n_users)), rng.integers(0, 2, (2, n_users)) * 1.0, lead):
        pair = {"a": evaluation(values[0], weights), "b": evaluation(values[1], weights)}
        difference = values[0] - values[1]
        every = [
            t(np.array(signs) * difference, weights) for signs in product([-1, 1], repeat=n_users)
        ]
        exact = np.mean(np.array(every) >= t(difference, weights) * (1 - 1e-12))
        at_least = max(100, len(every))  # samples, so that every sign is one of them
        found = paired_differences(pair, METRIC, method="permutation", samples=at_least)["b"]
        assert found.p_value == exact
        reach = np.quantile(every, 0.95, method="higher")
        width = reach * found.standard_error if np.isfinite(reach) else np.inf
        assert (found.mean - found.low, found.high - found.mean) == pytest.approx((width, width))


def test_a_permutation_draws_the_signs_of_many_users() -> None:
    """Of nine users, with fewer samples than their 512 signs."""
    rng = np.random.default_rng(3)
    weights, values = rng.random(9) + 0.5, rng.random((2, 9))
    values[0] += 0.25
    pair = {"a": evaluation(values[0], weights), "b": evaluation(values[1], weights)}
    exact = paired_differences(pair, METRIC, method="permutation")["b"].p_value
    assert 0.01 < exact < 0.5
    found = [
        paired_differences(pair, METRIC, method="permutation", samples=500, random_state=seed)[
            "b"
        ].p_value
        for seed in range(20)
    ]
    assert found != [exact] * 20
    assert np.mean(found) == pytest.approx(exact, abs=5 * math.sqrt(exact / 10_000))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("method", "correction"), WAYS)
def test_rare_hits_are_not_taken_for_differences(
    method: Any, correction: Any, weighted: bool
) -> None:
    """Most resamples of few hits have none on one side: they have hardly any error, or none."""
    below = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        weights = rng.pareto(1.0, 100) + 0.05 if weighted else np.ones(100)
        results = {
            name: evaluation((rng.random(100) < 0.016) * 1.0, weights) for name in ("a", "b")
        }
        found = paired_differences(
            results, METRIC, method=method, correction=correction, samples=200, random_state=seed
        )
        below += found["b"].p_value < 0.05
    assert below <= scipy.stats.binom.ppf(0.999, 400, 0.05)


@pytest.mark.parametrize(("method", "correction"), WAYS)
def test_two_users_who_agree_prove_nothing(method: Any, correction: Any) -> None:
    pair = {"a": evaluation(np.ones(2)), "b": evaluation(np.zeros(2))}
    found = paired_differences(pair, METRIC, method=method, correction=correction)["b"]
    assert found.p_value == pytest.approx(0.5, abs=0.05)
    assert found.low <= 0 <= found.high


def test_resamples_are_centered_by_the_weighted_mean() -> None:
    """If a difference is its weighted mean but for noise, resamples must not have it."""
    rng = np.random.default_rng(0)
    weights = np.r_[np.full(20, 50.0), np.ones(180)]
    shift = np.r_[np.full(20, 0.3), np.full(180, 0.0)] + rng.normal(0, 0.05, 200)
    one = paired_differences(
        {"a": evaluation(shift, weights), "b": evaluation(np.zeros(200), weights)}, METRIC
    )["b"]
    drawn = np.array(
        [
            t((shift - one.mean)[users], weights[users])
            for users in (rng.integers(200, size=200) for _ in range(2_000))
        ]
    )
    reach = (one.high - one.mean) / one.standard_error
    assert reach == pytest.approx(np.quantile(drawn, 0.95), rel=0.1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.sampled_from(["bootstrap", "permutation"]))
def test_holm_multiplies_by_the_number_that_is_left(seed: int, n: int, method: Any) -> None:
    """Against the sequential procedure as Holm writes it, at every level."""
    results = drawn(30, n + 1, seed, lead=0.08)
    options: dict[str, Any] = {"method": method, "samples": 100, "random_state": seed}
    corrected = paired_differences(results, METRIC, correction="holm", **options)
    first, *others = results
    alone = {
        name: paired_differences({first: results[first], name: results[name]}, METRIC, **options)
        for name in others
    }
    p_values = {name: alone[name][name].p_value for name in others}
    assert max(one.p_value for one in corrected.values()) <= 1
    for level in np.linspace(0.001, 0.999, 50):
        rejected: set[str] = set()
        for place, name in enumerate(sorted(others, key=p_values.__getitem__)):
            if p_values[name] * (n - place) > level:
                break
            rejected.add(name)
        assert {name for name in others if corrected[name].p_value <= level} == rejected


@pytest.mark.parametrize("method", ["bootstrap", "permutation"])
def test_samples_do_not_depend_on_how_many_fit_into_memory(
    method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = drawn(50, 4, 0)
    whole = paired_differences(results, METRIC, method=method, samples=100)
    monkeypatch.setattr("mfrank.evaluation.paired_tests._CELLS_AT_ONCE", 150)
    parts = paired_differences(results, METRIC, method=method, samples=100)
    for name, one in whole.items():
        assert parts[name].p_value == one.p_value
        assert parts[name].low == pytest.approx(one.low)


def test_equal_models_do_not_differ_and_a_constant_lead_is_certain() -> None:
    values = np.random.default_rng(0).integers(0, 8, 50) / 8
    results = {"a": evaluation(values), "same": evaluation(values), "below": evaluation(values - 1)}
    found = paired_differences(results, METRIC, samples=100)
    assert found["same"].p_value == 1.0
    assert (found["same"].low, found["same"].high) == (0.0, 0.0)
    assert found["below"].p_value == 1 / 101


def test_the_same_seed_gives_the_same_numbers() -> None:
    results = drawn(50, 4, 0)
    first, again, other = (
        paired_differences(results, METRIC, samples=100, random_state=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_it_says_what_it_tested() -> None:
    results = drawn(9, 2, 0)
    found = paired_differences(results, METRIC)
    assert "corrected bootstrap p = " in str(found["model 1"])
    found = paired_differences(results, METRIC, method="permutation", correction="holm")
    assert "Holm-corrected permutation p = " in str(found["model 1"])


def test_of_one_user_nothing_is_known() -> None:
    assert math.isnan(paired_differences(drawn(1, 2, 0), METRIC)["model 1"].p_value)


@pytest.mark.parametrize(
    ("given", "options", "error", "fault"),
    [
        (drawn(5, 1, 0), {}, ValueError, {"argument": "evaluations"}),
        (list(drawn(5, 2, 0).values()), {}, ValueError, {"argument": "evaluations"}),
        ({"a": 1, "b": 2}, {}, TypeError, {"argument": "evaluations"}),
        (drawn(5, 2, 0), {"to": "best"}, ValueError, {"argument": "to"}),
        (drawn(5, 2, 0), {"samples": 10}, ValueError, {"argument": "samples"}),
        (drawn(5, 2, 0), {"method": "jackknife"}, ValueError, {"argument": "method"}),
        (drawn(5, 2, 0), {"correction": None}, ValueError, {"argument": "correction"}),
        (drawn(5, 2, 0) | drawn(6, 1, 0), {}, ValueError, {"remedy": "one test part"}),
    ],
)
def test_what_cannot_be_compared_is_refused(
    given: Any, options: dict[str, Any], error: type[Exception], fault: dict[str, str]
) -> None:
    with refuses(error, **fault):
        paired_differences(given, METRIC, **options)


def test_a_metric_without_values_for_each_user_is_refused() -> None:
    split = mfrank.by_ratio(mfrank.synthetic(30, 20, 200, random_state=0))
    result = mfrank.evaluate(
        mfrank.Popularity().fit(split.train), split.test, metrics=[METRIC, "gini@3"]
    )
    with refuses(ValueError, "metric"):
        paired_differences({"a": result, "b": result}, "gini@3")
    with pytest.raises(KeyError, match="was not evaluated"):
        paired_differences({"a": result, "b": result}, "mrr@3")
