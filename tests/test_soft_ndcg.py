"""NDCG of soft orders: the extension's is the one that is written out, whatever the lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_lists import Scores, long_lists

from mfrank import native
from mfrank.lists import Lists
from mfrank.soft_ndcg import SoftSums, soft_ndcg

pytestmark = pytest.mark.skipif(native.why_missing is not None, reason=str(native.why_missing))

SIZES = st.tuples(st.integers(0, 18), st.integers(1, 5), st.integers(0, 40))


def random_lists(rng: np.random.Generator, sizes: tuple[int, int, int], part: float) -> Lists:
    """Lists of so many likes and others, a part of which is filled, some of them with nothing."""
    n_lists, n_likes, n_others = sizes
    gains = 2.0 ** rng.integers(1, 4, (n_lists, n_likes)) - 1
    return Lists(
        gains=gains * (rng.random(gains.shape) < part),
        others=rng.random((n_lists, n_others)) < part,
        n_likes=np.full(n_lists, 9.0),
        n_items=np.full(n_lists, 99.0),
        ideal=rng.uniform(1, 9, n_lists),
        cells=np.zeros(gains.shape, np.int64),
        users=np.arange(n_lists),
        n_threads=2,
    )


def written_out(
    lists: Lists, likes: Scores, others: Scores, temperature: float, rounds: int
) -> SoftSums:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "why_missing", "for this test")
        return soft_ndcg(lists, likes, others, temperature, rounds)


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
    likes, others = np.split(scores.astype(dtype), [sizes[1]], axis=1)
    found = soft_ndcg(lists, likes, others, 0.7, rounds)
    wide = likes.astype(np.float64), others.astype(np.float64)
    near = 2e-3 if dtype is np.float32 else 1e-10
    for got, expected in zip(found, written_out(lists, *wide, 0.7, rounds), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected, rtol=near, atol=near)


@pytest.mark.parametrize("spread", [0.05, 1.0, 20.0])
def test_long_lists_keep_the_precision_of_their_type(spread: float) -> None:
    lists, likes, others = long_lists(3, 10, 300)
    exact = written_out(lists, spread * likes, spread * others, 1.0, 10)
    for dtype, near in ((np.float32, 1e-4), (np.float64, 1e-11)):
        scores = (spread * likes).astype(dtype), (spread * others).astype(dtype)
        for got, expected in zip(soft_ndcg(lists, *scores, 1.0, 10), exact, strict=True):
            np.testing.assert_allclose(got, expected, atol=near * np.abs(expected).max())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_in_its_list(bad: float) -> None:
    lists, likes, others = long_lists(3, 2, 7)
    expected = soft_ndcg(lists, likes, others, 1.0, 3)
    others[1, 4] = bad
    for got, good in zip(soft_ndcg(lists, likes, others, 1.0, 3), expected, strict=True):
        assert np.isnan(got[1]).all()
        np.testing.assert_array_equal(got[[0, 2]], good[[0, 2]])


def test_distances_that_overflow_are_told_by_the_loss() -> None:
    lists, likes, others = long_lists(1, 2, 40)
    for dtype in (np.float32, np.float64):
        huge = [x.astype(dtype) * (np.finfo(dtype).max / 8) for x in (likes, others)]
        assert not np.isfinite(soft_ndcg(lists, *huge, 1.0, 3)[2]).any()
