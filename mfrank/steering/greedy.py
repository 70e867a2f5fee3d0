"""Greedy lists: filled position by position from pools of the best items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import check_time
from mfrank.steering.categories import Caps, Divergence
from mfrank.steering.levers import Levers

# Maximal marginal relevance: the similarity of items to the items already listed.


class Nearness:
    """Highest cosines with the listed items, while the lists of some users are filled.

    Parameters
    ----------
    directions : shape (B, P, K)
        Item factors of each user's pool, scaled to length 1.

    References
    ----------
    Carbonell & Goldstein 1998, "The use of MMR, diversity-based reranking for reordering documents
    and producing summaries".
    """

    def __init__(self, directions: NDArray[Any]) -> None:
        self._directions = directions
        self._nearest = np.full(directions.shape[:2], -np.inf)

    def values(self) -> NDArray[np.float64]:
        """Highest cosine of each pool item with a listed item, (B, P); 0 for an empty list."""
        return np.where(np.isneginf(self._nearest), 0.0, self._nearest)

    def take(self, users: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Record that item ``places[j]`` of the pool of ``users[j]`` is now listed."""
        every = len(users) == len(self._directions)  # then no copy is needed
        pools = self._directions if every else self._directions[users]
        listed = self._directions[users, places]
        cosines = np.matmul(pools, listed[:, :, None])[:, :, 0]
        self._nearest[users] = np.maximum(self._nearest[users], cosines)


Rows = NDArray[np.int64]
Lists = tuple[NDArray[np.int32], NDArray[Any]]

Fetch = Callable[[Rows, int], Lists]
"""From some queries and a number n, the n best items of each query and their scores; row -1 after
the last."""

_FETCHED_AT_ONCE = 1 << 19  # places
_CHOSEN_AT_ONCE = 1 << 12  # places: the data of their items stay in the processor's cache


class ItemFacts(NamedTuple):
    """Inputs of levers in addition to the scores.

    Attributes
    ----------
    directions : function of item rows, or None
        Returns the item factors scaled to length 1, for diversity.
    wanted : function of queries, or None
        Returns the queries' shares of the categories, for calibration.
    """

    directions: Callable[[NDArray[np.int32]], NDArray[Any]] | None = None
    wanted: Callable[[Rows], NDArray[np.float64]] | None = None


def filled(
    fetch: Fetch,
    shape: tuple[int, int],
    n_items: int,
    dtype: DTypeLike,
    levers: Levers,
    known: ItemFacts,
) -> Lists:
    """Lists chosen by the levers: ids and scores of ``shape`` (queries, n).

    If caps leave a list short, the query's pool is doubled until the list is full or the items are
    exhausted.
    """
    ids, scores = np.full(shape, -1, dtype=np.int32), np.full(shape, np.nan, dtype=dtype)
    longest = shape[1] if levers.room is None else min(shape[1], levers.room)
    left, size = np.arange(shape[0]), max(1, min(levers.pool_of(shape[1]), n_items))
    while len(left) and n_items and longest:
        short = []
        for queries in _blocks(left, max(1, _FETCHED_AT_ONCE // size)):
            pool = fetch(queries, size)
            for part in _blocks(np.arange(len(queries)), max(1, _CHOSEN_AT_ONCE // size)):
                check_time()
                rows, values, own = pool[0][part], pool[1][part], queries[part]
                places = _places(rows, values, own, shape[1], levers, known)
                there, at = places >= 0, np.maximum(places, 0)
                ids[own] = np.where(there, np.take_along_axis(rows, at, 1), -1)
                scores[own] = np.where(there, np.take_along_axis(values, at, 1), np.nan)
            short.append(queries[(ids[queries, longest - 1] < 0) & (pool[0][:, -1] >= 0)])
        if size >= n_items:
            break
        left, size = np.concatenate(short), min(2 * size, n_items)
    return ids, scores


def _places(
    ids: NDArray[np.int32],
    scores: NDArray[Any],
    queries: Rows,
    n: int,
    levers: Levers,
    known: ItemFacts,
) -> Rows:
    """Which places of the pools are listed, in order, shape (B, n); -1 after the last."""
    free, rows = ids >= 0, np.maximum(ids, 0)
    relevance = _relevance(scores, free) if levers.weighs else None
    nearness, divergence, caps = None, None, None
    if levers.categories is not None:
        columns = levers.categories.columns[rows]
        if levers.caps is not None:
            caps = Caps(levers.caps, columns)
        if known.wanted is not None:
            divergence = Divergence(known.wanted(queries), columns, levers.categories.shares[rows])
    if known.directions is not None:
        nearness = Nearness(known.directions(rows))
    states = [state for state in (nearness, divergence, caps) if state is not None]
    weight, chosen = levers.calibration, np.full((len(ids), n), -1, dtype=np.int64)
    for place in range(min(n, ids.shape[1])):
        allowed = free if caps is None else free & caps.allowed()
        worth = np.zeros(free.shape) if relevance is None else relevance
        if nearness is not None:
            worth = (1 - levers.diversity) * worth - levers.diversity * nearness.values()
        if divergence is not None:
            worth = (1 - weight) * worth + weight * divergence.values()
        best = np.where(allowed, worth, -np.inf).argmax(axis=1)
        users = np.flatnonzero(allowed[np.arange(len(best)), best])
        if not len(users):
            break
        best = best[users]
        chosen[users, place], free[users, best] = best, False
        for state in states:
            state.take(users, best)
    return chosen


def _relevance(scores: NDArray[Any], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Scores of the pools, from 1 for the best item to 0 for the last; 0 where all are equal."""
    # Halved, which is exact, so that no difference overflows.
    wide = np.where(there, scores, np.inf).astype(np.float64) / 2
    least = wide.min(axis=1, keepdims=True)
    most = np.where(there, scores, -np.inf).max(axis=1, keepdims=True).astype(np.float64) / 2
    with np.errstate(invalid="ignore"):
        span = most - least
        return np.where(there & (span > 0), (wide - least) / np.where(span > 0, span, 1), 0.0)


def _blocks(rows: Rows, size: int) -> Iterator[Rows]:
    return (rows[begin : begin + size] for begin in range(0, len(rows), size))
