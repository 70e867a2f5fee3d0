"""Losses on graded relevance: grades count among likes too, and lists may have likes only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_sums import EITHER
from numpy.typing import NDArray

from mfrank.descent import QueryLists
from mfrank.losses import (
    BCE,
    BPR,
    KSONG,
    SOLC,
    SONG,
    SOPRC,
    ApproxNDCG,
    Gradients,
    LambdaRank,
    ListMLE,
    ListNet,
    Lists,
    ListSums,
    Loss,
    NeuralNDCG,
    RankNet,
    SampledSoftmax,
    Sizes,
    SmoothAP,
    Softmax,
    Sparsemax,
    StochasticRank,
    log_sum_exp,
)
from tests.support.errors import refuses

GRADED: tuple[Loss, ...] = (
    ApproxNDCG(),
    KSONG(),
    LambdaRank(),
    ListMLE(),
    ListNet(),
    NeuralNDCG(),
    RankNet(),
    SONG(),
    Softmax(),
    StochasticRank(noise=0.3),
)
BINARY: tuple[Loss, ...] = (
    BCE(),
    BPR(),
    SampledSoftmax(),
    SmoothAP(),
    SOLC(),
    SOPRC(),
    Sparsemax(),
)

Scores = NDArray[np.float64]


def graded(relevance: list[float], sums: ListSums) -> Lists:
    """One query's list."""
    grades = np.array(relevance, dtype=float)
    return QueryLists(grades, np.zeros(len(grades), np.int64), 1).of(np.array([0]), sums).lists


def gradients(loss: Loss, lists: Lists, positives: Scores, negatives: Scores) -> Gradients:
    return loss.gradients(
        lists, positives, negatives, loss.memory(Sizes(int(lists.n_positives.sum()), 1, 1))
    )


@EITHER
@pytest.mark.parametrize("loss", GRADED, ids=lambda loss: type(loss).__name__)
def test_a_better_grade_is_pushed_up_past_a_worse_one(loss: Loss, sums: ListSums) -> None:
    lists = graded([3, 1], sums)  # both are likes, and there is nothing else
    found = gradients(loss, lists, np.array([[-0.1, 0.1]]), np.zeros((1, 1)))
    assert found.positives[0, 0] < -1e-3
    assert found.positives[0, 0] < found.positives[0, 1]


@EITHER
@pytest.mark.parametrize("loss", GRADED + BINARY, ids=lambda loss: type(loss).__name__)
def test_a_list_of_likes_only_is_no_trouble(loss: Loss, sums: ListSums) -> None:
    lists = graded([3, 1, 2, 1], sums)
    for part in gradients(loss, lists, np.array([[0.3, -0.2, 0.1, 0.4]]), np.zeros((1, 1))):
        assert np.isfinite(part).all()


@EITHER
def test_rank_net_is_the_mean_over_pairs_of_different_gains(sums: ListSums) -> None:
    lists = graded([2, 1, 1, 0, 0], sums)
    h = np.array([0.3, -0.2, 0.1, 0.4, -0.5])
    gains = np.array([3, 1, 1, 0, 0])
    pairs = [
        np.logaddexp(0, h[j] - h[i]) for i in range(5) for j in range(5) if gains[i] > gains[j]
    ]
    found = gradients(RankNet(), lists, h[None, :3], h[None, 3:])
    np.testing.assert_allclose(found.loss, np.mean(pairs))
    step = 1e-6
    for place in range(5):
        up, down = (
            gradients(RankNet(), lists, moved[None, :3], moved[None, 3:]).loss[0]
            for moved in (h + step * np.eye(5)[place], h - step * np.eye(5)[place])
        )
        slope = np.concatenate([found.positives, found.negatives], axis=1)[0, place]
        assert slope == pytest.approx((up - down) / (2 * step), abs=1e-8)


@EITHER
def test_rank_net_of_equal_gains_is_bpr(sums: ListSums) -> None:
    queries = np.array([0] * 5 + [1] * 3)
    relevance = np.array([1.0, 1, 0, 0, 0, 1, 0, 0])
    lists = QueryLists(relevance, queries, 2).of(np.array([0, 1]), sums).lists
    rng = np.random.default_rng(0)
    scores = rng.normal(size=lists.gains.shape), rng.normal(size=lists.negatives.shape)
    for a, b in zip(
        gradients(RankNet(), lists, *scores), gradients(BPR(), lists, *scores), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-14)


@EITHER
def test_list_mle_asks_no_order_of_equal_grades(sums: ListSums) -> None:
    lists = graded([1, 1, 1, 0], sums)
    loss, total = ListMLE(), np.zeros(3)
    memory = loss.memory(Sizes(3, 1, 3))
    batches = [
        loss.gradients(lists, np.zeros((1, 3)), np.zeros((1, 1)), memory) for _ in range(3000)
    ]
    total = np.mean([found.positives[0] for found in batches], axis=0)
    np.testing.assert_allclose(total, total.mean(), atol=0.03)
    assert np.ptp(batches[0].positives) > 0.1  # one order is asked for at a time
    again = loss.gradients(lists, np.zeros((1, 3)), np.zeros((1, 1)), loss.memory(Sizes(3, 1, 3)))
    np.testing.assert_array_equal(batches[0].positives, again.positives)


@EITHER
def test_list_mle_ranks_grades_whatever_the_shuffle(sums: ListSums) -> None:
    lists, h = graded([3, 2, 1, 0], sums), np.array([0.4, -0.1, 0.3, 0.2])
    expected = sum(np.log(np.exp(h[place:]).sum()) - h[place] for place in range(3))
    for seed in range(5):
        found = gradients(ListMLE(random_state=seed), lists, h[None, :3], h[None, 3:])
        np.testing.assert_allclose(found.loss, expected)


def test_log_sum_exp_of_nothing_is_minus_infinity() -> None:
    filled = np.array([[False, False], [True, False]])
    np.testing.assert_array_equal(log_sum_exp(np.zeros((2, 2)), filled), [[-np.inf], [0]])


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"last_noise": 0.1}, "last_noise"),
        ({"annealing_batches": 10}, "last_noise"),
        ({"last_noise": 0.0, "annealing_batches": 10}, "last_noise"),
        ({"last_noise": 0.1, "annealing_batches": 0}, "annealing_batches"),
    ],
)
def test_noise_that_is_half_told_is_refused(options: dict[str, float], argument: str) -> None:
    with refuses(ValueError, argument):
        StochasticRank(**options)  # type: ignore[arg-type]


def test_a_refusal_shows_what_it_was_given_however_deep_that_is() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with refuses(ValueError, "last_noise"):
        StochasticRank(annealing_batches=deep)  # type: ignore[arg-type]


@EITHER
def test_annealed_noise_falls_geometrically_and_stays(sums: ListSums) -> None:
    lists, scores = graded([1, 0], sums), (np.array([[0.3]]), np.array([[-0.2]]))
    annealed = StochasticRank(noise=2.0, last_noise=0.5, annealing_batches=2)
    memory = annealed.memory(Sizes(1, 1, 1))
    for noise in (2.0, 1.0, 0.5, 0.5):  # two items: the slope depends on sigma alone
        found = annealed.gradients(lists, *scores, memory)
        expected = gradients(StochasticRank(noise=noise), lists, *scores)
        np.testing.assert_allclose(found.positives, expected.positives)
