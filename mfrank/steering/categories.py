"""Categories of items as arrays: an item may have none, one or several."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import shown
from mfrank.data.feature_columns import is_missing

__all__ = ["ItemCategories", "cells_of", "labels_of"]

_log = logging.getLogger("mfrank")


@dataclass(frozen=True, slots=True, eq=False)
class ItemCategories:
    """The categories of each item, padded to the maximum number that an item has.

    Items without a category have one of their own, number ``len(numbers)``.

    Attributes
    ----------
    numbers : mapping of label to int
        From 0.
    columns : int32, shape (n_items, W)
        Numbers of an item's categories, each once; after these, ``width - 1``.
    shares : float64, shape (n_items, W)
        1 / the number of the item's categories for each; after these, 0.
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
                "categories have none of the items, so they have no effect: their ids are like %s",
                shown(next(iter(categories))),
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
    """Where the categories of each user's pool are in a flat table of users and categories.

    From shape (B, P, W) to (W, B, P): numpy is slow on short last axes.
    """
    users = width * np.arange(len(columns))[:, None]
    return np.ascontiguousarray(columns.transpose(2, 0, 1)) + users


def labels_of(given: Any) -> list[Hashable]:
    """The distinct labels of an item; one that is missing (None, NaN, NA, "") is none.

    Raises
    ------
    TypeError
        A label is not hashable.
    """
    labels = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
    try:
        return list(dict.fromkeys(label for label in labels if not is_missing(label)))
    except TypeError:
        raise TypeError(
            f"categories must have a label, or a list of labels, for an item; got {shown(given)}"
        ) from None
