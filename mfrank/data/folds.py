"""Repeated splits: windows that roll on in time, and folds of users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Seed, check_count, counted, generator, is_count, share, shown
from mfrank.data.divided import divided, seen_parts
from mfrank.data.interactions import Interactions
from mfrank.data.splits import Split, number_below, timestamps_of
from mfrank.data.time_units import unit_of
from mfrank.data.user_splits import HeldOutSplit, held_out, rows_to_fold_in
from mfrank.errors import InputTypeError, InputValueError

Duration: TypeAlias = str | int | timedelta | np.timedelta64
"""A time: text such as "7d", of seconds, minutes, hours, days or weeks; or a number of the unit."""

_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WRITTEN = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_SECONDS)})\s*")


def rolling(
    interactions: Any, *, test: Duration, folds: int, valid: Duration | None = None
) -> Iterator[Split]:
    """Split at several points in time: each test part is the window after the one before.

    The last window ends with the latest interaction. A fold's training part is all that was before
    its window and its validation part, so no model learns of the future. What comes after the
    window is in no part. ``[mfrank.evaluate(model.fit(fold.train), fold.test) for fold in ...]``
    judges a model as one that is fitted anew every ``test``.

    Parameters
    ----------
    interactions : Interactions or DataFrame
        Interactions to split, with timestamps.
    test : str, int or timedelta
        Length of a window: text such as ``"7d"``, ``"12h"``, ``"30min"``, ``"2w"`` or ``"90s"``, or
        an int in the unit of the timestamps. Text needs timestamps in seconds since 1970, which
        dates become when they are read.
    folds : int
        Number of windows, >= 1.
    valid : str, int, timedelta or None, default None
        The same for a validation part directly before each window. None for no validation part.

    Returns
    -------
    iterator of Split
        The folds, the earliest first; each is made when it is asked for.

    Raises
    ------
    TypeError, ValueError
        Before the first fold: there are no timestamps, or they are in another unit than a duration;
        a length or ``folds`` is invalid; or a window or the first training part has no entry.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.Interactions.from_arrays([0, 1, 0, 1], [5, 5, 6, 7], timestamps=[1, 2, 3, 4])
    >>> [(fold.train.nnz, fold.test.nnz) for fold in mfrank.rolling(data, test=1, folds=2)]
    [(2, 1), (3, 1)]
    """
    interactions = Interactions.of(interactions)
    timestamps = timestamps_of(interactions, "rolling", "user_folds")
    check_count("folds", folds, 1)
    if not len(timestamps):
        raise InputValueError("there are no interactions to split")
    latest = int(timestamps.max())
    length = _length("test", test, latest)
    before = 0 if valid is None else _length("valid", valid, latest)
    first, folds = int(timestamps.min()), int(folds)
    begins = range(latest + 1 - length * folds, latest + 1, length)
    if begins.start - before <= first:
        fit = max(0, (latest - first - before) // length)
        raise InputValueError(
            f"`folds`: no entry is left to train the first of {folds} on: timestamps go from "
            f"{first} to {latest}",
            f"use at most {fit} folds" if fit else "use a shorter `test`",
        )
    for number, begin in enumerate(begins, 1):
        if number_below(timestamps, begin) == number_below(timestamps, begin + length):
            raise InputValueError(
                f"`test`: the window of fold {number} of {folds}, from {begin} on, has no entry",
                "use a longer one, or fewer folds",
            )
    return (_window(interactions, begin - before, begin, begin + length) for begin in begins)


def _window(data: Interactions, valid_from: int, test_from: int, end: int) -> Split:
    indptr, timestamps = data.user_items.indptr, data.timestamps
    assert timestamps is not None
    starts = np.array([valid_from, test_from, end])

    def part_of(begin: int, stop: int) -> NDArray[np.int8]:
        times = timestamps[indptr[begin] : indptr[stop]]
        return np.searchsorted(starts, times, side="right").astype(np.int8)

    seen = seen_parts(data, 0, *(np.full(data.n_users, time) for time in starts))
    names = ("train", "valid", "test", "later")
    return Split(*divided(data, part_of, names, None, seen)[:3])


def _length(name: str, given: Duration, latest: int) -> int:
    """A duration in the unit of the timestamps, >= 1."""
    if is_count(given):
        check_count(name, int(given), 1)  # type: ignore[arg-type]
        return int(given)  # type: ignore[arg-type]
    seconds: float
    if isinstance(given, timedelta):
        seconds = given.total_seconds()
    elif isinstance(given, np.timedelta64):
        seconds = float(given / np.timedelta64(1, "s"))
    elif isinstance(given, str) and (found := _WRITTEN.fullmatch(given)):
        seconds = float(found[1]) * _SECONDS[found[2]]
    else:
        raise InputTypeError(
            f'`{name}` must be a duration such as "7d", got {shown(given)}',
            f"write a number and one of {', '.join(_SECONDS)}",
        )
    if not 1 <= seconds < 2.0**62:
        raise InputValueError(f"`{name}` must be a second or longer, got {shown(given)}")
    if unit_of(latest) != "s":
        raise InputValueError(
            f"`{name}` is a duration, and the timestamps, up to {latest}, are no seconds since "
            "1970",
            "pass an int in their unit",
        )
    return round(seconds)


def user_folds(
    interactions: Any, *, folds: int = 5, fold_in: float = 0.8, random_state: Seed = 0
) -> Iterator[HeldOutSplit]:
    """Hold out each user once: k-fold cross-validation over users.

    Each fold is like a split of :func:`mfrank.held_out_users`, whose test part has one k-th of the
    users; ``mfrank.evaluate(model.fit(fold.train), fold.test)`` folds them in.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Interactions to split.
    folds : int, default 5
        Number of folds, from 2 to the number of users with entries.
    fold_in : float, default 0.8
        As in :func:`mfrank.held_out_users`.
    random_state : int, Generator or None, default 0
        Seed.

    Returns
    -------
    iterator of HeldOutSplit
        The folds; each is made when it is asked for. ``valid`` is empty.

    Raises
    ------
    ValueError
        Before the first fold: a number or fraction is out of range.
    """
    share("fold_in", fold_in)
    check_count("folds", folds, 2)
    interactions = Interactions.of(interactions)
    rng = generator(random_state)
    active = np.flatnonzero(interactions.counts.users)
    if folds > len(active):
        raise InputValueError(
            f"`folds` is {folds}, and there are {counted(len(active), 'user')} with entries",
            "use fewer folds",
        )
    n_fold_in, of_entries = rows_to_fold_in(interactions, fold_in, rng)

    def fold_of(users: NDArray[np.int64]) -> HeldOutSplit:
        part = np.zeros(interactions.n_users, np.int8)
        part[users] = 3
        return held_out(interactions, part, n_fold_in, deepcopy(of_entries), None)

    return map(fold_of, np.array_split(rng.permutation(active), folds))
