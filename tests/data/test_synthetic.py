"""Synthetic data keep their counts and have what they promise: tails, tastes, sessions, drift."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import svds

from mfrank.data import by_ratio, synthetic


@pytest.fixture(scope="module")
def data():
    return synthetic()


@settings(max_examples=40, deadline=None)
@given(
    n_users=st.integers(1, 40),
    n_items=st.integers(1, 120),
    density=st.floats(0, 1),
    seed=st.integers(0, 10_000),
)
def test_counts_are_exact_up_to_every_pair(n_users, n_items, density, seed):
    interactions = max(n_users, round(density * n_users * n_items))
    made = synthetic(n_users, n_items, interactions, random_state=seed)
    # Duplicates would have been merged into values of 2 and fewer entries.
    assert made.user_items.shape == (n_users, n_items)
    assert made.nnz == interactions
    assert (made.user_items.data == 1).all()
    assert made.counts.users.min() >= 1


def test_blocks_of_users_are_drawn_like_one(monkeypatch):
    module = importlib.import_module("mfrank.data.synthesis")  # mfrank.synthetic is the function
    monkeypatch.setattr(module, "_BLOCK", 1_000)
    made = synthetic(500, 200, 10_000)
    assert made.nnz == 10_000
    assert (made.user_items.data == 1).all()
    assert made.counts.users.min() >= 1


def test_the_seed_decides():
    def drawn(seed):
        made = synthetic(50, 80, 700, random_state=seed)
        return made.user_items.indices.tolist(), made.timestamps.tolist()

    assert drawn(1) == drawn(1) == drawn(np.random.default_rng(1))
    assert drawn(1) != drawn(2)


def test_popularity_and_activity_have_long_tails(data):
    items = np.sort(data.counts.items)[::-1]
    assert items[: data.n_items // 10].sum() > 0.4 * data.nnz
    users = np.sort(data.counts.users)
    assert users[-1] > 5 * users.mean()
    assert np.median(users) < 0.75 * users.mean()


def test_users_have_tastes_beyond_popularity(data):
    split = by_ratio(data)
    train = split.train.user_items.astype(np.float64)
    left, scale, right = svds(train, k=16, random_state=0)
    popularity = np.broadcast_to(train.sum(axis=0), train.shape)
    assert recall(split, (left * scale) @ right) > 1.3 * recall(split, popularity)


def recall(split, scores, k=20):
    scores = np.where(split.train.user_items.toarray() > 0, -np.inf, scores)
    top = np.argpartition(-scores, k, axis=1)[:, :k]
    wanted = split.test.user_items.toarray() > 0
    hits = np.take_along_axis(wanted, top, axis=1).sum(axis=1)
    sizes = wanted.sum(axis=1)
    return (hits[sizes > 0] / np.minimum(sizes[sizes > 0], k)).mean()


def test_what_is_chosen_drifts(data):
    first, *_, last = np.array_split(np.argsort(data.timestamps), 5)
    some, *_, others = np.array_split(np.random.default_rng(0).permutation(data.nnz), 5)

    def shares(entries):
        chosen = np.bincount(data.user_items.indices[entries], minlength=data.n_items)
        return chosen / len(entries)

    def distance(one, other):  # total variation
        return np.abs(shares(one) - shares(other)).sum() / 2

    assert distance(first, last) > 2 * distance(some, others)


def test_users_come_in_sessions(data):
    order = np.lexsort((data.timestamps, data.entry_users))
    same_user = np.diff(data.entry_users[order]) == 0
    gaps = np.diff(data.timestamps[order])[same_user]
    # With four years for some 50 entries, gaps would be weeks; most are within a session.
    assert np.median(gaps) < 3_600
    assert (gaps > 86_400).mean() > 0.02


def test_names_tell_the_genre(data):
    named = synthetic(names=True)
    assert named.user_items.indices.tolist() == data.user_items.indices.tolist()
    assert named.user_ids.raw([0, 42]).tolist() == ["user-00000", "user-00042"]
    genres = np.array([name.rsplit("-", 1)[0] for name in named.item_ids.labels])
    assert len(np.unique(genres)) > 10
    # Two entries of one user are of one genre far more often than those of two users.
    rng = np.random.default_rng(0)
    entries, users = rng.integers(named.nnz - 1, size=20_000), named.entry_users
    of = genres[named.user_items.indices]
    starts, sizes = named.user_items.indptr, named.counts.users
    beside = starts[users[entries]] + rng.integers(sizes[users[entries]])
    different = beside != entries
    within = (of[entries] == of[beside])[different].mean()
    assert within > 2 * (of[entries] == rng.permutation(of[entries])).mean()


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((0, 5, 5), ValueError, "n_users must be at least 1"),
        ((5, 0, 5), ValueError, "n_items must be at least 1"),
        ((5, 5, 4), ValueError, "interactions must be from n_users, 5"),
        ((5, 5, 26), ValueError, r"to n_users \* n_items, 25, got 26"),
        ((5, 5, 1e1), TypeError, "interactions must be an int"),
    ],
)
def test_what_is_refused(sizes, error, message):
    with pytest.raises(error, match=message):
        synthetic(*sizes)
