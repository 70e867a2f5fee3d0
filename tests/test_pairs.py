"""Losses over pairs in the extension, against numpy's; test_losses.py holds these to truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loss_lists import long_lists

from mfrank import native, pairs
from mfrank.lists import Array, Lists

pytestmark = pytest.mark.skipif(native.why_missing is not None, reason=str(native.why_missing))

SUMS = {
    "mean": pairs.mean_over_pairs,
    "swaps": lambda *given: pairs.sums_over_swaps(*given, 1.7),
}


def drawn(seed: int, n_likes: int, n_others: int, dtype: str) -> tuple[Lists, Array, Array]:
    """Lists with grades, padding, and scores of which some are equal."""
    random = np.random.default_rng(seed)
    lists, likes, others = long_lists(40, n_likes, n_others)
    gains = random.integers(1, 4, lists.gains.shape) * (random.random(lists.gains.shape) < 0.8)
    there = random.random(others.shape) < 0.9
    ideal = random.uniform(1, 3, 40)
    lists = replace(lists, gains=gains.astype(float), others=there, ideal=ideal)
    likes, others = (random.normal(0, 3, array.shape).round(1) for array in (likes, others))
    return lists, likes.astype(dtype), others.astype(dtype)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize(("dtype", "near"), [("float32", 3e-5), ("float64", 1e-12)])
@given(
    seed=st.integers(0, 1000),
    n_likes=st.integers(1, 20),
    n_others=st.integers(1, 80),
    n_threads=st.integers(1, 3),
)
def test_the_extension_sums_what_numpy_does(
    name: str, dtype: str, near: float, seed: int, n_likes: int, n_others: int, n_threads: int
) -> None:
    lists, likes, others = drawn(seed, n_likes, n_others, dtype)
    found = SUMS[name](replace(lists, n_threads=n_threads), likes, others)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(native, "why_missing", "for this test")
        wanted = SUMS[name](lists, likes.astype("float64"), others.astype("float64"))
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine, theirs, rtol=near, atol=near * np.abs(theirs).max())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_told_by_the_loss(value: Any) -> None:
    lists, likes, others = drawn(0, 5, 30, "float32")
    lists = replace(lists, gains=np.ones_like(lists.gains), others=np.ones_like(lists.others))
    likes[3, 2] = value
    losses = pairs.sums_over_swaps(lists, likes, others, 1.0)[2]
    assert not np.isfinite(losses[3]) or value == np.inf  # ahead of all: nothing is lost
    assert np.isfinite(np.delete(losses, 3)).all()


def test_the_door_tells_which_array_does_not_fit() -> None:
    scores, losses = np.ones((2, 3)), np.ones(2)
    with pytest.raises(ValueError, match="gains must have no more columns than scores"):
        native.ext.pairs(scores, np.ones((2, 4)), scores, None, 1.0, scores, losses, 1)
    with pytest.raises(ValueError, match="losses must have 2 elements"):
        native.ext.pairs(scores, scores, scores, None, 1.0, scores.copy(), losses[:1], 1)
