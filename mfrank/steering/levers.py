"""The levers of a Steering, as arrays over the items of one model."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.steering.categories import ItemCategories, caps_of, room_of
from mfrank.steering.steering import Steering
from mfrank.store import FactorStore

# Additions to scores: boosts of single items, and the popularity penalty.


Floats = NDArray[np.float64]


def boosts_of(
    boosts: Mapping[Any, float], n_items: int, rows_of: Callable[[list[Any]], NDArray[np.int64]]
) -> Floats:
    """The boost of each item, shape (n_items,); items to leave out have the row -1."""
    rows, values = rows_of(list(boosts)), np.array(list(boosts.values()), dtype=np.float64)
    by_item = np.zeros(n_items)
    by_item[rows[rows >= 0]] = values[rows >= 0]
    return by_item


def popularity_of(users: NDArray[np.int64]) -> Floats:
    """Log of 1 + the number of users of each item, (n_items,), standardized over the items.

    Mean 0 and standard deviation 1; all are 0 if all items have equally many users.
    """
    logs = np.log1p(users)
    deviation = logs.std() if len(logs) and logs.min() < logs.max() else 1.0
    return np.asarray((logs - logs.mean()) / deviation) if len(logs) else logs


def spread_of(queries: NDArray[Any], covariance: Floats) -> Floats:
    """Standard deviation of each query's scores of all items, shape (U,).

    1 where all scores are equal, or where it is not finite.

    Parameters
    ----------
    queries : shape (U, K)
    covariance : shape (K, K)
        Covariance of the items' factors.
    """
    wide = queries.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.sqrt(np.maximum(np.einsum("uk,uk->u", wide @ covariance, wide), 0))
    return np.where(np.isfinite(spread) & (spread > 0), spread, 1.0)


RowsOf = Callable[[list[Any], str, int | None], NDArray[np.int64]]
"""Rows of item ids, for an argument's name; ``missing`` is the row of unknown ones, or an error."""

_LEAST_POOL, _POOL_LISTS = 100, 10
_MORE_THAN_CAPPED = 4


@dataclass(frozen=True, slots=True, eq=False)
class Levers:
    """The levers, prepared for the lists of one model.

    Attributes
    ----------
    bonus : shape (n_items,), in the dtype of the factors, or None
        Boosts and popularity penalty, in standard deviations of a user's scores.
    boosted : bool, shape (n_items,)
        Items with a boost above 0, which are listed even without a link to them.
    categories : ItemCategories, or None
    caps : int64, shape (categories.width,), or None
    room : int, or None
        Upper bound on the length of lists from the caps, if there is one.
    diversity, calibration : float
    pool : int, or None
        As in :class:`Steering`.
    """

    bonus: NDArray[Any] | None
    boosted: NDArray[np.bool_]
    categories: ItemCategories | None
    caps: NDArray[np.int64] | None
    room: int | None
    diversity: float
    calibration: float
    pool: int | None

    @classmethod
    def of(
        cls, steer: Steering, store: FactorStore, rows_of: RowsOf, missing: int | None
    ) -> Levers:
        """Set the levers; with ``missing`` -1, unknown items in ``boosts`` are left out.

        Raises
        ------
        UnknownIdError
            An item in ``boosts`` is unknown.
        ValueError
            The store has no counts for the popularity penalty.
        """
        bonus, categories = None, None
        boosted = np.zeros(store.n_items, dtype=bool)
        if steer.adds:
            bonus = boosts_of(
                steer.boosts, store.n_items, lambda ids: rows_of(ids, "boosts", missing)
            )
            boosted = bonus > 0
            if steer.popularity_penalty:
                bonus -= steer.popularity_penalty * popularity_of(store.known_counts.items)
            bonus = bonus.astype(store.dtype)
        if steer.categories is not None and (steer.at_most is not None or steer.calibrates):
            categories = ItemCategories.of(
                steer.categories, store.n_items, lambda ids: rows_of(ids, "categories", -1)
            )
        caps, room = None, None
        if steer.at_most is not None and categories is not None:
            caps = caps_of(steer.at_most, categories)
            room = room_of(caps, categories)
        weights = steer.diversity, steer.calibration
        return cls(bonus, boosted, categories, caps, room, *weights, steer.pool)

    @property
    def weighs(self) -> bool:
        """Whether lists are not in the order of the scores."""
        return self.diversity > 0 or self.calibration > 0

    @property
    def chooses(self) -> bool:
        """Whether lists are not simply the items with the highest scores."""
        return self.weighs or self.caps is not None

    def pool_of(self, n: int) -> int:
        """Number of items from which lists of length ``n`` are first chosen."""
        if not self.weighs:
            return _MORE_THAN_CAPPED * n
        return max(n, max(_LEAST_POOL, _POOL_LISTS * n) if self.pool is None else self.pool)


def levers_of(
    steer: Steering, store: FactorStore, by_row: bool, find: RowsOf, skip: bool
) -> Levers:
    """The levers for a store, cached in the Steering until a call with another store."""
    options = (by_row, skip)
    cached = steer.__dict__.get("_levers")
    if cached is not None and cached[0]() is store and cached[1] == options:
        levers: Levers = cached[2]
        return levers
    levers = Levers.of(steer, store, find, -1 if skip else None)
    steer.__dict__["_levers"] = weakref.ref(store), options, levers
    return levers
