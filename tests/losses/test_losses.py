"""Ranking losses: slopes are derivatives, padding is nothing, limits are the metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from both_sums import EITHER
from every_loss import LOSSES
from loss_lists import SIZES, Scores, derivative, gradients, metrics, single_like, whole_lists

from mfrank.losses import (
    BPR,
    KSONG,
    SML,
    SOLC,
    SONG,
    SOPRC,
    UIB,
    ApproxNDCG,
    LambdaRank,
    ListMLE,
    ListSums,
    Loss,
    NeuralNDCG,
    SampledSoftmax,
    SmoothAP,
    Softmax,
    Sparsemax,
    StochasticRank,
)
from tests.support.errors import refuses

HELD: dict[str, Loss] = {
    "soprc": SOPRC(hinge=0.7, smoothing=0.2),
    "stochastic rank": StochasticRank(k=3, noise=0.7, shift=0.3, scale_free=True),
}
"""Whose slopes hold something constant: other tests say what."""
ALL = LOSSES | HELD
MOVED_BY_A_SHIFT = {"bce", "ksong", "ksong hinge", "ksong squared hinge", "sml", "uib"}


@EITHER
@pytest.mark.parametrize("scale", [1, 4])
@pytest.mark.parametrize("name", LOSSES)
def test_slopes_are_the_derivatives_of_the_loss(name: str, scale: int, sums: ListSums) -> None:
    loss = LOSSES[name]
    lists, positives, negatives = whole_lists(sums=sums)
    positives, negatives = scale * positives, scale * negatives
    found = gradients(loss, lists, positives, negatives)
    by_positives = derivative(lambda x: gradients(loss, lists, x, negatives).loss.sum(), positives)
    by_negatives = derivative(lambda x: gradients(loss, lists, positives, x).loss.sum(), negatives)
    np.testing.assert_allclose(found.positives, by_positives, atol=1e-7)
    np.testing.assert_allclose(found.negatives, by_negatives, atol=1e-7)


@EITHER
@pytest.mark.parametrize("name", ALL)
def test_padding_has_no_slope_and_no_say(name: str, sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    found = gradients(ALL[name], lists, positives, negatives)
    assert not found.positives[~lists.positives].any()
    assert not found.negatives[~lists.negatives].any()
    pairs = lists.positives[:, :, None] & lists.negatives[:, None, :]
    if found.pair_scores.size:
        assert not found.pair_scores[~pairs].any()
    padded = replace(lists, pair_scores=np.where(pairs, lists.pair_scores, 70))
    again = gradients(
        ALL[name],
        padded,
        np.where(lists.positives, positives, 50),
        np.where(lists.negatives, negatives, 90),
    )
    for a, b in zip(found, again, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)


@EITHER
@pytest.mark.parametrize("name", sorted(set(ALL) - MOVED_BY_A_SHIFT))
def test_only_differences_of_scores_count(name: str, sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    found = gradients(ALL[name], lists, positives, negatives)
    if name != "soprc":  # whose order statistics stand still
        np.testing.assert_allclose(found.positives.sum(1) + found.negatives.sum(1), 0, atol=1e-12)
    moved = gradients(ALL[name], lists, positives + 30, negatives + 30)
    for a, b in zip(found, moved, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@EITHER
@pytest.mark.parametrize("name", ALL)
def test_scores_of_any_size_are_no_trouble(name: str, sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    for sign in (1e4, -1e4):
        for part in gradients(ALL[name], lists, sign * positives, sign * negatives):
            assert np.isfinite(part).all()


@EITHER
def test_sharp_ranks_give_the_metrics(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    ndcg, precision = metrics(lists, positives, negatives)
    sharp = gradients(ApproxNDCG(sharpness=1e5), lists, positives, negatives)
    np.testing.assert_allclose(-sharp.loss, ndcg, rtol=1e-9)
    sharp = gradients(NeuralNDCG(temperature=1e-4), lists, positives, negatives)
    np.testing.assert_allclose(-sharp.loss, ndcg, rtol=1e-9)
    sharp = gradients(SmoothAP(temperature=1e-5), lists, positives, negatives)
    np.testing.assert_allclose(1 - sharp.loss, precision, rtol=1e-9)


@EITHER
def test_sampled_softmax_over_all_items_is_softmax_for_a_single_like(sums: ListSums) -> None:
    lists, positives, negatives = single_like(sums)
    a = gradients(Softmax(), lists, positives, negatives)
    b = gradients(SampledSoftmax(), lists, positives, negatives)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


@EITHER
def test_sampled_softmax_corrects_for_how_often_items_are_drawn(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    twice = replace(lists, log_expected_counts=np.full(negatives.shape, np.log(2.0)))
    a = gradients(SampledSoftmax(), twice, positives, negatives)
    b = gradients(SampledSoftmax(), lists, positives, negatives - np.log(2.0))
    np.testing.assert_allclose(a.loss, b.loss)


@EITHER
def test_list_mle_of_a_pair_is_bpr(sums: ListSums) -> None:
    lists, positives, negatives = single_like(sums)
    pair = replace(lists, negatives=lists.negatives[:, :1], n_items=np.array([2.0]))
    a = gradients(ListMLE(), pair, positives, negatives[:, :1])
    b = gradients(BPR(), pair, positives, negatives[:, :1])
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


@EITHER
def test_lambda_rank_weighs_pairs_by_the_change_of_ndcg(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    ndcg, _ = metrics(lists, positives, negatives)
    expected = np.zeros(3)
    for user in range(3):
        gains = np.concatenate([lists.gains[user], np.zeros(8)])
        there = np.flatnonzero(np.concatenate([lists.positives[user], lists.negatives[user]]))
        scores = np.concatenate([positives[user], negatives[user]])
        for i in there:
            for j in there[gains[there] < gains[i]]:
                swapped = scores.copy()
                swapped[[i, j]] = scores[[j, i]]
                after, _ = metrics(lists, *(np.tile(x, (3, 1)) for x in np.split(swapped, [4])))
                change = abs(after[user] - ndcg[user])
                expected[user] += change * np.log1p(np.exp(scores[j] - scores[i]))
    np.testing.assert_allclose(gradients(LambdaRank(), lists, positives, negatives).loss, expected)


@EITHER
def test_sparsemax_rests_where_the_only_like_is_one_ahead(sums: ListSums) -> None:
    lists, positives, negatives = single_like(sums)
    ahead = np.full_like(positives, negatives.max() + 1)
    for part in gradients(Sparsemax(), lists, ahead, negatives):
        np.testing.assert_allclose(part, 0, atol=1e-12)
    behind = gradients(Sparsemax(), lists, ahead - 1e-3, negatives)
    assert behind.loss[0] > 0
    assert behind.positives[0, 0] < 0


@EITHER
def test_a_boundary_takes_a_step_against_its_derivative(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    loss, start = UIB(boundary_learning_rate=0.3), np.array([3.0, -3.0, 2.0, 7.0])

    def value(boundaries: Scores) -> float:
        return float(
            loss.gradients(lists, positives, negatives, {"boundaries": boundaries}).loss.sum()
        )

    memory = {"boundaries": start.copy()}
    loss.gradients(lists, positives, negatives, memory)
    expected = -0.3 * derivative(lambda x: value(x.copy()), start)
    assert np.abs(expected[:3]).min() > 0.01
    np.testing.assert_allclose(memory["boundaries"] - start, expected, atol=1e-8)


@EITHER
def test_a_boundary_finds_its_place_between_likes_and_others(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    loss = UIB(margin=0.5)
    memory = loss.memory(SIZES)
    for _ in range(300):
        found = loss.gradients(lists, 0 * positives + 4, 0 * negatives + 2, memory)
    np.testing.assert_allclose(found.loss, 0)
    assert (memory["boundaries"] >= 2.5).all()
    assert (memory["boundaries"] <= 3.5).all()


def test_defaults_are_for_the_scores_of_their_papers() -> None:
    assert SOPRC.scores == "cosine"
    assert SONG().scores == "dot"
    assert SML().scores == "distance"


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: SONG(decay=0), "decay"),
        (lambda: KSONG(k=0), "k"),
        (lambda: KSONG(smoothing_1=0), "smoothing_1"),
        (lambda: SOPRC(hinge=0), "hinge"),
        (lambda: SOPRC(order_statistics=0), "order_statistics"),
        (lambda: NeuralNDCG(temperature=0), "temperature"),
        (lambda: NeuralNDCG(rounds=-1), "rounds"),
        (lambda: SOLC(decay=1.5), "decay"),
        (lambda: SONG(margin=-1), "margin"),
        (lambda: SONG(margin=np.inf), "margin"),
        (lambda: SONG(decay=np.nan), "decay"),
        (lambda: KSONG(choice="step"), "choice"),
        (lambda: KSONG(smoothing_2=np.nan), "smoothing_2"),
        (lambda: SOPRC(spread_of_negatives=-1), "spread_of_negatives"),
        (lambda: SOPRC(decay=2), "decay"),
        (lambda: UIB(margin=0), "margin"),
        (lambda: UIB(boundary_learning_rate=-1), "boundary_learning_rate"),
        (lambda: SML(item_weight=-1), "item_weight"),
        (lambda: SML(largest_margin=0), "largest_margin"),
        (lambda: ApproxNDCG(sharpness=0), "sharpness"),
        (lambda: SmoothAP(temperature=np.inf), "temperature"),
        (lambda: SampledSoftmax(temperature=0), "temperature"),
        (lambda: LambdaRank(steepness=-1), "steepness"),
    ],
)
def test_bad_options_are_refused(make: Callable[[], Loss], argument: str) -> None:
    with refuses(ValueError, argument):
        make()
