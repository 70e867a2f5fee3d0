"""Sessions held out in time, with their last items to be predicted."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.data import Interactions
from tests.support.errors import refuses


def sessions(seed: int, n: int = 30, n_items: int = 12) -> Interactions:
    rng = np.random.default_rng(seed)
    cells = rng.choice(n * n_items, size=n * 4, replace=False)
    rows, items = np.divmod(cells, n_items)
    times = rows // 3 * 5 + rng.integers(0, 8, len(rows))
    return Interactions.from_arrays(rows, items, timestamps=times)


def of_user(data: Interactions, user: int) -> tuple[Any, Any]:
    part = slice(*data.user_items.indptr[user : user + 2])
    assert data.timestamps is not None
    return data.user_items.indices[part], data.timestamps[part]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([None, 0.2]), st.integers(1, 3))
def test_sessions_are_whole_in_order_and_end_in_their_targets(
    seed: int, valid: float | None, last: int
) -> None:
    data = sessions(seed)
    split = mfrank.by_session(data, test=0.3, valid=valid, last=last, random_state=seed)
    parts = [split.train]
    for held_out in (split.valid, split.test):
        parts += [held_out.fold_in, held_out.target]
    assert sum(part.nnz for part in parts) == data.nnz
    ends = np.array([max(of_user(data, user)[1], default=-1) for user in range(data.n_users)])
    trained = np.flatnonzero(split.train.counts.users)
    groups = [trained, split.valid.users, split.test.users]
    assert sorted(np.concatenate(groups)) == list(np.flatnonzero(ends >= 0))
    filled = [ends[group] for group in groups if len(group)]
    assert all(a.max() < b.min() for a, b in itertools.pairwise(filled))
    assert len(split.test.users) >= 0.3 * (ends >= 0).sum() - 1
    for held_out in (split.valid, split.test):
        for user in held_out.users:
            n = len(of_user(data, user)[0])
            first, target = of_user(held_out.fold_in, user), of_user(held_out.target, user)
            assert len(target[0]) == (last if n > last else 0)
            assert set(first[0]) | set(target[0]) == set(of_user(data, user)[0])
            assert max(first[1], default=-1) <= min(target[1], default=10**9)


def test_a_time_is_a_limit(tmp_path: Path) -> None:
    data = Interactions.from_arrays(
        [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 1, 2], timestamps=[1, 2, 8, 12, 20, 19]
    )
    split = mfrank.by_session(data, test=12)
    assert split.test.users.tolist() == [1, 2]
    assert split.test.target.user_items.toarray()[1:].tolist() == [[0, 1, 0], [0, 1, 0]]
    mapped = mfrank.by_session(data, test=12, folder=tmp_path)
    np.testing.assert_array_equal(
        mapped.test.target.user_items.toarray(), split.test.target.user_items.toarray()
    )


@pytest.mark.parametrize("first", [0, -100])
def test_a_user_without_entries_is_no_session(first: int) -> None:
    rows, times = np.array([0, 0, 2, 2, 4, 4, 6, 6]), first + np.arange(8)
    data = Interactions.from_arrays(rows, [0, 1] * 4, timestamps=times, shape=(8, 2))
    split = mfrank.by_session(data, test=0.25, valid=0.25)
    assert split.valid.users.tolist() == [4]
    assert split.test.users.tolist() == [6]
    assert np.flatnonzero(split.train.counts.users).tolist() == [0, 2]


def test_a_walk_that_knows_what_comes_next_is_found_out() -> None:
    """Items come in a circle: the neighbors of what a session has, and not what is popular."""
    starts = np.arange(60)
    items = (starts[:, None] + np.arange(4)) % 15
    rows = np.repeat(starts, 4)
    times = (starts[:, None] * 10 + np.arange(4)).ravel()
    data = Interactions.from_arrays(rows, items.ravel(), timestamps=times)
    split = mfrank.by_session(data, test=0.25)
    near = mfrank.evaluate(mfrank.ItemKNN(neighbors=5).fit(split.train), split.test)
    popular = mfrank.evaluate(mfrank.Popularity().fit(split.train), split.test)
    assert near["recall@10"].value == 1
    assert near["mrr@10"].value > popular["mrr@10"].value


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"test": 0}, "test"),
        ({"test": 1.5}, "test"),
        ({"test": 0.2, "last": 0}, "last"),
        ({"test": 20, "valid": 30}, "valid"),
    ],
)
def test_impossible_splits_are_refused(options: dict[str, Any], argument: str) -> None:
    with refuses(ValueError, argument):
        mfrank.by_session(sessions(0), **options)


def test_times_are_needed() -> None:
    with refuses(ValueError, "by_session"):
        mfrank.by_session(sp.csr_array(np.eye(4)), test=0.2)
