"""Interactions in the rows of other data, for test sets that were built apart from the training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.data import cells
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions
from mfrank.data.unknown_ids import UnknownIdError

__all__ = ["aligned"]


def aligned(data: Interactions, user_ids: Ids, item_ids: Ids, name: str) -> Interactions:
    """The same interactions in the rows of these ids, matched by id.

    Rows stay as they are if both have equally many and one of them has only row numbers as ids: a
    model that was fitted to a matrix does not have the ids of its test set.

    Parameters
    ----------
    data : Interactions
        Unchanged if its ids are these.
    user_ids, item_ids : Ids
        Ids of the model or of the training data.
    name : str
        Name of the data in errors, such as ``"test"``.

    Raises
    ------
    UnknownIdError
        If the user or the item of an entry is not among these ids.
    ValueError
        If both have only row numbers as ids, and not equally many.
    """
    pairs = (data.user_ids, user_ids), (data.item_ids, item_ids)
    if all(own is ids or own == ids for own, ids in pairs):
        return data
    users = _places(data.user_ids, user_ids, data.counts.users > 0, name, "user")
    items = _places(data.item_ids, item_ids, data.counts.items > 0, name, "item")
    user_items, times = cells.from_triples(
        users[data.entry_users],
        items[data.user_items.indices],
        data.user_items.data,
        data.timestamps,
        shape=(len(user_ids), len(item_ids)),
        duplicates="sum",
        dtype=data.user_items.dtype,
    )
    return Interactions(user_items, user_ids, item_ids, times)


def _places(own: Ids, ids: Ids, used: NDArray[np.bool_], name: str, side: str) -> NDArray[np.int64]:
    """The row among ``ids`` of each row of ``own``; any number for rows without entries."""
    numbered = own.table is None, ids.table is None
    if len(own) == len(ids) and any(numbered):
        return np.arange(len(own))
    if all(numbered):
        raise ValueError(
            f"{name} has {len(own)} {side}s and the training data {len(ids)}, which both only "
            f"number: give {name} the shape of the training data, or make it with "
            f"{side}_ids=train.{side}_ids"
        )
    places = np.zeros(len(own), dtype=np.int64)
    try:
        places[used] = ids.rows(own.labels[used])
    except UnknownIdError as error:
        raise UnknownIdError(
            f"{name} has {side}s that the training data do not have ({error}); leave their rows "
            f"out of {name}, or add them to the training data",
            error.ids,
        ) from error
    return places
