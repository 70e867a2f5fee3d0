"""SOPRC: its bound, its order statistics, and that it does not matter what is sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from both_sums import EITHER
from loss_lists import Scores, derivative, gradients, metrics, single_like, whole_lists

from mfrank.losses import SOPRC, Lists, ListSums, Sizes, quantiles


@EITHER
def test_soprc_slopes_hold_the_order_statistics_fixed(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    loss = SOPRC(hinge=0.7, smoothing=0.2, order_statistics=5, decay=1e-9)
    # Apart from the scores: the derivative by a score jumps where it meets one of them.
    kept = np.sort(np.random.default_rng(7).normal(size=(3, 5)), axis=1)
    found = loss.gradients(lists, positives, negatives, {"order_statistics": kept.copy()})

    def value(positives: Scores, negatives: Scores) -> float:
        return float(
            loss.gradients(
                lists, positives, negatives, {"order_statistics": kept.copy()}
            ).loss.sum()
        )

    np.testing.assert_allclose(
        found.positives, derivative(lambda x: value(x, negatives), positives), atol=1e-6
    )
    np.testing.assert_allclose(
        found.negatives, derivative(lambda x: value(positives, x), negatives), atol=1e-6
    )
    assert not found.positives[~lists.positives].any()
    assert not found.negatives[~lists.negatives].any()


@EITHER
def test_soprc_is_the_loss_of_the_paper_with_the_authors_corrections(sums: ListSums) -> None:
    hinge, smoothing, (lists, positives, negatives) = 0.7, 0.2, whole_lists(sums=sums)
    plain = SOPRC(hinge=hinge, smoothing=smoothing, spread_of_positives=2, spread_of_negatives=3)
    expected = []
    for user in range(3):
        own, rest = positives[user][lists.positives[user]], negatives[user][lists.negatives[user]]
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
    np.testing.assert_allclose(gradients(plain, lists, positives, negatives).loss, expected)


@EITHER
def test_soprc_of_nothing_but_likes_is_0(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    plain = SOPRC(spread_of_positives=0, spread_of_negatives=0)
    rare = replace(lists, n_items=lists.n_positives * (1 + 1e-12))
    np.testing.assert_allclose(gradients(plain, rare, positives, negatives).loss, 0, atol=1e-9)


@EITHER
def test_pairs_of_soprc_push_as_much_up_as_down(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    # So sharp that no like is within reach of another: nothing comes by the true positive rate.
    found = gradients(SOPRC(hinge=0.7, smoothing=1e-9), lists, positives, negatives)
    np.testing.assert_allclose(found.positives.sum(1) + found.negatives.sum(1), 0, atol=1e-12)


@EITHER
def test_soprc_keeps_one_minus_average_precision_below_it(sums: ListSums) -> None:
    for seed in range(5):
        lists, positives, negatives = whole_lists(seed, sums)
        _, precision = metrics(lists, positives, negatives)
        plain = SOPRC(hinge=1e-3, smoothing=1e-6, spread_of_positives=0, spread_of_negatives=0)
        assert (gradients(plain, lists, positives, negatives).loss >= 1 - precision - 1e-9).all()


@EITHER
def test_soprc_of_as_many_order_statistics_as_likes_is_exact(sums: ListSums) -> None:
    lists, positives, negatives = single_like(sums)
    a = gradients(SOPRC(hinge=0.7, smoothing=0.2), lists, positives, negatives)
    b = gradients(SOPRC(hinge=0.7, smoothing=0.2, order_statistics=1), lists, positives, negatives)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y)


@EITHER
def test_the_hinge_bends_smoothly_over_the_step_that_it_bounds(sums: ListSums) -> None:
    """Of one like and one other r is 2 l1(x), x the lead; l1 is 1 at 0, 0 from the hinge on."""
    lists, positives, _ = single_like(sums)
    pair = replace(lists, negatives=lists.negatives[:, :1], n_items=np.array([2.0]))
    loss, hinge, near = SOPRC(hinge=0.7, spread_of_positives=0, spread_of_negatives=0), 0.7, 1e-9
    leads = np.r_[np.linspace(-3, 3, 301), -near, 0, near, hinge - near, hinge + near]
    found = [gradients(loss, pair, positives, positives[:, :1] - lead) for lead in leads]
    values = np.array([each.loss[0] for each in found])
    l1 = values / (1 - values) / 2
    bends = np.array([each.positives[0, 0] for each in found]) / (1 - values) ** 2 / 2
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
    sums: ListSums,
    loss: SOPRC,
    draw: Pair,
    of_all: tuple[int, int],
    drawn: tuple[int, int],
    times: int,
) -> Scores:
    """Losses of samples from one user's long list, but the first."""
    rng = np.random.default_rng(3)
    n_positives, n_negatives = of_all
    positives, negatives = draw(rng, n_positives, n_negatives)
    lists = Lists(
        gains=np.ones((1, drawn[0])),
        negatives=np.ones((1, drawn[1]), dtype=bool),
        n_positives=np.array([float(n_positives)]),
        n_items=np.array([float(n_positives + n_negatives)]),
        ideal=np.ones(1),
        cells=np.arange(drawn[0])[None],
        users=np.zeros(1, dtype=np.int64),
        sums=sums,
    )
    memory, losses = loss.memory(Sizes(drawn[0], 1, 1)), []
    for _ in range(times):
        a = rng.choice(positives, (1, drawn[0]), replace=False)
        b = rng.choice(negatives, (1, drawn[1]), replace=False)
        losses.append(loss.gradients(lists, a, b, memory).loss[0])
    return np.array(losses[times // 5 :])


@EITHER
@pytest.mark.parametrize("scored", SCORED)
def test_the_loss_does_not_depend_on_how_often_likes_are_sampled(
    scored: str, sums: ListSums
) -> None:
    of_all, (hinge, draw) = (2000, 18000), SCORED[scored]
    plain = {"hinge": hinge, "spread_of_positives": 0, "spread_of_negatives": 0}
    exact = visits(sums, SOPRC(**plain), draw, of_all, of_all, 1)[0]
    averaged = SOPRC(order_statistics=200, decay=0.01, **plain)
    batch = []
    for n_positives in (20, 40, 200, 400):
        drawn = n_positives, 2000 - n_positives
        steady = visits(sums, averaged, draw, of_all, drawn, 500)
        assert steady.mean() == pytest.approx(exact, abs=0.015)
        if n_positives < 100:  # whose own order statistics would be all there is
            alone = visits(sums, SOPRC(**plain), draw, of_all, drawn, 100)
            assert steady.std() < 0.9 * alone.std()
        batch.append(visits(sums, SOPRC(**plain), draw, drawn, drawn, 1)[0])
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
    np.testing.assert_allclose(quantiles(-values, filled, 9)[:, ::-1], -found)
