"""NDCG of soft orders: the extension's is the one that is written out, whatever the lists."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from both_sums import BUILT, NATIVE
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_lists import Scores, long_lists
from numpy.typing import NDArray

import mfrank
from mfrank.losses import WRITTEN_OUT
from tests.support.errors import refuses

pytestmark = BUILT

SIZES = st.tuples(st.integers(0, 18), st.integers(1, 5), st.integers(0, 40))


class Listed(NamedTuple):
    """What the sums are told of lists, beside their scores."""

    filled: NDArray[np.bool_]
    gains: Scores
    ideal: Scores


def random_lists(rng: np.random.Generator, sizes: tuple[int, int, int], part: float) -> Listed:
    """Lists of so many likes and others, a part of which is filled, some of them with nothing."""
    n_lists, n_positives, n_negatives = sizes
    gains = 2.0 ** rng.integers(1, 4, (n_lists, n_positives)) - 1
    gains *= rng.random(gains.shape) < part
    filled = np.concatenate([gains > 0, rng.random((n_lists, n_negatives)) < part], axis=1)
    return Listed(filled, gains, rng.uniform(1, 9, n_lists))


def full_lists(n_lists: int, n_positives: int, n_negatives: int) -> tuple[Listed, Scores]:
    lists, positives, negatives = long_lists(n_lists, n_positives, n_negatives)
    scores = np.concatenate([positives, negatives], axis=1)
    return Listed(lists.filled, lists.gains, lists.ideal), scores


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    seed=st.integers(0, 999),
    sizes=SIZES,
    part=st.sampled_from([0.5, 1.0]),
    levels=st.sampled_from([3, 10**6]),
    spread=st.sampled_from([0.0, 0.1, 30.0]),
    rounds=st.sampled_from([0, 1, 10]),
)
@settings(max_examples=100, deadline=None)
def test_it_is_what_is_written_out(
    dtype: type,
    seed: int,
    sizes: tuple[int, int, int],
    part: float,
    levels: int,
    spread: float,
    rounds: int,
) -> None:
    """With padding, ties, scores so far apart that the order is hard, and all of them equal."""
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, sizes, part)
    scores = spread * rng.integers(0, levels, (sizes[0], sizes[1] + sizes[2])) / levels
    scores = scores.astype(dtype)
    found = NATIVE.soft_ndcg(scores, *lists, 0.7, rounds)
    exact = WRITTEN_OUT.soft_ndcg(scores.astype(np.float64), *lists, 0.7, rounds)
    near = 2e-3 if dtype is np.float32 else 1e-10
    for got, expected in zip(found, exact, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected, rtol=near, atol=near)


@pytest.mark.parametrize("spread", [0.05, 1.0, 20.0])
def test_long_lists_keep_the_precision_of_their_type(spread: float) -> None:
    lists, scores = full_lists(3, 10, 300)
    exact = WRITTEN_OUT.soft_ndcg(spread * scores, *lists, 1.0, 10)
    for dtype, near in ((np.float32, 1e-4), (np.float64, 1e-11)):
        found = NATIVE.soft_ndcg((spread * scores).astype(dtype), *lists, 1.0, 10)
        for got, expected in zip(found, exact, strict=True):
            np.testing.assert_allclose(got, expected, atol=near * np.abs(expected).max())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_in_its_list(bad: float) -> None:
    lists, scores = full_lists(3, 2, 7)
    expected = NATIVE.soft_ndcg(scores, *lists, 1.0, 3)
    scores[1, 6] = bad
    for got, good in zip(NATIVE.soft_ndcg(scores, *lists, 1.0, 3), expected, strict=True):
        assert np.isnan(got[1]).all()
        np.testing.assert_array_equal(got[[0, 2]], good[[0, 2]])


def test_distances_that_overflow_are_told_by_the_loss() -> None:
    lists, scores = full_lists(1, 2, 40)
    for dtype in (np.float32, np.float64):
        huge = scores.astype(dtype) * (np.finfo(dtype).max / 8)
        assert not np.isfinite(NATIVE.soft_ndcg(huge, *lists, 1.0, 3)[1]).any()


def test_rounds_are_from_0_to_10_000() -> None:
    assert [mfrank.NeuralNDCG(rounds=n).rounds for n in (0, 10_000)] == [0, 10_000]
    for n in (-1, 10_001):
        with refuses(ValueError, "rounds"):
            mfrank.NeuralNDCG(rounds=n)
