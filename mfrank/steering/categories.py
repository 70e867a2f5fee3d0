"""Categories of items: caps on their counts in a list, and their shares."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, shown
from mfrank.data import is_missing, text_of_list
from mfrank.errors import InputTypeError, Notice

_log = logging.getLogger("mfrank")


@dataclass(frozen=True, slots=True, eq=False)
class ItemCategories:
    """The categories of each item, padded to the maximum number that an item has.

    Items without a category form their own category, number ``len(numbers)``.

    Attributes
    ----------
    numbers : mapping of label to int
        From 0.
    columns : int32, shape (n_items, W)
        Numbers of an item's categories, each once, padded with ``width - 1``.
    shares : float64, shape (n_items, W)
        1 / (number of the item's categories) for each, padded with 0.
    """

    numbers: Mapping[Hashable, int]
    columns: NDArray[np.int32]
    shares: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        categories: Mapping[Any, Any],
        n_items: int,
        rows_of: Callable[[list[Any]], NDArray[np.int64]],
    ) -> ItemCategories:
        """Categories by item id; ``rows_of`` gives the rows of ids, -1 if unknown."""
        labels = [labels_of(each) for each in categories.values()]
        rows = rows_of(list(categories)).tolist()
        if rows and max(rows) < 0:
            _log.warning(
                Notice(
                    "`categories` have none of the items, so they have no effect: their ids are "
                    f"like {shown(next(iter(categories)))}"
                )
            )
        numbers = {label: n for n, label in enumerate(dict.fromkeys(chain.from_iterable(labels)))}
        widest = max(map(len, labels), default=1)
        columns = np.full((n_items, max(widest, 1)), len(numbers) + 1, dtype=np.int32)
        columns[:, 0] = len(numbers)
        for row, own in zip(rows, labels, strict=True):
            if row >= 0 and own:
                columns[row, : len(own)] = [numbers[label] for label in own]
        there = columns <= len(numbers)
        return cls(numbers, columns, there / there.sum(axis=1, keepdims=True))

    @property
    def width(self) -> int:
        """Number of categories, including the one for items without any and for padding."""
        return len(self.numbers) + 2


def cells_of(columns: NDArray[np.int32], width: int) -> NDArray[np.int64]:
    """Positions of the categories of each user's pool in a flat table of users and categories.

    The shape changes from (B, P, W) to (W, B, P), because numpy is slow on short last axes.
    """
    users = width * np.arange(len(columns))[:, None]
    return np.ascontiguousarray(columns.transpose(2, 0, 1)) + users


def labels_of(given: Any) -> list[Hashable]:
    """The distinct labels of an item, without missing ones (None, NaN, NA, "").

    Raises
    ------
    TypeError
        A label is not hashable.
    """
    labels = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
    try:
        return list(dict.fromkeys(label for label in labels if not is_missing(label)))
    except TypeError:
        raise InputTypeError(
            f"`categories` must have a label, or a list of labels, for an item; got {shown(given)}"
        ) from None


def tell_lists(labels: Iterable[Hashable]) -> None:
    """Warn of labels that are rather lists of several in one text."""
    listed = text_of_list([label for label in labels if isinstance(label, str)])
    if listed is not None:
        _tell_list(listed)


@lru_cache(1024)  # levers are made anew for each request of a service
def _tell_list(text: str) -> None:
    _log.warning(
        Notice(
            f"`categories` have labels like {shown(text)}, which seem to be lists, and each is one "
            "category: pass a list of labels, in a table joined by |, if these are several"
        )
    )


# Caps on the number of items of each category in a list.


def caps_of(at_most: int | Mapping[Hashable, int], categories: ItemCategories) -> NDArray[np.int64]:
    """The cap of each category, shape (categories.width,); the largest int64 for no cap."""
    caps = np.full(categories.width, np.iinfo(np.int64).max)
    each = at_most if isinstance(at_most, Mapping) else dict.fromkeys(categories.numbers, at_most)
    for label, cap in each.items():
        caps[categories.numbers[label]] = min(cap, caps[-1])  # a larger int would not fit
    return caps


def room_of(caps: NDArray[np.int64], categories: ItemCategories) -> int | None:
    """An upper bound on the length of a list; None if some items have no cap."""
    sizes = np.bincount(categories.columns.ravel(), minlength=len(caps))
    capped = caps < np.iinfo(np.int64).max
    if not capped[categories.columns].any(axis=1).all():
        return None
    return int(np.minimum(caps, sizes)[capped].sum())


class Caps:
    """Remaining capacity of the lists of some users, while the lists are filled.

    Parameters
    ----------
    caps : int64, shape (C,)
    columns : int, shape (B, P, W)
        Categories of each user's pool.
    """

    def __init__(self, caps: NDArray[np.int64], columns: NDArray[np.int32]) -> None:
        self._cells = cells_of(columns, len(caps))
        self._room = np.tile(caps, len(columns))

    def allowed(self) -> NDArray[np.bool_]:
        """Items of the pools that may still be listed, bool (B, P)."""
        open_still = self._room > 0
        allowed: NDArray[np.bool_] = open_still.take(self._cells[0])
        for cells in self._cells[1:]:
            allowed &= open_still.take(cells)
        return allowed

    def take(self, users: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Record that item ``places[j]`` of the pool of ``users[j]`` is now listed."""
        # Users are distinct, and only padding, which has no cap, repeats a cell.
        self._room[self._cells[:, users, places]] -= 1


# Calibration: categories have the same shares in a list as among the user's items.


Floats = NDArray[np.float64]

ALPHA = 0.01
"""Weight with which the user's shares are mixed into the list's: divergences stay finite."""


def shares_of(history: CSR, categories: ItemCategories) -> Floats:
    """Shares of the categories among users' items, (U, categories.width); 0 without items."""
    users = np.repeat(np.arange(history.n_rows), history.counts)
    cells = users[:, None] * categories.width + categories.columns[history.indices]
    weights = categories.shares[history.indices]
    size = history.n_rows * categories.width
    sums = np.bincount(cells.ravel(), weights.ravel(), minlength=size)
    shares: Floats = sums.reshape(history.n_rows, -1) / np.maximum(history.counts, 1)[:, None]
    return shares


class Divergence:
    """The divergence of list shares from user shares, while the lists of some users are filled.

    It is sum_g p_g log(p_g / q~_g), with the shares p of the user and q of the list over the
    categories g, and q~ = (1 - alpha) q + alpha p.

    Parameters
    ----------
    wanted : shape (B, C)
        Shares p of each user.
    columns, shares : shape (B, P, W)
        Categories of each user's pool.

    References
    ----------
    Steck 2018, "Calibrated recommendations".
    """

    def __init__(self, wanted: Floats, columns: NDArray[np.int32], shares: Floats) -> None:
        self._cells = cells_of(columns, wanted.shape[1])
        self._shares = np.ascontiguousarray(shares.transpose(2, 0, 1))
        self._wanted = wanted.ravel()
        self._wanted_there = self._wanted.take(self._cells)
        self._listed = np.zeros(self._wanted.shape)
        self._length = 0

    def values(self) -> Floats:
        """Decrease of the divergence by each item of the pools, relative to no category, (B, P).

        It differs from the divergence only by a constant per user, and involves only the few
        categories of the item.
        """
        length = self._length + 1
        base = (1 - ALPHA) / length * self._listed + ALPHA * self._wanted
        rise = np.divide((1 - ALPHA) / length, base, out=np.zeros_like(base), where=base > 0)
        decrease: Floats = np.zeros(self._cells.shape[1:])
        for cells, shares, wanted in zip(
            self._cells, self._shares, self._wanted_there, strict=True
        ):
            decrease += wanted * np.log1p(shares * rise.take(cells))
        return decrease

    def take(self, users: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Record that item ``places[j]`` of the pool of ``users[j]`` is now listed."""
        self._listed[self._cells[:, users, places]] += self._shares[:, users, places]
        self._length += 1
