"""A split by sessions in time, to predict how sessions after the training period continue."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_length
from mfrank.arrays.random import Seed, generator
from mfrank.data.divided import NEVER, divided, seen_parts
from mfrank.data.interactions import Interactions
from mfrank.data.row_portions import rank_in_rows
from mfrank.data.splits import cutoff, timestamps_of
from mfrank.data.user_splits import NAMES, HeldOut, HeldOutSplit

__all__ = ["by_session"]


def by_session(
    interactions: Any,
    *,
    test: float,
    valid: float | None = None,
    last: int = 1,
    random_state: Seed = 0,
    folder: str | os.PathLike[str] | None = None,
) -> HeldOutSplit:
    """Hold out the sessions that end last; the last items of each are to be predicted.

    Each user of the interactions is a session: read a file with ``user="session"``, or whatever
    the column is called. Sessions before the test sessions are for training (Ludewig & Jannach
    2018). ``mfrank.evaluate(model, split.test)`` folds each test session in from its first items.

    Parameters
    ----------
    interactions : Interactions or DataFrame
        Interactions to split, with timestamps; a user is a session.
    test : int or float
        An int is a timestamp: sessions with an entry at or after it are test. A float in (0, 1) is
        a fraction of the sessions: those that end last. Sessions that end at the same time stay
        together, so the part may be larger.
    valid : int, float or None, default None
        The same for validation, among the sessions before the test part; a float is a fraction of
        all sessions. None for no validation part.
    last : int, default 1
        Number of a session's last entries that are its target. A held-out session with no more
        entries has no target. Entries with equal timestamps are ordered at random.
    random_state : int, Generator or None, default 0
        Seed for the order of entries with equal timestamps.
    folder : path or None, default None
        As in :func:`mfrank.held_out_users`.

    Raises
    ------
    TypeError, ValueError
        There are no timestamps, a fraction is not in (0, 1), ``valid`` begins after ``test``,
        ``last`` is not an int >= 1, or no session is left to train on.
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
    test_from = train_to = cutoff(ends[active], test, "test")
    if valid is not None:
        train_to = cutoff(ends[active], valid, "valid", before=test_from)
    if train_to > test_from:
        raise ValueError(f"valid must not begin after test, at {test_from}; got {valid}")
    if len(active) and ends[active].min() >= train_to:
        raise ValueError(
            f"no session is left to train on: they end from {ends[active].min()} to {ends.max()}; "
            f"got test={test!r}, valid={valid!r}. Use later timestamps or smaller fractions"
        )
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
