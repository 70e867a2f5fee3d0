"""Write newly solved rows into a store: one side's factors, ids, counts and seen entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.distinct import distinct
from mfrank.backends import Factors
from mfrank.data import cells
from mfrank.data.concat import joined_ids
from mfrank.data.counts import Counts
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical
from mfrank.models.delta import in_shape
from mfrank.retrieval.queries import Rows, check_rows
from mfrank.retrieval.sides import Raw, Side, is_single
from mfrank.store.factors import FactorStore
from mfrank.store.feature_weights import with_means

__all__ = ["grown", "refit"]

_MOST_ROWS = 2**31


def grown(side: Side, raw: Raw) -> tuple[Ids, Rows]:
    """Add the unknown ids of ``raw`` to a side; return all ids and the rows of those in ``raw``.

    Raises
    ------
    TypeError, ValueError
        An id occurs twice, ids are whole numbers in one of the two and not in the other, or new row
        numbers leave a gap in the numbering.
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
                raise ValueError(f"{argument}: {error}") from None
            rows = ids.rows(many)
    if len(distinct(rows)) < len(rows):
        raise ValueError(f"{argument} must not repeat")
    return ids, rows


def _continued(side: Side, rows: Rows, argument: str) -> tuple[Ids, Rows]:
    known = len(side.ids)
    added = np.setdiff1d(rows, np.arange(known))
    if side.ids.table is not None and len(added):
        raise ValueError(
            f"{argument}: row {added[0]} is new, and new {side.name}s need ids; by_row=True "
            f"accepts known {side.name}s only"
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
        The interactions from which the rows were solved, and what else is seen in them or None.
        What is only seen in these rows of the model stays so.
    solved : shape (R, K)
        The factors of these rows.
    biases : shape (R,), optional
        Their biases, if the store has biases that the fit made.
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
        entries = cells.with_zeros(entries, in_shape(only, entries.shape))
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
