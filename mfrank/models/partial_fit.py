"""Join new interactions with a model's own, and write solved rows into its store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.als import FOLLOWING, FRESH, TouchedRows
from mfrank.arrays import CSR, copy_rows, distinct, empty_aligned
from mfrank.backends import Factors
from mfrank.data import Counts, Ids, Interactions, canonical, cells, joined_ids
from mfrank.errors import InputValueError, within
from mfrank.retrieval import Raw, Rows, Side, check_rows, is_single
from mfrank.store import FactorStore, names_of, with_means

# New interactions joined with those that a model has: ids, matrix, counts, the rows they touch.


@dataclass(frozen=True, slots=True, eq=False)
class Delta:
    """A model's interactions joined with new ones.

    Attributes
    ----------
    user_ids, item_ids : Ids
        The ids of the model, then the new ones.
    user_items : csr_array, shape (n_users, n_items)
        All interactions, old and new; canonical, without zeros.
    seen : csr_array, shape (n_users, n_items)
        The same, plus explicit zeros for cells that are seen but have no value (any more).
    new : Counts
        Numbers of new interactions of each user and item, including repeated cells.
    """

    user_ids: Ids
    item_ids: Ids
    user_items: sp.csr_array
    seen: sp.csr_array
    new: Counts

    @classmethod
    def of(cls, store: FactorStore, old: sp.csr_array, new: Interactions, decay: float) -> Self:
        """Join interactions by id; values of a cell that occurs in both are added.

        Parameters
        ----------
        store : FactorStore
        old : csr_array, shape (store.n_users, store.n_items)
            Canonical. Values are multiplied by ``decay``. Explicit zeros are seen cells without a
            value.
        new : Interactions
        decay : float

        Raises
        ------
        ValueError
            Ids are whole numbers in only one of the two.
        """
        user_ids = joined_ids("user", [store.user_ids, new.user_ids])
        item_ids = joined_ids("item", [store.item_ids, new.item_ids])
        shape = len(user_ids), len(item_ids)
        rows = user_ids.rows(new.user_ids.labels)[new.entry_users]
        columns = item_ids.rows(new.item_ids.labels)[new.user_items.indices]
        added = sp.csr_array((new.user_items.data.astype(old.dtype), (rows, columns)), shape)
        grown = cells.in_shape(old, shape)
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
        changed: Mapping[str, NDArray[np.int64]],
        *,
        following: bool,
        decayed: bool,
    ) -> tuple[TouchedRows, TouchedRows]:
        """The users and items with new interactions, with all their interactions.

        They include the users who follow fresh items (:mod:`mfrank.als.touched`), unless
        ``following`` is False. If old values have ``decayed``, all rows with interactions are
        touched. ``extras`` holds the means of all rows, if there are features; ``changed`` holds,
        for the sides "user" and "item", the rows whose means changed.
        """
        items = np.flatnonzero(self.counts.items if decayed else self.new.items)
        if len(changed["item"]):
            items = np.union1d(items, changed["item"])
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
        if len(changed["user"]):
            users = np.union1d(users, changed["user"])
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


def with_rows(table: NDArray[Any], n_rows: int, n_threads: int) -> NDArray[Any]:
    """A copy of a side's factors or biases, with rows of zeros appended."""
    copy = empty_aligned((n_rows, *table.shape[1:]), table.dtype)
    copy_rows(table, copy[: len(table)], n_threads=n_threads)
    copy[len(table) :] = 0
    return copy


_MOST_ROWS = 2**31


def grown(side: Side, raw: Raw) -> tuple[Ids, Rows]:
    """Add the unknown ids of ``raw`` to a side; return all ids and the rows of ``raw``.

    Raises
    ------
    TypeError, ValueError
        An id occurs twice, ids are whole numbers in only one of the two, or new row numbers leave a
        gap in the numbering.
    """
    argument = f"{side.name}ids"
    many: Any = [raw] if is_single(raw) else raw
    if side.by_row:
        ids, rows = _continued(side, check_rows(many, _MOST_ROWS, argument), argument)
    else:
        rows, ids = side.find(many, argument, missing=-1), side.ids
        if len(new := canonical(many)[rows < 0]):
            # In ascending order, numbers that continue 0..n-1 need no table.
            distinct_new = Ids.factorize(new)[0]
            try:
                ids = joined_ids(side.name, [side.ids, distinct_new])
            except ValueError as error:
                raise within(f"`{argument}`", error) from None
            rows = ids.rows(many)
    if len(distinct(rows)) < len(rows):
        raise InputValueError(f"`{argument}` must not repeat")
    return ids, rows


