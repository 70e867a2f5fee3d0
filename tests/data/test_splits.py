"""Splits are exact partitions, by the rules that they state."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from mfrank.data import (
    HeldOutSplit,
    Interactions,
    Split,
    by_ratio,
    by_session,
    by_time,
    held_out_users,
    leave_k_out,
    leave_last,
    order_in_rows,
    rank_in_rows,
)
from tests.support.errors import refuses

property_test = settings(max_examples=40, deadline=None)


def toy(seed: int = 0, shape: tuple[int, int] = (12, 15), density: float = 0.4) -> Interactions:
    """Distinct values; timestamps with ties; ids that are not row numbers; empty users."""
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random(shape) < density * rng.random((shape[0], 1)))
    return Interactions.from_arrays(
        users,
        items,
        1.0 + np.arange(len(users)),
        rng.integers(100, 130, len(users)),
        shape=shape,
        user_ids=[f"u{row}" for row in range(shape[0])],
        item_ids=[f"i{row}" for row in range(shape[1])],
    )


def grown(seed: int, counts: list[int]) -> Interactions:
    """Users with the given numbers of entries, and distinct timestamps."""
    rng = np.random.default_rng(seed)
    items = [rng.permutation(max(counts))[:count] for count in counts]
    users = np.repeat(np.arange(len(counts)), counts)
    return Interactions.from_arrays(
        users,
        np.concatenate(items),
        timestamps=rng.permutation(len(users)),
        shape=(len(counts), max(counts)),
    )


def entries(data: Interactions) -> list[tuple[int, int, float, int]]:
    assert data.timestamps is not None
    cells = data.user_items.tocoo()
    columns = (*cells.coords, cells.data, data.timestamps)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def assert_partition(whole: Interactions, parts: list[Interactions]) -> None:
    for part in parts:
        assert part.user_items.shape == whole.user_items.shape
        assert part.user_ids == whole.user_ids
        assert part.item_ids == whole.item_ids
    # A list keeps what occurs twice: that each entry is in one part only follows.
    assert sorted(entry for part in parts for entry in entries(part)) == sorted(entries(whole))


def parts_of(split: Split | HeldOutSplit) -> list[Interactions]:
    if isinstance(split, Split):
        return [split.train, split.valid, split.test]
    held = (split.valid, split.test)
    return [split.train, *(part for h in held for part in (h.fold_in, h.target))]


def counts(data: Interactions) -> NDArray[np.int64]:
    return data.counts.users


def thirds(data: Interactions) -> list[int]:
    """Two points in time that divide the times into three."""
    times = np.unique(data.timestamps)
    assume(len(times) >= 3)
    return [int(times[len(times) * part // 3]) for part in (1, 2)]


SPLITS = {
    "by_ratio": lambda data, seed: by_ratio(data, random_state=seed),
    "leave_last": lambda data, seed: leave_last(data, 2, valid_k=1, random_state=seed),
    "leave_k_out": lambda data, seed: leave_k_out(data, 2, valid_k=1, random_state=seed),
    "by_time at timestamps": lambda data, seed: by_time(
        data, **dict(zip(("valid", "test"), thirds(data), strict=True))
    ),
    "by_time by shares": lambda data, seed: by_time(data, test=0.2, valid=0.1),
    "held_out_users": lambda data, seed: held_out_users(
        data, test=2, valid=0.25, random_state=seed
    ),
}


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS.keys())
@given(seed=st.integers(0, 10_000), density=st.sampled_from([0.2, 0.6, 1.0]))
@property_test
def test_every_split_is_a_partition(split, seed, density):
    data = toy(seed, density=density)
    assume(np.count_nonzero(counts(data)) > 3)  # users to hold out, and one to train on
    assert_partition(data, parts_of(split(data, seed)))


@pytest.mark.parametrize("name", ["by_ratio", "leave_last", "leave_k_out", "held_out_users"])
def test_the_seed_decides(name):
    data = toy(3, (40, 30), 1.0)

    def tests(seed):
        return [entries(part) for part in parts_of(SPLITS[name](data, seed))]

    assert tests(1) == tests(1)
    assert tests(np.random.default_rng(1)) == tests(1)
    assert tests(1) != tests(2)
    assert tests(None) != tests(None)


@pytest.mark.parametrize("name", ["by_ratio", "leave_last", "leave_k_out", "by_time by shares"])
def test_no_entries_split_into_none(name):
    nothing = toy().take(np.zeros(toy().nnz, bool))
    assert [part.nnz for part in parts_of(SPLITS[name](nothing, 0))] == [0, 0, 0]


# order_in_rows


@property_test
@given(
    counts=st.lists(st.integers(0, 6) | st.integers(5_000, 9_000), max_size=12),
    digits=st.integers(0, 17),
    which=st.integers(1, 4),
    far=st.booleans(),
    seed=st.integers(0, 99),
)
def test_entries_are_ordered_in_each_row_by_itself(counts, digits, which, far, seed):
    """Also where rows are longer than what is sorted at once, and where keys nearly are equal."""
    rng, indptr = np.random.default_rng(seed), np.append(0, np.cumsum(counts, dtype=np.int64))
    first = np.round(rng.random(indptr[-1]), digits) * (1 if digits else 2**-53)
    second = rng.integers(-3, 3, indptr[-1]) * (2**61 if far else 1)
    keys = {1: (first,), 2: (second,), 3: (first, second), 4: (second, first)}[which]
    order, rank = order_in_rows(indptr, *keys), rank_in_rows(indptr, *keys)
    for begin, end in pairwise(indptr.tolist()):
        own = begin + np.lexsort([key[begin:end] for key in keys])
        assert_array_equal(order[begin:end], own)
        assert_array_equal(rank[own], np.arange(end - begin))


# by_ratio


@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(0, 33), min_size=1, max_size=12),
    shares=st.sampled_from(
        [(0.8, 0.1, 0.1), (0.8, 0.0, 0.2), (0.5, 0.5, 0.0), (0.7, 0.2, 0.1), (0.1, 0.2, 0.7)]
    ),
)
@property_test
def test_by_ratio_rounds_each_part_down_or_up(seed, sizes, shares):
    data = grown(seed, [*sizes, 1])
    train, valid, test = shares
    split = by_ratio(data, train=train, valid=valid, test=test, random_state=seed)
    n = counts(data)
    alone = (counts(split.train) == 1) & (n * train < 1)  # the entry kept in training
    for part, share in zip(parts_of(split), shares, strict=True):
        assert (alone | (np.abs(counts(part) - n * share) < 1)).all()
    assert (counts(split.train) >= np.minimum(n, 1)).all()


def test_by_ratio_is_exact_where_the_numbers_allow():
    split = by_ratio(grown(0, [10, 20, 30, 100] * 20))
    assert counts(split.train).tolist() == [8, 16, 24, 80] * 20
    assert counts(split.valid).tolist() == [1, 2, 3, 10] * 20
    assert counts(split.test).tolist() == [1, 2, 3, 10] * 20


def test_by_ratio_gives_small_users_their_share_on_average():
    n_users = 4_000
    split = by_ratio(grown(0, [5] * n_users))
    # Each user's part of 0.5 expected entries is 0 or 1: variance 1/4.
    assert split.test.nnz == pytest.approx(n_users / 2, abs=5 * np.sqrt(n_users / 4))
    assert split.valid.nnz == pytest.approx(n_users / 2, abs=5 * np.sqrt(n_users / 4))


def test_by_ratio_picks_every_entry_alike():
    n_users, n_items = 2_000, 10
    full = Interactions.from_sparse(sp.csr_array(np.ones((n_users, n_items))))
    picked = by_ratio(full).test.counts.items
    assert picked.sum() == n_users
    assert np.abs(picked - n_users / n_items).max() < 5 * np.sqrt(n_users / n_items)


# leave_last and leave_k_out


@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    k=st.integers(1, 3),
    valid_k=st.integers(0, 2),
)
@property_test
def test_leave_last_takes_the_latest(seed, sizes, k, valid_k):
    data = grown(seed, [*sizes, 4])
    split = leave_last(data, k, valid_k=valid_k)
    for user in range(data.n_users):
        train, valid, test = (
            sorted(time for u, _, _, time in entries(part) if u == user) for part in parts_of(split)
        )
        if counts(data)[user] > k + valid_k:
            assert (len(valid), len(test)) == (valid_k, k)
        else:
            assert (len(valid), len(test)) == (0, 0)
        assert train + valid + test == sorted(train + valid + test)


def test_leave_last_breaks_ties_at_random():
    n_users, n_items = 1_000, 5
    users, items = np.divmod(np.arange(n_users * n_items), n_items)
    data = Interactions.from_arrays(users, items, timestamps=np.where(items == 0, 1, 2))
    left = leave_last(data).test.counts.items
    assert left[0] == 0  # the only early entry
    assert np.abs(left[1:] - n_users / 4).max() < 5 * np.sqrt(n_users / 4)


@given(seed=st.integers(0, 10_000), sizes=st.lists(st.integers(0, 9), min_size=1, max_size=12))
@property_test
def test_leave_k_out_counts(seed, sizes):
    data = grown(seed, [*sizes, 4])
    split = leave_k_out(data, 2, valid_k=1, random_state=seed)
    enough = counts(data) > 3
    assert (counts(split.test) == 2 * enough).all()
    assert (counts(split.valid) == enough).all()


# by_time


def test_by_time_cuts_at_timestamps():
    data = toy(1, density=1.0)
    split = by_time(data, test=120, valid=np.int64(110))
    assert split.train.timestamps.max() < 110
    assert split.valid.timestamps.min() >= 110
    assert split.valid.timestamps.max() < 120
    assert split.test.timestamps.min() >= 120
    assert by_time(data, test=120).valid.nnz == 0


@given(seed=st.integers(0, 10_000), test=st.floats(0.05, 0.5), valid=st.floats(0.05, 0.3))
@property_test
def test_by_time_takes_shares_but_keeps_timestamps_together(seed, test, valid):
    data = toy(seed, (20, 20), 1.0)
    split = by_time(data, test=test, valid=valid)
    for part, share, earlier in (
        (split.test, test, split.valid),
        (split.valid, valid, split.train),
    ):
        first = part.timestamps.min()
        assert earlier.timestamps.max() < first
        # Large enough, and without its first timestamp it would not be.
        wanted = max(1, round(share * data.nnz))
        assert part.nnz >= wanted > (part.timestamps > first).sum()


@pytest.mark.parametrize("part", ["test", "valid"])
def test_a_small_share_is_one_entry_at_least(part):
    data = Interactions.from_arrays(range(9), range(9), timestamps=range(9))
    split = by_time(data, **{"test": 8, part: 0.01})
    assert getattr(split, part).nnz == 1


@pytest.mark.parametrize("first", [100, -100])
def test_nothing_before_the_test_part_is_said_as_such(first):
    times = np.arange(first, first + 9)
    data = Interactions.from_arrays(range(9), range(9), timestamps=times)
    for split in (by_time, by_session):
        with refuses(ValueError, "test"):
            split(data, test=first, valid=0.2)


MARCH = 1_709_251_200  # the first, of 2024


@pytest.mark.parametrize(
    "points",
    [
        {"test": "2024-04-01"},
        {"test": MARCH + 40 * 86_400},
        {"test": "2024-03-05", "valid": "2024-03-05"},
        {"test": "2024-04-01", "valid": "2024-03-03"},
    ],
    ids=str,
)
def test_a_part_without_entries_is_refused(points):
    data = Interactions.from_arrays(range(9), range(9), timestamps=MARCH + 86_400 * np.arange(9))
    for split in (by_time, by_session):
        with refuses(ValueError, "test", remedy="fractions"):
            split(data, **points)


@pytest.mark.parametrize(("together", "is_told"), [(3, False), (4, True), (7, True), (10, False)])
def test_entries_of_one_time_that_make_a_part_larger_are_told(together, is_told, caplog):
    """Of ten entries two were asked for; if all are of one time there is an error instead."""
    times = np.append(np.arange(10 - together), np.full(together, 50))
    data = Interactions.from_arrays(range(10), range(10), timestamps=times)
    with contextlib.suppress(ValueError):
        assert by_time(data, test=0.2).test.nnz == together
    assert sum("at the same time, 50, make" in one.message for one in caplog.records) == is_told


def test_of_those_before_the_test_part_only_they_are_counted(caplog):
    times = [0, 1, 2, 3, 4, 5, 5, 5, 9, 9]
    data = Interactions.from_arrays(range(10), range(10), timestamps=times)
    assert by_time(data, test=9, valid=0.2).valid.nnz == 3
    assert not caplog.records  # three are not more than one and a half times two
    by_time(data, test=9, valid=0.1)
    assert "valid=0.1 is 1 entry, and those at the same time, 5, make 3" in caplog.text


# held_out_users


@pytest.mark.parametrize(("test", "valid"), [(8, 0), (4, 4), (0, 8), (5, 5)])
def test_one_user_is_left_to_train_on(test, valid):
    data = grown(0, [0, 0, *range(1, 9)])
    with refuses(ValueError, "test", remedy="Hold out fewer"):
        held_out_users(data, test=test, valid=valid)
    test, valid = (n - (n == max(test, valid)) for n in (test, valid))
    if test + valid < 8:
        assert np.count_nonzero(counts(held_out_users(data, test=test, valid=valid).train)) > 0


def test_a_single_user_is_trained_on():
    assert held_out_users(grown(0, [3]), test=0).train.nnz == 3
    with refuses(ValueError, "test", remedy="Hold out fewer"):
        held_out_users(grown(0, [3]), test=1)


def test_one_entry_is_folded_in_at_least():
    held = held_out_users(grown(0, [5] * 30), test=20, fold_in=0.05).test
    told = counts(held.fold_in)[held.users]
    assert told.min() == 1
    assert np.count_nonzero(told == 1) > 15  # and rarely more


def test_all_entries_are_trained_on_where_there_are_few():
    for most in (2**31 - 1, 3):
        assert leave_k_out(grown(0, [4]), valid_k=most).train.nnz == 4
    with refuses(ValueError, "valid_k"):
        leave_k_out(grown(0, [4]), valid_k=2**31)


@given(seed=st.integers(0, 10_000), n_test=st.integers(0, 3), n_valid=st.integers(0, 3))
@property_test
def test_held_out_users_are_not_trained_on(seed, n_test, n_valid):
    data = grown(seed, [0, 1, 2, 3, 5, 10, 20, 40])
    split = held_out_users(data, test=n_test, valid=n_valid, random_state=seed)
    n = counts(data)
    for held, size in ((split.test, n_test), (split.valid, n_valid)):
        assert len(held.users) == size
        assert (np.diff(held.users) > 0).all()
        assert (n[held.users] > 0).all()
        told, wanted = counts(held.fold_in), counts(held.target)
        assert np.flatnonzero(told + wanted).tolist() == held.users.tolist()
        assert (told[held.users] >= 1).all()
        assert (np.abs(told - 0.8 * n)[held.users] < 1).all()
    trained = np.flatnonzero(counts(split.train))
    assert sorted([*trained, *split.test.users, *split.valid.users]) == np.flatnonzero(n).tolist()
    assert (counts(split.train)[trained] == n[trained]).all()


def test_held_out_users_takes_shares_of_the_users_with_entries():
    split = held_out_users(grown(0, [0] * 50 + [4] * 200), test=0.1, valid=0.05)
    assert (len(split.test.users), len(split.valid.users)) == (20, 10)


# What is split


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 99))
@property_test
def test_validation_gets_what_the_other_parts_leave(train, test, seed):
    assume(train > 0 and train + test <= 100)
    data, shares = toy(seed), {"train": train / 100, "test": test / 100}
    told = by_ratio(data, **shares, valid=(100 - train - test) / 100, random_state=seed)
    left = by_ratio(data, **shares, random_state=seed)
    assert list(map(entries, parts_of(left))) == list(map(entries, parts_of(told)))
    assert left.valid.nnz == 0 or train + test < 100


@pytest.mark.parametrize("name", ["by_ratio", "leave_k_out", "held_out_users"])
def test_a_matrix_is_split_as_its_interactions(name):
    data = toy(3)
    numbered = Interactions.from_sparse(data.user_items)
    for matrix in (data.to_scipy(), data.user_items.tocsc()):
        ours, theirs = parts_of(SPLITS[name](matrix, 1)), parts_of(SPLITS[name](numbered, 1))
        assert all(
            (a.user_items != b.user_items).nnz == 0 for a, b in zip(ours, theirs, strict=True)
        )


@pytest.mark.parametrize("name", ["by_ratio", "leave_last", "leave_k_out", "by_time by shares"])
def test_a_frame_is_split_as_its_interactions(name):
    pytest.importorskip("pandas", reason="the extra pandas is not installed")
    frame = toy(4, density=1.0).to_pandas()
    data = Interactions.of(frame)
    ours, theirs = parts_of(SPLITS[name](frame, 1)), parts_of(SPLITS[name](data, 1))
    assert list(map(entries, ours)) == list(map(entries, theirs))


def test_what_cannot_be_split_is_refused():
    with refuses(TypeError, remedy=r"make them with Interactions\.from_arrays"):
        by_ratio([[1, 2]])


# What is refused

NO_TIMES = Interactions.from_arrays([0, 0, 1], [0, 1, 1])


@pytest.mark.parametrize(
    ("split", "error", "argument"),
    [
        (lambda d: by_ratio(d, train=0.95), ValueError, "train"),
        (lambda d: by_ratio(d, train=2, test=np.uint64(2**63)), ValueError, "train"),
        (lambda d: by_ratio(d, train=0, valid=0.5, test=0.5), ValueError, "fractions"),
        (
            lambda d: by_ratio(d, train=1.1, valid=-0.1, test=0),
            ValueError,
            "fractions",
        ),
        (lambda d: by_ratio(d, train=float("nan")), ValueError, "fractions"),
        (lambda d: by_ratio(d, valid=10**400), ValueError, "fractions"),
        (lambda d: by_ratio(d, test="some"), ValueError, "fractions"),
        (
            lambda d: by_ratio(d, random_state=np.timedelta64(1, "s")),
            TypeError,
            "random_state",
        ),
        (lambda d: by_ratio(d, random_state=-1), ValueError, "random_state"),
        (lambda d: by_ratio(d, random_state=True), TypeError, "random_state"),
        (
            lambda d: by_ratio(d, random_state=np.random.RandomState(0)),
            TypeError,
            "random_state",
        ),
        (lambda d: leave_last(NO_TIMES), ValueError, "leave_last"),
        (lambda d: by_time(NO_TIMES, test=0.1), ValueError, "by_time"),
        (lambda d: leave_last(d, 0), ValueError, "k"),
        (lambda d: leave_k_out(d, valid_k=-1), ValueError, "valid_k"),
        (lambda d: leave_k_out(d, 0.5), TypeError, "k"),
        (lambda d: leave_k_out(d, 10**30), ValueError, "k"),
        (lambda d: leave_last(d, valid_k=10**400), ValueError, "valid_k"),
        (
            lambda d: by_time(d, test=1.6e9),
            ValueError,
            "test",
        ),
        (lambda d: by_time(d, test="2020"), TypeError, "test"),
        (lambda d: by_time(d, test=True), TypeError, "test"),
        (lambda d: by_time(d, test=110, valid="a"), TypeError, "valid"),
        (lambda d: held_out_users(d, test=1, valid="a"), TypeError, "valid"),
        (lambda d: by_time(d, test=110, valid=111), ValueError, "valid"),
        (lambda d: by_time(d, test=0), ValueError, "test"),
        (lambda d: by_time(d, test=0.6, valid=0.6), ValueError, "test"),
        (lambda d: held_out_users(d, test=12), ValueError, "test"),
        (lambda d: held_out_users(d, test=-1), ValueError, "test"),
        (lambda d: held_out_users(d, test=1.5), ValueError, "test"),
        (lambda d: held_out_users(d, test=1, fold_in=1.0), ValueError, "fold_in"),
    ],
)
def test_what_is_refused(split, error, argument):
    with refuses(error, argument):
        split(toy())


@pytest.mark.parametrize("name", sorted(SPLITS.keys() - {"by_time at timestamps"}))
@pytest.mark.parametrize("data", [None, 5, "file.csv"])
def test_only_interactions_are_split(name, data):
    with refuses(TypeError, remedy=r"make them with Interactions\.from_arrays"):
        SPLITS[name](data, 0)
