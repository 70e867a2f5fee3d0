"""Splits of interactions into training, validation and test parts.

Every split is an exact partition: each entry of the input is in one part, with its value and
timestamp. All parts have the shape and ids of the input, so row numbers agree. The input is
Interactions, a sparse matrix (users x items) or a DataFrame; see :meth:`mfrank.Interactions.of`.
The same ``random_state`` gives the same split.

Cells that are only seen (``Interactions.seen_only``, such as ratings below a threshold) are split
by timestamp in splits by time, so that the training part knows nothing of the test period. In
random splits they all go to the training part, or to the fold-in part.

Entries are read by blocks of users. With ``folder=``, the memory to split mapped interactions
(:meth:`mfrank.Interactions.open`) does not grow with their number; the parts are the same.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import (
    Seed,
    check_count,
    check_fractions,
    check_length,
    counted,
    generator,
    is_count,
    is_number,
    share,
    shown,
    table,
)
from mfrank.data.divided import NEVER, divided, seen_parts
from mfrank.data.interactions import Interactions
from mfrank.data.odd_times import check_moment
from mfrank.data.time_units import unit_of
from mfrank.data.times import epoch_seconds, is_date
from mfrank.errors import InputValueError

# Random portions of sparse rows: the number of a row's entries, and their ranks.


def round_at_random(
    expected: NDArray[np.floating], offset: NDArray[np.floating]
) -> NDArray[np.int64]:
    """Round down or up at random: floor(expected + offset), elementwise.

    With offsets uniform on [0, 1), the mean of the result is ``expected``. At a fixed offset, the
    result does not decrease with ``expected``, and the difference of two results is the difference
    of their expectations, rounded down or up.
    """
    # Ten digits, because 0.7 + 0.1 is not exactly 0.8.
    rounded: NDArray[np.int64] = np.floor(np.round(expected, 10) + offset).astype(np.int64)
    return rounded


def order_in_rows(indptr: NDArray[Any], *keys: NDArray[Any]) -> NDArray[np.int64]:
    """The entries of each row by ascending keys, of which the last is the primary one.

    Row after row; equal keys keep the order of the entries. ``keys`` have a number for each entry
    from ``indptr[0]`` on, which is entry 0 of the result.
    """
    order = np.empty(int(indptr[-1] - indptr[0]), np.int64)
    first, n_rows, done = 0, len(indptr) - 1, 0
    while first < n_rows:  # rows that fit into the cache together, or one that does not
        past = int(np.searchsorted(indptr, indptr[first] + _CACHED, side="right")) - 1
        last = min(max(past, first + 1), n_rows)
        rows = np.repeat(np.arange(last - first), np.diff(indptr[first : last + 1]))
        here = slice(done, done + len(rows))
        order[here] = done + _order(rows, [key[here] for key in keys])
        first, done = last, here.stop
    return order


def rank_in_rows(indptr: NDArray[Any], *keys: NDArray[Any]) -> NDArray[np.int64]:
    """Rank of each entry in its row, from 0, by ascending keys; the last key is the primary one."""
    order = order_in_rows(indptr, *keys)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.repeat(indptr[:-1] - indptr[0], np.diff(indptr))
    return rank


_CACHED = 1 << 13


def _order(rows: NDArray[np.int64], keys: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """The entries by row, then by the keys, of which the last is the primary one.

    One sort of one number each is many times faster than ``numpy.lexsort``, which sorts every key.
    """
    if not len(rows):
        return np.zeros(0, np.int64)
    key, *others = keys
    if others:
        first = np.argsort(key)
        if (np.diff(key[first]) > 0).all():  # else the order of equals is not that of the entries
            return first[_order(rows[first], [other[first] for other in others])]
    elif key.dtype == np.float64 and key.min() >= 0 and key.max() < 1:
        sums = rows + key
        order = np.argsort(sums)
        if (np.diff(sums[order]) > 0).all():  # no two became equal by rounding
            return order
    elif key.dtype == np.int64:
        least, of_place = key.min(), len(rows).bit_length()
        of_key = (int(key.max()) - int(least)).bit_length()
        if int(rows.max()).bit_length() + of_key + of_place < 64:
            packed: NDArray[np.int64] = (rows << of_key | key - least) << of_place
            packed |= np.arange(len(rows))
            packed.sort()
            packed &= (1 << of_place) - 1
            return packed
    return np.lexsort((*keys, rows))


# The k-th largest of whole numbers that need not fit into memory.


_AT_ONCE = 1 << 17
_BITS = 16
_SIGN = np.uint64(1 << 63)


def number_below(numbers: NDArray[np.int64], end: int) -> int:
    """Number of elements below ``end``."""
    return sum(int(np.count_nonzero(block < end)) for block in _blocks(numbers))


def kth_largest(numbers: NDArray[np.int64], k: int, below: int | None = None) -> int:
    """The ``k``-th largest of the numbers below ``below``; there must be at least ``k``.

    The numbers are read four times, in order, once for each 16 bits of the result.
    """
    prefix = 0
    for shift in range(64 - _BITS, -1, -_BITS):
        counts = np.zeros(1 << _BITS, np.int64)
        for block in _blocks(numbers):
            chosen = block if below is None else block[block < below]
            keys = chosen.view(np.uint64) ^ _SIGN  # in the order of the numbers
            digits = keys >> np.uint64(shift)
            digits = digits[digits >> np.uint64(_BITS) == prefix]
            counts += np.bincount(
                (digits & np.uint64((1 << _BITS) - 1)).astype(np.int64), minlength=1 << _BITS
            )
        from_above = np.cumsum(counts[::-1])
        place = int(np.searchsorted(from_above, k))
        k -= int(from_above[place - 1]) if place else 0
        prefix = prefix << _BITS | ((1 << _BITS) - 1 - place)
    return prefix - (1 << 63)


def _blocks(numbers: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for begin in range(0, len(numbers), _AT_ONCE):
        yield np.ascontiguousarray(numbers[begin : begin + _AT_ONCE])


_LARGER = 1.5
"""A part by time that has so many times the entries that were asked for is told."""

_log = logging.getLogger("mfrank")

Folder: TypeAlias = str | os.PathLike[str] | None
"""Where the parts are written, or None."""

Date: TypeAlias = str | date | np.datetime64
"""A point in time; datetimes of Python and of pandas are dates."""

Key: TypeAlias = Callable[[slice], NDArray[np.generic]]
"""Numbers by which entries are ranked; called with blocks of entries in their order."""

_NAMES = ("train", "valid", "test")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Split:
    """Training, validation and test entries of the same users and items.

    Attributes
    ----------
    train, valid, test : Interactions
        Disjoint parts. ``valid`` is empty unless it was requested.
    """

    train: Interactions
    valid: Interactions
    test: Interactions

    def __repr__(self) -> str:
        entries = ", ".join(f"{part.nnz:,} {name}" for name, part in self._parts().items())
        users, items = self.train.n_users, self.train.n_items
        return f"Split({counted(users, 'user')} x {counted(items, 'item')}, entries: {entries})"

    def _repr_html_(self) -> str:
        in_all = sum(part.nnz for part in self._parts().values())
        rows = [
            (
                name,
                f"{part.nnz:,}",
                f"{part.nnz / max(in_all, 1):.1%}",
                f"{np.count_nonzero(part.counts.users):,}",
                f"{np.count_nonzero(part.counts.items):,}",
            )
            for name, part in self._parts().items()
        ]
        header = ("part", "entries", "fraction", "users with entries", "items with entries")
        return table("Split", rows, header)

    def _parts(self) -> dict[str, Interactions]:
        return {"train": self.train, "valid": self.valid, "test": self.test}


def by_ratio(
    interactions: Any,
    *,
    train: float = 0.8,
    valid: float | None = None,
    test: float = 0.1,
    random_state: Seed = 0,
    folder: Folder = None,
) -> Split:
    """Split each user's entries at random in the ratio train : valid : test.

    A part gets n x ratio of a user's n entries, rounded up or down at random, with expectation
    exactly n x ratio: a user with 5 entries has a test entry in every other split. A user whose
    training part would be empty keeps one entry there.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Interactions to split.
    train, test : float, default 0.8 and 0.1
        Fractions of each user's entries; ``train`` > 0.
    valid : float or None, default None
        None is 1 - ``train`` - ``test``: 0.1 by default, as in the RG paper (appendix B.1), and no
        validation part for ``train=0.8, test=0.2``.
    random_state : int, Generator or None, default 0
        Seed.
    folder : path or None, default None
        Write the parts to the folders train, valid and test in it, and memory-map them; memory does
        not grow with the entries. None copies the parts to memory.

    Raises
    ------
    ValueError
        If a fraction is negative, ``train`` is 0, or the fractions do not sum to 1.
    """
    if valid is None:
        known = is_number(train) and is_number(test)  # what is none is refused below
        valid = max(round(1 - float(train) - float(test), 10), 0.0) if known else 0.0
    check_fractions(train=train, valid=valid, test=test)
    interactions = Interactions.of(interactions)
    rng = generator(random_state)
    counts = interactions.counts.users
    offset = rng.random(len(counts))
    n_train = np.maximum(round_at_random(counts * train, offset), np.minimum(counts, 1))
    n_fit = np.maximum(round_at_random(counts * (train + valid), offset), n_train)
    return _split_at(
        interactions, (lambda entries: rng.random(_length(entries)),), n_train, n_fit, folder
    )


def leave_last(
    interactions: Any,
    k: int = 1,
    *,
    valid_k: int = 0,
    random_state: Seed = 0,
    folder: Folder = None,
) -> Split:
    """Hold out each user's last ``k`` entries for test, and ``valid_k`` before them for validation.

    A user with no more than ``k + valid_k`` entries keeps all of them in the training part. Ties of
    timestamps are broken at random, because row numbers would favor some items.

    Parameters
    ----------
    interactions : Interactions or DataFrame
        Interactions to split, with timestamps.
    k, valid_k : int, default 1 and 0
        Entries of a user to hold out; ``k`` >= 1, ``valid_k`` >= 0.
    random_state : int, Generator or None, default 0
        Seed for the order of entries with equal timestamps.
    folder : path or None, default None
        As in :func:`by_ratio`.

    Raises
    ------
    ValueError
        If there are no timestamps, or a count is out of range.
    """
    interactions = Interactions.of(interactions)
    timestamps = timestamps_of(interactions, "leave_last", "leave_k_out")
    rng = generator(random_state)
    keys = (lambda entries: rng.random(_length(entries)), timestamps.__getitem__)
    return _leave_out(interactions, k, valid_k, keys, folder, timestamps)


def leave_k_out(
    interactions: Any,
    k: int = 1,
    *,
    valid_k: int = 0,
    random_state: Seed = 0,
    folder: Folder = None,
) -> Split:
    """Hold out ``k`` random entries of each user for test and ``valid_k`` for validation.

    A user with no more than ``k + valid_k`` entries keeps all of them in the training part.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Interactions to split.
    k, valid_k : int, default 1 and 0
        Entries of a user to hold out; ``k`` >= 1, ``valid_k`` >= 0.
    random_state : int, Generator or None, default 0
        Seed.
    folder : path or None, default None
        As in :func:`by_ratio`.

    Raises
    ------
    ValueError
        If a count is out of range.
    """
    interactions = Interactions.of(interactions)
    rng = generator(random_state)
    keys = (lambda entries: rng.random(_length(entries)),)
    return _leave_out(interactions, k, valid_k, keys, folder)


def by_time(
    interactions: Any,
    *,
    test: float | Date,
    valid: float | Date | None = None,
    folder: Folder = None,
) -> Split:
    """Split at points in time, the same for all users: train before valid before test.

    As in production, the test part may have users and items that the training part lacks.

    Parameters
    ----------
    interactions : Interactions or DataFrame
        Interactions to split, with timestamps.
    test : int, float, str, date or datetime
        A date such as ``"2024-05-01"`` or an int, a timestamp: entries at or after it are test. A
        date is in UTC unless it has a time zone. A float in (0, 1) is the fraction of all entries,
        the latest ones, that are test. Entries with equal timestamps stay together, so the part may
        be larger.
    valid : int, float, str, date, datetime or None, default None
        The same for validation, among the entries before the test part; a float is a fraction of
        all entries. None for no validation part.
    folder : path or None, default None
        As in :func:`by_ratio`.

    Raises
    ------
    ValueError
        If there are no timestamps, a fraction is not in (0, 1), a date or an int is in another unit
        than the timestamps, ``valid`` begins after ``test``, or a part has no entry.
    TypeError
        If ``test`` or ``valid`` is neither a number nor a date.
    """
    interactions = Interactions.of(interactions)
    timestamps = timestamps_of(interactions, "by_time", "by_ratio")
    train_to, test_from = points_in_time(timestamps, test, valid)
    indptr = interactions.user_items.indptr

    def part_of(begin: int, end: int) -> NDArray[np.int8]:
        times = timestamps[indptr[begin] : indptr[end]]
        return _parts(times < train_to, times >= test_from)

    since = (np.full(interactions.n_users, time) for time in (train_to, test_from))
    seen = seen_parts(interactions, 0, *since)
    return Split(*divided(interactions, part_of, _NAMES, folder, seen))


def _leave_out(
    interactions: Interactions,
    k: int,
    valid_k: int,
    keys: Sequence[Key],
    folder: Folder,
    timestamps: NDArray[np.int64] | None = None,
) -> Split:
    check_length("k", k)
    check_count("valid_k", valid_k, 0, 2**31 - 1)
    counts = interactions.counts.users
    enough = counts > k + valid_k
    n_fit = np.where(enough, counts - k, counts)
    return _split_at(interactions, keys, n_fit - valid_k * enough, n_fit, folder, timestamps)


def _split_at(
    interactions: Interactions,
    keys: Sequence[Key],
    n_train: NDArray[np.int64],
    n_fit: NDArray[np.int64],
    folder: Folder,
    timestamps: NDArray[np.int64] | None = None,
) -> Split:
    """Cut each user's entries, ranked by keys, before n_train (valid) and before n_fit (test).

    With timestamps, what a user only saw is in the part of its time, else in the training part.
    """
    counts, indptr = interactions.counts.users, interactions.user_items.indptr
    seen = seen_parts(interactions, 0)
    valid_from, test_from = (np.full(len(counts), NEVER) for _ in range(2))
    if interactions.seen_only is None:
        timestamps = None
    elif timestamps is not None:
        seen = seen_parts(interactions, 0, valid_from, test_from)

    def part_of(begin: int, end: int) -> NDArray[np.int8]:
        entries = slice(int(indptr[begin]), int(indptr[end]))
        rank = rank_in_rows(
            indptr[begin : end + 1] - indptr[begin], *(key(entries) for key in keys)
        )
        train, fit = (np.repeat(n[begin:end], counts[begin:end]) for n in (n_train, n_fit))
        if timestamps is not None:  # the parts of entries are known before those of what was seen
            users = np.repeat(np.arange(begin, end), counts[begin:end])
            for since, held_out in ((valid_from, rank >= train), (test_from, rank >= fit)):
                np.minimum.at(since, users[held_out], timestamps[entries][held_out])
        return _parts(rank < train, rank >= fit)

    return Split(*divided(interactions, part_of, _NAMES, folder, seen))


def _parts(train: NDArray[np.bool_], test: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Number of each entry's part in a :class:`Split`."""
    return np.where(train, 0, np.where(test, 2, 1)).astype(np.int8)


