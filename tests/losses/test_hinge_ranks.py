"""Smooth ranks: sorted sums are those of all pairs, in little memory, wherever the scores lie."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from both_sums import BUILT, EITHER
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_lists import Scores, gradients, long_lists, whole_lists

from mfrank.backends.cpu import native_sums
from mfrank.losses import (
    KSONG,
    SONG,
    SOPRC,
    HingeRanks,
    Lists,
    ListSums,
    Loss,
    PairwiseRamps,
    Sizes,
    SortedHinges,
)
from mfrank.losses.sums import ramps as squared_hinges


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
    pytest.param(SortedHinges, id="written out"),
    pytest.param(partial(native_sums.NativeHinges, n_threads=2), id="native", marks=BUILT),
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
    for x, y in zip(a.gradients(np.abs(by_sums)), b.gradients(np.abs(by_sums)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)
    for x, y in zip(a.gradients(by_sums), b.gradients(by_sums), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("way", SORTED)
def test_it_does_not_matter_where_the_scores_lie(way: Any) -> None:
    scores, weights, thresholds, by_sums = rows(2, (4, 200, 30))
    here = way(scores, weights, thresholds)
    there = way(scores + 1e4, weights, thresholds + 1e4)
    np.testing.assert_allclose(there.sums, here.sums, rtol=1e-9, atol=1e-9)
    for x, y in zip(here.gradients(by_sums), there.gradients(by_sums), strict=True):
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
    for x, y in zip(a.gradients(by_sums), b.gradients(by_sums), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * abs(y).max())


@EITHER
@pytest.mark.parametrize(
    "loss",
    [
        SONG(decay=1.0),
        SONG(decay=1.0, pooled=True),
        KSONG(k=2, decay=1.0, theoretical=True),
        SOPRC(hinge=0.7, smoothing=0.2),
    ],
)
def test_losses_are_the_same_both_ways(
    loss: Loss, monkeypatch: pytest.MonkeyPatch, sums: ListSums
) -> None:
    whole, positives, negatives = whole_lists(sums=sums)
    for lists in (whole, sampled(whole)):
        found = []
        for few in (0, 1000):
            monkeypatch.setattr(squared_hinges, "_FEW", few)
            monkeypatch.setattr(native_sums, "_FEW", few)
            found.append(gradients(loss, lists, positives, negatives))
        for x, y in zip(*found, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)
        assert not found[0].positives[~lists.positives].any()
        assert not found[0].negatives[~lists.negatives].any()


def sampled(whole: Lists) -> Lists:
    """The lists as if drawn from ones that are ten times as long."""
    return replace(whole, n_positives=10 * whole.n_positives, n_items=10 * whole.n_items)


@EITHER
def test_a_place_stands_for_its_part_of_the_list(sums: ListSums) -> None:
    whole, positives, negatives = whole_lists(sums=sums)
    lists = sampled(whole)
    means = HingeRanks.of(lists, positives, negatives, margin=1.5).means
    for user, i in zip(*np.nonzero(lists.positives), strict=True):

        def hinges(scores: Scores, score: float = positives[user, i]) -> Scores:
            return np.maximum(scores - score + 1.5, 0) ** 2

        n_positives, n_items = lists.n_positives[user], lists.n_items[user]
        beside = np.delete(positives[user], i)[np.delete(lists.positives[user], i)]
        # Sampled alone, it stands for the user's other likes too.
        of_positives = hinges(beside).mean() if len(beside) else 1.5**2
        of_negatives = hinges(negatives[user][lists.negatives[user]]).mean()
        mean = (
            1.5**2 + (n_positives - 1) * of_positives + (n_items - n_positives) * of_negatives
        ) / n_items
        assert means[user, i] == pytest.approx(mean, rel=1e-12)


@EITHER
def test_the_pooled_mean_counts_all_places_alike(sums: ListSums) -> None:
    whole, positives, negatives = whole_lists(sums=sums)
    means = HingeRanks.of(sampled(whole), positives, negatives, 1.0, pooled=True).means
    for user, i in zip(*np.nonzero(whole.positives), strict=True):
        there = np.r_[
            positives[user][whole.positives[user]], negatives[user][whole.negatives[user]]
        ]
        mean = (np.maximum(there - positives[user, i] + 1, 0) ** 2).mean()
        assert means[user, i] == pytest.approx(mean, rel=1e-12)


@EITHER
def test_scores_of_single_precision_lose_what_these_are_rounded_by(sums: ListSums) -> None:
    """At 50 they are 4e-6 apart, where a hinge begins at a margin of 0.1."""
    lists, positives, negatives = whole_lists(sums=sums)
    likes32, others32 = (positives + 50).astype(np.float32), (negatives + 50).astype(np.float32)
    likes64, others64 = likes32.astype(np.float64), others32.astype(np.float64)
    a = HingeRanks.of(lists, likes32, others32, margin=0.1)
    b = HingeRanks.of(lists, likes64, others64, margin=0.1)
    np.testing.assert_allclose(a.means, b.means, rtol=4e-6 / 0.1 * 2)
    plain = SOPRC()
    for x, y in zip(
        gradients(plain, lists, likes32, others32),
        gradients(plain, lists, likes64, others64),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=4e-6 / 0.1 * 2)


@EITHER
def test_whole_long_lists_take_little_memory(sums: ListSums) -> None:
    users, n_positives, n_negatives = 4, 500, 50_000
    lists, positives, negatives = long_lists(users, n_positives, n_negatives, sums)
    for loss in (SONG(decay=1.0), KSONG(decay=1.0, theoretical=True)):
        memory = loss.memory(Sizes(users * n_positives, users, 1))
        assert sum(kept.size for kept in memory.values()) <= users
        tracemalloc.start()
        loss.gradients(lists, positives, negatives, memory)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 25 * negatives.nbytes  # all pairs would be 500 times it
