"""The nearest neighbors of every item, by products of the items' columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.time_limit import Work
from mfrank.data import cells
from mfrank.data.row_portions import rank_in_rows

__all__ = ["links_of", "nearest_items", "rows_at_once", "strongest", "strongest_of_dense"]

_CELLS_AT_ONCE = 1 << 22


def nearest_items(user_items: sp.csr_array, n_neighbors: int) -> sp.csr_array:
    """The cosines of each item with its nearest others, ties by lower row.

    Parameters
    ----------
    user_items : csr_array, shape (n_users, n_items)
        Canonical, without zeros.
    n_neighbors : int
        Maximum number of neighbors of an item; only cosines above 0 count.

    Returns
    -------
    csr_array, float64, shape (n_items, n_items)
        Row i has the neighbors of item i.
    """
    n_items = user_items.shape[1]
    values, items = user_items.data.astype(np.float64), user_items.indices
    largest = np.zeros(n_items)
    np.maximum.at(largest, items, np.abs(values))
    values = np.ldexp(values, -np.frexp(largest)[1][items])  # exact; no square leaves the range
    lengths = np.sqrt(np.bincount(items, values**2, minlength=n_items))
    units = sp.csr_array((values / lengths[items], items, user_items.indptr), user_items.shape)
    columns = units.T.tocsr()

    def cosines(part: slice) -> sp.csr_array:
        found = sp.csr_array(columns[part] @ units)
        return cells.select(found, np.flatnonzero(found.data > 0))

    return strongest(cosines, n_items, n_neighbors, links_of(user_items))


def links_of(user_items: sp.csr_array) -> NDArray[np.float64]:
    """Pairs of entries through which each item is linked to others, shape (n_items,)."""
    of_users = np.diff(user_items.indptr)
    weights = np.repeat(of_users, of_users).astype(np.float64)
    found = np.bincount(user_items.indices, weights, minlength=user_items.shape[1])
    return found.astype(np.float64, copy=False)


def strongest(
    weights_of: Callable[[slice], sp.csr_array],
    n_items: int,
    n_neighbors: int,
    work_of: NDArray[np.float64] | None = None,
) -> sp.csr_array:
    """The weights between items that are farthest from 0, without those of an item with itself.

    Parameters
    ----------
    weights_of : function
        Called with slices of items; returns their weights, sparse, shape (slice, n_items).
    n_items, n_neighbors : int
        Most weights of a row; ties by lower column.
    work_of : shape (n_items,), optional
        Cost of the weights of each item, in any unit; default the same for all.

    Returns
    -------
    csr_array, float64, shape (n_items, n_items)

    Raises
    ------
    OutOfTimeError
        See :mod:`mfrank.arrays.time_limit`.
    """
    size = rows_at_once(n_items)
    parts = [sp.csr_array((0, n_items))]
    each = np.ones(n_items) if work_of is None else work_of
    work = Work(float(each.sum()))
    for begin in range(0, n_items, size):
        weights = weights_of(slice(begin, min(begin + size, n_items)))
        rows = cells.entry_rows(weights)
        sizes = np.abs(weights.data)
        sizes[weights.indices == begin + rows] = -1  # itself
        least = np.maximum(_nth_largest(sizes, weights.indptr, n_neighbors), 0)
        weights = cells.select(weights, np.flatnonzero(sizes >= least[rows]))
        weights.sort_indices()  # so that ties are by row: the ranks are stable
        if (np.diff(weights.indptr) > n_neighbors).any():  # of equals the first
            near = rank_in_rows(weights.indptr, -np.abs(weights.data)) < n_neighbors
            weights = cells.select(weights, np.flatnonzero(near))
        parts.append(weights)
        work.advance(float(each[begin : begin + size].sum()))
    return sp.csr_array(sp.vstack(parts, format="csr"))


def strongest_of_dense(rows: NDArray[np.floating], n: int) -> sp.csr_array:
    """The entries of dense rows that are farthest from 0: at least ``n`` of each, more if equal."""
    sizes = np.abs(rows)
    place = max(0, rows.shape[1] - n)
    least = np.partition(sizes, place, axis=1)[:, place, None]
    at, columns = np.nonzero((sizes >= least) & (sizes > 0))
    indptr = np.searchsorted(at, np.arange(len(rows) + 1))
    return sp.csr_array((rows[at, columns], columns, indptr), rows.shape)


def _nth_largest(
    sizes: NDArray[np.float64], indptr: NDArray[np.integer], n: int
) -> NDArray[np.float64]:
    """The n-th largest of each row; 0 if it has no more: much quicker than sorting all."""
    found = np.zeros(len(indptr) - 1)
    for row in np.flatnonzero(np.diff(indptr) > n):
        own = sizes[indptr[row] : indptr[row + 1]]
        found[row] = np.partition(own, len(own) - n)[len(own) - n]
    return found


def rows_at_once(n_columns: int) -> int:
    """Number of rows that may be dense at once, of a matrix with this many columns."""
    return max(1, _CELLS_AT_ONCE // max(n_columns, 1))
