"""A store and its seen entries without some of the users and items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.data.cells import without_zeros
from mfrank.data.counts import Counts
from mfrank.store.factors import FactorStore
from mfrank.store.feature_weights import columns_name, names_of
from mfrank.store.step import Record

__all__ = ["without"]

_OF_NOBODY = {"epoch", "seconds", "batch", "content"}  # of all that a history has
_PER_ROW = {"user": ("user_factors", "user_biases"), "item": ("item_factors", "item_biases")}


def without(
    store: FactorStore, seen: sp.csr_array | None, users: ArrayLike, items: ArrayLike
) -> tuple[FactorStore, sp.csr_array | None]:
    """Leave out rows of both sides; all arrays of the result are new and hold only what is kept.

    Parameters
    ----------
    store : FactorStore
    seen : csr_array, shape (n_users, n_items), or None
        Zeros are only seen: they do not count.
    users, items : row numbers; they may repeat

    Raises
    ------
    ValueError
        The store has counts, but ``seen`` is None.
    TypeError
        The store has extras, which may be of users and items.
    """
    means = {name: side for side in _PER_ROW for name in names_of(side)[1:] if name in store.extras}
    known = {name for side in _PER_ROW for name in (*names_of(side), columns_name(side))}
    unknown = set(store.extras) - known
    if unknown:
        raise TypeError(
            f"the store has extras of {store.fitter['name']} ({', '.join(sorted(unknown))}), of "
            "which it is not known what they hold of users and items; fit anew without them"
        )
    if store.counts is not None and seen is None:
        raise ValueError(
            "the model has no seen entries, by which its counts could be lowered: remove from the "
            "model that was fitted, or from one saved with with_seen=True"
        )
    store = store.on_host()
    kept = {"user": _others(users, store.n_users), "item": _others(items, store.n_items)}
    left = None if seen is None else _part(seen, kept["user"], kept["item"])
    arrays: dict[str, Any] = {
        name: array[rows]
        for side, rows in kept.items()
        for name in _PER_ROW[side]
        if (array := getattr(store, name)) is not None
    }
    if store.item_prior is not None:
        arrays["item_prior"] = store.item_prior[kept["item"]]
    fields: dict[str, Any] = {
        **arrays,
        "user_ids": store.user_ids.take(kept["user"]),
        "item_ids": store.item_ids.take(kept["item"]),
        "counts": None if store.counts is None or left is None else _counts(left),
        "extras": {
            name: array[kept[means[name]]] if name in means else array
            for name, array in store.extras.items()
        },
        "history": [_without_sums(record) for record in store.history],
    }
    return replace(store, **fields), left


def _others(rows: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(n_rows), np.asarray(rows, np.int64))


def _part(seen: sp.csr_array, users: NDArray[Any], items: NDArray[Any]) -> sp.csr_array:
    """Some rows and columns, in new arrays even if these are all."""
    part = sp.csr_array(seen[users][:, items])
    part.sort_indices()
    return part


def _counts(seen: sp.csr_array) -> Counts:
    learned = without_zeros(seen)
    by_item = np.bincount(learned.indices, minlength=seen.shape[1])
    return Counts(np.diff(learned.indptr).astype(np.int64), by_item.astype(np.int64))


def _without_sums(record: Any) -> Record:
    """A record of the history without its objective and metric, which are sums over users."""
    return {name: record[name] if name in _OF_NOBODY else None for name in record}
