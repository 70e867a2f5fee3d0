"""Lists of columns: the rows of a CSR, or some of them in any order, on the host or on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import beside, on_host
from mfrank.csr import CSR

__all__ = ["Listed", "Picked", "holds", "listed_on_host", "union"]


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """Rows picked from others, of which nothing is copied before it is read.

    Attributes
    ----------
    whole : CSR
    rows : int64, shape (U,)
        Which of its rows, in any order; on either side.
    """

    whole: CSR
    rows: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """U."""
        return len(self.rows)

    @property
    def n_columns(self) -> int:
        """Width of the matrix."""
        return self.whole.n_columns


Listed: TypeAlias = CSR | Picked
"""A list of columns for each row; values do not count."""


def listed_on_host(lists: Listed) -> CSR:
    """As rows in numpy, with nothing between them."""
    whole = lists.whole if isinstance(lists, Picked) else lists
    indices = on_host(whole.indices)
    if indices is not whole.indices:
        whole = CSR(on_host(whole.indptr), indices, None, whole.n_columns)
    return whole.pick(on_host(lists.rows)) if isinstance(lists, Picked) else whole


def union(several: Sequence[Listed]) -> CSR | None:
    """What any of several lists of a row holds, in numpy; None of none."""
    rows = list(map(listed_on_host, several))
    if len(rows) < 2:
        return rows[0] if rows else None
    return CSR.from_scipy(sum(map(_matrix, rows[1:]), start=_matrix(rows[0])).tocsr(), dtype=None)


def holds(lists: Listed, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the list of row r holds ``columns[r]``, for every r; a single row stands for all.

    Answered where ``columns`` lie.
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
        before = (low < high) & (whole.indices[np.minimum(middle, last)] < wanted)
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    found = (low < ends) & (whole.indices[np.minimum(low, last)] == wanted)
    return beside(found, columns)


def _matrix(rows: CSR) -> Any:
    marks = np.ones(len(rows.indices), dtype=bool)
    return sp.csr_array((marks, rows.indices, rows.indptr), shape=(rows.n_rows, rows.n_columns))
