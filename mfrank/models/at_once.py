"""Models whose store follows from the data at once, without steps: fit, update and removal."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mfrank.data import Interactions
from mfrank.models.factor_model import (
    Callback,
    after_epoch,
    options_of,
    refuse_no_likes,
)
from mfrank.models.partial_fit import Delta
from mfrank.models.update_data import update_of
from mfrank.models.value_notes import tell_unread_values
from mfrank.retrieval import (
    Raw,
    other_rows,
    rows_to_remove,
    without,
)
from mfrank.store import IMPORTED, FactorStore

if TYPE_CHECKING:
    from mfrank.models.item_models import NeighborRecommender
    from mfrank.models.popularity import Popularity


def fit_at_once(
    model: Popularity | NeighborRecommender, user_items: Any, callback: Callback | None
) -> None:
    """Fit a model whose store follows from the data; see :meth:`mfrank.ItemKNN.fit`."""
    model.__post_init__()  # options may have been set since
    after = after_epoch(callback)
    began = perf_counter()
    data = Interactions.of(user_items)
    refuse_no_likes(data)
    if not model.uses_values:
        tell_unread_values(type(model).__name__, data)
    model._hold(model._store_of(data), copy(data.seen))  # shallow: the arrays are read-only
    model._kept = None
    model._detach_from_folders()
    if after:
        after(0, perf_counter() - began, None, None)


_OF_DATA = ("threshold", "where", "event_weights", "weightings")
"""What a store knows of the data of its fit, which an update keeps."""


def update_at_once(
    model: Popularity | NeighborRecommender,
    old: sp.csr_array | None,
    new: Any,
    batch: str | None,
    leave_out: Any,
) -> None:
    """Update such a model; ``old`` are the interactions that it has."""
    held = model._now()
    same = options_of(type(model), held.store.fitter, IMPORTED)
    same._kept = model._kept

    def after(delta: Delta, data: Interactions) -> tuple[FactorStore, int]:
        if not model.uses_values:
            tell_unread_values(type(model).__name__, data)
        rows = delta.user_items.astype(np.float32)
        joined = Interactions(rows, delta.user_ids, delta.item_ids)
        made, before = same._updated(held, joined, data), held.store
        known = {name: getattr(before, name) for name in _OF_DATA}
        store = replace(made, **known)
        return store, len(delta.user_ids) + len(delta.item_ids)

    reader = type(model).__name__ if model.uses_values else None
    found = update_of(held, old, new, batch, leave_out, after, reader)
    if found is not None:
        model._tell_set_since(held.store.fitter)
        model._hold(*found)
        model._kept = same._kept


def removal_at_once(
    model: Popularity | NeighborRecommender, users: Raw | None, items: Raw | None, *, by_row: bool
) -> None:
    """Remove users and items from such a model; see :meth:`mfrank.Recommender.remove`."""
    held = model._now()
    whole = held.on_host()
    rows = rows_to_remove(whole, users, items, by_row=by_row)
    store, seen = without(replace(whole, extras={}), held.seen, *rows)
    left = other_rows(rows[0], whole.n_users), other_rows(rows[1], whole.n_items)
    same = options_of(type(model), whole.fitter, IMPORTED)
    same._kept = model._kept
    popularity, extras = same._left(held, *left)
    factors = popularity[:, None].astype(store.dtype)
    model._hold(replace(store, item_factors=factors, extras=extras), seen)
    model._kept = same._kept
