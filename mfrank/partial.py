"""Put newly solved rows into a store: one side's factors, ids, counts and seen entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.backends import Factors
from mfrank.factors import FactorStore
from mfrank.ids import Ids
from mfrank.quadratic import Counts
from mfrank.sides import Raw, Side, is_single

__all__ = ["refit"]


def refit(
    store: FactorStore,
    seen: sp.csr_array | None,
    side: Side,
    raw: Raw,
    given: sp.csr_array,
    solved: Factors,
) -> tuple[FactorStore, sp.csr_array | None]:
    """Store and seen entries with the rows of ``side`` called ``raw`` replaced or added.

    Parameters
    ----------
    store, seen
        What the model holds.
    side : Side
        The users' or the items'.
    raw : ids, shape (R,)
    given : sparse, shape (R, rows of the other side)
        The interactions the rows were solved from.
    solved : shape (R, K)
    """
    ids, rows = _grown(side, raw)
    if len(np.unique(rows)) < len(rows):
        raise ValueError(f"{side.name}ids must not repeat")
    factors = _put(side.factors, len(ids), rows, solved)
    by_item = side.name == "item"
    own = store.counts.items if by_item else store.counts.users
    own = _put(own, len(ids), rows, np.diff(given.indptr))
    counts = Counts(store.counts.users, own) if by_item else Counts(own, store.counts.items)
    if by_item:
        store = replace(store, item_factors=factors, item_ids=ids, counts=counts)
    else:
        store = replace(store, user_factors=factors, user_ids=ids, counts=counts)
    if seen is None:
        return store, None
    entries = _put_rows(seen.T.tocsr() if by_item else seen, len(ids), rows, given)
    return store, entries.T.tocsr() if by_item else entries


def _grown(side: Side, raw: Raw) -> tuple[Ids, NDArray[np.int64]]:
    """Ids with the unknown ones added, and the row of each."""
    many = [raw] if is_single(raw) else raw
    if side.ids.table is not None and not side.by_row:
        rows = side.ids.rows(many, missing=-1)  # type: ignore[arg-type]
        new = rows < 0
        rows[new] = len(side.ids) + np.arange(new.sum())
        labels = np.concatenate([side.ids.labels, np.asarray(many, dtype=object)[new]])
        return (Ids.of(labels) if new.any() else side.ids), rows
    rows = np.asarray(many, dtype=np.int64)
    added = np.setdiff1d(rows, np.arange(len(side.ids)))
    size = len(side.ids) + len(added)
    if side.ids.table is not None and len(added):
        raise ValueError(f"new {side.name}s need ids; by_row=True takes known ones only")
    if not np.array_equal(added, np.arange(len(side.ids), size)):
        raise ValueError(
            f"new {side.name}s must continue the numbering from {len(side.ids)}, got {added[0]}"
        )
    return (Ids.numbered(size) if len(added) else side.ids), rows


def _put(
    array: NDArray[Any], size: int, rows: NDArray[np.int64], values: NDArray[Any]
) -> NDArray[Any]:
    grown = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    grown[rows] = values
    return grown


def _put_rows(
    matrix: sp.csr_array, size: int, rows: NDArray[np.int64], values: sp.csr_array
) -> sp.csr_array:
    """Sparse matrix of ``size`` rows, the given ones replaced."""
    source = np.arange(size)
    source[rows] = size + np.arange(len(rows))
    empty = sp.csr_array((size - matrix.shape[0], matrix.shape[1]), dtype=matrix.dtype)
    stacked = sp.vstack([matrix, empty, values.astype(matrix.dtype)], format="csr")
    return sp.csr_array(stacked[source])
