"""SONG, K-SONG and SOLC: what they average, bound and choose, against the words of the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_lists import SIZES, Scores, metrics, single_like, slopes, whole_lists
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from mfrank.averages import averaged
from mfrank.lists import Lists
from mfrank.trainers import Sizes
from mfrank.trainers.ksong import KSONG
from mfrank.trainers.softmax import Softmax
from mfrank.trainers.solc import SOLC
from mfrank.trainers.song import SONG


@pytest.mark.parametrize("seed", range(5))
def test_song_bounds_ndcg_from_below(seed: int) -> None:
    lists, likes, others = whole_lists(seed)
    ndcg, _ = metrics(lists, likes, others)
    assert (-slopes(SONG(decay=1.0), lists, likes, others).loss <= ndcg + 1e-12).all()


def test_song_remembers_an_average_from_the_first_estimate_on() -> None:
    lists, likes, others = whole_lists()
    loss = SONG(decay=0.25)
    memory = loss.memory(SIZES)
    loss.slopes(lists, likes, others, memory)
    first = memory["means"].copy()
    expected = [
        np.mean(
            np.maximum(np.r_[likes[u][lists.likes[u]], others[u][lists.others[u]]] - h + 1, 0) ** 2
        )
        for u in range(3)
        for h in likes[u][lists.likes[u]]
    ]
    np.testing.assert_allclose(first, expected)
    loss.slopes(lists, 2 * likes, 2 * others, memory)
    second = loss.memory(SIZES)
    loss.slopes(lists, 2 * likes, 2 * others, second)
    np.testing.assert_allclose(memory["means"], 0.75 * first + 0.25 * second["means"])


def toy() -> tuple[Lists, Scores, Scores]:
    """A list of 300 items with the 30 best liked: where likes are drawn too often, ranks grow."""
    scores = -np.sort(-np.random.default_rng(9).normal(size=(1, 300)), axis=1)
    lists = Lists(
        gains=np.ones((1, 30)),
        others=np.ones((1, 270), dtype=bool),
        n_likes=np.array([30.0]),
        n_items=np.array([300.0]),
        ideal=np.ones(1),
        cells=np.arange(30)[None],
        users=np.zeros(1, dtype=np.int64),
    )
    return lists, scores[:, :30], scores[:, 30:]


def part(lists: Lists, i: NDArray[np.int64], j: NDArray[np.int64]) -> Lists:
    """The list of which some likes and others were drawn."""
    drawn = replace(lists, gains=lists.gains[:, i], others=lists.others[:, j])
    return replace(drawn, cells=lists.cells[:, i])


def ranks(loss: SONG, lists: Lists, likes: Scores, others: Scores) -> Scores:
    """What it remembers of the first estimates."""
    memory = loss.memory(Sizes(int(lists.n_likes[0]), 1, 1))
    loss.slopes(lists, likes, others, memory)
    return memory["means"][lists.cells[0]]


def test_songs_estimate_from_samples_is_unbiased_and_the_authors_is_not() -> None:
    lists, likes, others = toy()
    exact, rng, rounds = ranks(SONG(), lists, likes, others), np.random.default_rng(0), 1500
    stratified, pooled, seen = np.zeros(30), np.zeros(30), np.zeros(30)
    for _ in range(rounds):
        i, j = rng.choice(30, 10, replace=False), rng.choice(270, 30, replace=False)
        drawn = part(lists, i, j), likes[:, i], others[:, j]
        seen[i] += 1
        stratified[i] += ranks(SONG(), *drawn)
        pooled[i] += ranks(SONG(pooled=True), *drawn)
    np.testing.assert_allclose(stratified / seen, exact, rtol=0.1)
    # Of a like, 9 of the 39 places beside it are likes, where the list has 29 of 299.
    pairs = np.maximum(likes[0] - likes[0][:, None] + 1, 0) ** 2
    rest = np.maximum(others[0] - likes[0][:, None] + 1, 0) ** 2
    expected = (1 + 9 * (pairs.sum(1) - 1) / 29 + 30 * rest.mean(1)) / 40
    np.testing.assert_allclose(pooled / seen, expected, rtol=0.1)
    assert (expected > 1.5 * exact).all()


@pytest.mark.parametrize("decay", [0.1, 0.3])
def test_averages_from_zero_make_the_first_slopes_too_large(decay: float) -> None:
    lists, likes, others = single_like()
    lists = replace(lists, cells=np.zeros_like(lists.cells))
    n = float(lists.n_items[0] * ranks(SONG(), lists, likes, others)[0])
    from_zero = slopes(SONG(decay=decay, from_zero=True), lists, likes, others)
    right = slopes(SONG(decay=decay), lists, likes, others)
    # The derivative of the gain at a rank, 1 / ((1 + n) log2(1 + n)^2), at decay n instead of n.
    steeper = (1 + n) * np.log2(1 + n) ** 2 / ((1 + decay * n) * np.log2(1 + decay * n) ** 2)
    assert steeper > 5
    np.testing.assert_allclose(from_zero.likes, steeper * right.likes)
    np.testing.assert_allclose(from_zero.others, steeper * right.others)


def test_averages_of_whole_lists_that_stand_still_are_exact() -> None:
    lists, likes, others = whole_lists()
    loss = SONG(decay=0.3)
    memory = loss.memory(SIZES)
    for _ in range(3):
        found = loss.slopes(lists, likes, others, memory)
    for x, y in zip(found, slopes(SONG(decay=1.0), lists, likes, others), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15)


def test_averages_of_samples_are_unbiased_and_spread_less() -> None:
    rng, decay, visits = np.random.default_rng(0), 0.2, 4000
    kept, seen = np.full(200, np.nan), []
    for _ in range(visits // 100):
        estimates = 3 + rng.normal(size=(100, 200))
        for each in estimates:
            averaged(kept, np.arange(200), each, decay, np.ones(200, dtype=bool))
        seen.append(kept.copy())
    assert np.mean(seen) == pytest.approx(3, abs=0.02)
    assert np.var(seen) == pytest.approx(decay / (2 - decay), rel=0.1)


def test_first_slopes_of_equal_scores_are_finite() -> None:
    lists, likes, others = whole_lists()
    for loss in (SONG(), KSONG(k=2), KSONG(k=2, theoretical=True), SOLC()):
        for found in slopes(loss, lists, 0 * likes, 0 * others):
            assert np.isfinite(found).all()


def test_ksong_finds_the_score_behind_the_first_k() -> None:
    lists, likes, others = whole_lists()
    for k in (1, 2):
        loss = KSONG(k=k, decay=1.0, smoothing_1=1e-4, smoothing_2=1e-6)
        memory = loss.memory(SIZES)
        loss.slopes(lists, likes, others, memory)
        for user, found in enumerate(memory["thresholds"]):
            there = np.concatenate(
                [likes[user][lists.likes[user]], others[user][lists.others[user]]]
            )
            assert found == pytest.approx(np.sort(there)[::-1][k], abs=0.02)


def test_ksong_of_all_places_is_song() -> None:
    lists, likes, others = whole_lists()
    everything = KSONG(k=1000, decay=1.0, smoothing_2=1e-2)
    a = slopes(everything, lists, likes, others)
    b = slopes(SONG(decay=1.0), lists, likes, others)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)


def test_practical_ksong_is_song_weighed_by_who_is_chosen() -> None:
    lists, likes, others = single_like()
    loss = KSONG(k=2, decay=1.0)
    memory = loss.memory(SIZES)
    a = loss.slopes(lists, likes, others, memory)
    chosen = 1 / (1 + np.exp(-2.0 * (likes[0, 0] - memory["thresholds"][1])))
    b = slopes(SONG(decay=1.0), lists, likes, others)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, chosen * y)


PSI = {
    "sigmoid": lambda x: expit(2.0 * x),
    "hinge": lambda x: max(x + 2, 0),
    "squared_hinge": lambda x: max(x, 0) ** 2,
}


def minimum(scores: Scores, k: int, smoothing_1: float, smoothing_2: float) -> float:
    """Where the slope of the paper's lower level is 0."""

    def slope(t: float) -> float:
        share = (k + 0.5) / len(scores) + smoothing_2 * t
        return float(share - expit((scores - t) / smoothing_1).mean())

    return float(brentq(slope, -1e7, 1e7, xtol=1e-14, rtol=1e-14))


