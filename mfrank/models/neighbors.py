"""The nearest neighbors of every item, by the cosine of the items' columns."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mfrank.data import cells
from mfrank.data.row_portions import rank_in_rows

__all__ = ["nearest_items"]

_CELLS_AT_ONCE = 1 << 22


def nearest_items(user_items: sp.csr_array, n_neighbors: int) -> sp.csr_array:
    """The cosines of each item with its nearest others, ties by lower row.

    Parameters
    ----------
    user_items : csr_array, shape (n_users, n_items)
        Canonical, without zeros.
    n_neighbors : int
        Most neighbors of an item; only cosines above 0 count.

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
    size = max(1, _CELLS_AT_ONCE // max(n_items, 1))
    parts = [sp.csr_array((0, n_items))]
    for begin in range(0, n_items, size):
        cosines = sp.csr_array(columns[begin : begin + size] @ units)
        cosines.sort_indices()  # so that ties are by row: the ranks are stable
        others = cosines.indices != begin + cells.entry_rows(cosines)
        cosines = cells.select(cosines, np.flatnonzero(others & (cosines.data > 0)))
        near = rank_in_rows(cosines.indptr, -cosines.data) < n_neighbors
        parts.append(cells.select(cosines, np.flatnonzero(near)))
    return sp.csr_array(sp.vstack(parts, format="csr"))
