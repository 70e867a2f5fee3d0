"""Popularity lists what most users have, and answers as every other model does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import toy

import mfrank
from mfrank import Interactions, Popularity
from tests.support.errors import refuses

cell = st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from([-1, 1, 7]))


@settings(max_examples=40, deadline=None)
@given(st.lists(cell, min_size=1, max_size=25), st.integers(1, 7))
def test_lists_are_those_of_a_count(rows, n):
    users, items, values = np.array(rows).T
    data = Interactions.from_arrays(
        users, items, values, shape=(6, 5), duplicates="max", item_ids=list("abcde")
    )
    if not (data.user_items.data > 0).any():
        with refuses(ValueError, "user_items"):
            Popularity().fit(data)
        return
    stored, table = data.user_items.toarray() != 0, data.user_items.toarray()
    count = (table > 0).sum(axis=0)
    ids, scores = Popularity().fit(data).recommend(range(6), N=n)
    for user in range(6):
        left = np.flatnonzero(~stored[user] & (count > 0)).tolist()
        left = sorted(left, key=lambda item: (-count[item], item))[:n]
        assert ids[user].tolist() == ["abcde"[i] for i in left] + [None] * (n - len(left))
        assert scores[user, : len(left)].tolist() == count[left].tolist()


timed = st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(-50, 50))


@settings(max_examples=40, deadline=None)
@given(st.lists(timed, min_size=1, max_size=25), st.integers(1, 120))
def test_within_a_window_only_what_is_recent_counts(rows, window):
    users, items, times = np.array(rows).T
    data = Interactions.from_arrays(users, items, None, times, shape=(6, 5), duplicates="last")
    latest: dict[tuple[int, int], int] = {}
    for user, item, time in rows:
        latest[user, item] = max(time, latest.get((user, item), time))
    late = [item for (_, item), time in latest.items() if time >= times.max() - window]
    model = Popularity(window=window).fit(data)
    assert model.item_factors[:, 0].tolist() == np.bincount(late, minlength=5).tolist()
    seen = sorted(item for user, item in latest if user == users[0])
    ids, _ = model.recommend(users[0], N=5)
    assert not set(ids.tolist()) & set(seen)  # what is older than the window is known all the same


def test_a_window_needs_times_and_a_length() -> None:
    with refuses(ValueError, "window", remedy=r"pass them to Interactions\.from_arrays"):
        Popularity(window=7).fit(toy())
    for window in (0, -1, float("nan"), "week"):
        with refuses(ValueError, "window"):
            Popularity(window=window)


def test_what_is_loaded_answers_alike(tmp_path: Path) -> None:
    model = Popularity(backend="reference").fit(toy())
    for loaded in (
        mfrank.load(model.save(tmp_path / "model")),
        Popularity.load(tmp_path / "model", mmap=True, verify=True),
    ):
        assert isinstance(loaded, Popularity)
        assert loaded.get_params() == model.get_params() == {"backend": "reference", "window": None}
        for mine, theirs in zip(loaded.recommend([0, 3]), model.recommend([0, 3]), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_new_user_gets_what_is_popular_and_not_theirs() -> None:
    model = Popularity().fit(toy())
    best = model.recommend(0, N=7, filter_already_liked_items=False)[0]
    row = np.zeros((1, 7))
    row[0, best[0]] = 1
    ids, _ = model.recommend([99], sp.csr_array(row), N=6, recalculate_user=True)
    assert ids[0].tolist() == best[1:].tolist()
    assert model.recalculate_user(99, sp.csr_array(row)).shape == (1,)
    with refuses(ValueError, "user_items"):
        model.recalculate_user(99, sp.csr_array(row[:, :3]))


def test_it_is_evaluated_and_compared() -> None:
    split = mfrank.by_ratio(mfrank.synthetic(60, 30, 700, random_state=0), train=0.7, test=0.3)
    result = mfrank.evaluate(Popularity().fit(split.train), split.test)
    table = mfrank.compare(split, models={"popular": Popularity()}, repeats=1, peak_memory=False)
    assert table["popular"].evaluation["ndcg@20"].value > 0
    assert result["ndcg@10"].value > 0


def test_the_callback_is_called_once() -> None:
    calls = []
    Popularity().fit(toy(), callback=lambda *given: calls.append(given))
    assert [call[0] for call in calls] == [0]
    assert calls[0][2] is None
    assert 0 <= calls[0][1] < 60
    with refuses(TypeError, "callback"):
        Popularity().fit(toy(), callback=3)


def test_everybody_has_the_same_factor_by_id_and_by_row() -> None:
    data = Interactions.from_arrays(["a", "a", "b"], ["x", "y", "y"])
    model = Popularity().fit(data)
    assert model.store.counts.users.tolist() == [2, 1]
    assert model.store.counts.items.tolist() == [1, 2]
    for users, by_row in ((["b", "a"], False), ([1, 0], True)):
        assert model.recalculate_user(users, data, by_row=by_row).tolist() == [[1.0], [1.0]]
    with refuses(ValueError, "user_items"):
        model.recalculate_user(1, data)
    with refuses(ValueError, "userid"):
        model.recommend("c")


def test_options_are_checked_when_they_are_set_and_when_they_are_used() -> None:
    with refuses(ValueError, "backend"):
        Popularity(backend="gpu")
    model = Popularity().fit(toy())
    model.window = -1.0
    with refuses(ValueError, "window"):
        model.fit(toy())


def test_what_popularity_does_not_do_is_told() -> None:
    model = Popularity().fit(toy())
    with refuses(TypeError, remedy="use recommend"):
        model.recommend_users(1)
    for answer in (model.similar_items([1, 2], N=3), model.similar_users([1, 2], N=3)):
        assert answer.ids.tolist() == [[1, -1, -1], [2, -1, -1]]


def test_the_windows_edge_is_in_it() -> None:
    """Interactions exactly as old as the window count, also before 1970; older ones do not."""
    for start in (0, -(10**6)):
        times = start + np.array([0, 99, 100, 200])
        data = Interactions.from_arrays([0, 1, 2, 3], [0, 1, 2, 3], None, times)
        for window, counted in ((100, [0, 0, 1, 1]), (100.5, [0, 0, 1, 1]), (101, [0, 1, 1, 1])):
            model = Popularity(window=window).fit(data)
            assert model.item_factors[:, 0].tolist() == counted