def _continued(side: Side, rows: Rows, argument: str) -> tuple[Ids, Rows]:
    known = len(side.ids)
    added = np.setdiff1d(rows, np.arange(known))
    if side.ids.table is not None and len(added):
        raise InputValueError(
            f"`{argument}`: row {added[0]} is new, and new {side.name}s need ids; `by_row=True` "
            f"accepts known {side.name}s only"
        )
    if not np.array_equal(added, np.arange(known, known + len(added))):
        raise InputValueError(
            f"`{argument}`: new {side.name}s must continue the numbering from {known}, got "
            f"{added[0]}"
        )
    return (Ids.numbered(known + len(added)) if len(added) else side.ids), rows


def with_solved(
    store: FactorStore,
    seen: sp.csr_array | None,
    side: str,
    ids: Ids,
    rows: Rows,
    given: tuple[sp.csr_array, sp.csr_array | None],
    solved: Factors,
    biases: NDArray[np.floating] | None = None,
) -> tuple[FactorStore, sp.csr_array | None]:
    """Replace or add rows of one side; return the new store and seen entries.

    Parameters
    ----------
    store : FactorStore
        The model's store.
    seen : csr_array, shape (n_users, n_items), or None
        The model's seen entries.
    side : {"user", "item"}
    ids : Ids
        All ids of the side, including the new ones.
    rows : int64, shape (R,)
        Rows of the side to write, no row twice.
    given : two csr_arrays, shape (R, rows of the other side)
        The interactions from which the rows were solved, and further seen cells or None. Cells that
        the model has only as seen in these rows stay seen.
    solved : shape (R, K)
        The factors of these rows.
    biases : shape (R,), optional
        Biases of these rows, if the store has fitted biases.
    """
    before, extras = store.known_counts, with_means(store.extras, side, len(ids))
    by_item, size, own_counts = side == "item", len(ids), np.diff(given[0].indptr)
    if by_item:
        counts = Counts(before.users, _put(before.items, size, rows, own_counts))
    else:
        counts = Counts(_put(before.users, size, rows, own_counts), before.items)
    changed: dict[str, Any] = {
        f"{side}_factors": _put(getattr(store, f"{side}_factors"), size, rows, solved),
        f"{side}_ids": ids,
        "counts": counts,
        "extras": extras,
    }
    if biases is not None:
        changed[f"{side}_biases"] = _put(getattr(store, f"{side}_biases"), size, rows, biases)
    store = replace(store, **changed)
    if seen is None:
        return store, None
    own = seen.T.tocsr() if by_item else seen
    values, only = given
    values = values.astype(own.dtype)
    if only is not None:
        values = cells.with_zeros(values, only)
    entries = _put_rows(own, size, rows, values)
    if not seen.data.all():
        only = cells.select(own, np.flatnonzero(own.data == 0))
        entries = cells.with_zeros(entries, cells.in_shape(only, entries.shape))
    return store, entries.T.tocsr() if by_item else entries


def _put(array: NDArray[Any], size: int, rows: Rows, values: NDArray[Any]) -> NDArray[Any]:
    grown = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    grown[rows] = values
    return grown


def _put_rows(matrix: sp.csr_array, size: int, rows: Rows, values: sp.csr_array) -> sp.csr_array:
    """Copy of a sparse matrix, extended to ``size`` rows, with ``rows`` replaced by ``values``."""
    source = np.arange(size)
    source[rows] = size + np.arange(len(rows))
    empty = sp.csr_array((size - matrix.shape[0], matrix.shape[1]), dtype=matrix.dtype)
    stacked = sp.vstack([matrix, empty, values], format="csr")
    return sp.csr_array(stacked[source])
