"""Smooth ranks: sorted sums are those of all pairs, in little memory, wherever the scores lie."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_lists import Scores, long_lists, slopes, whole_lists

import mfrank.squared_hinges
from mfrank import native
from mfrank.hinge_ranks import HingeRanks
from mfrank.lists import Lists
from mfrank.ramps import PairwiseRamps
from mfrank.squared_hinges import NativeSortedHinges, SortedHinges
from mfrank.trainers import Loss, Sizes
from mfrank.trainers.ksong import KSONG
from mfrank.trainers.song import SONG
from mfrank.trainers.soprc import SOPRC


def rows(
    seed: int, shape: tuple[int, int, int], grid: float | None = None
) -> tuple[Scores, Scores, Scores, Scores]:
    """Scores, weights of which some are 0, thresholds, and slopes by sums; ties on a grid."""
    rng = np.random.default_rng(seed)
    n_rows, n_places, n_thresholds = shape
    scores = rng.normal(size=(n_rows, n_places)) * rng.choice([0.1, 1, 20], size=(n_rows, 1))
    thresholds = rng.normal(size=(n_rows, n_thresholds))
    if grid:
        scores, thresholds = np.round(scores / grid) * grid, np.round(thresholds / grid) * grid
    weights = rng.random(scores.shape) * (rng.random(scores.shape) < 0.8)
    return scores, weights, thresholds, rng.normal(size=thresholds.shape)


SORTED = [
    SortedHinges,
    pytest.param(
        NativeSortedHinges,
        marks=pytest.mark.skipif(native.why_missing is not None, reason=str(native.why_missing)),
    ),
]


@pytest.mark.parametrize("way", SORTED)
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 30)),
    grid=st.sampled_from([None, 0.25, 1.0]),
    padded=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_sorted_sums_are_those_of_all_pairs(
    way: Any, seed: int, shape: tuple[int, int, int], grid: float | None, padded: bool
) -> None:
    scores, weights, thresholds, by_sums = rows(seed, shape, grid)
    if padded:
        thresholds[np.random.default_rng(seed).random(thresholds.shape) < 0.4] = np.inf
    a = way(scores, weights, thresholds)
    b = PairwiseRamps("squared_hinge", scores, weights, thresholds)
    np.testing.assert_allclose(a.sums, b.sums, rtol=1e-12, atol=1e-20)
    for x, y in zip(a.slopes(np.abs(by_sums)), b.slopes(np.abs(by_sums)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)
    for x, y in zip(a.slopes(by_sums), b.slopes(by_sums), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("way", SORTED)
def test_it_does_not_matter_where_the_scores_lie(way: Any) -> None:
    scores, weights, thresholds, by_sums = rows(2, (4, 200, 30))
    here = way(scores, weights, thresholds)
    there = way(scores + 1e4, weights, thresholds + 1e4)
    np.testing.assert_allclose(there.sums, here.sums, rtol=1e-9, atol=1e-9)
    for x, y in zip(here.slopes(by_sums), there.slopes(by_sums), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("way", SORTED)
@pytest.mark.parametrize("far", [1e6, -1e6])
def test_a_threshold_far_off_may_crowd_the_others(way: Any, far: float) -> None:
    scores, weights, thresholds, by_sums = rows(3, (2, 300, 100))
    thresholds[:, 7] = far
    a, b = (
        way(scores, weights, thresholds),
        PairwiseRamps("squared_hinge", scores, weights, thresholds),
    )
    np.testing.assert_allclose(a.sums, b.sums, rtol=1e-9)
    for x, y in zip(a.slopes(by_sums), b.slopes(by_sums), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * abs(y).max())


@pytest.mark.parametrize(
    "loss",
    [
        SONG(decay=1.0),
        SONG(decay=1.0, pooled=True),
        KSONG(k=2, decay=1.0, theoretical=True),
        SOPRC(hinge=0.7, smoothing=0.2),
    ],
)
def test_losses_are_the_same_both_ways(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, likes, others = whole_lists()
    for lists in (whole, sampled(whole)):
        found = []
        for few in (0, 1000):
            monkeypatch.setattr(mfrank.squared_hinges, "_FEW", few)
            monkeypatch.setattr(mfrank.squared_hinges, "_FEW_NATIVE", few)
            found.append(slopes(loss, lists, likes, others))
        for x, y in zip(*found, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)
        assert not found[0].likes[~lists.likes].any()
        assert not found[0].others[~lists.others].any()


def sampled(whole: Lists) -> Lists:
    """The lists as if drawn from ones that are ten times as long."""
    return replace(whole, n_likes=10 * whole.n_likes, n_items=10 * whole.n_items)


def test_a_place_stands_for_its_part_of_the_list() -> None:
    whole, likes, others = whole_lists()
    lists = sampled(whole)
    means = HingeRanks.of(lists, likes, others, margin=1.5).means
    for user, i in zip(*np.nonzero(lists.likes), strict=True):

        def hinges(scores: Scores, score: float = likes[user, i]) -> Scores:
            return np.maximum(scores - score + 1.5, 0) ** 2

        n_likes, n_items = lists.n_likes[user], lists.n_items[user]
        beside = np.delete(likes[user], i)[np.delete(lists.likes[user], i)]
        # Sampled alone, it stands for the user's other likes too.
        of_likes = hinges(beside).mean() if len(beside) else 1.5**2
        of_others = hinges(others[user][lists.others[user]]).mean()
        mean = (1.5**2 + (n_likes - 1) * of_likes + (n_items - n_likes) * of_others) / n_items
        assert means[user, i] == pytest.approx(mean, rel=1e-12)


def test_the_pooled_mean_counts_all_places_alike() -> None:
    whole, likes, others = whole_lists()
    means = HingeRanks.of(sampled(whole), likes, others, 1.0, pooled=True).means
    for user, i in zip(*np.nonzero(whole.likes), strict=True):
        there = np.r_[likes[user][whole.likes[user]], others[user][whole.others[user]]]
        mean = (np.maximum(there - likes[user, i] + 1, 0) ** 2).mean()
        assert means[user, i] == pytest.approx(mean, rel=1e-12)


def test_scores_of_single_precision_lose_what_these_are_rounded_by() -> None:
    """At 50 they are 4e-6 apart, where a hinge begins at a margin of 0.1."""
    lists, likes, others = whole_lists()
    likes32, others32 = (likes + 50).astype(np.float32), (others + 50).astype(np.float32)
    likes64, others64 = likes32.astype(np.float64), others32.astype(np.float64)
    a = HingeRanks.of(lists, likes32, others32, margin=0.1)
    b = HingeRanks.of(lists, likes64, others64, margin=0.1)
    np.testing.assert_allclose(a.means, b.means, rtol=4e-6 / 0.1 * 2)
    plain = SOPRC()
    for x, y in zip(
        slopes(plain, lists, likes32, others32),
        slopes(plain, lists, likes64, others64),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=4e-6 / 0.1 * 2)


def test_whole_long_lists_take_little_memory() -> None:
    users, n_likes, n_others = 4, 500, 50_000
    lists, likes, others = long_lists(users, n_likes, n_others)
    for loss in (SONG(decay=1.0), KSONG(decay=1.0, theoretical=True)):
        memory = loss.memory(Sizes(users * n_likes, users, 1))
        assert sum(kept.size for kept in memory.values()) <= users
        tracemalloc.start()
        loss.slopes(lists, likes, others, memory)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 25 * others.nbytes  # all pairs would be 500 times it
