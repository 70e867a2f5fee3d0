"""Synthetic interactions with properties of real data: long tails, tastes, sessions, drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Seed, check_count, check_flags, check_length, generator
from mfrank.data.cells import check_room
from mfrank.data.interactions import Interactions
from mfrank.errors import InputValueError

# Tastes of synthetic users, and the items they choose.
#
# Items lie on a line, genre after genre, and within a genre by style, from old to new. Each item
# covers an interval whose length is its popularity within the genre; popularity follows a power
# law. A user has preferences over genres and a position along the style. An interaction is a
# point on the line: a genre drawn by preference, and in it the user's position plus noise, which
# moves toward new items with time; or, with a small probability, a point drawn by popularity
# alone. So beyond popularity a recommender can find a discrete and a continuous factor.


GENRES = (
    *("drama", "comedy", "thriller", "romance", "action", "crime", "sci-fi", "horror"),
    *("adventure", "animation", "documentary", "fantasy", "musical", "western", "war", "noir"),
)
_POPULARITY_EXPONENT = 1.4  # of the power law
_POPULARITY_SHIFT = 0.02  # fraction of the catalog: the head is flatter than the law
_GENRE_SIZE = 50  # approximate least items per genre: small catalogs have fewer genres
_GENRE_CONCENTRATION = 1.5  # sum of the Dirichlet parameters: most users prefer two or three genres
_STYLE_NOISE = 0.15
_DRIFT = 0.4  # fraction of the position along the style that is due to time
_BACKGROUND = 0.1  # fraction of interactions drawn by popularity alone
_REACHES = (1, 1, 2, 4, 8, 16)  # of the rounds that redraw items a user already has


@dataclass(frozen=True, slots=True, eq=False)
class ItemLine:
    """The line of items: item ``order[j]`` ends at ``ends[j]``, genre g at g + 1."""

    genres: NDArray[np.int64]  # of each item
    shares: NDArray[np.floating]  # popularity of each genre as a fraction of the total
    popularity: NDArray[np.floating]  # of each item
    order: NDArray[np.int64]
    ends: NDArray[np.floating]

    @classmethod
    def drawn(cls, n_items: int, rng: np.random.Generator) -> ItemLine:
        """Draw items; no genre is empty."""
        n_genres = min(len(GENRES), -(-n_items // _GENRE_SIZE))
        genres = np.concatenate(
            [np.arange(n_genres), rng.integers(n_genres, size=n_items - n_genres)]
        )
        rank = rng.permutation(n_items) + 1.0
        popularity: NDArray[np.floating] = (
            rank + _POPULARITY_SHIFT * n_items
        ) ** -_POPULARITY_EXPONENT
        order = np.lexsort((rng.random(n_items), genres))
        totals = np.bincount(genres, popularity)
        lengths = popularity / totals[genres]
        return cls(genres, totals / totals.sum(), popularity, order, np.cumsum(lengths[order]))

    def anywhere(self, n: int, rng: np.random.Generator) -> NDArray[np.floating]:
        """Draw points by popularity alone."""
        genre = np.searchsorted(np.cumsum(self.shares[:-1]), rng.random(n), side="right")
        return np.asarray(genre + rng.random(n))

    def at(self, points: NDArray[np.floating]) -> NDArray[np.int64]:
        """Items at points of the line."""
        place = np.searchsorted(self.ends, points, side="right")
        return self.order[np.minimum(place, len(self.order) - 1)]


@dataclass(frozen=True, slots=True, eq=False)
class Tastes:
    """Tastes of a block of users, numbered from 0."""

    line: ItemLine
    genres: NDArray[np.floating]  # cumulative preferences; user u's lie in u to u + 1
    style: NDArray[np.floating]  # position along the style, in [0, 1)

    @classmethod
    def drawn(cls, line: ItemLine, n_users: int, rng: np.random.Generator) -> Tastes:
        """Draw tastes."""
        weights = _GENRE_CONCENTRATION * line.shares
        cumulative = np.cumsum(rng.gamma(weights, size=(n_users, len(weights))), axis=1)
        cumulative = cumulative / cumulative[:, -1:] + np.arange(n_users)[:, None]
        return cls(line, cumulative.ravel(), rng.random(n_users))

    def draw(
        self,
        users: NDArray[np.int64],
        time: NDArray[np.floating],
        rng: np.random.Generator,
        reach: float = 1.0,
    ) -> NDArray[np.int64]:
        """Draw an item for each pair of a user and a time; a larger reach weakens the taste."""
        n, n_genres = len(users), len(self.line.shares)
        genre = np.searchsorted(self.genres, users + rng.random(n), side="right") % n_genres
        style = (1 - _DRIFT) * self.style[users] + _DRIFT * time
        style += reach * _STYLE_NOISE * rng.standard_normal(n)
        points = np.abs((style + 1) % 2 - 1)  # reflected at 0 and 1
        points += genre
        anywhere = rng.random(n) < 1 - (1 - _BACKGROUND) / reach
        points[anywhere] = self.line.anywhere(int(anywhere.sum()), rng)
        return self.line.at(points)


def choose(
    tastes: Tastes, users: NDArray[np.int64], time: NDArray[np.floating], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw items by taste, distinct for each user; repeats are redrawn with a larger reach."""
    items = tastes.draw(users, time, rng)
    unsure = np.arange(len(users))
    for reach in _REACHES:
        repeated = np.sort(unsure[_repeats(users[unsure], items[unsure])])
        if not len(repeated):
            return items
        items[repeated] = tastes.draw(users[repeated], time[repeated], rng, reach)
        unsure = unsure[np.isin(users[unsure], users[repeated])]
    repeated = np.sort(unsure[_repeats(users[unsure], items[unsure])])
    for user in np.unique(users[repeated]):
        slots = repeated[users[repeated] == user]
        _fill(items, users, slots, tastes.line.popularity, rng)
    return items


def _fill(
    items: NDArray[np.int64],
    users: NDArray[np.int64],
    slots: NDArray[np.int64],
    popularity: NDArray[np.floating],
    rng: np.random.Generator,
) -> None:
    """Fill one user's slots with new items, drawn by popularity (an exponential race)."""
    first, last = np.searchsorted(users, [users[slots[0]], users[slots[0]] + 1])
    chosen = np.delete(items[first:last], slots - first)
    arrival = rng.exponential(size=len(popularity)) / popularity
    arrival[chosen] = np.inf
    items[slots] = np.argpartition(arrival, len(slots) - 1)[: len(slots)]


def _repeats(users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of pairs that also occur at an earlier position."""
    pairs = users * (items.max(initial=0) + 1) + items
    order = np.argsort(pairs, kind="stable")
    again: NDArray[np.bool_] = pairs[order[1:]] == pairs[order[:-1]]
    return order[1:][again]


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
        Use readable ids: ``user-00042`` for users, and the genre for items, as in ``western-0007``.
        Otherwise ids are row numbers.
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
        check_length(name, size)
    check_count("interactions", interactions, 1)
    check_flags(names=names)
    n_users, n_items, interactions = int(n_users), int(n_items), int(interactions)
    if not n_users <= interactions <= n_users * n_items:
        raise InputValueError(
            f"`interactions` must be from `n_users`, {n_users}, to `n_users` * `n_items`, "
            f"{n_users * n_items}, got {interactions}"
        )
    rng = generator(random_state)
    check_room((n_users, n_items))
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
