"""Splits by users, and by sessions in time: evaluation on users that were not in training."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Seed, check_count, check_length, counted, generator, is_count, share
from mfrank.data.divided import NEVER, blocks_of_users, divided, seen_parts
from mfrank.data.interactions import Interactions
from mfrank.data.splits import Date, points_in_time, rank_in_rows, round_at_random, timestamps_of
from mfrank.errors import InputValueError

NAMES = ("train", "valid-fold-in", "valid-target", "test-fold-in", "test-target")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldOut:
    """Entries of users who have no entries in the training part.

    Attributes
    ----------
    users : int64, shape (n,)
        Row numbers of these users, ascending.
    fold_in : Interactions
        Entries from which a model folds these users in.
    target : Interactions
        Entries to predict.
    """

    users: NDArray[np.int64]
    fold_in: Interactions
    target: Interactions

    def __repr__(self) -> str:
        return (
            f"HeldOut({counted(len(self.users), 'user')}, entries: {self.fold_in.nnz:,} fold_in, "
            f"{self.target.nnz:,} target)"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldOutSplit:
    """A split by users: ``train`` contains all entries of the users who are not held out.

    Attributes
    ----------
    train : Interactions
        Entries of the training users.
    valid, test : HeldOut
        Entries of the held-out users; ``valid`` is empty unless it was requested.
    """

    train: Interactions
    valid: HeldOut
    test: HeldOut

    def __repr__(self) -> str:
        valid = f"valid={self.valid}, " if len(self.valid.users) else ""
        return f"HeldOutSplit(train={self.train}, {valid}test={self.test})"


def held_out_users(
    interactions: Any,
    *,
    test: float,
    valid: float = 0,
    fold_in: float = 0.8,
    random_state: Seed = 0,
    folder: str | os.PathLike[str] | None = None,
) -> HeldOutSplit:
    """Split by users, the strong generalization of Liang et al. (2018).

    ``mfrank.evaluate(model, split.test)`` folds the held-out users in, ranks and scores.

    The entries of held-out users are divided at random into a fold-in and a target part, rounded as
    in :func:`mfrank.by_ratio`; a user with one entry has no target. Unlike in Liang et al., targets
    may have items without training entries: no model can rank them, and the parts stay a partition.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Interactions to split.
    test, valid : int or float
        Users to hold out, drawn from the users with entries: an int is their number; a float in (0,
        1) is their fraction, rounded. ``valid`` is 0 by default.
    fold_in : float, default 0.8
        Fraction of a held-out user's entries to fold in, in (0, 1). The default is Liang et al.'s.
    random_state : int, Generator or None, default 0
        Seed.
    folder : path or None, default None
        Write the parts to the folders train, valid-fold-in, valid-target, test-fold-in and
        test-target in it, and memory-map them; memory does not grow with the entries. None copies
        the parts to memory.

    Raises
    ------
    ValueError
        If a number or fraction is out of range, or no user is left to train on.
    """
    share("fold_in", fold_in)
    interactions = Interactions.of(interactions)
    rng = generator(random_state)
    counts = interactions.counts.users
    active = np.flatnonzero(counts)
    n_test = _number_of_users(test, len(active), "test")
    n_valid = _number_of_users(valid, len(active), "valid")
    if n_test + n_valid >= max(len(active), 1):
        raise InputValueError(
            f"`test` and `valid` hold out {n_test:,} + {n_valid:,} of the "
            f"{counted(len(active), 'user')} with entries: none is left to train on",
            "Hold out fewer",
        )
    n_fold_in, of_entries = rows_to_fold_in(interactions, fold_in, rng)
    test_users, valid_users, _ = np.split(rng.permutation(active), [n_test, n_test + n_valid])
    first_part = np.zeros(len(counts), np.int8)
    first_part[valid_users], first_part[test_users] = 1, 3
    return held_out(interactions, first_part, n_fold_in, of_entries, folder)


def rows_to_fold_in(
    interactions: Interactions, fold_in: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], np.random.Generator]:
    """How many entries of each user are folded in, and a generator that draws which."""
    counts = interactions.counts.users
    n_fold_in = np.maximum(round_at_random(counts * fold_in, rng.random(len(counts))), 1)
    # The entries are drawn before the users; a copy draws them again, block by block.
    of_entries = deepcopy(rng)
    for begin, end in blocks_of_users(interactions):
        rng.random(int(counts[begin:end].sum()))
    return n_fold_in, of_entries


def held_out(
    interactions: Interactions,
    first_part: NDArray[np.int8],
    n_fold_in: NDArray[np.int64],
    of_entries: np.random.Generator,
    folder: str | os.PathLike[str] | None,
) -> HeldOutSplit:
    """The split by the first part of each user: 0 for train, 1 for valid, 3 for test."""
    counts, indptr = interactions.counts.users, interactions.user_items.indptr

    def part_of(begin: int, end: int) -> NDArray[np.int8]:
        own = counts[begin:end]
        offsets = indptr[begin : end + 1] - indptr[begin]
        rank = rank_in_rows(offsets, of_entries.random(int(own.sum())))
        part = np.repeat(first_part[begin:end], own)
        part += (part > 0) & (rank >= np.repeat(n_fold_in[begin:end], own))
        return part

    seen = seen_parts(interactions, first_part)
    train, *parts = divided(interactions, part_of, NAMES, folder, seen)
    valid, test = (np.flatnonzero(first_part == part) for part in (1, 3))
    return HeldOutSplit(train, HeldOut(valid, *parts[:2]), HeldOut(test, *parts[2:]))


def _number_of_users(amount: float, n_users: int, name: str) -> int:
    if is_count(amount):
        check_count(name, int(amount), 0)
        return int(amount)
    return round(n_users * share(name, amount, "a number of users (int) or "))


# A split by sessions in time, to predict how sessions after the training period continue.


def by_session(
    interactions: Any,
    *,
    test: float | Date,
    valid: float | Date | None = None,
    last: int = 1,
    random_state: Seed = 0,
    folder: str | os.PathLike[str] | None = None,
) -> HeldOutSplit:
    """Hold out the sessions that end last; the target is the last items of each.

    Each user of the interactions is a session: a file with users, too, is read with the name of its
    column, ``user="session"``. Sessions before the test sessions are for training (Ludewig &
    Jannach 2018). ``mfrank.evaluate(model, split.test)`` folds each test session in from its first
    items.

    Parameters
    ----------
    interactions : Interactions or DataFrame
        Interactions to split, with timestamps; a user is a session.
    test : int, float, str, date or datetime
        A date or an int, a timestamp, as in :func:`mfrank.by_time`: sessions with an entry at or
        after it are test. A float in (0, 1) is the fraction of sessions, the ones that end last,
        that are test. Sessions that end at the same time stay together, so the part may be larger.
    valid : int, float, str, date, datetime or None, default None
        The same for validation, among the sessions before the test part; a float is a fraction of
        all sessions. None for no validation part.
    last : int, default 1
        Number of last entries of a session that are its target. A held-out session with no more
        than ``last`` entries has no target. Ties of timestamps are broken at random.
    random_state : int, Generator or None, default 0
        Seed for the order of entries with equal timestamps.
    folder : path or None, default None
        As in :func:`mfrank.held_out_users`.

    Raises
    ------
    TypeError, ValueError
        There are no timestamps, a fraction is not in (0, 1), ``valid`` begins after ``test``,
        ``last`` is not an int >= 1, or a part has no session.
    """
    check_length("last", last)
    interactions = Interactions.of(interactions)
    timestamps = timestamps_of(interactions, "by_session", "held_out_users")
    rng = generator(random_state)
    counts, indptr = interactions.counts.users, interactions.user_items.indptr
    active = np.flatnonzero(counts)
    ends = np.zeros(len(counts), dtype=np.int64)
    if len(active):
        ends[active] = np.maximum.reduceat(timestamps, indptr[active])
    train_to, test_from = points_in_time(ends[active], test, valid, "session")
    first_part = np.where(ends < train_to, 0, np.where(ends < test_from, 1, 3)).astype(np.int8)
    first_part[counts == 0] = 0
    n_fold_in = np.where(counts > last, counts - last, counts)
    target_from = np.full(len(counts), NEVER)

    def part_of(begin: int, end: int) -> NDArray[np.int8]:
        own = counts[begin:end]
        entries = slice(int(indptr[begin]), int(indptr[end]))
        drawn = rng.random(entries.stop - entries.start)
        rank = rank_in_rows(indptr[begin : end + 1] - indptr[begin], drawn, timestamps[entries])
        part = np.repeat(first_part[begin:end], own)
        is_target = (part > 0) & (rank >= np.repeat(n_fold_in[begin:end], own))
        users = np.repeat(np.arange(begin, end), own)[is_target]
        np.minimum.at(target_from, users, timestamps[entries][is_target])
        return part + is_target

    seen = seen_parts(interactions, first_part, target_from)
    train, *held_out = divided(interactions, part_of, NAMES, folder, seen)
    valid_users, test_users = (np.flatnonzero(first_part == part) for part in (1, 3))
    return HeldOutSplit(
        train, HeldOut(valid_users, *held_out[:2]), HeldOut(test_users, *held_out[2:])
    )