@pytest.mark.parametrize("choice", PSI)
def test_ksong_is_the_weighed_sum_of_the_paper(choice: str) -> None:
    lists, likes, others = whole_lists()
    loss = KSONG(k=2, decay=1.0, choice=choice, smoothing_1=0.2, smoothing_2=0.05)
    found = slopes(loss, lists, likes, others).loss
    for user in range(3):
        own = likes[user][lists.likes[user]]
        scores = np.r_[own, others[user][lists.others[user]]]
        threshold = minimum(scores, 2, 0.2, 0.05)
        value = 0.0
        for score, gain in zip(own, lists.gains[user], strict=False):
            rank = (np.maximum(scores - score + 1, 0) ** 2).sum()
            value -= PSI[choice](score - threshold) * gain / np.log2(1 + rank) / lists.ideal[user]
        assert found[user] == pytest.approx(value, rel=1e-9)


@given(
    seed=st.integers(0, 999),
    k=st.sampled_from([1, 3, 8, 11, 40]),
    scale=st.sampled_from([1e-3, 1.0, 100.0]),
    smoothing=st.sampled_from([(0.01, 1e-4), (0.5, 0.1), (1e-3, 1e-6)]),
    start=st.sampled_from([np.nan, 0.0, -1e9, 1e9]),
)
@settings(max_examples=60, deadline=None)
def test_the_threshold_is_the_minimum_from_wherever_it_is_sought(
    seed: int, k: int, scale: float, smoothing: tuple[float, float], start: float
) -> None:
    lists, likes, others = whole_lists(seed)
    likes, others = scale * likes, scale * others
    loss = KSONG(k=k, decay=1.0, smoothing_1=smoothing[0], smoothing_2=smoothing[1])
    memory = {"thresholds": np.full(3, start)}
    loss.slopes(lists, likes, others, memory)
    for user, found in enumerate(memory["thresholds"]):
        there = np.r_[likes[user][lists.likes[user]], others[user][lists.others[user]]]
        assert found == pytest.approx(minimum(there, k, *smoothing), rel=1e-9, abs=1e-9)


