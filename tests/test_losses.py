"""Ranking losses: slopes are derivatives, padding is nothing, limits are the metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mfrank.lists import Lists
from mfrank.quantiles import quantiles
from mfrank.trainers import Loss, Slopes
from mfrank.trainers.approx_ndcg import ApproxNDCG
from mfrank.trainers.bce import BCE
from mfrank.trainers.bpr import BPR
from mfrank.trainers.ksong import KSONG
from mfrank.trainers.lambda_rank import LambdaRank
from mfrank.trainers.list_mle import ListMLE
from mfrank.trainers.list_net import ListNet
from mfrank.trainers.neural_ndcg import NeuralNDCG
from mfrank.trainers.smooth_ap import SmoothAP
from mfrank.trainers.softmax import SampledSoftmax, Softmax
from mfrank.trainers.solc import SOLC
from mfrank.trainers.song import SONG
from mfrank.trainers.soprc import SOPRC
from mfrank.trainers.sparsemax import Sparsemax

Scores = NDArray[np.float64]

LOSSES: dict[str, Loss] = {
    "bpr": BPR(),
    "bce": BCE(),
    "softmax": Softmax(),
    "sampled softmax": SampledSoftmax(temperature=0.7),
    "approx ndcg": ApproxNDCG(sharpness=2.0),
    "smooth ap": SmoothAP(temperature=0.3),
    "song": SONG(decay=1.0),
    "ksong": KSONG(k=3, decay=1.0, smoothing_1=0.3, smoothing_2=0.1, theoretical=True),
    "neural ndcg": NeuralNDCG(temperature=0.9, rounds=3),
    "solc": SOLC(decay=1.0),
    "list net": ListNet(),
    "list mle": ListMLE(),
    "sparsemax": Sparsemax(),
}
N_LIKES, N_OTHERS = (3, 1, 4), (6, 8, 2)
LIST_FIELDS = "gains", "others", "n_likes", "n_items", "ideal", "cells", "users"


def whole_lists(seed: int = 0) -> tuple[Lists, Scores, Scores]:
    """Three users' whole lists of up to four likes and eight others, padded, with scores."""
    rng = np.random.default_rng(seed)
    gains, others = np.zeros((3, 4)), np.zeros((3, 8), dtype=bool)
    for user, (likes, rest) in enumerate(zip(N_LIKES, N_OTHERS, strict=True)):
        gains[user, :likes] = 2.0 ** rng.integers(1, 4, likes) - 1
        others[user, :rest] = True
    best_first = -np.sort(-gains, axis=1)
    lists = Lists(
        gains=gains,
        others=others,
        n_likes=np.array(N_LIKES, dtype=float),
        n_items=np.array(N_LIKES, dtype=float) + N_OTHERS,
        ideal=(best_first / np.log2(np.arange(2, 6))).sum(1),
        cells=np.where(gains > 0, np.cumsum(gains > 0).reshape(gains.shape) - 1, -1),
        users=np.arange(3),
    )
    return lists, rng.normal(size=(3, 4)), rng.normal(size=(3, 8))


def slopes(loss: Loss, lists: Lists, likes: Scores, others: Scores) -> Slopes:
    return loss.slopes(lists, likes, others, loss.memory(sum(N_LIKES), 3))


def derivative(f: Callable[[Scores], float], at: Scores) -> Scores:
    """Central differences."""
    found, step = np.zeros_like(at), 1e-6
    for place in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        found[place] = (f(up) - f(down)) / (2 * step)
    return found


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_are_the_derivatives_of_the_loss(name: str) -> None:
    loss = LOSSES[name]
    lists, likes, others = whole_lists()
    found = slopes(loss, lists, likes, others)
    by_likes = derivative(lambda x: slopes(loss, lists, x, others).loss.sum(), likes)
    by_others = derivative(lambda x: slopes(loss, lists, likes, x).loss.sum(), others)
    np.testing.assert_allclose(found.likes, by_likes, atol=1e-7)
    np.testing.assert_allclose(found.others, by_others, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_padding_has_no_slope_and_no_say(name: str) -> None:
    lists, likes, others = whole_lists()
    found = slopes(LOSSES[name], lists, likes, others)
    assert not found.likes[~lists.likes].any()
    assert not found.others[~lists.others].any()
    again = slopes(
        LOSSES[name], lists, np.where(lists.likes, likes, 50), np.where(lists.others, others, 90)
    )
    for a, b in zip(found, again, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"bce", "ksong"}))
