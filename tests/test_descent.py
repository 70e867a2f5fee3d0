"""Descent follows the loss: drawn lists are right, slopes in the factors are derivatives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS
from problems import toy

import mfrank
from mfrank.backends import choose
from mfrank.csr import CSR
from mfrank.descent import Tables, descend
from mfrank.optimisers import SGD, Adagrad, Adam, Optimiser
from mfrank.sampling import ListDrawer
from mfrank.trainers import Loss
from mfrank.trainers.bpr import BPR
from mfrank.trainers.softmax import SampledSoftmax, Softmax
from mfrank.trainers.song import SONG


def rows(matrix: sp.csr_array | None = None) -> CSR:
    return CSR.from_scipy(toy(20, 15) if matrix is None else matrix, None)


def tables(backend: str = "reference") -> Tables:
    rng = np.random.default_rng(1)
    users, items = rng.normal(size=(20, 3)), rng.normal(size=(15, 3))
    return Tables(users, items, choose(backend), rng.normal(size=15))


def active(cells: CSR) -> np.ndarray:
    return np.flatnonzero(cells.counts)


def test_whole_lists_hold_every_item_once() -> None:
    cells = rows()
    drawn = ListDrawer(cells, None, None).draw(active(cells), np.random.default_rng(0))
    for b, user in enumerate(active(cells)):
        likes = drawn.like_items[b][drawn.lists.likes[b]]
        others = drawn.other_items[b][drawn.lists.others[b]]
        np.testing.assert_array_equal(np.sort(likes), cells.row(user)[0])
        np.testing.assert_array_equal(np.sort(np.concatenate([likes, others])), np.arange(15))
        n = len(likes)
        assert drawn.lists.ideal[b] == pytest.approx((1 / np.log2(2 + np.arange(n))).sum())


def test_samples_are_of_the_users_own() -> None:
    cells = rows()
    drawn = ListDrawer(cells, 3, 8, cutoff=2).draw(active(cells), np.random.default_rng(0))
    for b, user in enumerate(active(cells)):
        filled = drawn.lists.likes[b]
        likes = drawn.like_items[b][filled]
        assert len(set(likes)) == len(likes) == min(3, cells.counts[user])
        assert set(likes) <= set(cells.row(user)[0])
        np.testing.assert_array_equal(cells.indices[drawn.lists.cells[b][filled]], likes)
        assert not set(drawn.other_items[b][drawn.lists.others[b]]) & set(cells.row(user)[0])
        assert drawn.lists.ideal[b] <= 1 + 1 / np.log2(3)


def test_every_like_and_every_other_item_is_drawn_alike_often() -> None:
    cells = rows(sp.csr_array(np.r_[np.ones(4), np.zeros(6)][None]))
    drawer, random = ListDrawer(cells, 2, 5), np.random.default_rng(0)
    seen = np.zeros(10)
    for _ in range(2000):
        drawn = drawer.draw(np.array([0]), random)
        np.add.at(seen, drawn.like_items[0], 1)
        np.add.at(seen, drawn.other_items[0], 1)
    np.testing.assert_allclose(seen[:4] / 2000, 2 / 4, atol=0.05)
    np.testing.assert_allclose(seen[4:] / 2000, 5 / 6, atol=0.05)


def test_a_user_who_likes_everything_has_no_others() -> None:
    cells = rows(sp.csr_array(np.ones((2, 4))))
    for others in (3, None):
        drawn = ListDrawer(cells, 2, others).draw(np.arange(2), np.random.default_rng(0))
        assert not drawn.lists.others.any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("loss", [BPR(), Softmax(), SONG(decay=1.0)])
def test_a_step_goes_down_the_derivative_of_the_loss(loss: Loss, backend: str) -> None:
    cells, rate = rows(), 1e-3
    drawn = ListDrawer(cells, None, None).draw(active(cells), np.random.default_rng(0))

    def value(at: Tables) -> float:
        memory = loss.memory(len(cells.indices), 20)
        return float(loss.slopes(drawn.lists, *at.scores(drawn), memory).loss.sum())

    before, after = tables(backend), tables(backend)
    found = loss.slopes(drawn.lists, *after.scores(drawn), loss.memory(len(cells.indices), 20))
    after.move(drawn, found.likes, found.others, SGD(learning_rate=rate), decay=0.0)
    for name in ("users", "items", "biases"):
        moved = (getattr(before, name) - getattr(after, name)) / rate
        for place in list(np.ndindex(moved.shape))[::7]:
            up, down = tables(backend), tables(backend)
            getattr(up, name)[place] += 1e-6
            getattr(down, name)[place] -= 1e-6
            assert moved[place] == pytest.approx((value(up) - value(down)) / 2e-6, abs=1e-6)


def run(
    loss: Loss, rule: Optimiser, seed: int = 0, threads: int = 1, **options: object
) -> list[mfrank.Recommender]:
    data = mfrank.synthetic(150, 60, 2000, random_state=0)
    cells = data.user_rows(None)
    rng = np.random.default_rng(seed)
    users, items = 0.1 * rng.normal(size=(150, 8)), 0.1 * rng.normal(size=(60, 8))
    settings = {"iterations": 6, "batch_size": 32, "decay": 0.0} | options
    return list(
        descend(
            ListDrawer(cells, 5, 20),
            cells.counts,
            loss,
            loss.memory(len(cells.indices), 150),
            Tables(users, items, choose(), n_threads=threads),
            rule,
            random=rng,
            **settings,  # type: ignore[arg-type]
        )
    )


RULES = SGD(0.5), SGD(0.2, momentum=0.5), Adagrad(0.1), Adam(0.02)
PAIRS = [(loss, rule) for loss in (BPR(), SampledSoftmax()) for rule in RULES]
PAIRS += [(SONG(), SGD(30.0)), (SONG(), Adam(0.02))]  # its slopes are small


@pytest.mark.parametrize(("loss", "rule"), PAIRS)
def test_the_loss_falls(loss: Loss, rule: Optimiser) -> None:
    values = [step.objective for step in run(loss, rule)]
    assert values[-1] < values[0]


def test_one_seed_gives_one_result() -> None:
    a, b, c = (run(SONG(), Adam(0.02), seed)[-1] for seed in (3, 3, 4))
    np.testing.assert_array_equal(a.user_factors, b.user_factors)
    np.testing.assert_array_equal(a.item_factors, b.item_factors)
    assert not np.array_equal(a.item_factors, c.item_factors)


def test_the_number_of_threads_changes_no_bit() -> None:
    one, three = (run(SONG(), Adam(0.02), threads=n)[-1] for n in (1, 3))
    np.testing.assert_array_equal(one.user_factors, three.user_factors)
    np.testing.assert_array_equal(one.item_factors, three.item_factors)


def test_steps_are_not_touched_again() -> None:
    steps = run(BPR(), SGD(0.5))
    for a, b in pairwise(steps):
        assert not np.array_equal(a.user_factors, b.user_factors)


def test_too_large_a_learning_rate_is_said() -> None:
    with pytest.raises(FloatingPointError, match="the learning rate 1e"), np.errstate(all="ignore"):
        run(BPR(), SGD(1e200))


def test_adam_of_one_touch_takes_a_step_of_the_learning_rate() -> None:
    table, rule = np.zeros((4, 2)), Adam(0.1)
    state = rule.state(table)
    rule.update(table, np.array([1, 3]), np.array([[2.0, -1.0], [1e-3, 5.0]]), state)
    np.testing.assert_allclose(table[[1, 3]], [[-0.1, 0.1], [-0.1, -0.1]], rtol=1e-4)
    assert not table[[0, 2]].any()
