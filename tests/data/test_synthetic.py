"""Synthetic data keep their counts and have what they promise: tails, tastes, sessions, drift."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import svds

from mfrank.data import by_ratio, synthetic
from tests.support.errors import refuses

synthesis = importlib.import_module("mfrank.data.synthesis")  # mfrank.synthetic is the function


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
    drawn, tastes = [], synthesis.Tastes.drawn
    monkeypatch.setattr(synthesis, "_BLOCK", 1_000)
    monkeypatch.setattr(
        synthesis.Tastes, "drawn", lambda line, n, rng: drawn.append(n) or tastes(line, n, rng)
    )
    made = synthetic(500, 200, 10_000)
    assert made.nnz == 10_000
    assert (made.user_items.data == 1).all()
    assert made.counts.users.min() >= 1
    assert sum(drawn) == 500
    sizes = np.add.reduceat(made.counts.users, np.cumsum([0, *drawn[:-1]]))
    assert (np.abs(sizes - 1_000) <= made.counts.users.max()).all()


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


def test_times_are_those_that_are_promised(data, monkeypatch):
    first, span = 1_577_836_800, 4 * 365 * 86_400  # 2020, and four years
    assert data.timestamps.min() >= first
    assert data.timestamps.max() < first + span
    assert np.count_nonzero(data.timestamps > first + span - 60) < 500  # no heap at the end
    monkeypatch.setattr(synthesis, "_SPAN", 10_000)
    assert synthetic().timestamps.max() == first + 9_999


def test_sessions_of_a_user_begin_soon_after_the_first():
    rng = np.random.default_rng(0)
    when = synthesis._times(np.full(300, 1_200), rng).reshape(300, -1)  # a hundred sessions each
    joined, span = when.min(axis=1), 4 * 365 * 86_400
    assert joined.mean() == pytest.approx(span / 2, rel=0.1)
    # The square of a uniform number has its median at a quarter.
    assert np.median((when.T - joined) / (span - joined)) == pytest.approx(0.25, abs=0.02)


def test_a_session_has_one_user_and_is_densest_at_its_start():
    counts = np.full(200, 24)  # two sessions each
    when = synthesis._times(counts, np.random.default_rng(0))
    order = np.argsort(when)
    users = np.repeat(np.arange(200), counts)[order]
    beside = np.diff(when[order]) < 600
    assert (users[1:] == users[:-1])[beside].mean() > 0.95
    alone = synthesis._times(np.full(2_000, 12), np.random.default_rng(0)).reshape(2_000, 12)
    lead = alone.mean(axis=1) - np.median(alone, axis=1)
    assert lead.mean() > 5 * lead.std() / np.sqrt(2_000)  # an exponential law leans to the left


@pytest.mark.parametrize(("mean", "most"), [(30, 60), (10, 40)])
def test_activity_has_its_limits(mean, most):
    """At most twice the mean or two fifths of the items, at least a fifth of the mean."""
    sizes = synthetic(3_000, 100, 3_000 * mean).counts.users
    assert sizes.max() == most
    assert 0.2 * mean <= sizes.min() < 0.5 * mean


# The line of items, and tastes


@pytest.fixture(scope="module")
def line():
    return synthesis.ItemLine.drawn(400, np.random.default_rng(2))


def near(found, wanted, n):
    """Whether frequencies of n draws are near their probabilities."""
    return (np.abs(found / n - wanted) < 5 * np.sqrt(wanted / n) + 1e-9).all()


def test_items_cover_the_line_by_their_popularity(line):
    assert len(line.shares) == 8  # a genre for every fifty items
    assert np.sort(line.popularity)[::-1] == pytest.approx((np.arange(1, 401) + 8.0) ** -1.4)
    assert line.ends[np.cumsum(np.bincount(line.genres)) - 1] == pytest.approx(np.arange(1, 9))
    lengths = np.diff(line.ends, prepend=0)
    assert line.at(line.ends - lengths / 2).tolist() == line.order.tolist()
    assert line.genres[line.order].tolist() == np.floor(line.ends - lengths / 2).tolist()
    assert line.at(np.array([line.ends[-1], 9.0])).tolist() == [line.order[-1]] * 2
    drawn = line.at(line.anywhere(200_000, np.random.default_rng(0)))
    assert near(np.bincount(drawn, minlength=400), line.popularity / line.popularity.sum(), 200_000)


def test_one_draw_in_ten_is_by_popularity_alone(line):
    """More if an item has to be found for a user who has what is liked."""
    only = np.stack([np.ones(8), np.arange(8) == 7], 1).astype(float)
    genres = np.concatenate([only[:, 0], 1 + np.cumsum(only[:, 1])])  # the first genre, the last
    tastes = synthesis.Tastes(line, genres, np.full(2, 0.3))
    for user, genre in ((0, 0), (1, 7)):
        for reach, alone in ((1, 0.1), (4, 1 - 0.9 / 4)):
            rng, n = np.random.default_rng(1), 50_000
            items = tastes.draw(np.full(n, user), np.full(n, 0.5), rng, reach)
            others = np.mean(line.genres[items] != genre)
            assert others == pytest.approx(alone * (1 - line.shares[genre]), abs=0.01)


def test_tastes_are_of_their_users(line):
    tastes = synthesis.Tastes.drawn(line, 50, np.random.default_rng(3))
    preferences = np.diff(tastes.genres.reshape(50, -1), axis=1, prepend=np.arange(50)[:, None])
    assert preferences.sum(axis=1) == pytest.approx(np.ones(50))
    assert (preferences >= 0).all()
    assert (tastes.style >= 0).all()
    assert (tastes.style < 1).all()
    # One or two genres have most of it.
    assert np.median(np.sort(preferences, axis=1)[:, -2:].sum(axis=1)) > 0.8


def test_a_users_position_moves_with_time_and_is_reflected():
    """With items of one size, all of one genre, an item's place is its position."""
    n = 1_000
    ends = np.arange(1, n + 1) / n
    line = synthesis.ItemLine(np.zeros(n, np.int64), np.ones(1), np.ones(n), np.arange(n), ends)
    for style, time in ((0.5, 0.25), (0.5, 0.75), (0.7, 0.5), (0.0, 0.0)):
        tastes = synthesis.Tastes(line, np.ones(1), np.full(1, style))
        users, when = np.zeros(20_000, np.int64), np.full(20_000, time)
        drawn = tastes.draw(users, when, np.random.default_rng(0)) / n
        wanted = np.abs(
            0.6 * style + 0.4 * time + 0.15 * np.random.default_rng(1).normal(size=10**5)
        )
        wanted = np.where(wanted > 1, 2 - wanted, wanted)
        wanted[:10_000] = np.linspace(0, 1, 10_000)  # by popularity alone
        quantiles = (0.2, 0.5, 0.8)
        assert np.quantile(drawn, quantiles) == pytest.approx(
            np.quantile(wanted, quantiles), abs=0.02
        )


