"""Search order of the extension's top-K: which items, in which order, with or without a sketch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.placement import on_host
from mfrank.arrays.row_lists import Listed, listed_on_host
from mfrank.backends.cpu.kept import Kept
from mfrank.backends.cpu.sketches import Sketch, sketch_of

__all__ = ["Shelves", "shelves_for"]

_QUERIES_WORTH_A_SKETCH = 16  # More queries share the cost of reading the items themselves.
_QUERIES_WORTH_A_SORT = 256  # Sorting the items by length costs about as much as this many queries.
_LONG, _MUCH_SHORTER = 100, 0.25


class Shelves(NamedTuple):
    """Items that queries may get, before their own exclusions.

    Attributes
    ----------
    rows : CSR, or None
        One row for all queries or one per query; None (only with a sketch) means every item.
    sketch : Sketch, or None
    lengths : float64, or None
        Lengths of the single row's items, then sorted longest first so that a search can end early.
    """

    rows: CSR | None
    sketch: Sketch | None = None
    lengths: NDArray[np.float64] | None = None


def shelves_for(
    n_queries: int,
    items: NDArray[Any],
    item_bias: NDArray[Any] | None,
    candidates: Listed | None,
    exclude_all: NDArray[np.int32] | None,
    n_threads: int,
) -> Shelves:
    """Choose the search order for ``n_queries``, from arguments of ``Backend.top_k``."""
    if candidates is None and exclude_all is None:
        order = _kept_order(items, item_bias)
        if order is not None and (n_queries >= _QUERIES_WORTH_A_SORT or _ends_early(order)):
            return order
        sketch = sketch_of(items, n_threads) if n_queries <= _QUERIES_WORTH_A_SKETCH else None
        if sketch is not None:
            return Shelves(None, sketch)
    rows = _allowed(candidates, exclude_all, len(items))
    if rows.n_rows == 1 and n_queries >= _QUERIES_WORTH_A_SORT:
        return _longest_first(rows, items, item_bias)
    return Shelves(rows)


def _allowed(candidates: Listed | None, exclude_all: NDArray[np.int32] | None, n_items: int) -> CSR:
    """Items that each query may get; one row if it is the same for all queries."""
    rows = _every(n_items) if candidates is None else listed_on_host(candidates)
    if exclude_all is None:
        return rows
    kept = np.isin(rows.indices, on_host(exclude_all), invert=True)
    before = np.concatenate([[0], np.cumsum(kept)])
    return CSR(before[rows.indptr], rows.indices[kept], None, n_items)


@lru_cache(maxsize=2)  # Writing the array takes as long as answering a single query.
def _every(n_items: int) -> CSR:
    return CSR(np.array([0, n_items]), np.arange(n_items, dtype=np.int32), None, n_items)


_KEPT: Kept[Shelves] = Kept()


def _kept_order(items: NDArray[Any], item_bias: NDArray[Any] | None) -> Shelves | None:
    """All items longest first, if they are read-only and are asked for again."""
    arrays = (items,) if item_bias is None else (items, item_bias)
    return _KEPT.of(*arrays, make=lambda: _longest_first(_every(len(items)), items, item_bias))


def _ends_early(order: Shelves) -> bool:
    """Whether most items are so short that a search will not come to them, for any query.

    Then even a single query takes less time with the longest items than with the sketch of all.
    """
    lengths = order.lengths
    if lengths is None or len(lengths) <= 2 * _LONG:
        return False
    return bool(lengths[len(lengths) // 2] < _MUCH_SHORTER * lengths[_LONG])


def _longest_first(row: CSR, items: NDArray[Any], item_bias: NDArray[Any] | None) -> Shelves:
    """Sort a single row's items by descending length; a bias counts as a coordinate."""
    squares = np.einsum("nk,nk->n", items, items, dtype=np.float64)
    if item_bias is not None:
        squares += item_bias.astype(np.float64) ** 2
    # An upper bound on the squares that underflow, so that lengths are never too small.
    squares += (items.shape[1] + 1) * np.finfo(items.dtype).tiny
    lengths = np.sqrt(squares[row.indices])
    order = np.argsort(-lengths)
    sorted_row = CSR(row.indptr, row.indices[order], None, row.n_columns)
    return Shelves(sorted_row, lengths=lengths[order])
