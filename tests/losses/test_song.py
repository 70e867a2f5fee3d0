"""SONG, K-SONG and SOLC: what they average, bound and choose, against the words of the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from both_sums import EITHER
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_lists import SIZES, Scores, gradients, metrics, single_like, whole_lists
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from mfrank.losses import BPR, KSONG, SOLC, SONG, SOPRC, Lists, ListSums, Sizes, Softmax, averaged


@EITHER
@pytest.mark.parametrize("seed", range(5))
def test_song_bounds_ndcg_from_below(seed: int, sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(seed, sums)
    ndcg, _ = metrics(lists, positives, negatives)
    assert (-gradients(SONG(decay=1.0), lists, positives, negatives).loss <= ndcg + 1e-12).all()


@EITHER
def test_song_remembers_an_average_from_the_first_estimate_on(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    loss = SONG(decay=0.25)
    memory = loss.memory(SIZES)
    loss.gradients(lists, positives, negatives, memory)
    first = memory["means"].copy()
    expected = [
        np.mean(
            np.maximum(
                np.r_[positives[u][lists.positives[u]], negatives[u][lists.negatives[u]]] - h + 1, 0
            )
            ** 2
        )
        for u in range(3)
        for h in positives[u][lists.positives[u]]
    ]
    np.testing.assert_allclose(first, expected)
    loss.gradients(lists, 2 * positives, 2 * negatives, memory)
    second = loss.memory(SIZES)
    loss.gradients(lists, 2 * positives, 2 * negatives, second)
    np.testing.assert_allclose(memory["means"], 0.75 * first + 0.25 * second["means"])


def toy(sums: ListSums) -> tuple[Lists, Scores, Scores]:
    """A list of 300 items with the 30 best liked: where likes are drawn too often, ranks grow."""
    scores = -np.sort(-np.random.default_rng(9).normal(size=(1, 300)), axis=1)
    lists = Lists(
        gains=np.ones((1, 30)),
        negatives=np.ones((1, 270), dtype=bool),
        n_positives=np.array([30.0]),
        n_items=np.array([300.0]),
        ideal=np.ones(1),
        cells=np.arange(30)[None],
        users=np.zeros(1, dtype=np.int64),
        sums=sums,
    )
    return lists, scores[:, :30], scores[:, 30:]


def part(lists: Lists, i: NDArray[np.int64], j: NDArray[np.int64]) -> Lists:
    """The list of which some likes and others were drawn."""
    drawn = replace(lists, gains=lists.gains[:, i], negatives=lists.negatives[:, j])
    return replace(drawn, cells=lists.cells[:, i])


def ranks(loss: SONG, lists: Lists, positives: Scores, negatives: Scores) -> Scores:
    """What it remembers of the first estimates."""
    memory = loss.memory(Sizes(int(lists.n_positives[0]), 1, 1))
    loss.gradients(lists, positives, negatives, memory)
    return memory["means"][lists.cells[0]]


@EITHER
def test_songs_estimate_from_samples_is_unbiased_and_the_authors_is_not(sums: ListSums) -> None:
    lists, positives, negatives = toy(sums)
    exact, rng, rounds = ranks(SONG(), lists, positives, negatives), np.random.default_rng(0), 1500
    stratified, pooled, seen = np.zeros(30), np.zeros(30), np.zeros(30)
    for _ in range(rounds):
        i, j = rng.choice(30, 10, replace=False), rng.choice(270, 30, replace=False)
        drawn = part(lists, i, j), positives[:, i], negatives[:, j]
        seen[i] += 1
        stratified[i] += ranks(SONG(), *drawn)
        pooled[i] += ranks(SONG(pooled=True), *drawn)
    np.testing.assert_allclose(stratified / seen, exact, rtol=0.1)
    # Of a like, 9 of the 39 places beside it are likes, where the list has 29 of 299.
    pairs = np.maximum(positives[0] - positives[0][:, None] + 1, 0) ** 2
    rest = np.maximum(negatives[0] - positives[0][:, None] + 1, 0) ** 2
    expected = (1 + 9 * (pairs.sum(1) - 1) / 29 + 30 * rest.mean(1)) / 40
    np.testing.assert_allclose(pooled / seen, expected, rtol=0.1)
    assert (expected > 1.5 * exact).all()


@EITHER
@pytest.mark.parametrize("decay", [0.1, 0.3])
def test_averages_from_zero_make_the_first_slopes_too_large(decay: float, sums: ListSums) -> None:
    lists, positives, negatives = single_like(sums)
    lists = replace(lists, cells=np.zeros_like(lists.cells))
    n = float(lists.n_items[0] * ranks(SONG(), lists, positives, negatives)[0])
    from_zero = gradients(SONG(decay=decay, from_zero=True), lists, positives, negatives)
    right = gradients(SONG(decay=decay), lists, positives, negatives)
    # The derivative of the gain at a rank, 1 / ((1 + n) log2(1 + n)^2), at decay n instead of n.
    steeper = (1 + n) * np.log2(1 + n) ** 2 / ((1 + decay * n) * np.log2(1 + decay * n) ** 2)
    assert steeper > 5
    np.testing.assert_allclose(from_zero.positives, steeper * right.positives)
    np.testing.assert_allclose(from_zero.negatives, steeper * right.negatives)


@EITHER
def test_averages_of_whole_lists_that_stand_still_are_exact(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    loss = SONG(decay=0.3)
    memory = loss.memory(SIZES)
    for _ in range(3):
        found = loss.gradients(lists, positives, negatives, memory)
    for x, y in zip(found, gradients(SONG(decay=1.0), lists, positives, negatives), strict=True):
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


@EITHER
def test_first_slopes_of_equal_scores_are_finite(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    for loss in (SONG(), KSONG(k=2), KSONG(k=2, theoretical=True), SOLC()):
        for found in gradients(loss, lists, 0 * positives, 0 * negatives):
            assert np.isfinite(found).all()


@EITHER
def test_ksong_finds_the_score_behind_the_first_k(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    for k in (1, 2):
        loss = KSONG(k=k, decay=1.0, smoothing_1=1e-4, smoothing_2=1e-6)
        memory = loss.memory(SIZES)
        loss.gradients(lists, positives, negatives, memory)
        for user, found in enumerate(memory["thresholds"]):
            there = np.concatenate(
                [positives[user][lists.positives[user]], negatives[user][lists.negatives[user]]]
            )
            assert found == pytest.approx(np.sort(there)[::-1][k], abs=0.02)


@EITHER
@pytest.mark.parametrize("decay", [1.0, 0.25])
def test_ksong_of_all_places_is_song(decay: float, sums: ListSums) -> None:
    """Batch after batch, as both average the same ranks."""
    lists, positives, negatives = whole_lists(sums=sums)
    everything, song = KSONG(k=1000, decay=decay, smoothing_2=1e-2), SONG(decay=decay)
    memories = everything.memory(SIZES), song.memory(SIZES)
    for scale in (1, 2, -1):
        scores = scale * positives, scale * negatives
        a = everything.gradients(lists, *scores, memories[0])
        b = song.gradients(lists, *scores, memories[1])
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9)


@EITHER
def test_ksong_remembers_averages_of_thresholds_and_curvatures(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    loss = KSONG(k=2, decay=0.25, theoretical=True, smoothing_1=0.3)
    memory, second = loss.memory(SIZES), loss.memory(SIZES)
    loss.gradients(lists, positives, negatives, memory)
    first = {name: kept.copy() for name, kept in memory.items()}
    loss.gradients(lists, 2 * positives, 2 * negatives, second)
    loss.gradients(lists, 2 * positives, 2 * negatives, memory)
    thresholds = 0.75 * first["thresholds"] + 0.25 * second["thresholds"]
    np.testing.assert_allclose(memory["thresholds"], thresholds)

    def pushed(curvatures: Scores) -> Scores:
        """How far the threshold is followed, by the slopes of others."""
        kept = {"thresholds": first["thresholds"].copy(), "means": first["means"].copy()}
        theory = loss.gradients(lists, positives, negatives, kept | {"curvatures": curvatures})
        practice = replace(loss, theoretical=False).gradients(lists, positives, negatives, kept)
        return theory.negatives - practice.negatives

    now = first["curvatures"]
    np.testing.assert_allclose(pushed(5 * now), pushed(now.copy()) / 4, rtol=1e-9, atol=1e-15)
    assert pushed(now.copy()).any()


@EITHER
def test_ksongs_threshold_of_a_sample_is_that_of_the_whole_list(sums: ListSums) -> None:
    """One of every two likes is drawn, and one of every four others."""
    drawn, positives, negatives = whole_lists(sums=sums)
    likes, rest = 2 * drawn.n_positives, 4 * (drawn.n_items - drawn.n_positives)
    sample = replace(drawn, n_positives=likes, n_items=likes + rest)
    whole = replace(sample, gains=np.tile(drawn.gains, 2), negatives=np.tile(drawn.negatives, 4))
    found = []
    for lists, h in (
        (sample, (positives, negatives)),
        (whole, (np.tile(positives, 2), np.tile(negatives, 4))),
    ):
        loss = KSONG(k=5, decay=1.0)
        memory = loss.memory(SIZES)
        loss.gradients(lists, *h, memory)
        found.append(memory["thresholds"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_on_whole_lists_nothing_is_remembered_but_where_a_threshold_was() -> None:
    assert SONG(decay=1.0).memory(SIZES) == {}
    assert SOLC(decay=1.0).memory(SIZES) == {}
    assert SOPRC().memory(SIZES) == BPR().memory(SIZES) == {}
    assert list(KSONG(decay=1.0, theoretical=True).memory(SIZES)) == ["thresholds"]


@EITHER
def test_practical_ksong_is_song_weighed_by_who_is_chosen(sums: ListSums) -> None:
    lists, positives, negatives = single_like(sums)
    loss = KSONG(k=2, decay=1.0)
    memory = loss.memory(SIZES)
    a = loss.gradients(lists, positives, negatives, memory)
    chosen = 1 / (1 + np.exp(-2.0 * (positives[0, 0] - memory["thresholds"][1])))
    b = gradients(SONG(decay=1.0), lists, positives, negatives)
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


@EITHER
@pytest.mark.parametrize("choice", PSI)
def test_ksong_is_the_weighed_sum_of_the_paper(choice: str, sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    loss = KSONG(k=2, decay=1.0, choice=choice, smoothing_1=0.2, smoothing_2=0.05)
    found = gradients(loss, lists, positives, negatives).loss
    for user in range(3):
        own = positives[user][lists.positives[user]]
        scores = np.r_[own, negatives[user][lists.negatives[user]]]
        threshold = minimum(scores, 2, 0.2, 0.05)
        value = 0.0
        for score, gain in zip(own, lists.gains[user], strict=False):
            rank = (np.maximum(scores - score + 1, 0) ** 2).sum()
            value -= PSI[choice](score - threshold) * gain / np.log2(1 + rank) / lists.ideal[user]
        assert found[user] == pytest.approx(value, rel=1e-9)


@EITHER
@given(
    seed=st.integers(0, 999),
    k=st.sampled_from([1, 3, 8, 11, 40]),
    scale=st.sampled_from([1e-3, 1.0, 100.0]),
    shift=st.sampled_from([0.0, -1e3, 1e3]),
    smoothing=st.sampled_from([(0.01, 1e-4), (0.5, 0.1), (1e-3, 1e-6), (20.0, 0.5)]),
    start=st.sampled_from([np.nan, 0.0, -1e9, 1e9]),
)
@settings(max_examples=100, deadline=None)
def test_the_threshold_is_the_minimum_from_wherever_it_is_sought(
    seed: int,
    k: int,
    scale: float,
    shift: float,
    smoothing: tuple[float, float],
    start: float,
    sums: ListSums,
) -> None:
    lists, positives, negatives = whole_lists(seed, sums)
    positives, negatives = scale * positives + shift, scale * negatives + shift
    loss = KSONG(k=k, decay=1.0, smoothing_1=smoothing[0], smoothing_2=smoothing[1])
    memory = {"thresholds": np.full(3, start)}
    loss.gradients(lists, positives, negatives, memory)
    for user, found in enumerate(memory["thresholds"]):
        there = np.r_[
            positives[user][lists.positives[user]], negatives[user][lists.negatives[user]]
        ]
        assert found == pytest.approx(minimum(there, k, *smoothing), rel=1e-9, abs=1e-9)


@EITHER
def test_ksong_of_one_psi_for_all_is_song_and_its_theory_is_its_practice(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    song = gradients(SONG(decay=1.0), lists, positives, negatives)
    for theoretical in (False, True):
        flat = KSONG(k=2, decay=1.0, steepness=1e-14, theoretical=theoretical)
        for x, y in zip(gradients(flat, lists, positives, negatives), song, strict=True):
            np.testing.assert_allclose(x, y / 2, rtol=1e-9, atol=1e-12)


@EITHER
def test_solc_on_whole_lists_is_softmax_with_equal_targets(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    equal = replace(lists, gains=(lists.gains > 0).astype(float))
    a = gradients(SOLC(decay=1.0), equal, positives, negatives)
    b = gradients(Softmax(), equal, positives, negatives)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


@EITHER
def test_solc_averages_sums_not_their_logarithms(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    loss = SOLC(decay=0.25)
    memory = loss.memory(SIZES)
    loss.gradients(lists, positives, negatives, memory)
    first = np.exp(memory["log_sums"])
    np.testing.assert_allclose(first[1], np.exp(positives[1, 0]) + np.exp(negatives[1]).sum())
    loss.gradients(lists, positives + 1, negatives + 1, memory)
    np.testing.assert_allclose(np.exp(memory["log_sums"]), (0.75 + 0.25 * np.e) * first)


@EITHER
def test_one_average_a_user_is_the_papers_one_for_each_cell_while_scores_stand_still(
    sums: ListSums,
) -> None:
    lists, positives, negatives = toy(sums)
    rng, loss, cells = np.random.default_rng(1), SOLC(decay=0.4), np.full(30, np.nan)
    memory = loss.memory(Sizes(30, 1, 30))
    for _ in range(5):
        i, j = np.arange(30), rng.choice(270, 20, replace=False)
        found = loss.gradients(part(lists, i, j), positives, negatives[:, j], memory)
        ahead = (
            np.exp(np.c_[positives, negatives[:, j]] - positives.T)
            * np.r_[np.ones(30), [270 / 20] * 20]
        )
        before = np.where(np.isnan(cells), ahead.sum(1), cells)
        cells = 0.6 * before + 0.4 * ahead.sum(1)
        pushes = (ahead / cells[:, None] / 30).sum(0)
        np.testing.assert_allclose(found.negatives[0], pushes[30:])
        np.testing.assert_allclose(found.positives[0], pushes[:30] - 1 / 30)
