"""Ranking losses: slopes are derivatives, padding is nothing, limits are the metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from loss_lists import SIZES, Scores, derivative, metrics, single_like, slopes, whole_lists

from mfrank.trainers import Loss
from mfrank.trainers.approx_ndcg import ApproxNDCG
from mfrank.trainers.bce import BCE
from mfrank.trainers.bpr import BPR
from mfrank.trainers.ksong import KSONG
from mfrank.trainers.lambda_rank import LambdaRank
from mfrank.trainers.list_mle import ListMLE
from mfrank.trainers.list_net import ListNet
from mfrank.trainers.neural_ndcg import NeuralNDCG
from mfrank.trainers.rank_net import RankNet
from mfrank.trainers.sml import SML
from mfrank.trainers.smooth_ap import SmoothAP
from mfrank.trainers.softmax import SampledSoftmax, Softmax
from mfrank.trainers.solc import SOLC
from mfrank.trainers.song import SONG
from mfrank.trainers.soprc import SOPRC
from mfrank.trainers.sparsemax import Sparsemax
from mfrank.trainers.stochastic_rank import StochasticRank
from mfrank.trainers.uib import UIB


def ksong(choice: str) -> KSONG:
    """Of the paper's theory: slopes follow the threshold."""
    return KSONG(k=3, decay=1.0, theoretical=True, choice=choice, smoothing_1=0.3, smoothing_2=0.1)


LOSSES: dict[str, Loss] = {
    "bpr": BPR(),
    "rank net": RankNet(),
    "lambda rank": LambdaRank(steepness=1.5),  # whose weights are constant between ties
    "bce": BCE(),
    "softmax": Softmax(),
    "sampled softmax": SampledSoftmax(temperature=0.7),
    "approx ndcg": ApproxNDCG(sharpness=2.0),
    "smooth ap": SmoothAP(temperature=0.3),
    "song": SONG(decay=1.0),
    "song pooled": SONG(decay=1.0, pooled=True),
    "ksong": ksong("sigmoid"),
    "ksong hinge": ksong("hinge"),
    "ksong squared hinge": ksong("squared_hinge"),
    "neural ndcg": NeuralNDCG(temperature=0.9, rounds=3),
    "solc": SOLC(decay=1.0),
    "list net": ListNet(),
    "list mle": ListMLE(),
    "sparsemax": Sparsemax(),
    "uib": UIB(margin=1.3),
    "sml": SML(item_weight=0.6, margin_weight=0.3),
}
HELD: dict[str, Loss] = {
    "soprc": SOPRC(hinge=0.7, smoothing=0.2),
    "stochastic rank": StochasticRank(k=3, noise=0.7, shift=0.3, scale_free=True),
}
"""Whose slopes hold something constant: other tests say what."""
ALL = LOSSES | HELD
MOVED_BY_A_SHIFT = {"bce", "ksong", "ksong hinge", "ksong squared hinge", "sml", "uib"}


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_are_the_derivatives_of_the_loss(name: str) -> None:
    loss = LOSSES[name]
    lists, likes, others = whole_lists()
    found = slopes(loss, lists, likes, others)
    by_likes = derivative(lambda x: slopes(loss, lists, x, others).loss.sum(), likes)
    by_others = derivative(lambda x: slopes(loss, lists, likes, x).loss.sum(), others)
    np.testing.assert_allclose(found.likes, by_likes, atol=1e-7)
    np.testing.assert_allclose(found.others, by_others, atol=1e-7)


@pytest.mark.parametrize("name", ALL)
def test_padding_has_no_slope_and_no_say(name: str) -> None:
    lists, likes, others = whole_lists()
    found = slopes(ALL[name], lists, likes, others)
    assert not found.likes[~lists.likes].any()
    assert not found.others[~lists.others].any()
    pairs = lists.likes[:, :, None] & lists.others[:, None, :]
    if found.between.size:
        assert not found.between[~pairs].any()
    padded = replace(lists, between=np.where(pairs, lists.between, 70))
    again = slopes(
        ALL[name], padded, np.where(lists.likes, likes, 50), np.where(lists.others, others, 90)
    )
    for a, b in zip(found, again, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)


