"""Search order of the extension's top-K, and the sketches that single queries read."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Listed, empty_aligned, ext, listed_on_host, on_host

# Results that are computed from read-only arrays at their second request, and cached with them.

T = TypeVar("T")

_Known = tuple[tuple[weakref.ref[NDArray[Any]], ...], T | None]


class ArrayCache(Generic[T]):
    """Results by the arrays that they are computed from; removed when any of these is freed."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, ...], _Known[T]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, *arrays: NDArray[Any], make: Callable[[], T]) -> T | None:
        """The result of ``make()`` for these arrays; later requests return it again.

        None for writable arrays, and at the first request: a view that was made for one call is
        never requested again.
        """
        for array in arrays:
            if array.flags.writeable:
                return None
        key = tuple(map(id, arrays))
        references, result = self._of.get(key, ((), None))
        known = len(references) > 0
        for each, array in zip(references, arrays, strict=False):
            known &= each() is array
        if not known:
            new = (weakref.ref(array, lambda _: self._of.pop(key, None)) for array in arrays)
            self._of[key] = tuple(new), None
            return None
        if result is None:
            result = make()
            self._of[key] = references, result
        return result


# Sketches: items in one byte per factor, from which a single query finds the few it must score.
#
# Results are still exact: a sketch gives an upper bound on each item's score, and all items that
# may enter the list are scored from the factors themselves (``cext/kernels/topk/sketch.h``).


_BLOCK, _WORD = 32, 4  # items per block, and codes per word
_WORTH_IT = 1 << 13  # numbers; of fewer, a call takes longer than the search


