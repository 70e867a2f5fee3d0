"""Losses over pairs in the extension, against numpy's; test_losses.py holds these to truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_sums import BUILT, NATIVE
from hypothesis import given
from hypothesis import strategies as st
from loss_lists import Scores
from numpy.typing import NDArray

from mfrank.arrays import installed
from mfrank.backends.cpu.native_sums import NativeSums
from mfrank.losses import WRITTEN_OUT

pytestmark = BUILT

N_LISTS = 40
SCALES = 1 / np.random.default_rng(0).uniform(1, 3, N_LISTS)
MORE: dict[str, tuple[Any, ...]] = {"mean": (), "steep mean": (None, 0.6), "swaps": (SCALES, 1.7)}


def drawn(
    seed: int, n_positives: int, n_negatives: int, dtype: str
) -> tuple[Scores, Scores, NDArray[np.bool_]]:
    """Scores of which some are equal, grades, and which places are filled."""
    random = np.random.default_rng(seed)
    gains = random.integers(1, 4, (N_LISTS, n_positives)) * (
        random.random((N_LISTS, n_positives)) < 0.8
    )
    filled = np.concatenate([gains > 0, random.random((N_LISTS, n_negatives)) < 0.9], axis=1)
    scores = random.normal(0, 3, filled.shape).round(1)
    return scores.astype(dtype), gains.astype(float), filled


@pytest.mark.parametrize("name", MORE)
@pytest.mark.parametrize(("dtype", "near"), [("float32", 3e-5), ("float64", 1e-12)])
@given(
    seed=st.integers(0, 1000),
    n_positives=st.integers(1, 20),
    n_negatives=st.integers(1, 80),
    n_threads=st.integers(1, 3),
)
def test_the_extension_sums_what_numpy_does(
    name: str,
    dtype: str,
    near: float,
    seed: int,
    n_positives: int,
    n_negatives: int,
    n_threads: int,
) -> None:
    scores, gains, filled = drawn(seed, n_positives, n_negatives, dtype)
    found = NativeSums(n_threads).pair_losses(scores, gains, filled, *MORE[name])
    wanted = WRITTEN_OUT.pair_losses(scores.astype("float64"), gains, filled, *MORE[name])
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine, theirs, rtol=near, atol=near * np.abs(theirs).max())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_told_by_the_loss(value: Any) -> None:
    scores = drawn(0, 5, 30, "float32")[0]
    scores[3, 2] = value
    gains, filled = np.ones((N_LISTS, 5)), np.ones(scores.shape, bool)
    losses = NATIVE.pair_losses(scores, gains, filled, SCALES)[1]
    assert not np.isfinite(losses[3]) or value == np.inf  # ahead of all: nothing is lost
    assert np.isfinite(np.delete(losses, 3)).all()


def test_the_door_tells_which_array_does_not_fit() -> None:
    scores, losses = np.ones((2, 3)), np.ones(2)
    with pytest.raises(ValueError, match="gains must have no more columns than scores"):
        installed.ext.pairs(scores, np.ones((2, 4)), scores, None, 1.0, scores, losses, 1)
    with pytest.raises(ValueError, match="losses must have 2 elements"):
        installed.ext.pairs(scores, scores, scores, None, 1.0, scores.copy(), losses[:1], 1)
