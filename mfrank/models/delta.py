"""New interactions joined with those that a model has: ids, matrix, counts, the rows they touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.als.touched import FOLLOWING, FRESH, TouchedRows
from mfrank.arrays.csr import CSR
from mfrank.arrays.in_parts import copy_rows
from mfrank.arrays.placement import empty_aligned
from mfrank.data import cells
from mfrank.data.concat import joined_ids
from mfrank.data.counts import Counts
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions
from mfrank.store.factors import FactorStore
from mfrank.store.feature_weights import names_of

__all__ = ["Delta", "in_shape", "with_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class Delta:
    """A model's interactions with new ones among them.

    Attributes
    ----------
    user_ids, item_ids : Ids
        Those of the model, then the new ones.
    user_items : csr_array, shape (n_users, n_items)
        All interactions, old and new; canonical, without zeros.
    seen : csr_array, shape (n_users, n_items)
        The same and, as zeros, what is only seen: what was, is new, or has no value any more.
    new : Counts
        Numbers of new interactions of each user and item, those of known cells included.
    """

    user_ids: Ids
    item_ids: Ids
    user_items: sp.csr_array
    seen: sp.csr_array
    new: Counts

    @classmethod
    def of(cls, store: FactorStore, old: sp.csr_array, new: Interactions, decay: float) -> Self:
        """Join interactions by id; the values of a cell in both are added.

        Parameters
        ----------
        store : FactorStore
        old : csr_array, shape (store.n_users, store.n_items)
            Canonical. Its values are multiplied by ``decay`` if that is not 1. Zeros are only seen.
        new : Interactions
        decay : float

        Raises
        ------
        ValueError
            Ids are whole numbers in one of the two and not in the other.
        """
        user_ids = joined_ids("user", [store.user_ids, new.user_ids])
        item_ids = joined_ids("item", [store.item_ids, new.item_ids])
        shape = len(user_ids), len(item_ids)
        rows = user_ids.rows(new.user_ids.labels)[new.entry_users]
        columns = item_ids.rows(new.item_ids.labels)[new.user_items.indices]
        added = sp.csr_array((new.user_items.data.astype(old.dtype), (rows, columns)), shape)
        grown = in_shape(old, shape)
        aged = grown if decay == 1 else grown * old.dtype.type(decay)
        both = sp.csr_array(aged + added)
        both.sort_indices()
        seen = both
        # scipy leaves out the zeros of a sum. Values that cancel, or decay to 0, stay seen.
        values = aged.data, added.data
        if not all(each.all() and each.min(initial=0) >= 0 for each in values):
            seen = cells.with_zeros(cells.with_zeros(both, grown), added)
        if (only := new.seen_only) is not None:
            places = user_ids.rows(new.user_ids.labels), item_ids.rows(new.item_ids.labels)
            seen = cells.with_zeros(seen, cells.moved(only.cells, *places, shape).rows)
        touching = (
            np.bincount(numbers, minlength=n)
            for numbers, n in zip((rows, columns), shape, strict=True)
        )
        return cls(user_ids, item_ids, both, seen, Counts(*touching))

    @property
    def counts(self) -> Counts:
        """Numbers of all interactions of each user and item."""
        items = np.bincount(self.user_items.indices, minlength=len(self.item_ids))
        return Counts(np.diff(self.user_items.indptr).astype(np.int64), items.astype(np.int64))

    def touched(
        self,
        extras: Mapping[str, NDArray[Any]],
        dtype: DTypeLike,
        changed: Mapping[str, NDArray[np.int64]] | None = None,
        *,
        following: bool = True,
        decayed: bool = False,
    ) -> tuple[TouchedRows, TouchedRows]:
        """The users and the items with new interactions, with all their interactions.

        Among the users are those who follow fresh items (:mod:`mfrank.als.touched`), unless
        ``following`` is False. If old values have ``decayed``, all rows with interactions are
        touched. ``extras`` have the means of all rows, if they have features; ``changed`` are the
        rows of the sides "user" and "item" whose means are now others.
        """
        changed = changed or {}
        items = np.flatnonzero(self.counts.items if decayed else self.new.items)
        if len(also := changed.get("item", ())):
            items = np.union1d(items, also)
        item_users = sp.csr_array(self.user_items[:, items].T)
        item_users.sort_indices()
        counts = np.diff(item_users.indptr)
        fresh_items = self.new.items[items] >= FRESH * counts

        own = np.diff(self.user_items.indptr)
        fresh_users = (self.new.users > 0) & (self.new.users >= FRESH * own)
        if following:
            their = item_users.indices[np.repeat(fresh_items, counts)]
            followed = np.bincount(their, minlength=len(own))
            fresh_users |= (followed > 0) & (followed >= FOLLOWING * own)
        users = np.flatnonzero(own if decayed else fresh_users | (self.new.users > 0))
        if len(also := changed.get("user", ())):
            users = np.union1d(users, also)
        return (
            _rows("user", users, self.user_items[users], fresh_users[users], extras, dtype),
            _rows("item", items, item_users, fresh_items, extras, dtype),
        )


def _rows(
    side: str,
    numbers: NDArray[np.int64],
    entries: sp.csr_array,
    fresh: NDArray[np.bool_],
    extras: Mapping[str, NDArray[Any]],
    dtype: DTypeLike,
) -> TouchedRows:
    means = extras.get(names_of(side)[1])
    prior = None if means is None else means[numbers]
    return TouchedRows(numbers, CSR.from_scipy(entries, dtype), fresh, prior)


def in_shape(matrix: sp.csr_array, shape: tuple[int, int]) -> sp.csr_array:
    """The same entries with empty rows and columns after them; arrays are shared."""
    indptr: Any = np.full(shape[0] + 1, matrix.indptr[-1], dtype=matrix.indptr.dtype)
    indptr[: len(matrix.indptr)] = matrix.indptr
    return sp.csr_array((matrix.data, matrix.indices, indptr), shape)


def with_rows(table: NDArray[Any], n_rows: int, n_threads: int) -> NDArray[Any]:
    """A copy of a side's factors or biases, with rows of zeros after them."""
    copy = empty_aligned((n_rows, *table.shape[1:]), table.dtype)
    copy_rows(table, copy[: len(table)], n_threads=n_threads)
    copy[len(table) :] = 0
    return copy
