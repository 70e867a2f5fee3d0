"""Interactions of several data sets as one, such as today's clicks after those of earlier days."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mfrank.data import validation
from mfrank.data.cells import Duplicates
from mfrank.data.ids import Ids
from mfrank.data.observed import Observed
from mfrank.data.validation import Parts

__all__ = ["joined", "joined_ids"]


def joined(each: Sequence[Observed], duplicates: Duplicates) -> Parts:
    """The parts of interactions that have all cells of ``each``; rows of the first stay.

    Raises
    ------
    ValueError
        If ids are whole numbers in one and not in another, or only some have timestamps.
    """
    user_ids = joined_ids("user", [one.user_ids for one in each])
    item_ids = joined_ids("item", [one.item_ids for one in each])
    rows = [user_ids.rows(one.user_ids.labels)[one.entry_users] for one in each]
    columns = [item_ids.rows(one.item_ids.labels)[one.user_items.indices] for one in each]
    return validation.from_arrays(
        np.concatenate(rows),
        np.concatenate(columns),
        np.concatenate([one.user_items.data for one in each]),
        _joined_times([one.timestamps for one in each]),
        unit="s",
        shape=(len(user_ids), len(item_ids)),
        duplicates=duplicates,
        user_ids=user_ids,
        item_ids=item_ids,
    )


def joined_ids(name: str, each: Sequence[Ids]) -> Ids:
    """The ids of the first, then the new ones of each other, so that the first rows stay.

    Raises
    ------
    ValueError
        If some are whole numbers and others are not: the same ids would seem to differ.
    """
    ids, *others = (one for one in each if len(one)) if any(map(len, each)) else each[:1]
    for other in others:
        if ids.labels.dtype != other.labels.dtype:
            raise ValueError(
                f"{name} ids are like {ids.labels.item(0)!r} in one part and like "
                f"{other.labels.item(0)!r} "
                'in another; convert one of them, or read both with ids="text"'
            )
        new = other.labels[ids.rows(other.labels, missing=-1) < 0]
        if len(new):
            ids = ids.followed_by(new)
    return ids


def _joined_times(each: Sequence[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
    """All timestamps, or None if there are none; ValueError if only some parts have them."""
    times = [one for one in each if one is not None]
    if len(times) not in (0, len(each)):
        raise ValueError(
            f"{len(times)} of {len(each)} parts have timestamps; leave them out of these with "
            "dataclasses.replace(part, timestamps=None)"
        )
    return np.concatenate(times) if times else None
