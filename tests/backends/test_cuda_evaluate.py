"""Evaluation of lists on a GPU: the numbers are the host's, and only values of users come back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import emulated_gpu
import numpy as np
import pytest
from emulated_gpu import DeviceArray, EmulatedGPU
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import toy
from rankings import EVERYTHING, Factors, problem

import mfrank
from mfrank.arrays import to_host
from mfrank.evaluation import Evaluation, evaluate
from tests.support.errors import refuses

GRADED = (mfrank.NDCG(gain="linear") @ 4, mfrank.NDCG(gain="exponential"), mfrank.MAP(capped=True))
METRICS = (*EVERYTHING, *GRADED)
BEYOND = (
    mfrank.Novelty @ 3,
    mfrank.IntraListSimilarity @ 4,
    mfrank.Serendipity @ 2,
    mfrank.Miscalibration @ 5,
)


def on(device: EmulatedGPU, model: Factors) -> SimpleNamespace:
    return SimpleNamespace(**{name: device.asarray(array) for name, array in vars(model).items()})


def check_equal(got: Evaluation, wanted: Evaluation) -> None:
    np.testing.assert_array_equal(got.users, wanted.users)
    for metric, score in wanted.scores.items():
        found = got[metric]
        np.testing.assert_allclose(found.value, score.value, rtol=0, atol=1e-12)
        if score.per_user is not None:
            assert isinstance(found.per_user, np.ndarray)
            np.testing.assert_allclose(found.per_user, score.per_user, rtol=0, atol=1e-12)
            np.testing.assert_array_equal(found.weights, score.weights)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 9),
    st.integers(1, 60),
    st.sampled_from(["cuda", "cpu"]),
    st.booleans(),
)
def test_the_numbers_are_those_of_the_host(
    device: EmulatedGPU, seed: int, n_users: int, n_items: int, backend: str, there: bool
) -> None:
    """Scores are small integers: ties are many, and more than a few items relevant."""
    model, train, test = problem(seed, n_users, n_items)
    groups = mfrank.by_popularity(train)
    options: dict[str, Any] = {"train": train, "metrics": (*METRICS, *BEYOND)}
    options["item_groups"] = groups
    wanted = evaluate(model, test, backend="reference", **options)
    given_ = on(device, model) if there else model
    got = evaluate(given_, test, backend=backend, batch_size=4, **options)
    check_equal(got, wanted)
    np.testing.assert_array_equal(got.exposure, wanted.exposure)
    for name in groups.names:
        check_equal(got.by_item_group[name], wanted.by_item_group[name])
    sampled: dict[str, Any] = {"train": train, "metrics": GRADED, "negatives": 5}
    wanted = evaluate(model, test, backend="reference", **sampled)
    check_equal(evaluate(given_, test, backend=backend, **sampled), wanted)


@pytest.mark.parametrize("there", [True, False])
def test_only_values_of_users_come_to_the_host(
    device: EmulatedGPU, came: list[int], there: bool
) -> None:
    model, train, test = problem(3, 40, 30)
    given_ = on(device, model) if there else model
    result = evaluate(given_, test, train=train, metrics=METRICS, backend="cuda")
    assert came
    assert max(came) <= max(result.n_users, 30)  # a catalog metric's counts of the 30 items


def test_a_recommender_may_answer_on_the_gpu(device: EmulatedGPU, came: list[int]) -> None:
    """Its lists, which repeat items and end early, are judged where they are."""
    rng = np.random.default_rng(0)
    _, train, test = problem(0)
    asked: dict[tuple[int, ...], Any] = {}

    def recommend(users: Any, user_items: Any, N: int) -> tuple[Any, Any]:
        drawn = rng.integers(-1, 9, (len(users), N)), -np.sort(-rng.random((len(users), N)))
        return asked.setdefault((*users, N), drawn)

    def there(users: Any, user_items: Any, N: int) -> tuple[Any, Any]:
        ids, scores = recommend(users, user_items, N)
        return device.asarray(ids), device.asarray(scores)

    wanted = evaluate(recommend, test, train=train, metrics=METRICS)
    check_equal(evaluate(there, test, train=train, metrics=METRICS), wanted)
    assert came
    assert max(came) <= max(wanted.n_users, 9)
    with refuses(ValueError, "recommend"):
        evaluate(lambda users, _, N: (there(users, _, N)[0] + 9,) * 2, test, train=train)


def test_a_fit_that_is_watched_stays_on_the_gpu(device: EmulatedGPU, came: list[int]) -> None:
    """Factors come to the host at a new best epoch alone."""
    data = mfrank.Interactions.from_sparse(toy(40, 30, 0.3))
    split = mfrank.by_ratio(data, random_state=0)
    stopping = mfrank.EarlyStopping(split.valid, patience=3)
    options: dict[str, Any] = {"factors": 5, "iterations": 5, "random_state": 0}
    fits = [
        mfrank.ALS(**options, dtype="float64", backend=backend).fit(split.train, stopping=stopping)
        for backend in ("cuda", "reference")
    ]
    values = [record["valid"] for record in fits[0].store.history]
    assert values == pytest.approx([record["valid"] for record in fits[1].store.history], abs=1e-9)
    bests = sum(value > max(values[:i], default=-1) for i, value in enumerate(values))
    assert came.count(40 * 5) == bests < len(values)
    scores = (model.user_factors @ model.item_factors.T for model in fits)
    np.testing.assert_allclose(*scores, atol=1e-6)


@pytest.mark.parametrize("fitter", ["als", "descent"])
def test_what_was_fitted_there_is_asked_and_evaluated_there(
    device: EmulatedGPU, came: list[int], fitter: str
) -> None:
    """From the interactions to the lists, no factors come to the host."""
    data = mfrank.Interactions.from_sparse(toy(40, 30, 0.3))
    split = mfrank.by_ratio(data, random_state=0)
    options: dict[str, Any] = {"factors": 7, "iterations": 1, "random_state": 0, "backend": "cuda"}
    model = (
        mfrank.ALS(mfrank.WRMF(), **options)
        if fitter == "als"
        else mfrank.Descent(mfrank.BPR(), **options, item_biases=True)
    )
    model.fit(split.train)
    came.clear()
    users = device.asarray(np.array([3, 0, 5]))
    asked = [model.recommend(users, filter_already_liked_items=False), model.similar_items(users)]
    result = evaluate(model, split.valid, train=split.train, metrics=METRICS, backend="cuda")
    assert max(came) <= 40
    wanted = mfrank.Recommender.of(model.store)
    wanted.backend = "reference"
    again = [wanted.recommend([3, 0, 5], filter_already_liked_items=False)]
    again.append(wanted.similar_items([3, 0, 5]))
    for (_, scores), (_, truth) in zip(asked, again, strict=True):
        np.testing.assert_allclose(to_host(scores, ""), truth, rtol=1e-4, atol=1e-5)
    host = evaluate(model, split.valid, train=split.train, metrics=METRICS, backend="reference")
    assert result["auc"].value == pytest.approx(host["auc"].value, abs=1e-4)


def test_judged_scores_may_lie_on_the_gpu(device: EmulatedGPU) -> None:
    rng = np.random.default_rng(0)
    judged = mfrank.Judged(
        rng.random((30, 2)), rng.integers(0, 3, 30), np.sort(rng.integers(0, 5, 30))
    )
    scores = rng.random(30)
    there = device.asarray(scores)
    assert isinstance(there, DeviceArray)
    wanted = mfrank.evaluate_queries(judged, scores)
    check_equal(mfrank.evaluate_queries(judged, there), wanted)
    np.testing.assert_array_equal(to_host(there, "scores"), scores)


def test_cupy_knows_every_function_that_was_called(device: EmulatedGPU) -> None:
    """At the end of this file: by then all of them were."""
    cupy = pytest.importorskip("cupy", reason="CuPy, which imports without a GPU")
    assert DeviceArray.asked["functions"].keys() > {"searchsorted", "bincount", "cumsum"}
    assert not emulated_gpu.unknown_to(cupy)
