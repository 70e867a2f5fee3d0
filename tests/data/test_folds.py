"""Repeated splits in time and over users, and dates that begin a part."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from tests.support.errors import refuses

DAY = 86_400
BEGIN = int(datetime(2024, 5, 1, tzinfo=UTC).timestamp())
N = 400
RNG = np.random.default_rng(0)
TIMES = BEGIN + np.sort(RNG.integers(0, 40 * DAY, N))
DATA = mfrank.Interactions.from_arrays(
    RNG.integers(0, 30, N), RNG.integers(0, 400, N), RNG.integers(1, 6, N), TIMES
)


def cells(data: mfrank.Interactions) -> set[tuple[int, int]]:
    users, items = data.user_items.nonzero()
    return set(zip(users.tolist(), items.tolist(), strict=True))


@settings(max_examples=25, deadline=None)
@given(length=st.integers(1, 5), folds=st.integers(1, 5), valid=st.none() | st.integers(1, 4))
def test_windows_follow_each_other_and_nothing_is_of_the_future(
    length: int, folds: int, valid: int | None
) -> None:
    before = None if valid is None else f"{valid}d"
    found = list(mfrank.rolling(DATA, test=f"{length}d", folds=folds, valid=before))
    assert len(found) == folds
    assert DATA.timestamps is not None
    end = int(DATA.timestamps.max()) + 1 - folds * length * DAY
    for fold in found:
        begin, end = end, end + length * DAY
        start = begin - (valid or 0) * DAY
        for part, low, high in (
            (fold.train, 0, start), (fold.valid, start, begin), (fold.test, begin, end)
        ):  # fmt: skip
            wanted = DATA.take((DATA.timestamps >= low) & (DATA.timestamps < high))
            assert cells(part) == cells(wanted)
            assert part.user_ids == DATA.user_ids
    assert end == int(DATA.timestamps.max()) + 1


def test_what_is_only_seen_later_is_in_no_fold_before() -> None:
    above = DATA.at_least(4)
    for fold in mfrank.rolling(above, test="5d", folds=3):
        assert fold.train.timestamps is not None
        latest = int(fold.train.timestamps.max())
        for part in (fold.train, fold.test):
            only = part.seen_only
            assert only is not None
            assert only.timestamps is not None
        assert fold.train.seen_only is not None
        assert fold.train.seen_only.timestamps is not None
        assert int(fold.train.seen_only.timestamps.max()) < latest + DAY
        known = fold.test.timestamps
        assert known is not None
        assert int(fold.test.seen_only.timestamps.max()) < int(known.max()) + DAY  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize(
    "length", [timedelta(days=2), np.timedelta64(2, "D"), 2 * DAY, np.int32(2 * DAY), "48h", " 2 d"]
)
def test_a_length_has_many_spellings(length: Any) -> None:
    wanted = [cells(fold.test) for fold in mfrank.rolling(DATA, test="2d", folds=2)]
    assert [cells(fold.test) for fold in mfrank.rolling(DATA, test=length, folds=2)] == wanted


def test_folds_that_cannot_be_are_refused_before_the_first() -> None:
    with refuses(ValueError, "folds", remedy="at most 3 folds"):
        mfrank.rolling(DATA, test="10d", folds=5)
    with refuses(ValueError, "folds", remedy="shorter"):
        mfrank.rolling(DATA, test="90d", folds=1)
    with refuses(ValueError, "test", remedy="longer"):
        mfrank.rolling(DATA, test="1s", folds=2)
    for wrong in ("7", "7 months", "-2d", 0.5, None, True):
        with refuses((TypeError, ValueError), "test"):
            mfrank.rolling(DATA, test=wrong, folds=2)  # type: ignore[arg-type]
    with refuses(ValueError, "test", remedy="int"):
        mfrank.rolling(
            mfrank.Interactions.from_arrays([0, 1], [0, 1], timestamps=[1, 2]), test="1d", folds=1
        )
    with refuses(ValueError, "rolling", remedy="user_folds"):
        mfrank.rolling(DATA.user_items, test="1d", folds=1)


# --- users


@pytest.mark.parametrize("folds", [2, 5, 30])
def test_each_user_is_held_out_once(folds: int) -> None:
    found = list(mfrank.user_folds(DATA, folds=folds))
    held_out = np.concatenate([fold.test.users for fold in found])
    assert sorted(held_out.tolist()) == np.flatnonzero(DATA.counts.users).tolist()
    for fold in found:
        assert not len(fold.valid.users)
        parts = [cells(part) for part in (fold.train, fold.test.fold_in, fold.test.target)]
        assert set.union(*parts) == cells(DATA)
        assert sum(map(len, parts)) == DATA.nnz
        assert {user for user, _ in parts[1]} == set(fold.test.users.tolist())
        assert fold.train.counts.users[fold.test.users].sum() == 0
    again = list(mfrank.user_folds(DATA, folds=folds))
    assert [cells(fold.test.target) for fold in again] == [
        cells(fold.test.target) for fold in found
    ]


def test_folds_of_users_are_evaluated() -> None:
    for fold in mfrank.user_folds(DATA, folds=2):
        judged = mfrank.evaluate(mfrank.EASE().fit(fold.train), fold.test)
        assert judged.n_users > 10


def test_too_many_folds_of_users_are_refused() -> None:
    for folds in (1, 31):
        with refuses(ValueError, "folds"):
            mfrank.user_folds(DATA, folds=folds)
    with refuses(ValueError, "fold_in"):
        mfrank.user_folds(DATA, fold_in=1.5)


# --- dates


@pytest.mark.parametrize(
    "moment",
    ["2024-05-31", "2024-05-31T02:00+02:00", date(2024, 5, 31), np.datetime64("2024-05-31"),
     datetime(2024, 5, 31), datetime(2024, 5, 31, tzinfo=UTC)],
)  # fmt: skip
def test_a_date_is_its_first_second(moment: Any) -> None:
    wanted = mfrank.by_time(DATA, test=BEGIN + 30 * DAY, valid=BEGIN + 20 * DAY)
    found = mfrank.by_time(DATA, test=moment, valid="2024-05-21")
    for part in ("train", "valid", "test"):
        assert cells(getattr(found, part)) == cells(getattr(wanted, part))
    visits = mfrank.Interactions.from_arrays(np.arange(N) // 8, np.arange(N), timestamps=TIMES)
    sessions = [mfrank.by_session(visits, test=each) for each in (moment, BEGIN + 30 * DAY)]
    assert cells(sessions[0].train) == cells(sessions[1].train)


def test_dates_that_say_nothing_are_refused() -> None:
    for wrong in ("soon", "3/4/2024", None):
        with refuses((TypeError, ValueError), "test"):
            mfrank.by_time(DATA, test=wrong)  # type: ignore[arg-type]
    counted = mfrank.Interactions.from_arrays([0, 1], [0, 1], timestamps=[1, 2])
    with refuses(ValueError, "test", remedy="int"):
        mfrank.by_time(counted, test="2024-05-01")
    with refuses(ValueError, None, remedy="later"):
        mfrank.by_time(DATA, test="2024-04-01")