@example([(2, 0), (0, 1)])
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=60))
def test_repeats_are_all_but_the_first(pairs):
    users, items = np.array(pairs, np.int64).reshape(-1, 2).T
    wanted = [at for at, pair in enumerate(pairs) if pair in pairs[:at]]
    assert sorted(synthesis._repeats(users, items).tolist()) == wanted


def test_a_user_of_nearly_all_items_is_filled_by_popularity():
    users, popularity = np.zeros(2, np.int64), np.array([1.0, 3.0, 6.0])
    rng, found = np.random.default_rng(0), np.zeros(3)
    for _ in range(2_000):
        items = np.array([0, 0])  # the second is a repetition
        synthesis._fill(items, users, np.array([1]), popularity, rng)
        assert items[0] == 0
        found[items[1]] += 1
    assert found[0] == 0
    n = 3_000
    for left in (1, 2, 5, 100, 1_000):  # all of them
        items = np.append(np.arange(n - left), np.zeros(left, np.int64))
        slots = np.arange(n - left, n)
        synthesis._fill(items, np.zeros(n, np.int64), slots, rng.random(n) + 0.01, rng)
        assert sorted(items) == list(range(n))
    assert near(found[1:], popularity[1:] / 9, 2_000)


def test_names_tell_the_genre(data):
    named = synthetic(names=True)
    assert named.user_items.indices.tolist() == data.user_items.indices.tolist()
    assert named.user_ids.raw([0, 42]).tolist() == ["user-00000", "user-00042"]
    genres = np.array([name.rsplit("-", 1)[0] for name in named.item_ids.labels])
    for genre in np.unique(genres):  # each has its items numbered from 1
        own = named.item_ids.labels[genres == genre].tolist()
        assert own == [f"{genre}-{number:04d}" for number in range(1, len(own) + 1)]
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
    ("sizes", "error", "argument"),
    [
        ((0, 5, 5), ValueError, "n_users"),
        ((5, 0, 5), ValueError, "n_items"),
        ((5, 5, 4), ValueError, "interactions"),
        ((5, 5, 26), ValueError, "interactions"),
        ((5, 5, 1e1), TypeError, "interactions"),
    ],
)
def test_what_is_refused(sizes, error, argument):
    with refuses(error, argument):
        synthetic(*sizes)