def test_only_differences_of_scores_count(name: str) -> None:
    lists, likes, others = whole_lists()
    found = slopes(LOSSES[name], lists, likes, others)
    np.testing.assert_allclose(found.likes.sum(1) + found.others.sum(1), 0, atol=1e-12)
    moved = slopes(LOSSES[name], lists, likes + 30, others + 30)
    for a, b in zip(found, moved, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_scores_of_any_size_are_no_trouble(name: str) -> None:
    lists, likes, others = whole_lists()
    for sign in (1e4, -1e4):
        for part in slopes(LOSSES[name], lists, sign * likes, sign * others):
            assert np.isfinite(part).all()


def metrics(lists: Lists, likes: Scores, others: Scores) -> tuple[Scores, Scores]:
    """NDCG and average precision of each user, from the order of its scores."""
    ndcg, precision = [], []
    for user in range(len(likes)):
        gains = np.concatenate([lists.gains[user], np.zeros(others.shape[1])])
        there = np.concatenate([lists.likes[user], lists.others[user]])
        order = np.argsort(-np.concatenate([likes[user], others[user]])[there])
        ranked = gains[there][order]
        discounted = ranked / np.log2(np.arange(2, len(ranked) + 2))
        ndcg.append(discounted.sum() / lists.ideal[user])
        hits = np.flatnonzero(ranked)
        precision.append(np.mean(np.arange(1, len(hits) + 1) / (hits + 1)))
    return np.array(ndcg), np.array(precision)


def test_sharp_ranks_give_the_metrics() -> None:
    lists, likes, others = whole_lists()
    ndcg, precision = metrics(lists, likes, others)
    sharp = slopes(ApproxNDCG(sharpness=1e5), lists, likes, others)
    np.testing.assert_allclose(-sharp.loss, ndcg, rtol=1e-9)
    sharp = slopes(NeuralNDCG(temperature=1e-4), lists, likes, others)
    np.testing.assert_allclose(-sharp.loss, ndcg, rtol=1e-9)
    sharp = slopes(SmoothAP(temperature=1e-5), lists, likes, others)
    np.testing.assert_allclose(1 - sharp.loss, precision, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_song_bounds_ndcg_from_below(seed: int) -> None:
    lists, likes, others = whole_lists(seed)
    ndcg, _ = metrics(lists, likes, others)
    assert (-slopes(SONG(decay=1.0), lists, likes, others).loss <= ndcg + 1e-12).all()


def test_song_remembers_an_average_from_the_first_estimate_on() -> None:
    lists, likes, others = whole_lists()
    loss = SONG(decay=0.25)
    memory = loss.memory(sum(N_LIKES), 3)
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
    second = loss.memory(sum(N_LIKES), 3)
    loss.slopes(lists, 2 * likes, 2 * others, second)
    np.testing.assert_allclose(memory["means"], 0.75 * first + 0.25 * second["means"])


def test_songs_estimate_from_samples_is_unbiased() -> None:
    whole, likes, others = whole_lists()
    loss, rng, total, rounds = SONG(decay=1.0), np.random.default_rng(0), 0.0, 4000
    exact = loss.memory(sum(N_LIKES), 3)
    loss.slopes(whole, likes, others, exact)
    for _ in range(rounds):
        i, j = rng.choice(3, 2, replace=False), rng.choice(6, 3, replace=False)
        sample = replace(
            whole,
            gains=whole.gains[:1, i],
            others=whole.others[:1, j],
            cells=whole.cells[:1, i],
            **{name: getattr(whole, name)[:1] for name in ("n_likes", "n_items", "ideal", "users")},
        )
        memory = loss.memory(sum(N_LIKES), 3)
        loss.slopes(sample, likes[:1, i], others[:1, j], memory)
        total += np.nan_to_num(memory["means"][:3] - exact["means"][:3])
    spread = exact["means"][:3]
    assert (np.abs(total / rounds) < 0.05 * spread).all()


def single_like() -> tuple[Lists, Scores, Scores]:
    """The whole list of the user who likes one item."""
    lists, likes, others = whole_lists()
    only = {name: getattr(lists, name)[1:2] for name in LIST_FIELDS}
    return replace(lists, **only), likes[1:2], others[1:2]


def test_sampled_softmax_over_all_items_is_softmax_for_a_single_like() -> None:
    lists, likes, others = single_like()
    a = slopes(Softmax(), lists, likes, others)
    b = slopes(SampledSoftmax(), lists, likes, others)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


def test_sampled_softmax_corrects_for_how_often_items_are_drawn() -> None:
    lists, likes, others = whole_lists()
    twice = replace(lists, log_chances=np.full(others.shape, np.log(2.0)))
    a = slopes(SampledSoftmax(), twice, likes, others)
    b = slopes(SampledSoftmax(), lists, likes, others - np.log(2.0))
    np.testing.assert_allclose(a.loss, b.loss)


def test_list_mle_of_a_pair_is_bpr() -> None:
    lists, likes, others = single_like()
    pair = replace(lists, others=lists.others[:, :1], n_items=np.array([2.0]))
    a = slopes(ListMLE(), pair, likes, others[:, :1])
    b = slopes(BPR(), pair, likes, others[:, :1])
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


def test_ksong_finds_the_score_behind_the_first_k() -> None:
    lists, likes, others = whole_lists()
    for k in (1, 2):
        loss = KSONG(k=k, decay=1.0, smoothing_1=1e-4, smoothing_2=1e-6)
        memory = loss.memory(sum(N_LIKES), 3)
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
    memory = loss.memory(sum(N_LIKES), 3)
    a = loss.slopes(lists, likes, others, memory)
    chosen = 1 / (1 + np.exp(-2.0 * (likes[0, 0] - memory["thresholds"][1])))
    b = slopes(SONG(decay=1.0), lists, likes, others)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, chosen * y)


def test_soprc_slopes_hold_the_order_statistics_fixed() -> None:
    lists, likes, others = whole_lists()
    loss = SOPRC(hinge=0.7, smoothing=0.2, order_statistics=5, decay=1e-9)
    # Apart from the scores: the derivative by a score jumps where it meets one of them.
    kept = np.sort(np.random.default_rng(7).normal(size=(3, 5)), axis=1)
    found = loss.slopes(lists, likes, others, {"order_statistics": kept.copy()})

    def value(likes: Scores, others: Scores) -> float:
        return float(
            loss.slopes(lists, likes, others, {"order_statistics": kept.copy()}).loss.sum()
        )

    np.testing.assert_allclose(
        found.likes, derivative(lambda x: value(x, others), likes), atol=1e-6
    )
    np.testing.assert_allclose(
        found.others, derivative(lambda x: value(likes, x), others), atol=1e-6
    )
    assert not found.likes[~lists.likes].any()
    assert not found.others[~lists.others].any()


def test_soprc_keeps_one_minus_average_precision_below_it() -> None:
    for seed in range(5):
        lists, likes, others = whole_lists(seed)
        _, precision = metrics(lists, likes, others)
        plain = SOPRC(hinge=1e-3, smoothing=1e-6, spread_of_likes=0, spread_of_others=0)
        assert (slopes(plain, lists, likes, others).loss >= 1 - precision - 1e-9).all()


def test_soprc_of_as_many_order_statistics_as_likes_is_exact() -> None:
    lists, likes, others = single_like()
    a = slopes(SOPRC(hinge=0.7, smoothing=0.2), lists, likes, others)
    b = slopes(SOPRC(hinge=0.7, smoothing=0.2, order_statistics=1), lists, likes, others)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y)


