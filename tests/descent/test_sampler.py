"""Lists hold what they say: each user's own likes, and others in the stated proportions."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS
from problems import toy

from mfrank.arrays import CSR
from mfrank.backends import choose
from mfrank.descent import (
    Drawn,
    ListDrawer,
    NegativeSampling,
    Sampling,
    negative_weight,
    popularity_weights,
)
from tests.support.errors import refuses

KINDS = ["uniform", "popularity", "in-batch", "uniform, shared", "popularity, shared"]


def rows(matrix: sp.csr_array | None = None) -> CSR:
    return CSR.from_scipy(toy(20, 15) if matrix is None else matrix, None)


def active(cells: CSR) -> np.ndarray:
    return np.flatnonzero(cells.counts)


def drawer(
    cells: CSR,
    positives: int | None,
    negatives: int | None,
    negative_sampling: str = "uniform",
    cutoff: int | None = None,
) -> ListDrawer:
    return ListDrawer(cells, sampling(positives, negatives, negative_sampling), choose(), cutoff)


def sampling(positives: int | None, negatives: int | None, negative_sampling: str) -> Sampling:
    """Of these negatives, which lists may share."""
    kind, _, shared = negative_sampling.partition(", ")
    return Sampling(positives, negatives, cast(NegativeSampling, kind), shared=bool(shared))


def parts(drawn: Drawn) -> tuple[np.ndarray, np.ndarray]:
    negatives = np.broadcast_to(drawn.negatives, drawn.lists.negatives.shape)
    return drawn.lists.positive_items, negatives


def test_whole_lists_hold_every_item_once() -> None:
    cells = rows()
    drawn = drawer(cells, None, None).of_users(active(cells), 0)
    positives, negatives = parts(drawn)
    for b, user in enumerate(active(cells)):
        liked = positives[b][drawn.lists.positives[b]]
        rest = negatives[b][drawn.lists.negatives[b]]
        np.testing.assert_array_equal(np.sort(liked), cells.row(user)[0])
        np.testing.assert_array_equal(np.sort(np.concatenate([liked, rest])), np.arange(15))
        n = len(liked)
        assert drawn.lists.ideal[b] == pytest.approx((1 / np.log2(2 + np.arange(n))).sum())
    assert drawn.lists.log_expected_counts is None


@pytest.mark.parametrize("negative_sampling", KINDS)
def test_samples_are_of_the_users_own(negative_sampling: str) -> None:
    cells = rows()
    drawn = drawer(cells, 3, 8, negative_sampling, cutoff=2).of_users(active(cells), 1)
    positives, negatives = parts(drawn)
    pool = positives[drawn.lists.positives]
    for b, user in enumerate(active(cells)):
        filled = drawn.lists.positives[b]
        own = positives[b][filled]
        assert len(set(own)) == len(own) == min(3, cells.counts[user])
        assert set(own) <= set(cells.row(user)[0])
        np.testing.assert_array_equal(cells.indices[drawn.lists.cells[b][filled]], own)
        rest = negatives[b][drawn.lists.negatives[b]]
        assert not set(rest) & set(cells.row(user)[0])
        assert negative_sampling != "in-batch" or set(rest) <= set(pool)
        assert drawn.lists.ideal[b] <= 1 + 1 / np.log2(3)
    np.testing.assert_array_equal(drawn.lists.users, active(cells))
    assert not drawn.users_repeat


def test_every_like_is_drawn_alike_often() -> None:
    cells = rows(sp.csr_array(np.r_[np.ones(4), np.zeros(6)][None]))
    lists, seen = drawer(cells, 2, 5), np.zeros(10)
    for key in range(2000):
        drawn = lists.of_users(np.array([0]), key)
        np.add.at(seen, np.append(drawn.lists.positive_items[0], drawn.negatives[0]), 1)
    np.testing.assert_allclose(seen[:4] / 2000, 2 / 4, atol=0.05)
    np.testing.assert_allclose(seen[4:] / 2000, 5 / 6, atol=0.05)


@pytest.mark.parametrize("negative_sampling", KINDS)
def test_log_chances_are_those_of_the_expected_draws(negative_sampling: str) -> None:
    cells = rows()
    users, lists = active(cells), drawer(cells, None, 6, negative_sampling)
    drawn = [lists.of_users(users, key) for key in range(4000)]
    for b in range(0, len(users), 3):
        seen, expected = np.zeros(15), np.zeros(15)
        for some in drawn:
            filled = some.lists.negatives[b]
            ids = parts(some)[1][b][filled]
            np.add.at(seen, ids, 1)
            assert some.lists.log_expected_counts is not None
            expected[ids] = np.exp(some.lists.log_expected_counts[b][filled])
        np.testing.assert_allclose(seen / len(drawn), expected, atol=0.1)
        assert negative_sampling.endswith("shared") or seen.sum() == 6 * len(drawn)


@pytest.mark.parametrize(
    ("negatives", "negative_sampling"),
    [(None, "uniform"), *((3, negative_sampling) for negative_sampling in KINDS)],
)
def test_a_user_who_likes_everything_has_no_others(
    negatives: int | None, negative_sampling: str
) -> None:
    cells = rows(sp.csr_array(np.ones((2, 4))))
    drawn = drawer(cells, 2, negatives, negative_sampling).of_users(np.arange(2), 0)
    assert not drawn.lists.negatives.any()
    assert (
        drawn.lists.log_expected_counts is None
        or np.isfinite(drawn.lists.log_expected_counts).all()
    )


def test_a_list_of_each_cell() -> None:
    cells = rows()
    wanted = np.array([0, 5, 1, len(cells.indices) - 1])
    drawn = drawer(cells, 3, 4).of_cells(wanted, 2)
    positives, negatives = parts(drawn)
    np.testing.assert_array_equal(positives[:, 0], cells.indices[wanted])
    for b, cell in enumerate(wanted):
        user = drawn.lists.users[b]
        assert cells.indptr[user] <= cell < cells.indptr[user + 1]
        assert not set(negatives[b][drawn.lists.negatives[b]]) & set(cells.row(user)[0])
    assert drawn.users_repeat


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("negative_sampling", KINDS)
def test_every_backend_draws_the_same(name: str, negative_sampling: str) -> None:
    cells = rows()
    wanted = sampling(3, 8, negative_sampling)
    here = ListDrawer(cells, wanted, choose(name)).of_users(active(cells), 9)
    there = ListDrawer(cells, wanted, choose("reference")).of_users(active(cells), 9)
    np.testing.assert_array_equal(here.lists.positive_items, there.lists.positive_items)
    np.testing.assert_array_equal(here.negatives, there.negatives)
    np.testing.assert_array_equal(here.lists.negatives, there.lists.negatives)
    assert here.lists.sums == choose(name).list_sums()


def test_bad_options_are_refused() -> None:
    good = Sampling()
    for change, argument in (
        ({"positives": 0}, "positives"),
        ({"negatives": 0}, "negatives"),
        (
            {"negative_sampling": "hard"},
            "negative_sampling",
        ),
        ({"negative_sampling": "in-batch", "negatives": None}, "negative_sampling"),
        ({"negative_sampling": "in-batch", "shared": True}, "shared_negatives"),
        ({"power": float("nan")}, "popularity_power"),
    ):
        with refuses(ValueError, argument):
            replace(good, **change)


def test_a_power_that_no_number_holds_is_refused() -> None:
    with refuses(ValueError, "popularity_power"):
        ListDrawer(rows(), Sampling(3, 8, "popularity", power=1e4), choose())


def test_popularity_counts_users_and_at_least_one() -> None:
    cells = rows(sp.csr_array([[1, 1, 0, 1, 0], [1, 0, 0, 1, 0], [1, 0, 0, 0, 0]]))
    np.testing.assert_allclose(popularity_weights(cells, 0.5) ** 2, [3, 1, 1, 2, 1])
    np.testing.assert_allclose(negative_weight(cells, np.arange(1.0, 6)), [8, 10, 14])