class Sketch(NamedTuple):
    """Codes of N items with K factors, in blocks of 32 items.

    Attributes
    ----------
    codes : int8, shape (N K,), with N rounded up to whole blocks and K to whole words
        By block, then by word of four factors, then by item.
    scales : float32, shape (N,), N rounded up
        Item i is approximately ``2**24 * scales[i]`` times its codes.
    rooms : float32, shape (N,), N rounded up
        Largest amount by which an item's score can exceed its codes' for a query of length 1.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    rooms: NDArray[np.float32]

    @classmethod
    def of(cls, items: NDArray[np.floating], n_threads: int = 0) -> Sketch:
        """Sketch the rows of a float32 or float64 matrix."""
        n_items, k = items.shape
        blocks, words = -(-n_items // _BLOCK), -(-k // _WORD)
        codes: NDArray[Any] = empty_aligned((blocks * words * _BLOCK * _WORD,), np.int8)
        codes[:] = 0
        sketch = cls(codes, *(np.zeros(blocks * _BLOCK, np.float32) for _ in range(2)))
        ext.sketch(items, sketch, n_threads)
        return sketch


_SKETCHES: ArrayCache[Sketch] = ArrayCache()


def sketch_of(items: NDArray[np.floating], n_threads: int = 0) -> Sketch | None:
    """Return the cached sketch of read-only items, computed at their second request.

    None for writable items, for small tables, and at the first request.
    """
    if items.size < _WORTH_IT:
        return None
    return _SKETCHES.of(items, make=lambda: Sketch.of(items, n_threads))


_QUERIES_WORTH_A_SKETCH = 16  # More queries share the cost of reading the items themselves.
_QUERIES_WORTH_A_SORT = 256  # Sorting the items by length costs about as much as this many queries.
_LONG, _MUCH_SHORTER = 100, 0.25
_PASSED, _READ = 50, 10  # items are passed over, or their codes read, in the time to score one
_LOOKED = 1000  # items tell of all


class Shelves(NamedTuple):
    """The items that a search reads, in its order, before each query's own exclusions.

    Attributes
    ----------
    rows : CSR, or None
        One row for all queries or one per query; None (only with a sketch) means every item.
    sketch : Sketch, or None
    lengths : float64, or None
        Lengths of the single row's items, then sorted longest first so that a search can end early.
    allowed : bool, shape (n_items,), or None
        Which of these items any query may get; None: all.
    ends_early : bool
        Whether a search by length ends before most items, if all are allowed.
    """

    rows: CSR | None
    sketch: Sketch | None = None
    lengths: NDArray[np.float64] | None = None
    allowed: NDArray[np.bool_] | None = None
    ends_early: bool = False


_OF_ONE: ArrayCache[Shelves] = ArrayCache()
"""What was chosen for a single query without filters, whose list takes hardly longer."""


def shelves_for(
    n_queries: int,
    items: NDArray[Any],
    item_bias: NDArray[Any] | None,
    candidates: Listed | None,
    exclude_all: NDArray[np.int32] | None,
    n_threads: int,
) -> Shelves:
    """Choose the search order for ``n_queries``, from arguments of ``Backend.top_k``."""

    def chosen() -> Shelves:
        return _chosen(n_queries, items, item_bias, candidates, exclude_all, n_threads)

    if n_queries > 1 or candidates is not None or exclude_all is not None:
        return chosen()
    arrays = (items,) if item_bias is None else (items, item_bias)
    return _OF_ONE.of(*arrays, make=chosen) or chosen()


def _chosen(
    n_queries: int,
    items: NDArray[Any],
    item_bias: NDArray[Any] | None,
    candidates: Listed | None,
    exclude_all: NDArray[np.int32] | None,
    n_threads: int,
) -> Shelves:
    only = None if candidates is None else listed_on_host(candidates)
    if only is None or (only.n_rows == 1 and len(items) < _PASSED * len(only.indices)):
        search = _among_all(n_queries, items, item_bias, only, exclude_all, n_threads)
        if search is not None:
            return search
    rows = _allowed(only, exclude_all, len(items))
    if rows.n_rows == 1 and n_queries >= _QUERIES_WORTH_A_SORT:
        return _longest_first(rows, items, item_bias)
    return Shelves(rows)


def _among_all(
    n_queries: int,
    items: NDArray[Any],
    item_bias: NDArray[Any] | None,
    only: CSR | None,
    exclude_all: NDArray[np.int32] | None,
    n_threads: int,
) -> Shelves | None:
    """A search of all items that passes over those not allowed; None if scoring is faster."""
    allowed = None
    order = _cached_order(items, item_bias)
    if order is not None:
        allowed = _mask(only, exclude_all, len(items))
        if allowed is not None:
            order = order._replace(allowed=allowed, ends_early=_ends_early(order, allowed))
        if n_queries >= _QUERIES_WORTH_A_SORT or order.ends_early:
            return order
    is_worth_it = n_queries <= _QUERIES_WORTH_A_SKETCH and (
        only is None or len(items) < _READ * len(only.indices)
    )
    sketch = sketch_of(items, n_threads) if is_worth_it else None
    if sketch is None:
        return None
    if order is None:
        allowed = _mask(only, exclude_all, len(items))
    return Shelves(None, sketch, allowed=allowed)


_MASKS: ArrayCache[NDArray[np.bool_]] = ArrayCache()


def _mask(
    only: CSR | None, exclude_all: NDArray[np.int32] | None, n_items: int
) -> NDArray[np.bool_] | None:
    """Which items any query may get; None if all. Kept with read-only candidates."""
    if only is None and exclude_all is None:
        return None
    if only is None:
        allowed = np.ones(n_items, dtype=bool)
    else:
        rows = only.indices

        def marked() -> NDArray[np.bool_]:
            held = np.zeros(n_items, dtype=bool)
            held[rows] = True
            return held

        kept = _MASKS.of(rows, make=marked)
        if kept is not None and exclude_all is None:
            return kept
        allowed = marked() if kept is None else kept.copy()
    if exclude_all is not None:
        allowed[on_host(exclude_all)] = False
    return allowed


def _allowed(candidates: CSR | None, exclude_all: NDArray[np.int32] | None, n_items: int) -> CSR:
    """Items that each query may get; one row if it is the same for all queries."""
    rows = _every(n_items) if candidates is None else listed_on_host(candidates)
    if exclude_all is None:
        return rows
    allowed = np.isin(rows.indices, on_host(exclude_all), invert=True)
    before = np.concatenate([[0], np.cumsum(allowed)])
    return CSR(before[rows.indptr], rows.indices[allowed], None, n_items)


@lru_cache(maxsize=2)  # Writing the array takes as long as answering a single query.
def _every(n_items: int) -> CSR:
    return CSR(np.array([0, n_items]), np.arange(n_items, dtype=np.int32), None, n_items)


_ORDERS: ArrayCache[Shelves] = ArrayCache()


def _cached_order(items: NDArray[Any], item_bias: NDArray[Any] | None) -> Shelves | None:
    """All items by descending length; None unless read-only items are requested again."""
    arrays = (items,) if item_bias is None else (items, item_bias)
    return _ORDERS.of(*arrays, make=lambda: _longest_first(_every(len(items)), items, item_bias))


def _ends_early(order: Shelves, allowed: NDArray[np.bool_]) -> bool:
    """Whether most allowed items are so short that a search by length ends before them.

    Then even a single query is faster by length than with a sketch of all items.
    """
    rows, lengths = order.rows, order.lengths
    if rows is None or lengths is None or len(lengths) <= 2 * _LONG:
        return False
    head = np.flatnonzero(allowed[rows.indices[: 10 * _LOOKED]])
    step = max(1, len(lengths) // _LOOKED)
    some = lengths[::step][allowed[rows.indices[::step]]]
    if len(head) <= _LONG or not len(some):
        return False
    return bool(some[len(some) // 2] < _MUCH_SHORTER * lengths[head[_LONG]])


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
    lengths = lengths[order]
    early = len(lengths) > 2 * _LONG and bool(
        lengths[len(lengths) // 2] < _MUCH_SHORTER * lengths[_LONG]
    )
    return Shelves(sorted_row, lengths=lengths, ends_early=early)