def test_quantiles_of_as_many_values_are_the_values() -> None:
    rng = np.random.default_rng(0)
    values, filled = rng.normal(size=(4, 6)), np.arange(6) < np.array([[6], [3], [1], [2]])
    for row, n in enumerate((6, 3, 1, 2)):
        one, there = values[row : row + 1], filled[row : row + 1]
        np.testing.assert_allclose(quantiles(one, there, n)[0], np.sort(values[row, :n]))
    found = quantiles(values, filled, 9)
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_allclose(quantiles(2 * values + 3, filled, 9), 2 * found + 3)
    np.testing.assert_allclose(quantiles(np.full((4, 6), 3.0), filled, 9), 3)


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
    memory = loss.memory(sum(N_LIKES), 3)
    loss.slopes(lists, likes, others, memory)
    first = np.exp(memory["log_sums"])
    np.testing.assert_allclose(first[1], np.exp(likes[1, 0]) + np.exp(others[1]).sum())
    loss.slopes(lists, likes + 1, others + 1, memory)
    np.testing.assert_allclose(np.exp(memory["log_sums"]), (0.75 + 0.25 * np.e) * first)


def test_lambda_rank_weighs_pairs_by_the_change_of_ndcg() -> None:
    lists, likes, others = whole_lists()
    ndcg, _ = metrics(lists, likes, others)
    expected = np.zeros(3)
    for user in range(3):
        gains = np.concatenate([lists.gains[user], np.zeros(8)])
        there = np.flatnonzero(np.concatenate([lists.likes[user], lists.others[user]]))
        scores = np.concatenate([likes[user], others[user]])
        for i in there:
            for j in there[gains[there] < gains[i]]:
                swapped = scores.copy()
                swapped[[i, j]] = scores[[j, i]]
                after, _ = metrics(lists, *(np.tile(x, (3, 1)) for x in np.split(swapped, [4])))
                change = abs(after[user] - ndcg[user])
                expected[user] += change * np.log1p(np.exp(scores[j] - scores[i]))
    np.testing.assert_allclose(slopes(LambdaRank(), lists, likes, others).loss, expected)


