"""Sums of ramps: the extension's are those that are written out, slopes are derivatives."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_lists import derivative

from mfrank import native
from mfrank.logistic import sigmoid, softplus
from mfrank.ramps import NativeRamps, PairwiseRamps, Ramp, Ramps, ramps
from mfrank.squared_hinges import NativeSortedHinges, SortedHinges

KINDS: list[Ramp] = ["hinge", "squared_hinge", "sigmoid", "softplus"]
VALUES = {
    "hinge": lambda x: np.maximum(x, 0),
    "squared_hinge": lambda x: np.maximum(x, 0) ** 2,
    "sigmoid": sigmoid,
    "softplus": softplus,
}
built = pytest.mark.skipif(native.why_missing is not None, reason=str(native.why_missing))


def rows(seed: int, shape: tuple[int, int, int], scale: float) -> tuple[np.ndarray, ...]:
    """Scores, weights of which some are 0, thresholds, and slopes by sums."""
    rng = np.random.default_rng(seed)
    n_rows, n_places, n_thresholds = shape
    scores = scale * rng.normal(size=(n_rows, n_places))
    weights = rng.random(scores.shape) * (rng.random(scores.shape) < 0.8)
    thresholds = rng.normal(size=(n_rows, n_thresholds))
    return scores, weights, thresholds, rng.normal(size=thresholds.shape)


@built
@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(0, 20), st.integers(1, 40), st.integers(1, 9)),
    scale=st.sampled_from([0.1, 3.0, 1e4]),
)
@settings(max_examples=40, deadline=None)
def test_the_extensions_sums_are_those_of_all_pairs(
    kind: Ramp, seed: int, shape: tuple[int, int, int], scale: float
) -> None:
    scores, weights, thresholds, by_sums = rows(seed, shape, scale)
    a = NativeRamps(kind, scores, weights, thresholds)
    b = PairwiseRamps(kind, scores, weights, thresholds)
    for x, y in zip(
        (a.sums, a.slope_sums, *a.slopes(by_sums)),
        (b.sums, b.slope_sums, *b.slopes(by_sums)),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13 * max(1, scale) ** 2)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_what_they_say(kind: Ramp) -> None:
    scores, weights, thresholds, _ = rows(3, (4, 11, 5), 2.0)
    found = ramps(kind, scores, weights, thresholds)
    apart = scores[:, None, :] - thresholds[:, :, None]
    expected = (weights[:, None, :] * VALUES[kind](apart)).sum(2)
    np.testing.assert_allclose(found.sums, expected, rtol=1e-12)


WAYS = [
    *(pytest.param(partial(PairwiseRamps, kind), id=f"pairwise {kind}") for kind in KINDS),
    *(pytest.param(partial(NativeRamps, kind), id=f"native {kind}", marks=built) for kind in KINDS),
    pytest.param(SortedHinges, id="sorted hinges"),
    pytest.param(NativeSortedHinges, id="native sorted hinges", marks=built),
]


@pytest.mark.parametrize("way", WAYS)
def test_slopes_are_derivatives_of_the_sums(way: type[Ramps]) -> None:
    scores, weights, thresholds, by_sums = rows(1, (3, 9, 5), 1.0)
    made = way(scores, weights, thresholds)  # type: ignore[call-arg]
    by_thresholds, by_scores = made.slopes(by_sums)

    def total(scores: np.ndarray, thresholds: np.ndarray) -> float:
        return float((by_sums * way(scores, weights, thresholds).sums).sum())  # type: ignore[call-arg]

    expected = derivative(lambda x: total(scores, x), thresholds)
    np.testing.assert_allclose(by_thresholds, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(made.slope_sums, -by_thresholds / by_sums)
    expected = derivative(lambda x: total(x, thresholds), scores)
    np.testing.assert_allclose(by_scores, expected, rtol=1e-6, atol=1e-6)


@built
def test_exponentials_are_right_to_the_last_bits() -> None:
    x = np.concatenate([np.linspace(-750, 750, 4001), np.linspace(-1, 1, 1001), [0.0, -0.0]])
    found = NativeRamps("sigmoid", x[:, None], np.ones((len(x), 1)), np.zeros((len(x), 1)))
    with np.errstate(over="ignore"):
        expected = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(found.sums[:, 0], expected, rtol=4e-16, atol=1e-300)
    found = NativeRamps("softplus", x[:, None], np.ones((len(x), 1)), np.zeros((len(x), 1)))
    np.testing.assert_allclose(found.sums[:, 0], np.logaddexp(0, x), rtol=1e-15, atol=1e-300)


@built
@pytest.mark.parametrize("scale", [3.0, 12.0, 60.0])
@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_stays_and_is_as_precise_as_it_can_be(kind: Ramp, scale: float) -> None:
    wide = rows(5, (3, 37, 4), scale)
    scores, weights, thresholds, by_sums = (array.astype(np.float32) for array in wide)
    found = NativeRamps(kind, scores, weights, thresholds)
    truth = PairwiseRamps(
        kind, *(array.astype(np.float64) for array in (scores, weights, thresholds))
    )
    for x, y in zip(
        (found.sums, found.slope_sums, *found.slopes(by_sums)),
        (truth.sums, truth.slope_sums, *truth.slopes(by_sums.astype(np.float64))),
        strict=True,
    ):
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
