"""Interactions with further users and items that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions

__all__ = ["with_labels", "with_more"]


def with_labels(
    data: Interactions, users: NDArray[Any] | None, items: NDArray[Any] | None
) -> Interactions:
    """The interactions with rows and columns for these ids too, after those that are there.

    Timestamps are left out. ``None`` adds no ids; ids that are there stay where they are.
    """
    if users is None and items is None:
        return data
    user_ids, item_ids = (
        ids if labels is None else with_more(ids, labels)
        for ids, labels in ((data.user_ids, users), (data.item_ids, items))
    )
    matrix = sp.coo_array(data.user_items)
    grown = sp.csr_array((matrix.data, matrix.coords), (len(user_ids), len(item_ids)))
    return Interactions.from_sparse(grown, user_ids=user_ids, item_ids=item_ids)


def with_more(ids: Ids, more: NDArray[Any]) -> Ids:
    """The ids, and after them those of ``more`` that are not among them."""
    new = more[ids.rows(more, missing=-1) < 0]
    if not len(ids):
        return Ids.of(new)
    if ids.labels.dtype == new.dtype == np.int64:
        return Ids.of(np.concatenate([ids.labels, new]))
    return Ids.of([*ids.labels.tolist(), *new.tolist()])