def test_lambda_rank_slopes_hold_the_weights_fixed() -> None:
    lists, likes, others = single_like()
    found = slopes(LambdaRank(), lists, likes, others)
    step = 1e-6  # no rank changes
    up, down = (slopes(LambdaRank(), lists, likes + x, others).loss[0] for x in (step, -step))
    np.testing.assert_allclose(found.likes[0, 0], (up - down) / (2 * step), atol=1e-7)


def test_sparsemax_rests_where_the_only_like_is_one_ahead() -> None:
    lists, likes, others = single_like()
    ahead = np.full_like(likes, others.max() + 1)
    for part in slopes(Sparsemax(), lists, ahead, others):
        np.testing.assert_allclose(part, 0, atol=1e-12)
    behind = slopes(Sparsemax(), lists, ahead - 1e-3, others)
    assert behind.loss[0] > 0
    assert behind.likes[0, 0] < 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SONG(decay=0), "decay must be in"),
        (lambda: KSONG(k=0), "k must be at least 1"),
        (lambda: KSONG(smoothing_1=0), "smoothing_1 must be above 0"),
        (lambda: SOPRC(hinge=0), "hinge must be above 0"),
        (lambda: SOPRC(order_statistics=0), "order_statistics must be at least 1"),
        (lambda: NeuralNDCG(temperature=0), "temperature must be above 0"),
        (lambda: NeuralNDCG(rounds=-1), "rounds must be at least 0"),
        (lambda: SOLC(decay=1.5), "decay must be in"),
        (lambda: SONG(margin=-1), "margin must be above 0"),
        (lambda: SampledSoftmax(temperature=0), "temperature must be above 0"),
    ],
)
def test_bad_options_are_refused(make: Callable[[], Loss], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
