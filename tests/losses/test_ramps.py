"""Sums of ramps: the extension's are those that are written out, slopes are derivatives."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from both_sums import BUILT, EITHER
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_lists import derivative

from mfrank.backends.cpu import native_sums
from mfrank.backends.cpu.native_sums import TiledRamps
from mfrank.losses import ListSums, PairwiseRamps, Ramp, Ramps, SortedHinges, sigmoid, softplus

KINDS: list[Ramp] = ["hinge", "squared_hinge", "sigmoid", "softplus"]
VALUES = {
    "hinge": lambda x: np.maximum(x, 0),
    "squared_hinge": lambda x: np.maximum(x, 0) ** 2,
    "sigmoid": sigmoid,
    "softplus": softplus,
}


def rows(
    seed: int, shape: tuple[int, int, int], scale: float, grid: float | None = None
) -> tuple[np.ndarray, ...]:
    """Scores, weights of which some are 0, thresholds, and slopes by sums; ties on a grid."""
    rng = np.random.default_rng(seed)
    n_rows, n_places, n_thresholds = shape
    scores = scale * rng.normal(size=(n_rows, n_places))
    weights = rng.random(scores.shape) * (rng.random(scores.shape) < 0.8)
    thresholds = rng.normal(size=(n_rows, n_thresholds))
    if grid:
        scores, thresholds = np.round(scores / grid) * grid, np.round(thresholds / grid) * grid
    return scores, weights, thresholds, rng.normal(size=thresholds.shape)


@BUILT
@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(0, 20), st.integers(1, 40), st.integers(1, 9)),
    scale=st.sampled_from([0.1, 3.0, 1e4]),
    grid=st.sampled_from([None, 0.5]),
)
@settings(max_examples=40, deadline=None)
def test_the_extensions_sums_are_those_of_all_pairs(
    kind: Ramp, seed: int, shape: tuple[int, int, int], scale: float, grid: float | None
) -> None:
    scores, weights, thresholds, by_sums = rows(seed, shape, scale, grid)
    a = TiledRamps(kind, scores, weights, thresholds, 2)
    b = PairwiseRamps(kind, scores, weights, thresholds)
    for x, y in zip(
        (a.sums, a.slope_sums, *a.gradients(by_sums)),
        (b.sums, b.slope_sums, *b.gradients(by_sums)),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13 * max(1, scale) ** 2)


@EITHER
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_what_they_say(kind: Ramp, sums: ListSums) -> None:
    scores, weights, thresholds, _ = rows(3, (4, 11, 5), 2.0)
    found = sums.ramps(kind, scores, weights, thresholds)
    apart = scores[:, None, :] - thresholds[:, :, None]
    expected = (weights[:, None, :] * VALUES[kind](apart)).sum(2)
    np.testing.assert_allclose(found.sums, expected, rtol=1e-12)


WAYS = [
    *(pytest.param(partial(PairwiseRamps, kind), id=f"pairwise {kind}") for kind in KINDS),
    *(
        pytest.param(partial(TiledRamps, kind, n_threads=2), id=f"native {kind}", marks=BUILT)
        for kind in KINDS
    ),
    pytest.param(SortedHinges, id="sorted hinges"),
    pytest.param(
        partial(native_sums.NativeHinges, n_threads=2), id="native sorted hinges", marks=BUILT
    ),
]


@pytest.mark.parametrize("way", WAYS)
def test_slopes_are_derivatives_of_the_sums(way: type[Ramps]) -> None:
    scores, weights, thresholds, by_sums = rows(1, (3, 9, 5), 1.0)
    made = way(scores, weights, thresholds)  # type: ignore[call-arg]
    by_thresholds, by_scores = made.gradients(by_sums)

    def total(scores: np.ndarray, thresholds: np.ndarray) -> float:
        return float((by_sums * way(scores, weights, thresholds).sums).sum())  # type: ignore[call-arg]

    expected = derivative(lambda x: total(scores, x), thresholds)
    np.testing.assert_allclose(by_thresholds, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(made.slope_sums, -by_thresholds / by_sums)
    expected = derivative(lambda x: total(x, thresholds), scores)
    np.testing.assert_allclose(by_scores, expected, rtol=1e-6, atol=1e-6)


@BUILT
def test_exponentials_are_right_to_the_last_bits() -> None:
    x = np.concatenate([np.linspace(-750, 750, 4001), np.linspace(-1, 1, 1001), [0.0, -0.0]])
    found = TiledRamps("sigmoid", x[:, None], np.ones((len(x), 1)), np.zeros((len(x), 1)), 2)
    with np.errstate(over="ignore"):
        expected = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(found.sums[:, 0], expected, rtol=4e-16, atol=1e-300)
    found = TiledRamps("softplus", x[:, None], np.ones((len(x), 1)), np.zeros((len(x), 1)), 2)
    np.testing.assert_allclose(found.sums[:, 0], np.logaddexp(0, x), rtol=1e-15, atol=1e-300)


@BUILT
@pytest.mark.parametrize("scale", [3.0, 12.0, 60.0])
@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_stays_and_is_as_precise_as_it_can_be(kind: Ramp, scale: float) -> None:
    wide = rows(5, (3, 37, 4), scale)
    scores, weights, thresholds, by_sums = (array.astype(np.float32) for array in wide)
    found = TiledRamps(kind, scores, weights, thresholds, 2)
    truth = PairwiseRamps(
        kind, *(array.astype(np.float64) for array in (scores, weights, thresholds))
    )
    for x, y in zip(
        (found.sums, found.slope_sums, *found.gradients(by_sums)),
        (truth.sums, truth.slope_sums, *truth.gradients(by_sums.astype(np.float64))),
        strict=True,
    ):
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