def _length(entries: slice) -> int:
    return int(entries.stop - entries.start)


def timestamps_of(interactions: Interactions, split: str, instead: str) -> NDArray[np.int64]:
    """The timestamps that a split needs; raises ValueError if there are none."""
    if interactions.timestamps is None:
        raise InputValueError(
            f"`{split}` needs timestamps and these interactions have none",
            f"pass them to `Interactions.from_arrays`, or use `{instead}`",
        )
    return interactions.timestamps


def points_in_time(
    times: NDArray[np.int64], test: Any, valid: Any, noun: str = "entry"
) -> tuple[int, int]:
    """Where the validation part begins, and the test part; without validation, these are equal.

    Raises
    ------
    ValueError, TypeError
        As of :func:`by_time`; ``times`` are of entries or, by ``noun``, of others.
    """
    test_from = train_to = _cutoff(times, test, "test")
    if valid is not None:
        train_to = _cutoff(times, valid, "valid", before=test_from)
    if train_to > test_from:
        raise InputValueError(f"`valid` must not begin after test, at {test_from}; got {valid}")
    if not len(times):
        return train_to, test_from
    between = (times >= train_to) & (times < test_from)
    for is_there, what, remedy in (
        (times.min() < train_to, f"no {noun} is left to train on", "later timestamps or smaller"),
        (times.max() >= test_from, f"no {noun} is in the test part", "an earlier timestamp or"),
        (valid is None or between.any(), f"no {noun} is in the validation part", "others, or"),
    ):
        if not is_there:
            raise InputValueError(
                f"{what}: timestamps go from {times.min()} to {times.max()}; got "
                f"`test={shown(test)}`, `valid={shown(valid)}`",
                f"Use {remedy} fractions",
            )
    return train_to, test_from


