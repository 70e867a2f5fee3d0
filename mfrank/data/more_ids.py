"""Interactions with further users and items that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.alignment import placed
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions

__all__ = ["with_labels", "with_more"]


def with_labels(
    data: Interactions, users: NDArray[Any] | None, items: NDArray[Any] | None
) -> Interactions:
    """The interactions with rows and columns for these ids too, after those that are there.

    ``None`` adds no ids; ids that are there stay where they are.
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
    """The ids, and after them those of ``more`` that are not among them."""
    new = more[ids.rows(more, missing=-1) < 0]
    if not len(ids):
        return Ids.of(new)
    if ids.labels.dtype == new.dtype == np.int64:
        return Ids.of(np.concatenate([ids.labels, new]))
    return Ids.of([*ids.labels.tolist(), *new.tolist()])
