"""Lists hold what they say: each user's own likes, and others in the stated proportions."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS
from problems import toy

from mfrank.backends import choose
from mfrank.csr import CSR
from mfrank.drawn import Drawn
from mfrank.sampling import ListDrawer, Negatives, Sampling

KINDS = ["uniform", "popularity", "in-batch", "uniform, shared", "popularity, shared"]


def rows(matrix: sp.csr_array | None = None) -> CSR:
    return CSR.from_scipy(toy(20, 15) if matrix is None else matrix, None)


def active(cells: CSR) -> np.ndarray:
    return np.flatnonzero(cells.counts)


def drawer(
    cells: CSR,
    likes: int | None,
    others: int | None,
    negatives: str = "uniform",
    cutoff: int | None = None,
) -> ListDrawer:
    return ListDrawer(cells, sampling(likes, others, negatives), choose(), cutoff)


def sampling(likes: int | None, others: int | None, negatives: str) -> Sampling:
    """Of these negatives, which lists may share."""
    kind, _, shared = negatives.partition(", ")
    return Sampling(likes, others, cast(Negatives, kind), shared=bool(shared))


def parts(drawn: Drawn) -> tuple[np.ndarray, np.ndarray]:
    others = np.broadcast_to(drawn.others, drawn.lists.others.shape)
    return drawn.lists.liked_items, others


def test_whole_lists_hold_every_item_once() -> None:
    cells = rows()
    drawn = drawer(cells, None, None).of_users(active(cells), 0)
    likes, others = parts(drawn)
    for b, user in enumerate(active(cells)):
        liked = likes[b][drawn.lists.likes[b]]
        rest = others[b][drawn.lists.others[b]]
        np.testing.assert_array_equal(np.sort(liked), cells.row(user)[0])
        np.testing.assert_array_equal(np.sort(np.concatenate([liked, rest])), np.arange(15))
        n = len(liked)
        assert drawn.lists.ideal[b] == pytest.approx((1 / np.log2(2 + np.arange(n))).sum())
    assert drawn.lists.log_chances is None


@pytest.mark.parametrize("negatives", KINDS)
def test_samples_are_of_the_users_own(negatives: str) -> None:
    cells = rows()
    drawn = drawer(cells, 3, 8, negatives, cutoff=2).of_users(active(cells), 1)
    likes, others = parts(drawn)
    pool = likes[drawn.lists.likes]
    for b, user in enumerate(active(cells)):
        filled = drawn.lists.likes[b]
        own = likes[b][filled]
        assert len(set(own)) == len(own) == min(3, cells.counts[user])
        assert set(own) <= set(cells.row(user)[0])
        np.testing.assert_array_equal(cells.indices[drawn.lists.cells[b][filled]], own)
        rest = others[b][drawn.lists.others[b]]
        assert not set(rest) & set(cells.row(user)[0])
        assert negatives != "in-batch" or set(rest) <= set(pool)
        assert drawn.lists.ideal[b] <= 1 + 1 / np.log2(3)
    np.testing.assert_array_equal(drawn.lists.users, active(cells))
    assert not drawn.users_repeat


def test_every_like_is_drawn_alike_often() -> None:
    cells = rows(sp.csr_array(np.r_[np.ones(4), np.zeros(6)][None]))
    lists, seen = drawer(cells, 2, 5), np.zeros(10)
    for key in range(2000):
        drawn = lists.of_users(np.array([0]), key)
        np.add.at(seen, np.append(drawn.lists.liked_items[0], drawn.others[0]), 1)
    np.testing.assert_allclose(seen[:4] / 2000, 2 / 4, atol=0.05)
    np.testing.assert_allclose(seen[4:] / 2000, 5 / 6, atol=0.05)


@pytest.mark.parametrize("negatives", KINDS)
def test_log_chances_are_those_of_the_expected_draws(negatives: str) -> None:
    cells = rows()
    users, lists = active(cells), drawer(cells, None, 6, negatives)
    drawn = [lists.of_users(users, key) for key in range(4000)]
    for b in range(0, len(users), 3):
        seen, expected = np.zeros(15), np.zeros(15)
        for some in drawn:
            filled = some.lists.others[b]
            ids = parts(some)[1][b][filled]
            np.add.at(seen, ids, 1)
            assert some.lists.log_chances is not None
            expected[ids] = np.exp(some.lists.log_chances[b][filled])
        np.testing.assert_allclose(seen / len(drawn), expected, atol=0.1)
        assert negatives.endswith("shared") or seen.sum() == 6 * len(drawn)


@pytest.mark.parametrize(
    ("others", "negatives"),
    [(None, "uniform"), *((3, negatives) for negatives in KINDS)],
)
def test_a_user_who_likes_everything_has_no_others(others: int | None, negatives: str) -> None:
    cells = rows(sp.csr_array(np.ones((2, 4))))
    drawn = drawer(cells, 2, others, negatives).of_users(np.arange(2), 0)
    assert not drawn.lists.others.any()
    assert drawn.lists.log_chances is None or np.isfinite(drawn.lists.log_chances).all()


def test_a_list_of_each_cell() -> None:
    cells = rows()
    wanted = np.array([0, 5, 1, len(cells.indices) - 1])
    drawn = drawer(cells, 3, 4).of_cells(wanted, 2)
    likes, others = parts(drawn)
    np.testing.assert_array_equal(likes[:, 0], cells.indices[wanted])
    for b, cell in enumerate(wanted):
        user = drawn.lists.users[b]
        assert cells.indptr[user] <= cell < cells.indptr[user + 1]
        assert not set(others[b][drawn.lists.others[b]]) & set(cells.row(user)[0])
    assert drawn.users_repeat


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("negatives", KINDS)
def test_every_backend_draws_the_same(name: str, negatives: str) -> None:
    cells = rows()
    wanted = sampling(3, 8, negatives)
    here = ListDrawer(cells, wanted, choose(name)).of_users(active(cells), 9)
    there = ListDrawer(cells, wanted, choose("reference")).of_users(active(cells), 9)
    np.testing.assert_array_equal(here.lists.liked_items, there.lists.liked_items)
    np.testing.assert_array_equal(here.others, there.others)
    np.testing.assert_array_equal(here.lists.others, there.lists.others)


def test_bad_options_are_refused() -> None:
    good = Sampling()
    for change, message in (
        ({"likes": 0}, "likes must be at least 1"),
        ({"others": 0}, "others must be at least 1"),
        (
            {"negatives": "hard"},
            "negatives must be one of uniform, popularity, in-batch; got 'hard'",
        ),
        ({"negatives": "in-batch", "others": None}, "give others a number"),
        ({"negatives": "in-batch", "shared": True}, "take uniform or popularity with it"),
        ({"shared": "yes"}, "shared_others must be one of True, False; got 'yes'"),
        ({"power": float("nan")}, "^popularity_power must be a finite number >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(good, **change)


def test_a_power_that_no_number_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="popularity_power 10000 makes chances that no float64"):
        ListDrawer(rows(), Sampling(3, 8, "popularity", power=1e4), choose())
