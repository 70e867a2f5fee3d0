"""Synthetic interactions with properties of real ones: long tails, tastes, sessions, drift."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_count
from mfrank.arrays.random import Seed, generator
from mfrank.data.interactions import Interactions
from mfrank.data.synthetic_choices import GENRES, ItemLine, Tastes, choose

__all__ = ["synthetic"]

_ACTIVITY_TAIL = 3.0  # Pareto shape
_LEAST_ACTIVITY, _MOST_ACTIVITY = 0.2, 0.4  # as fractions of the mean and of the catalog
_BLOCK = 1 << 20  # interactions drawn at once, about
_START, _SPAN = 1_577_836_800, 4 * 365 * 86_400  # from 2020, four years, in seconds
_SESSION = 12  # mean entries per session
_SESSION_SECONDS = 1_800.0  # mean time from a session's start to its entries


def synthetic(
    n_users: int = 2_000,
    n_items: int = 1_000,
    interactions: int = 100_000,
    *,
    names: bool = False,
    random_state: Seed = 0,
) -> Interactions:
    """Draw interactions with long tails, tastes, sessions and drift.

    Parameters
    ----------
    n_users, n_items : int, default 2000 and 1000
        Shape of the result.
    interactions : int, default 100000
        Exact number of distinct pairs to draw; every user has at least one.
    names : bool, default False
        Use names as ids, ``user-00042`` for users and the genre for items, ``western-0007``, so
        that recommendations can be judged by eye. Otherwise ids are row numbers.
    random_state : int, Generator or None, default 0
        The same seed gives the same data.

    Returns
    -------
    Interactions
        Values are 1; timestamps are seconds since 1970, over four years from 2020.

    Raises
    ------
    ValueError
        If ``interactions`` is not between ``n_users`` and ``n_users * n_items``, or a size is < 1.
    """
    for name, size in {"n_users": n_users, "n_items": n_items}.items():
        check_count(name, size, 1)
    check_count("interactions", interactions, 1)
    n_users, n_items, interactions = int(n_users), int(n_items), int(interactions)
    if not n_users <= interactions <= n_users * n_items:
        raise ValueError(
            f"interactions must be from n_users, {n_users}, to n_users * n_items, "
            f"{n_users * n_items}, got {interactions}"
        )
    rng = generator(random_state)
    line = ItemLine.drawn(n_items, rng)
    counts = _activity(n_users, n_items, interactions, rng)
    users = np.repeat(np.arange(n_users), counts)
    items = np.empty(interactions, np.int32)
    timestamps = np.empty(interactions, np.int64)
    for first, last, start, stop in _blocks(counts):
        when = _times(counts[first:last], rng)
        timestamps[start:stop] = _START + when
        tastes = Tastes.drawn(line, last - first, rng)
        items[start:stop] = choose(tastes, users[start:stop] - first, when / _SPAN, rng)
    return Interactions.from_arrays(
        users,
        items,
        timestamps=timestamps,
        timestamp_unit="s",
        shape=(n_users, n_items),
        user_ids=[f"user-{user:05d}" for user in range(n_users)] if names else None,
        item_ids=_item_names(line.genres) if names else None,
    )


def _activity(
    n_users: int, n_items: int, interactions: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Entries of each user, from 1 to n_items, summing to ``interactions``."""
    least = max(1, int(_LEAST_ACTIVITY * interactions / n_users))
    twice_the_mean = 2 * -(-interactions // n_users)
    most = min(n_items, max(twice_the_mean, int(_MOST_ACTIVITY * n_items)))
    weights = rng.pareto(_ACTIVITY_TAIL, n_users)
    counts = np.full(n_users, least)
    while left := interactions - int(counts.sum()):
        below = np.flatnonzero(counts < most)
        portion = weights[below] / weights[below].sum() * left
        more = np.floor(portion).astype(np.int64)
        if not more.any():  # fewer entries are left than users: one each to the largest portions
            more[np.argsort(-portion, kind="stable")[:left]] = 1
        counts[below] = np.minimum(counts[below] + more, most)
    return counts


def _blocks(counts: NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of users and of their entries, with about _BLOCK entries each."""
    ends = np.cumsum(counts)
    cuts = np.searchsorted(ends, np.arange(_BLOCK, ends[-1], _BLOCK))
    users = np.unique([0, *cuts, len(counts)])
    entries = np.append(0, ends)[users]
    yield from zip(users[:-1], users[1:], entries[:-1], entries[1:], strict=True)


def _times(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Seconds from _START to each entry; most sessions are soon after the user joins."""
    n_sessions = -(-counts // _SESSION)
    joined = np.repeat(rng.random(len(counts)), n_sessions)
    begins = (joined + (1 - joined) * rng.random(len(joined)) ** 2) * _SPAN
    session = np.repeat(np.cumsum(n_sessions) - n_sessions, counts)
    session += rng.integers(np.repeat(n_sessions, counts))
    when = begins[session] + rng.exponential(_SESSION_SECONDS, len(session))
    return np.minimum(when, _SPAN - 1).astype(np.int64)


def _item_names(genres: NDArray[np.int64]) -> list[str]:
    """Names made of the genre and the item's number within it, from 1."""
    number = np.empty(len(genres), np.int64)
    order = np.argsort(genres, kind="stable")
    sizes = np.bincount(genres)
    number[order] = np.arange(len(genres)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    return [f"{GENRES[genre]}-{n:04d}" for genre, n in zip(genres, number, strict=True)]
