"""Put newly solved rows into a store: one side's factors, ids, counts and seen entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.backends import Factors
from mfrank.data.ids import Ids
from mfrank.data.labels import objects
from mfrank.distinct import distinct
from mfrank.quadratic import Counts
from mfrank.retrieval.asked import Rows, check_rows
from mfrank.retrieval.sides import Raw, Side, is_single
from mfrank.store.factors import FactorStore

__all__ = ["grown", "refit"]

_MOST_ROWS = 2**31


def grown(side: Side, raw: Raw) -> tuple[Ids, Rows]:
    """Ids of a side with the unknown ones among ``raw`` added, and the row of each of these.

    Raises
    ------
    TypeError, ValueError
        An id twice, or new ones that leave a gap in the numbering.
    """
    argument = f"{side.name}ids"
    many = [raw] if is_single(raw) else raw
    if side.ids.table is None or side.by_row:
        ids, rows = _continued(side, check_rows(many, _MOST_ROWS, argument), argument)  # type: ignore[arg-type]
    else:
        rows = side.find(many, argument, missing=-1)
        labels = list(dict.fromkeys(objects(many)[rows < 0]))  # type: ignore[arg-type]
        ids = Ids.of(objects([*side.ids.labels, *labels])) if labels else side.ids
        rows = ids.rows(many)  # type: ignore[arg-type]
    if len(distinct(rows)) < len(rows):
        raise ValueError(f"{argument} must not repeat")
    return ids, rows


def _continued(side: Side, rows: Rows, argument: str) -> tuple[Ids, Rows]:
    known = len(side.ids)
    added = np.setdiff1d(rows, np.arange(known))
    if side.ids.table is not None and len(added):
        raise ValueError(
            f"{argument}: row {added[0]} is new, and new {side.name}s need ids; by_row=True takes "
            "known ones only"
        )
    if not np.array_equal(added, np.arange(known, known + len(added))):
        raise ValueError(
            f"{argument}: new {side.name}s must continue the numbering from {known}, got {added[0]}"
        )
    return (Ids.numbered(known + len(added)) if len(added) else side.ids), rows


def refit(
    store: FactorStore,
    seen: sp.csr_array | None,
    side: str,
    ids: Ids,
    rows: Rows,
    given: sp.csr_array,
    solved: Factors,
) -> tuple[FactorStore, sp.csr_array | None]:
    """Store and seen entries with the given rows of a side replaced or added.

    Parameters
    ----------
    store, seen
        What the model holds.
    side : {"user", "item"}
    ids : Ids
        Of the side, with those added.
    rows : shape (R,)
        Where the new rows go.
    given : sparse, shape (R, rows of the other side)
        The interactions the rows were solved from.
    solved : shape (R, K)
    """
    by_item, size, own_counts = side == "item", len(ids), np.diff(given.indptr)
    if by_item:
        counts = Counts(store.counts.users, _put(store.counts.items, size, rows, own_counts))
        factors = _put(store.item_factors, size, rows, solved)
        store = replace(store, item_factors=factors, item_ids=ids, counts=counts)
    else:
        counts = Counts(_put(store.counts.users, size, rows, own_counts), store.counts.items)
        factors = _put(store.user_factors, size, rows, solved)
        store = replace(store, user_factors=factors, user_ids=ids, counts=counts)
    if seen is None:
        return store, None
    entries = _put_rows(seen.T.tocsr() if by_item else seen, size, rows, given)
    return store, entries.T.tocsr() if by_item else entries


def _put(array: NDArray[Any], size: int, rows: Rows, values: NDArray[Any]) -> NDArray[Any]:
    grown = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    grown[rows] = values
    return grown


def _put_rows(matrix: sp.csr_array, size: int, rows: Rows, values: sp.csr_array) -> sp.csr_array:
    """Sparse matrix of ``size`` rows, the given ones replaced."""
    source = np.arange(size)
    source[rows] = size + np.arange(len(rows))
    empty = sp.csr_array((size - matrix.shape[0], matrix.shape[1]), dtype=matrix.dtype)
    stacked = sp.vstack([matrix, empty, values.astype(matrix.dtype)], format="csr")
    return sp.csr_array(stacked[source])