def _cutoff(
    timestamps: NDArray[np.int64], amount: Any, name: str, before: int | None = None
) -> int:
    """First timestamp of a part: ``amount``, or the earliest of that fraction of latest entries.

    A date is its first second, in UTC unless it has a time zone.

    With ``before``, only entries before it count; the fraction is still of all entries.
    """
    if is_count(amount):
        check_moment(name, int(amount), timestamps)
        return int(amount)
    if is_date(amount):
        return _second_of(amount, timestamps, name)
    n = len(timestamps)
    wanted = max(1, round(n * share(name, amount, "a date, a timestamp (int) or ")))
    there = n if before is None else number_below(timestamps, before)
    if not there:
        return before or 0
    first = kth_largest(timestamps, min(wanted, there), before)
    taken = there - number_below(timestamps, first)
    if first > timestamps.min() and taken > _LARGER * wanted:  # else nothing is left: an error
        _log.warning(
            "%s=%g is %s, and those at the same time, %d, make %s of them",
            *(name, amount, counted(wanted, "entry"), first, counted(taken, "entry")),
        )
    return first


def _second_of(moment: Any, timestamps: NDArray[np.int64], name: str) -> int:
    """A date as a timestamp; ValueError if the timestamps are not seconds since 1970."""
    last = int(timestamps.max(initial=0))
    if len(timestamps) and unit_of(last) != "s":
        raise InputValueError(
            f"`{name}` is a date, and the timestamps, up to {last}, are no seconds since 1970",
            "pass an int in their unit",
        )
    try:
        return int(epoch_seconds([moment])[0])
    except ValueError as error:  # such as 3/4/2024, with the day or the month first
        raise InputValueError(
            f"`{name}` is not a date that is read in one way: {shown(moment)}",
            "write it as 2024-05-01 or 2024-05-01 12:00",
        ) from error