def test_ksong_of_one_psi_for_all_is_song_and_its_theory_is_its_practice() -> None:
    lists, likes, others = whole_lists()
    song = slopes(SONG(decay=1.0), lists, likes, others)
    for theoretical in (False, True):
        flat = KSONG(k=2, decay=1.0, steepness=1e-14, theoretical=theoretical)
        for x, y in zip(slopes(flat, lists, likes, others), song, strict=True):
            np.testing.assert_allclose(x, y / 2, rtol=1e-9, atol=1e-12)


def test_solc_on_whole_lists_is_softmax_with_equal_targets() -> None:
    lists, likes, others = whole_lists()
    equal = replace(lists, gains=(lists.gains > 0).astype(float))
    a = slopes(SOLC(decay=1.0), equal, likes, others)
    b = slopes(Softmax(), equal, likes, others)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


def test_solc_averages_sums_not_their_logarithms() -> None:
    lists, likes, others = whole_lists()
    loss = SOLC(decay=0.25)
    memory = loss.memory(SIZES)
    loss.slopes(lists, likes, others, memory)
    first = np.exp(memory["log_sums"])
    np.testing.assert_allclose(first[1], np.exp(likes[1, 0]) + np.exp(others[1]).sum())
    loss.slopes(lists, likes + 1, others + 1, memory)
    np.testing.assert_allclose(np.exp(memory["log_sums"]), (0.75 + 0.25 * np.e) * first)


def test_one_average_a_user_is_the_papers_one_for_each_cell_while_scores_stand_still() -> None:
    lists, likes, others = toy()
    rng, loss, cells = np.random.default_rng(1), SOLC(decay=0.4), np.full(30, np.nan)
    memory = loss.memory(Sizes(30, 1, 30))
    for _ in range(5):
        i, j = np.arange(30), rng.choice(270, 20, replace=False)
        found = loss.slopes(part(lists, i, j), likes, others[:, j], memory)
        ahead = np.exp(np.c_[likes, others[:, j]] - likes.T) * np.r_[np.ones(30), [270 / 20] * 20]
        before = np.where(np.isnan(cells), ahead.sum(1), cells)
        cells = 0.6 * before + 0.4 * ahead.sum(1)
        pushes = (ahead / cells[:, None] / 30).sum(0)
        np.testing.assert_allclose(found.others[0], pushes[30:])
        np.testing.assert_allclose(found.likes[0], pushes[:30] - 1 / 30)
