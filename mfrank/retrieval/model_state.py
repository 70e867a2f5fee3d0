"""The state of a model: a store and the seen items of its users; and removal of rows from both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import MadeOfFields, lazy
from mfrank.data import Counts, without_zeros
from mfrank.errors import InputTypeError, InputValueError
from mfrank.files import Origin
from mfrank.retrieval.seen import Seen
from mfrank.retrieval.side import Raw, Rows, Side, given_ids, refuse_marks, sides
from mfrank.store import FactorStore, Record, columns_name, names_of


class NotFittedError(ValueError, AttributeError):
    """The model has no factors yet: call ``fit`` first."""


@dataclass(frozen=True, eq=False)
class ModelState(MadeOfFields):
    """The fitted state of a model: a store, and the seen entries of its users; never edited.

    ``parts`` has further parameters of the model, such as weights between items.
    """

    store: FactorStore
    seen: Seen | None
    parts: Any = None

    @property
    def origin(self) -> Origin:
        """The origin of the store; empty before the store is computed."""
        return self.store.origin if "store" in vars(self) else {}

    def on_host(self) -> FactorStore:
        """The store in numpy, which replaces a store on a GPU, so that it is copied once.

        It is replaced in this state, not in the model, which may have another state by now.
        """
        here = self.store.on_host()
        if here is not self.store:
            object.__setattr__(self, "store", here)
        return here


class DeferredState(ModelState):
    """A state whose store is computed on first access.

    Parameters
    ----------
    make : function
        Computes the store; may be called again by a second reader before the first call returns.
    seen : Seen or None
    """

    _make: Callable[[], FactorStore]

    def __init__(self, make: Callable[[], FactorStore], seen: Seen | None) -> None:
        object.__setattr__(self, "_make", make)
        object.__setattr__(self, "seen", seen)

    @lazy
    def store(self) -> FactorStore:
        """The store."""
        made = self._make()
        object.__setattr__(self, "_make", lambda: made)  # frees the inputs
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as a plain ``ModelState``."""
        return ModelState, (self.store, self.seen)


# The state without some of the users and items.


_NOT_SUMS = {"epoch", "seconds", "batch", "content"}  # fields of a history without user data
_PER_ROW = {"user": ("user_factors", "user_biases"), "item": ("item_factors", "item_biases")}


def removed(
    held: ModelState, users: Raw | None, items: Raw | None, *, by_row: bool
) -> tuple[FactorStore, Seen | None]:
    """The store and the seen entries of a state without the ids of :meth:`Recommender.remove`."""
    return without(held.store, held.seen, *rows_to_remove(held.store, users, items, by_row=by_row))


def rows_to_remove(
    store: FactorStore, users: Raw | None, items: Raw | None, *, by_row: bool
) -> tuple[Rows, Rows]:
    """The rows of the users and items of :meth:`Recommender.remove`."""
    if users is None and items is None:
        raise InputValueError("remove needs `users` or `items`: ids, or a list of them")
    user_side, item_side = sides(store, by_row=by_row)
    some_users, some_items = (
        _some_rows(side, [] if raw is None else raw, name)
        for side, raw, name in ((user_side, users, "users"), (item_side, items, "items"))
    )
    return some_users, some_items


def _some_rows(side: Side, raw: Raw, name: str) -> Rows:
    given = given_ids(raw, name, ordered=False)
    refuse_marks(given, side.ids, name)
    return side.rows(given, name)


def without(
    store: FactorStore, seen: Seen | None, users: ArrayLike, items: ArrayLike
) -> tuple[FactorStore, Seen | None]:
    """Remove rows of both sides; the arrays of the result are new and hold no removed data.

    Parameters
    ----------
    store : FactorStore
    seen : Seen, or None
        Zeros are only seen and do not count.
    users, items : row numbers; they may repeat

    Raises
    ------
    ValueError
        The store has counts, but ``seen`` is None.
    TypeError
        The store has extras, which may contain data of users and items.
    """
    means = {name: side for side in _PER_ROW for name in names_of(side)[1:] if name in store.extras}
    known = {name for side in _PER_ROW for name in (*names_of(side), columns_name(side))}
    unknown = set(store.extras) - known
    if unknown:
        raise InputTypeError(
            f"the store has extras of {store.fitter['name']} ({', '.join(sorted(unknown))}), of "
            "which it is not known what they hold of users and items",
            "fit anew without them",
        )
    if store.counts is not None and seen is None:
        raise InputValueError(
            "the model has no seen entries, by which its counts could be lowered:",
            "remove from the model that was fitted, or from one saved with `with_seen=True`",
        )
    store = store.on_host()
    kept = {"user": other_rows(users, store.n_users), "item": other_rows(items, store.n_items)}
    left = None
    if seen is not None:
        own = kept["user"], kept["item"]
        left_out = None if seen.left_out is None else _part(seen.filtered.checked, *own)
        left = Seen(_part(seen.checked, *own), left_out)
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
        "counts": None if store.counts is None or left is None else _counts(left.matrix),
        "extras": {
            name: array[kept[means[name]]] if name in means else array
            for name, array in store.extras.items()
        },
        "history": [_without_sums(record) for record in store.history],
    }
    return replace(store, **fields), left


def other_rows(rows: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """All rows but some, ascending."""
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
    return {name: record[name] if name in _NOT_SUMS else None for name in record}
