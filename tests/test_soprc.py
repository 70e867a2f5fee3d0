"""SOPRC: its bound, its order statistics, and that it does not matter what is sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from loss_lists import Scores, derivative, metrics, single_like, slopes, whole_lists

from mfrank.lists import Lists
from mfrank.quantiles import quantiles
from mfrank.trainers import Sizes
from mfrank.trainers.soprc import SOPRC


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


def test_soprc_is_the_loss_of_the_paper_with_the_authors_corrections() -> None:
    hinge, smoothing, (lists, likes, others) = 0.7, 0.2, whole_lists()
    plain = SOPRC(hinge=hinge, smoothing=smoothing, spread_of_likes=2, spread_of_others=3)
    expected = []
    for user in range(3):
        own, rest = likes[user][lists.likes[user]], others[user][lists.others[user]]
        prior, parts = len(own) / (len(own) + len(rest)), []
        for score in own:
            x = score - rest
            l1 = np.where(x < 0, 1 - 2 * x / hinge, np.maximum(1 - x / hinge, 0) ** 2)
            ahead = np.exp(-np.minimum(score - own, 0) / smoothing)
            true_rate = (1 + ((ahead - 1) / (ahead + 1)).sum()) / (1 + len(own))
            ratio = (1 - prior) / prior * l1.mean() / true_rate
            parts.append(ratio / (1 + ratio))
        below = np.maximum(own.mean() - own, 0) ** 2
        above = np.maximum(rest - rest.mean(), 0) ** 2
        expected.append(np.mean(parts) + 2 * below.mean() + 3 * above.mean())
    np.testing.assert_allclose(slopes(plain, lists, likes, others).loss, expected)


def test_soprc_of_nothing_but_likes_is_0() -> None:
    lists, likes, others = whole_lists()
    plain = SOPRC(spread_of_likes=0, spread_of_others=0)
    rare = replace(lists, n_items=lists.n_likes * (1 + 1e-12))
    np.testing.assert_allclose(slopes(plain, rare, likes, others).loss, 0, atol=1e-9)


def test_pairs_of_soprc_push_as_much_up_as_down() -> None:
    lists, likes, others = whole_lists()
    # So sharp that no like is within reach of another: nothing comes by the true positive rate.
    found = slopes(SOPRC(hinge=0.7, smoothing=1e-9), lists, likes, others)
    np.testing.assert_allclose(found.likes.sum(1) + found.others.sum(1), 0, atol=1e-12)


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


def test_the_hinge_bends_smoothly_over_the_step_that_it_bounds() -> None:
    """Of one like and one other r is 2 l1(x), x the lead; l1 is 1 at 0, 0 from the hinge on."""
    lists, likes, _ = single_like()
    pair = replace(lists, others=lists.others[:, :1], n_items=np.array([2.0]))
    loss, hinge, near = SOPRC(hinge=0.7, spread_of_likes=0, spread_of_others=0), 0.7, 1e-9
    leads = np.r_[np.linspace(-3, 3, 301), -near, 0, near, hinge - near, hinge + near]
    found = [slopes(loss, pair, likes, likes[:, :1] - lead) for lead in leads]
    values = np.array([each.loss[0] for each in found])
    l1 = values / (1 - values) / 2
    bends = np.array([each.likes[0, 0] for each in found]) / (1 - values) ** 2 / 2
    assert (l1 >= (leads <= 0) - 1e-12).all()
    np.testing.assert_allclose(l1[leads >= hinge], 0, atol=1e-12)
    np.testing.assert_allclose(l1[-5:], [1, 1, 1, 0, 0], atol=1e-8)
    np.testing.assert_allclose(bends[-5:], [*[-2 / hinge] * 3, 0, 0], atol=1e-7)


Pair = Callable[[np.random.Generator, int, int], tuple[Scores, Scores]]
SCORED: dict[str, tuple[float, Pair]] = {
    "normal": (1.0, lambda rng, n, m: (rng.normal(1, 1, n), rng.normal(0, 1, m))),
    "beta": (0.3, lambda rng, n, m: (rng.beta(5, 2, n), rng.beta(2, 5, m))),
    "uniform": (0.5, lambda rng, n, m: (rng.uniform(0.5, 1.5, n), rng.uniform(0, 1, m))),
}
"""The paper's scores of likes and of others, each with a hinge of their width."""


def visits(
    loss: SOPRC, draw: Pair, of_all: tuple[int, int], drawn: tuple[int, int], times: int
) -> Scores:
    """Losses of samples from one user's long list, but the first."""
    rng = np.random.default_rng(3)
    n_likes, n_others = of_all
    likes, others = draw(rng, n_likes, n_others)
    lists = Lists(
        gains=np.ones((1, drawn[0])),
        others=np.ones((1, drawn[1]), dtype=bool),
        n_likes=np.array([float(n_likes)]),
        n_items=np.array([float(n_likes + n_others)]),
        ideal=np.ones(1),
        cells=np.arange(drawn[0])[None],
        users=np.zeros(1, dtype=np.int64),
    )
    memory, losses = loss.memory(Sizes(drawn[0], 1, 1)), []
    for _ in range(times):
        a = rng.choice(likes, (1, drawn[0]), replace=False)
        b = rng.choice(others, (1, drawn[1]), replace=False)
        losses.append(loss.slopes(lists, a, b, memory).loss[0])
    return np.array(losses[times // 5 :])


@pytest.mark.parametrize("scored", SCORED)
def test_the_loss_does_not_depend_on_how_often_likes_are_sampled(scored: str) -> None:
    of_all, (hinge, draw) = (2000, 18000), SCORED[scored]
    plain = {"hinge": hinge, "spread_of_likes": 0, "spread_of_others": 0}
    exact = visits(SOPRC(**plain), draw, of_all, of_all, 1)[0]
    averaged = SOPRC(order_statistics=200, decay=0.01, **plain)
    batch = []
    for n_likes in (20, 40, 200, 400):
        drawn = n_likes, 2000 - n_likes
        steady = visits(averaged, draw, of_all, drawn, 500)
        assert steady.mean() == pytest.approx(exact, abs=0.015)
        if n_likes < 100:  # whose own order statistics would be all there is
            alone = visits(SOPRC(**plain), draw, of_all, drawn, 100)
            assert steady.std() < 0.9 * alone.std()
        batch.append(visits(SOPRC(**plain), draw, drawn, drawn, 1)[0])
    # The prior of the sample, as average precision has it, decides the loss instead.
    assert batch[0] > exact + 0.05
    assert batch[-1] < exact - 0.1


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