@pytest.mark.parametrize("name", sorted(set(ALL) - MOVED_BY_A_SHIFT))
def test_only_differences_of_scores_count(name: str) -> None:
    lists, likes, others = whole_lists()
    found = slopes(ALL[name], lists, likes, others)
    if name != "soprc":  # whose order statistics stand still
        np.testing.assert_allclose(found.likes.sum(1) + found.others.sum(1), 0, atol=1e-12)
    moved = slopes(ALL[name], lists, likes + 30, others + 30)
    for a, b in zip(found, moved, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_scores_of_any_size_are_no_trouble(name: str) -> None:
    lists, likes, others = whole_lists()
    for sign in (1e4, -1e4):
        for part in slopes(ALL[name], lists, sign * likes, sign * others):
            assert np.isfinite(part).all()


def test_sharp_ranks_give_the_metrics() -> None:
    lists, likes, others = whole_lists()
    ndcg, precision = metrics(lists, likes, others)
    sharp = slopes(ApproxNDCG(sharpness=1e5), lists, likes, others)
    np.testing.assert_allclose(-sharp.loss, ndcg, rtol=1e-9)
    sharp = slopes(NeuralNDCG(temperature=1e-4), lists, likes, others)
    np.testing.assert_allclose(-sharp.loss, ndcg, rtol=1e-9)
    sharp = slopes(SmoothAP(temperature=1e-5), lists, likes, others)
    np.testing.assert_allclose(1 - sharp.loss, precision, rtol=1e-9)


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


def test_sparsemax_rests_where_the_only_like_is_one_ahead() -> None:
    lists, likes, others = single_like()
    ahead = np.full_like(likes, others.max() + 1)
    for part in slopes(Sparsemax(), lists, ahead, others):
        np.testing.assert_allclose(part, 0, atol=1e-12)
    behind = slopes(Sparsemax(), lists, ahead - 1e-3, others)
    assert behind.loss[0] > 0
    assert behind.likes[0, 0] < 0


def test_a_boundary_takes_a_step_against_its_derivative() -> None:
    lists, likes, others = whole_lists()
    loss, start = UIB(boundary_learning_rate=0.3), np.array([3.0, -3.0, 2.0, 7.0])

    def value(boundaries: Scores) -> float:
        return float(loss.slopes(lists, likes, others, {"boundaries": boundaries}).loss.sum())

    memory = {"boundaries": start.copy()}
    loss.slopes(lists, likes, others, memory)
    expected = -0.3 * derivative(lambda x: value(x.copy()), start)
    assert np.abs(expected[:3]).min() > 0.01
    np.testing.assert_allclose(memory["boundaries"] - start, expected, atol=1e-8)


def test_a_boundary_finds_its_place_between_likes_and_others() -> None:
    lists, likes, others = whole_lists()
    loss = UIB(margin=0.5)
    memory = loss.memory(SIZES)
    for _ in range(300):
        found = loss.slopes(lists, 0 * likes + 4, 0 * others + 2, memory)
    np.testing.assert_allclose(found.loss, 0)
    assert (memory["boundaries"] >= 2.5).all()
    assert (memory["boundaries"] <= 3.5).all()


def test_defaults_are_for_the_scores_of_their_papers() -> None:
    assert SOPRC.scores == "cosine"
    assert SONG().scores == "dot"
    assert SML().scores == "distance"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SONG(decay=0), "decay must be in"),
        (lambda: KSONG(k=0), "k must be at least 1"),
        (lambda: KSONG(smoothing_1=0), "smoothing_1 must be a finite number > 0"),
        (lambda: SOPRC(hinge=0), "hinge must be a finite number > 0"),
        (lambda: SOPRC(order_statistics=0), "order_statistics must be at least 1"),
        (lambda: NeuralNDCG(temperature=0), "temperature must be a finite number > 0"),
        (lambda: NeuralNDCG(rounds=-1), "rounds must be at least 0"),
        (lambda: SOLC(decay=1.5), "decay must be in"),
        (lambda: SONG(margin=-1), "margin must be a finite number > 0"),
        (lambda: SONG(margin=np.inf), "margin must be a finite number > 0"),
        (lambda: SONG(decay=np.nan), "decay must be in"),
        (lambda: KSONG(choice="step"), "choice must be one of sigmoid, hinge, squared_hinge"),
        (lambda: KSONG(smoothing_2=np.nan), "smoothing_2 must be a finite number > 0"),
        (lambda: SOPRC(spread_of_others=-1), "spread_of_others must be a finite number >= 0"),
        (lambda: SOPRC(decay=2), "decay must be in"),
        (lambda: UIB(margin=0), "margin must be a finite number > 0"),
        (lambda: UIB(boundary_learning_rate=-1), "boundary_learning_rate must be a finite"),
        (lambda: SML(item_weight=-1), "item_weight must be a finite number >= 0"),
        (lambda: SML(largest_margin=0), "largest_margin must be a finite number > 0"),
        (lambda: ApproxNDCG(sharpness=0), "sharpness must be a finite number > 0"),
        (lambda: SmoothAP(temperature=np.inf), "temperature must be a finite number > 0"),
        (lambda: SampledSoftmax(temperature=0), "temperature must be a finite number > 0"),
        (lambda: LambdaRank(steepness=-1), "steepness must be a finite number > 0"),
        (lambda: SONG(pooled="no"), "pooled must be one of True, False; got 'no'"),  # type: ignore[arg-type]
        (lambda: SONG(from_zero=0.0), "from_zero must be one of True, False"),  # type: ignore[arg-type]
        (lambda: KSONG(theoretical="no"), "theoretical must be one of True, False"),  # type: ignore[arg-type]
    ],
)
def test_bad_options_are_refused(make: Callable[[], Loss], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
