"""Who meets whom in a descent by rotation: blocks of users and items, and visits of an epoch."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mfrank
from mfrank.arrays import CSR
from mfrank.descent import Batches, DescentPlan
from mfrank.descent.rotation import Deal, count_blocks, deal, pairs, user_bounds

DATA = mfrank.synthetic(120, 60, 1500, random_state=0)


def dealt(
    data: mfrank.Interactions, n_blocks: int, of: str, epoch: int = 1
) -> tuple[CSR, Deal, np.ndarray]:
    """Positives, the blocks of an epoch, and where users are cut."""
    rows = data.user_rows("float32").pattern()
    visits = rows.counts if of == "positives" else np.minimum(rows.counts, 1)
    bounds = user_bounds(visits, n_blocks)
    batches = Batches(of, 16)  # type: ignore[arg-type]
    plan = DescentPlan(mfrank.BPR(), mfrank.SGD(), mfrank.Constant(), 9, batches, 0.0, None, 3)
    return rows, deal(rows, bounds, plan, epoch), bounds


@given(st.integers(1, 12))
def test_each_pair_of_blocks_meets_once_and_no_two_of_a_round_share_one(n_blocks: int) -> None:
    every = list(pairs(n_blocks))
    assert len({(pair.users, pair.items) for pair in every}) == len(every) == n_blocks**2
    for number in range(n_blocks):
        of_round = [pair for pair in every if pair.round == number]
        assert len({pair.users for pair in of_round}) == n_blocks
        assert len({pair.items for pair in of_round}) == n_blocks


@given(st.integers(1, 6), st.sampled_from(["users", "positives"]), st.integers(1, 3))
def test_an_epoch_visits_each_once_where_it_lies(n_blocks: int, of: str, epoch: int) -> None:
    data = mfrank.synthetic(37, 23, 150, random_state=n_blocks)
    rows, blocks, bounds = dealt(data, n_blocks, of, epoch)
    assert np.array_equal(np.sort(np.concatenate(blocks.items)), np.arange(23))
    assert max(map(len, blocks.items)) - min(map(len, blocks.items)) <= 1
    visited = []
    for user_block, item_block in product(range(n_blocks), repeat=2):
        users, items = blocks.users[user_block][item_block], blocks.items[item_block]
        assert ((bounds[user_block] <= users) & (users < bounds[user_block + 1])).all()
        here = [np.isin(rows.row(user)[0], items).sum() for user in users]
        assert all(here)
        visits = blocks.visits[user_block, item_block]
        assert visits == (sum(here) if of == "positives" else len(users))
        visited += list(users)
    if of == "users":
        assert sorted(visited) == list(np.flatnonzero(rows.counts))
    else:
        assert blocks.visits.sum() == len(rows.indices)


def test_items_are_dealt_anew_in_every_epoch_until_all_pairs_have_met() -> None:
    met = np.zeros((60, 60), dtype=bool)
    for epoch in range(1, 40):
        for block in dealt(DATA, 3, "users", epoch)[1].items:
            met[np.ix_(block, block)] = True
    assert met.all()


def test_a_user_is_visited_where_most_positives_lie_each_as_often_as_another() -> None:
    epochs, visited = 400, np.zeros(DATA.user_items.nnz)
    for epoch in range(epochs):
        rows, blocks, _ = dealt(DATA, 3, "users", epoch)
        for item_block, items in enumerate(blocks.items):
            users = np.concatenate([of_block[item_block] for of_block in blocks.users])
            here = np.isin(rows.indices, items)
            at_home = here & np.isin(np.repeat(np.arange(rows.n_rows), rows.counts), users)
            visited += at_home
            most = np.add.reduceat(at_home, rows.indptr[users])
            assert (3 * most >= rows.counts[users]).all()
    of_users = np.add.reduceat(visited, rows.indptr[:-1]) / rows.counts
    surplus = (visited - np.repeat(of_users, rows.counts)) / np.sqrt(epochs / 4)
    assert np.abs(surplus).max() < 5
    assert 0.8 < surplus.std() < 1.2


@given(st.integers(1, 10**10), st.integers(1, 10**8))
def test_the_number_of_blocks_grows_with_the_data_up_to_a_bound(n_visits: int, items: int) -> None:
    n_blocks = count_blocks(n_visits, items)
    assert 1 <= n_blocks <= 32
    assert n_blocks <= max(1, items)
    assert count_blocks(2 * n_visits, 2 * items) >= n_blocks


@pytest.mark.parametrize(
    ("n_visits", "items", "n_blocks"),
    [
        (16_383, 10**6, 1),
        (10**6, 1_023, 1),
        (16_384, 1_024, 2),
        (9 * 4_096, 3 * 512, 3),
        (9 * 4_096 - 1, 10**6, 2),
        (10**6, 3 * 512 - 1, 2),
        (10**12, 10**9, 32),
    ],
)
def test_the_number_of_blocks_is_as_stated(n_visits: int, items: int, n_blocks: int) -> None:
    assert count_blocks(n_visits, items) == n_blocks


@given(st.integers(1, 5), st.integers(0, 9))
def test_shares_are_the_places_of_visits_in_their_round_and_epoch(size: int, seed: int) -> None:
    visits = np.random.default_rng(seed).integers(0, 4, (size, size))
    nobody = [np.zeros(0, np.int64)] * size
    shares = Deal(nobody, [nobody] * size, visits).shares()
    rounds = [[pair for pair in pairs(size) if pair.round == number] for number in range(size)]
    of_rounds = [sum(visits[pair.users, pair.items] for pair in of_round) for of_round in rounds]
    n_earlier = 0
    for number, of_round in enumerate(rounds):
        for pair in of_round:
            n_own = visits[pair.users, pair.items]
            expected = (n_earlier, sum(of_rounds[:number]), of_rounds[number], visits.sum())
            assert shares.get(pair) == (expected if n_own else None)
            n_earlier += n_own


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 12))
def test_users_are_cut_into_blocks_of_about_as_many_visits(visits: list[int], size: int) -> None:
    bounds = user_bounds(np.array(visits), size)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, len(visits), size + 1)
    of_blocks = [sum(visits[begin:end]) for begin, end in pairwise(bounds)]
    assert max(of_blocks) <= sum(visits) / size + max(visits)
