"""StochasticRank: jumps are differences of the metric, slopes those of the smoothed metric."""

from __future__ import annotations

import numpy as np
import pytest
from both_sums import EITHER
from numpy.typing import NDArray
from scipy.stats import norm

from mfrank.losses import METRICS, Gradients, Lists, ListSums, Sizes, StochasticRank
from tests.support.errors import refuses

Scores = NDArray[np.float64]


def lists_of(sums: ListSums, gains: Scores, negatives: int, times: int = 1) -> Lists:
    """The same whole list several times."""
    positives = len(gains)
    return Lists(
        gains=np.tile(gains, (times, 1)),
        negatives=np.ones((times, negatives), dtype=bool),
        n_positives=np.full(times, float(positives)),
        n_items=np.full(times, float(positives + negatives)),
        ideal=np.ones(times),
        cells=np.tile(np.arange(positives), (times, 1)),
        users=np.zeros(times, dtype=np.int64),
        sums=sums,
    )


def value(metric: str, gains: Scores, scores: Scores, k: int) -> float:
    own = METRICS[metric]
    worths = own.worth(gains[np.argsort(-scores)])[None]
    return float(own.value(worths, own.normalizer(worths, k), k)[0])


def as_published(metric: str, ordered: Scores, k: int) -> float:
    """A metric of gains in their order, place by place."""
    liked, best = ordered > 0, -np.sort(-ordered)
    hits, places = np.flatnonzero(liked), np.arange(1, len(ordered) + 1)
    match metric:
        case "ndcg":
            discounted = [(gains / np.log2(1 + places))[:k].sum() for gains in (ordered, best)]
            return float(discounted[0] / discounted[1])
        case "recall":
            return float((hits < k).sum() / len(hits))
        case "map":  # the mean of the precisions at the positives, 0 beyond k
            return float(sum(liked[: hit + 1].mean() for hit in hits if hit < k) / len(hits))
        case "mrr":
            return float(1 / (1 + hits[0])) if hits[0] < k else 0.0
        case "err":  # the reader stops at a place with this probability
            stops, reached, expected = ordered / (1 + best[0]), 1.0, 0.0
            for place in range(min(k, len(ordered))):
                expected += reached * stops[place] / (1 + place)
                reached *= 1 - stops[place]
            return float(expected)
    raise AssertionError(metric)


