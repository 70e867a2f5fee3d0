"""Align interactions with the rows of other data, and add users and items.

Interactions are matched by id, even if the numbers of rows are equal. A matrix has no ids, so its
rows must be the rows of the other data.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import sparse_to_host
from mfrank.data import cells
from mfrank.data.ids import Ids, UnknownIdError
from mfrank.data.interactions import Interactions
from mfrank.errors import InputValueError


def in_rows_of(given: Any, user_ids: Ids, item_ids: Ids, name: str) -> Interactions:
    """Interactions or a table by id, or a matrix by row, as :func:`aligned` interactions."""
    here = sparse_to_host(given)
    if sp.issparse(here):
        return matrix_in_rows(here, user_ids, item_ids, name)
    return aligned(Interactions.of(here), user_ids, item_ids, name)


def matrix_in_rows(matrix: Any, user_ids: Ids, item_ids: Ids, name: str) -> Interactions:
    """A scipy sparse matrix as interactions, with these ids for its rows and columns.

    Raises
    ------
    ValueError
        The matrix has another shape.
    """
    shape, given = (len(user_ids), len(item_ids)), cast(Any, matrix).shape
    if given != shape:
        raise InputValueError(
            f"`{name}`: a matrix must have the shape {shape} of the training data, because it has "
            f"no ids, got {given}",
            "pass Interactions, which are matched by id: `Interactions.from_frame(test, "
            "user_ids=train.user_ids, item_ids=train.item_ids)`",
        )
    return Interactions.from_sparse(matrix, user_ids=user_ids, item_ids=item_ids)


def aligned(data: Interactions, user_ids: Ids, item_ids: Ids, name: str) -> Interactions:
    """The same interactions, in the rows of these ids.

    Parameters
    ----------
    data : Interactions
        Returned unchanged if its ids are these.
    user_ids, item_ids : Ids
        Ids of the model or of the training data.
    name : str
        Name of the data in errors, such as ``"test"``.

    Raises
    ------
    UnknownIdError
        If the user or the item of an entry is not among these ids.
    ValueError
        If both have only row numbers as ids, and different numbers of rows.
    """
    pairs = (data.user_ids, user_ids), (data.item_ids, item_ids)
    if all(own is ids or own == ids for own, ids in pairs):
        return data
    users = _places(data.user_ids, user_ids, data.counts.users > 0, name, "user")
    items = _places(data.item_ids, item_ids, data.counts.items > 0, name, "item")
    return placed(data, users, items, user_ids, item_ids)


def placed(
    data: Interactions,
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    user_ids: Ids,
    item_ids: Ids,
) -> Interactions:
    """The same interactions in other rows with these ids.

    ``users`` and ``items`` map old rows to new ones; interactions mapped to -1 are left out.
    """
    shape = len(user_ids), len(item_ids)
    found = cells.moved(data.cells, users, items, shape)
    if data.seen_only is not None:
        found = found._replace(seen_only=cells.moved(data.seen_only.cells, users, items, shape))
    moved = Interactions._of_cells(found, user_ids, item_ids, None, *data._known)
    return moved._with_notes(data.notes)


def _places(own: Ids, ids: Ids, used: NDArray[np.bool_], name: str, side: str) -> NDArray[np.int64]:
    """The row among ``ids`` of each row of ``own``; -1 for unknown rows without entries."""
    check_alike(own, ids, name, side)
    check_numbering(own, ids, name, side)
    if own is ids or own == ids:
        return np.arange(len(own))
    places = ids.rows(own.labels, missing=-1)
    try:
        if (places[used] < 0).any():
            ids.rows(own.labels[used])
    except UnknownIdError as error:
        raise UnknownIdError(
            f"`{name}` has {side}s that the training data do not have ({error})",
            error.ids,
            _remedy(own, ids, name, side),
        ) from error
    return places


def check_alike(own: Ids, ids: Ids, name: str, side: str) -> None:
    """Raise ValueError if both have only row numbers as ids, and different numbers of rows."""
    if own.table is None and ids.table is None and len(own) != len(ids):
        raise InputValueError(
            f"`{name}` has {len(own)} {side}s and the training data {len(ids)}, which both only "
            "number:",
            f"give {name} the shape of the training data, or make it with "
            f"`{side}_ids=train.{side}_ids`",
        )


def check_numbering(own: Ids, ids: Ids, name: str, side: str, remedy: str | None = None) -> None:
    """Raise UnknownIdError if one side has only row numbers, and as many rows as the other.

    They are then likely the same rows, once without ids, and matching by id would pair the wrong
    rows. Numbers that are the ids of the other in another order are ids. Numbers and text need no
    check, because they are never equal.
    """
    one_is_numbered = (own.table is None) != (ids.table is None)
    if not (one_is_numbered and len(own) == len(ids) and own.are_numbers and ids.are_numbers):
        return
    unknown = own.labels[ids.rows(own.labels, missing=-1) < 0]
    if len(unknown):
        raise UnknownIdError(
            f"`{name}` and the training data have {len(own)} {side}s each, with ids like "
            f"{own.labels[:3].tolist()} and {ids.labels[:3].tolist()}",
            unknown.tolist(),
            remedy or _remedy(own, ids, name, side),
        )


def _remedy(own: Ids, ids: Ids, name: str, side: str) -> str:
    """What to do about unknown ids: those of one side may be row numbers, or of another kind."""
    if own.table is None or ids.table is None:
        numbered = name if own.table is None else "the training data"
        return (
            f"the {side}s of {numbered} are only numbered, and rows are not matched by number: "
            "make both with the same ids, or pass the matrix (Interactions.user_items) of one with "
            "the rows of the other"
        )
    if own.are_numbers != ids.are_numbers:
        return "convert the ids of one of them: numbers and text are never the same id"
    return f"leave their rows out of {name}, or add them to the training data"


def by_ids(
    values: NDArray[Any], own: Ids | None, ids: Ids | None, fill: int
) -> tuple[NDArray[Any], int]:
    """Values of rows ``own`` aligned with the rows ``ids``, and the number of rows without one.

    Rows without a value get ``fill``. Without ids, or with only row numbers, values are in the
    order of the rows.

    Raises
    ------
    ValueError
        No row has a value, or one side has only row numbers that likely mean the rows of the other.
    """
    if own is None or ids is None or own == ids or own.table is None:
        return values, 0
    if ids.table is None:
        if len(own) == len(ids) and not own.are_numbers:
            return values, 0
        check_numbering(own, ids, "their data", "row", "make both with the same ids")
    places = own.rows(ids.labels, missing=-1)
    unknown = int((places < 0).sum())
    if unknown and unknown == len(places):
        raise InputValueError(
            f"`ids` are like {', '.join(map(repr, own.labels[:1].tolist()))}, and the rows of the "
            f"evaluation are like {ids.labels.tolist()[0]!r}",
            "take those of the training data",
        )
    return np.where(places < 0, fill, values[places]), unknown


# Interactions with further users and items that have none.


def with_labels(
    data: Interactions, users: NDArray[Any] | None, items: NDArray[Any] | None
) -> Interactions:
    """The interactions, with rows and columns for these ids appended.

    ``None`` adds no ids; existing ids stay where they are.
    """
    if users is None and items is None:
        return data
    user_ids, item_ids = (
        ids if labels is None else with_more(ids, labels)
        for ids, labels in ((data.user_ids, users), (data.item_ids, items))
    )
    rows = np.arange(data.n_users), np.arange(data.n_items)
    return placed(data, *rows, user_ids, item_ids)


def with_more(ids: Ids, more: NDArray[Any]) -> Ids:
    """The ids, followed by the new ids of ``more``."""
    new = more[ids.rows(more, missing=-1) < 0]
    if not len(ids):
        return Ids.of(new)
    if ids.labels.dtype == new.dtype == np.int64:
        return Ids.of(np.concatenate([ids.labels, new]))
    return Ids.of([*ids.labels.tolist(), *new.tolist()])
