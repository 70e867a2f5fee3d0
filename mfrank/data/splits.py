"""Splits of interactions into training, validation and test parts.

Every split is an exact partition: each entry of the input is in one part, with its value and
timestamp, and all parts have the input's shape and ids, so row numbers mean the same in each.
The input is Interactions, or what :meth:`mfrank.Interactions.of` reads as them: a sparse matrix
(users x items) or a DataFrame.
The same ``random_state`` gives the same split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import (
    check_count,
    check_fractions,
    check_length,
    is_count,
    is_number,
    share,
)
from mfrank.arrays.counted import counted
from mfrank.arrays.notebook import table
from mfrank.arrays.random import Seed, generator
from mfrank.data.interactions import Interactions
from mfrank.data.row_portions import rank_in_rows, round_at_random

__all__ = ["Split", "by_ratio", "by_time", "leave_k_out", "leave_last"]


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
) -> Split:
    """Split each user's entries at random in the ratio train : valid : test.

    A part gets n x ratio of a user's n entries, rounded up or down at random so that its expected
    number is exactly n x ratio: a user with 5 entries has a test entry in every other split. Only
    a user whose training part would be empty keeps one entry there.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Interactions to split.
    train, test : float, default 0.8 and 0.1
        Fractions of each user's entries; ``train`` > 0.
    valid : float or None, default None
        None is what ``train`` and ``test`` leave of 1: 0.1 by default, as in the RG paper (appendix
        B.1), and no validation part for ``train=0.8, test=0.2``.
    random_state : int, Generator or None, default 0
        Seed.

    Raises
    ------
    ValueError
        If a fraction is negative, ``train`` is 0, or they do not sum to 1.
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
    rank = rank_in_rows(interactions.user_items.indptr, rng.random(interactions.nnz))
    return _split_at(interactions, rank, n_train, n_fit)


def leave_last(interactions: Any, k: int = 1, *, valid_k: int = 0, random_state: Seed = 0) -> Split:
    """Hold out each user's last ``k`` entries for test and the ``valid_k`` before for validation.

    A user with no more than ``k + valid_k`` entries keeps all of them in the training part. Entries
    with equal timestamps are ordered at random, because item row numbers would favor some items.

    Parameters
    ----------
    interactions : Interactions or DataFrame
        Interactions to split, with timestamps.
    k, valid_k : int, default 1 and 0
        Entries of a user to hold out; ``k`` >= 1, ``valid_k`` >= 0.
    random_state : int, Generator or None, default 0
        Seed for the order of entries with equal timestamps.

    Raises
    ------
    ValueError
        If there are no timestamps, or a count is out of range.
    """
    interactions = Interactions.of(interactions)
    timestamps = _timestamps(interactions, "leave_last", "leave_k_out")
    rng = generator(random_state)
    return _leave_out(interactions, k, valid_k, (rng.random(interactions.nnz), timestamps))


def leave_k_out(
    interactions: Any, k: int = 1, *, valid_k: int = 0, random_state: Seed = 0
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

    Raises
    ------
    ValueError
        If a count is out of range.
    """
    interactions = Interactions.of(interactions)
    rng = generator(random_state)
    return _leave_out(interactions, k, valid_k, (rng.random(interactions.nnz),))


def by_time(interactions: Any, *, test: float, valid: float | None = None) -> Split:
    """Split at points in time, the same for all users: train before valid before test.

    As in production, the test part may have users and items that the training part does not have.

    Parameters
    ----------
    interactions : Interactions or DataFrame
        Interactions to split, with timestamps.
    test : int or float
        An int is a timestamp: entries at or after it are test. A float in (0, 1) is a fraction of
        all entries: the latest ones are test. Entries with equal timestamps stay together, so the
        part may be larger.
    valid : int, float or None, default None
        The same for validation, among the entries before the test part; a float is a fraction of
        all entries. None for no validation part.

    Raises
    ------
    ValueError
        If there are no timestamps, a fraction is not in (0, 1), ``valid`` begins after ``test``, or
        no entry is left to train on.
    TypeError
        If ``test`` or ``valid`` is not a number.
    """
    interactions = Interactions.of(interactions)
    timestamps = _timestamps(interactions, "by_time", "by_ratio")
    ordered = np.sort(timestamps)
    test_from = _cutoff(ordered, test, len(ordered), "test")
    before_test = ordered[: np.searchsorted(ordered, test_from)]
    train_to = test_from
    if valid is not None:
        train_to = _cutoff(before_test, valid, len(ordered), "valid")
    if train_to > test_from:
        raise ValueError(f"valid must not begin after test, at {test_from}; got {valid}")
    if len(ordered) and ordered[0] >= train_to:
        raise ValueError(
            f"no entry is left to train on: timestamps go from {ordered[0]} to {ordered[-1]}; "
            f"got test={test!r}, valid={valid!r}. Use later timestamps or smaller fractions"
        )
    return _parts(interactions, timestamps < train_to, timestamps >= test_from)


def _leave_out(
    interactions: Interactions, k: int, valid_k: int, keys: tuple[NDArray[np.generic], ...]
) -> Split:
    check_length("k", k)
    check_count("valid_k", valid_k, 0, 2**31 - 1)
    counts = interactions.counts.users
    enough = counts > k + valid_k
    n_fit = np.where(enough, counts - k, counts)
    rank = rank_in_rows(interactions.user_items.indptr, *keys)
    return _split_at(interactions, rank, n_fit - valid_k * enough, n_fit)


def _split_at(
    interactions: Interactions,
    rank: NDArray[np.int64],
    n_train: NDArray[np.int64],
    n_fit: NDArray[np.int64],
) -> Split:
    """Cut each user's ranked entries before n_train (valid) and before n_fit (test)."""
    counts = interactions.counts.users
    return _parts(interactions, rank < np.repeat(n_train, counts), rank >= np.repeat(n_fit, counts))


def _parts(interactions: Interactions, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Split:
    valid = ~(train | test)
    return Split(interactions.take(train), interactions.take(valid), interactions.take(test))


def _timestamps(interactions: Interactions, split: str, instead: str) -> NDArray[np.int64]:
    if interactions.timestamps is None:
        raise ValueError(
            f"{split} needs timestamps and these interactions have none; pass them to "
            f"Interactions.from_arrays, or use {instead}"
        )
    return interactions.timestamps


def _cutoff(ordered: NDArray[np.int64], amount: float, n_entries: int, name: str) -> int:
    """First timestamp of a part: ``amount``, or where that fraction of n_entries begins."""
    if is_count(amount):
        return int(amount)
    wanted = max(1, round(n_entries * share(name, amount, "a timestamp (int) or ")))
    return int(ordered[max(len(ordered) - wanted, 0)]) if len(ordered) else 0