@pytest.mark.parametrize("k", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("metric", METRICS)
def test_metrics_are_those_published(metric: str, k: int) -> None:
    gains = np.array([3.0, 0, 1, 7, 0, 1, 0])
    for seed in range(10):
        scores = np.random.default_rng(seed).normal(size=7)
        expected = as_published(metric, gains[np.argsort(-scores)], k)
        assert value(metric, gains, scores, k) == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("metric", METRICS)
def test_a_jump_is_what_passing_an_item_changes(metric: str, k: int) -> None:
    rng = np.random.default_rng(k)
    gains = np.array([3.0, 0, 1, 7, 0, 1, 0])
    scores = rng.normal(size=7)
    worths = METRICS[metric].worth(gains)
    whole = METRICS[metric].normalizer(worths[None], k)
    for j in range(7):
        rest = np.delete(np.arange(7), j)
        rest = rest[np.argsort(-scores[rest])]
        negatives = worths[rest][None, None, :]
        own = np.array([[[worths[j]]]])
        jumps = METRICS[metric].jump(own, negatives, whole, k)[0, 0]
        for place, item in enumerate(rest):
            below, above = scores.copy(), scores.copy()
            below[j], above[j] = scores[item] - 1e-9, scores[item] + 1e-9
            change = value(metric, gains, above, k) - value(metric, gains, below, k)
            assert jumps[place] == pytest.approx(change, abs=1e-12)


def gradients(loss: StochasticRank, lists: Lists, scores: Scores) -> Gradients:
    positives = lists.gains.shape[1]
    spread = np.tile(scores, (len(lists.gains), 1))
    return loss.gradients(
        lists, spread[:, :positives], spread[:, positives:], loss.memory(Sizes(1, 1, 1))
    )


@EITHER
def test_two_items_are_exact_at_every_draw(sums: ListSums) -> None:
    scores, noise = np.array([0.3, -0.2]), 0.7
    lists = lists_of(sums, np.array([3.0]), 1, times=5)
    found = gradients(StochasticRank(noise=noise), lists, scores)
    spread = noise * np.sqrt(2)
    expected = (1 - 1 / np.log2(3)) * norm.pdf(scores[0] - scores[1], scale=spread)
    np.testing.assert_allclose(found.positives[:, 0], -expected)
    np.testing.assert_allclose(found.negatives[:, 0], expected)


@EITHER
@pytest.mark.parametrize("rao_blackwell", [True, False])
@pytest.mark.parametrize("metric", METRICS)
def test_slopes_are_those_of_the_smoothed_metric(
    metric: str, rao_blackwell: bool, sums: ListSums
) -> None:
    gains, scores, times, noise = (
        np.array([3.0, 1.0]),
        np.array([0.2, -0.3, 0.4, -0.6]),
        200_000,
        0.8,
    )
    loss = StochasticRank(metric, 2, noise, shift=0.3, rao_blackwell=rao_blackwell, random_state=1)
    found = gradients(loss, lists_of(sums, gains, 2, times), scores)
    mean = np.concatenate([found.positives, found.negatives], axis=1).mean(0)
    # The score function's estimate: less sure, and without a derivative of the metric.
    drawn = np.random.default_rng(2).standard_normal((times, 4))
    centers = scores - noise * 0.3 * np.log2(1 + np.r_[gains, 0, 0])
    order = np.argsort(-(centers + noise * drawn), axis=1)
    worths = METRICS[metric].worth(np.r_[gains, 0, 0])
    whole = METRICS[metric].normalizer(worths[None], 2)
    values = METRICS[metric].value(worths[order], whole, 2)
    expected = -((values - values.mean())[:, None] * drawn).mean(0) / noise
    np.testing.assert_allclose(mean, expected, atol=0.006)
    assert found.loss.mean() == pytest.approx(-values.mean(), abs=0.005)


def both(found: Gradients) -> Scores:
    return np.concatenate([found.positives, found.negatives], axis=1)


@EITHER
@pytest.mark.parametrize("metric", METRICS)
def test_integrating_shared_noise_leaves_the_mean_and_less_variance(
    metric: str, sums: ListSums
) -> None:
    lists = lists_of(sums, np.array([3.0, 1.0]), 3, times=50_000)
    scores = np.array([0.2, -0.3, 0.4, -0.6, 0.1])
    with_it, without = (
        both(gradients(StochasticRank(metric, 3, rao_blackwell=choice), lists, scores))
        for choice in (True, False)
    )
    error = np.sqrt((with_it.var(0) + without.var(0)) / len(with_it))
    assert (np.abs(with_it.mean(0) - without.mean(0)) < 5 * error + 1e-12).all()
    assert with_it.var(0).sum() < 0.9 * without.var(0).sum()


@EITHER
@pytest.mark.parametrize("rao_blackwell", [True, False])
def test_no_slope_is_beyond_its_bound(rao_blackwell: bool, sums: ListSums) -> None:
    """|slope| <= largest jump x number of places / (sigma sqrt(2 pi))."""
    rng = np.random.default_rng(0)
    for k, noise in ((1, 0.3), (3, 1.0), (5, 2.0)):
        lists = lists_of(sums, np.array([1.0, 1.0]), 5, times=200)
        loss = StochasticRank("mrr", k, noise, rao_blackwell=rao_blackwell)
        found = gradients(loss, lists, rng.normal(size=7))
        # No jump of a reciprocal rank is larger than 1.
        assert np.abs(both(found)).max() <= k / (noise * np.sqrt(2 * np.pi))


@EITHER
def test_without_noise_nothing_moves_scores_that_lie_apart(sums: ListSums) -> None:
    lists = lists_of(sums, np.array([3.0, 1.0]), 2, times=5)
    found = gradients(StochasticRank(noise=1e-3), lists, np.array([0.2, -0.3, 0.4, -0.6]))
    np.testing.assert_allclose(both(found), 0, atol=1e-12)


@EITHER
def test_held_back_items_lose_their_ties(sums: ListSums) -> None:
    """With the shift, a tie is worth what the worse order is (consistent smoothing)."""
    lists = lists_of(sums, np.array([1.0]), 1, times=20_000)
    tied, worst, best = np.zeros(2), 1 / np.log2(3), 1.0
    losses = [
        gradients(StochasticRank(shift=shift), lists, tied).loss.mean() for shift in (0.0, 1.0, 6.0)
    ]
    assert -losses[0] == pytest.approx((worst + best) / 2, abs=0.01)
    assert losses[0] < losses[1] < losses[2]
    assert -losses[2] == pytest.approx(worst, abs=1e-3)


@EITHER
def test_the_scale_of_scores_and_noise_is_one(sums: ListSums) -> None:
    gains, scores = np.array([3.0, 1.0]), np.array([0.2, -0.3, 0.4, -0.6])
    lists = lists_of(sums, gains, 2, times=3)
    a = gradients(StochasticRank(noise=0.5), lists, scores)
    b = gradients(StochasticRank(noise=1.5), lists, 3 * scores)
    np.testing.assert_allclose(a.positives, 3 * b.positives)
    np.testing.assert_allclose(a.negatives, 3 * b.negatives)


@EITHER
def test_scale_free_slopes_do_not_scale(sums: ListSums) -> None:
    scores = np.array([0.2, -0.3, 0.4, -0.6])
    lists = lists_of(sums, np.array([3.0, 1.0]), 2, times=3)
    free = both(gradients(StochasticRank(scale_free=True), lists, 100 * scores))
    np.testing.assert_allclose(free.sum(1), 0, atol=1e-12)
    plain = both(gradients(StochasticRank(), lists, 100 * scores))
    along, left = plain @ (scores - scores.mean()), free @ (scores - scores.mean())
    assert (np.abs(left) <= 1e-3 * np.abs(along) + 1e-15).all()


@EITHER
@pytest.mark.parametrize("n_others", [1, 2])
@pytest.mark.parametrize("scale", [1e-3, 0.01, 1.0])
def test_what_is_taken_out_is_as_printed(sums: ListSums, scale: float, n_others: int) -> None:
    """With z the centered scores, g - (g z) z / (|z| + nu)^2 where nu = .01 (SFA)."""
    scores = scale * np.array([0.2, -0.3, 0.4, -0.6])[: 2 + n_others]
    lists = lists_of(sums, np.array([3.0, 1.0]), n_others, times=3)
    plain = both(gradients(StochasticRank(), lists, scores))
    along = scores - scores.mean()
    plain -= plain.mean(1, keepdims=True)
    length = float(np.linalg.norm(along))
    expected = plain - np.outer(plain @ along, along) / (length + 0.01) ** 2
    free = both(gradients(StochasticRank(scale_free=True), lists, scores))
    np.testing.assert_allclose(free, expected, rtol=1e-9, atol=1e-15)


@EITHER
def test_two_items_keep_their_slopes_without_scale(sums: ListSums) -> None:
    lists, scores = lists_of(sums, np.array([1.0]), 1, times=1), np.array([0.2, -0.3])
    plain = both(gradients(StochasticRank(), lists, scores))
    assert np.abs(plain).min() > 0.01
    free = both(gradients(StochasticRank(scale_free=True), lists, scores))
    np.testing.assert_allclose(free, plain - plain.mean())


@EITHER
def test_padding_has_no_slope_and_no_say(sums: ListSums) -> None:
    lists = lists_of(sums, np.array([3.0, 1.0]), 2, times=2)
    padded = Lists(
        np.pad(lists.gains, ((0, 0), (0, 1))),
        np.pad(lists.negatives, ((0, 0), (0, 2))),
        lists.n_positives,
        lists.n_items,
        lists.ideal,
        np.pad(lists.cells, ((0, 0), (0, 1)), constant_values=-1),
        lists.users,
        sums,
    )
    loss = StochasticRank(k=3)
    rng = np.random.default_rng(0)
    positives, negatives = rng.normal(size=(2, 3)), rng.normal(size=(2, 4))
    found = loss.gradients(padded, positives, negatives, loss.memory(Sizes(1, 1, 1)))
    assert not found.positives[:, 2].any()
    assert not found.negatives[:, 2:].any()
    positives[:, 2], negatives[:, 2:] = 50, 90
    again = loss.gradients(padded, positives, negatives, loss.memory(Sizes(1, 1, 1)))
    for a, b in zip(found, again, strict=True):
        np.testing.assert_array_equal(a, b)


@EITHER
def test_every_batch_draws_noise_of_its_own_and_the_same_again(sums: ListSums) -> None:
    loss, lists = StochasticRank(), lists_of(sums, np.array([1.0]), 3)
    memory = loss.memory(Sizes(1, 1, 1))
    scores = np.zeros((1, 1)), np.array([[0.1, 0.2, 0.3]])
    first, second = (loss.gradients(lists, *scores, memory) for _ in range(2))
    assert not np.array_equal(first.negatives, second.negatives)
    again = loss.gradients(lists, *scores, loss.memory(Sizes(1, 1, 1)))
    np.testing.assert_array_equal(first.negatives, again.negatives)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"metric": "auc"}, "metric"),
        ({"k": 0}, "k"),
        ({"noise": 0.0}, "noise"),
        ({"shift": -1.0}, "shift"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], argument: str) -> None:
    with refuses(ValueError, argument):
        StochasticRank(**options)  # type: ignore[arg-type]
