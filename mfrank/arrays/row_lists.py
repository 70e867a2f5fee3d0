"""Lists of columns: the rows of a CSR or a selection of them, on the host or on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.placement import beside, on_host

__all__ = ["Listed", "Picked", "holds", "listed_on_host", "union"]


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """A selection of rows of a CSR; nothing is copied until it is read.

    Attributes
    ----------
    whole : CSR
    rows : int64, shape (U,)
        The selected rows of ``whole``, in any order; on the host or on a GPU.
    """

    whole: CSR
    rows: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """Number of selected rows, U."""
        return len(self.rows)

    @property
    def n_columns(self) -> int:
        """Number of columns of the matrix."""
        return self.whole.n_columns


Listed: TypeAlias = CSR | Picked
"""A list of columns for each row; values are ignored."""


def listed_on_host(lists: Listed) -> CSR:
    """The lists as a CSR in numpy; selected rows are copied into one."""
    whole = lists.whole if isinstance(lists, Picked) else lists
    indices = on_host(whole.indices)
    if indices is not whole.indices:
        whole = CSR(on_host(whole.indptr), indices, None, whole.n_columns)
    return whole.pick(on_host(lists.rows)) if isinstance(lists, Picked) else whole


def union(several: Sequence[Listed]) -> CSR | None:
    """For each row the union of its lists, in numpy; None if ``several`` is empty."""
    rows = list(map(listed_on_host, several))
    if len(rows) < 2:
        return rows[0] if rows else None
    return CSR.from_scipy(sum(map(_matrix, rows[1:]), start=_matrix(rows[0])).tocsr(), dtype=None)


def holds(lists: Listed, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the list of row r contains ``columns[r]``, for every r.

    A CSR of a single row is used for all of ``columns``. The result has the shape of ``columns``
    and lies on their side.
    """
    whole = lists.whole if isinstance(lists, Picked) else lists
    wanted = beside(columns, whole.indices)
    if lists.n_rows == 1 and not isinstance(lists, Picked):
        return beside(np.isin(wanted, whole.indices), columns)
    low, high = whole.indptr[:-1], whole.indptr[1:]
    if isinstance(lists, Picked):
        rows = beside(lists.rows, low)
        low, high = low[rows], high[rows]
    if not (len(whole.indices) and len(wanted)):
        return beside(np.zeros(len(columns), dtype=bool), columns)
    ends, last = high, len(whole.indices) - 1
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) // 2
        before = whole.indices[np.minimum(middle, last)] < wanted
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    found = (low < ends) & (whole.indices[np.minimum(low, last)] == wanted)
    return beside(found, columns)


def _matrix(rows: CSR) -> Any:
    marks = np.ones(len(rows.indices), dtype=bool)
    return sp.csr_array((marks, rows.indices, rows.indptr), shape=(rows.n_rows, rows.n_columns))
