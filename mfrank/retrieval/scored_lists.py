"""Top-K lists of a model that scores all items without factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, listed_on_host, on_host, union
from mfrank.retrieval.filters import Candidates
from mfrank.retrieval.top_k import Lists

_CELLS_AT_ONCE = 1 << 21


def best_lists(
    scores_of: Callable[[slice], NDArray[Any]],
    n_queries: int,
    n_items: int,
    candidates: Candidates,
    n: int,
    first: NDArray[np.int64] | None = None,
    unlinked: Callable[[slice, NDArray[Any]], tuple[NDArray[np.int64], NDArray[np.bool_]]]
    | None = None,
) -> Lists:
    """The ``n`` items with the highest scores for each query, ties by lower row.

    Parameters
    ----------
    scores_of : function
        Called with blocks of queries. Returns the scores of all items in a new array, float64,
        shape (block, n_items); -inf excludes an item.
    n_queries, n_items : int
    candidates : Candidates
        Filters of the queries.
    n : int
        Length of a list.
    first : int64, shape (n_queries,), optional
        The first item of each list, unless it is filtered.
    unlinked : function, optional
        Called with a block and its scores after the filters. Returns some rows of the block, and
        further excluded items of these rows, bool.

    Returns
    -------
    Lists
        Item rows int32 and scores float64, both (n_queries, n), padded with -1 and NaN.
    """
    parts, filters = [_no_lists(n)], _Filters.of(candidates)
    for block in blocks(n_queries, n_items):
        scores = scores_of(block)
        filters.apply(scores, block)
        if unlinked is not None:
            at, nothing = unlinked(block, scores)
            if len(at):
                scores[at] = np.where(nothing, -np.inf, scores[at])
        parts.append(_best(scores, n, None if first is None else first[block]))
    ids, listed = zip(*parts, strict=True)
    return np.concatenate(ids), np.concatenate(listed)


def blocks(n_queries: int, n_items: int) -> Iterator[slice]:
    """Blocks of queries whose scores are computed together, for bounded memory."""
    size = max(1, _CELLS_AT_ONCE // max(n_items, 1))
    yield from (slice(at, min(at + size, n_queries)) for at in range(0, n_queries, size))


def _no_lists(n: int) -> Lists:
    return np.empty((0, n), dtype=np.int32), np.empty((0, n))


def _best(scores: NDArray[Any], n: int, first: NDArray[np.int64] | None) -> Lists:
    """Best items by scores (rows, n_items), where -inf means that the item is filtered."""
    order = -scores
    if first is not None:
        rows = np.flatnonzero(np.isfinite(scores[np.arange(len(first)), first]))
        order[rows, first[rows]] = -np.inf
    best = _first(order, n)
    listed = np.take_along_axis(scores, best, axis=1)
    missing = np.isneginf(listed)
    best[missing], listed[missing] = -1, np.nan
    if best.shape[1] == n:
        return best, listed
    more = ((0, 0), (0, n - best.shape[1]))
    return (
        np.pad(best, more, constant_values=np.int32(-1)),
        np.pad(listed, more, constant_values=np.nan),
    )


def _first(order: NDArray[Any], n: int) -> NDArray[np.int32]:
    """Columns of the least ``n`` of each row, ascending, ties by lower column, except at inf."""
    if n >= order.shape[1]:
        return np.argsort(order, axis=1, kind="stable").astype(np.int32)
    columns = np.sort(np.argpartition(order, n - 1, axis=1)[:, :n], axis=1)
    last = np.take_along_axis(order, columns, axis=1).max(axis=1, keepdims=True)
    at_most = (order <= last).sum(axis=1, dtype=np.int32)  # faster than count_nonzero
    tied = np.flatnonzero((at_most > n) & (last[:, 0] < np.inf))
    columns[tied] = np.argsort(order[tied], axis=1, kind="stable")[:, :n]
    by_value = np.argsort(np.take_along_axis(order, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, by_value, axis=1).astype(np.int32)


class _Filters(NamedTuple):
    """Candidates as numpy arrays, with one merged list of exclusions per row."""

    only: CSR | None
    exclude_all: NDArray[np.int32] | None
    exclude: CSR | None

    @classmethod
    def of(cls, given: Candidates) -> _Filters:
        only = None if given.only is None else listed_on_host(given.only)
        every = None if given.exclude_all is None else on_host(given.exclude_all)
        return cls(only, every, union(given.exclude))

    def apply(self, scores: NDArray[Any], block: slice) -> None:
        """Set the scores of a block to -inf where an item is filtered."""
        if self.only is not None:
            others = np.full(scores.shape, True)
            others[_cells(self.only, block)] = False
            scores[others] = -np.inf
        if self.exclude_all is not None:
            scores[:, self.exclude_all] = -np.inf
        if self.exclude is not None:
            scores[_cells(self.exclude, block)] = -np.inf


def _cells(rows: CSR, block: slice) -> tuple[Any, NDArray[np.int32]]:
    """Index of the entries of a block of rows; a single row applies to every row."""
    if rows.n_rows == 1:
        return slice(None), rows.indices
    begin, end = rows.indptr[block.start], rows.indptr[block.stop]
    counts = rows.counts[block]
    return np.repeat(np.arange(len(counts)), counts), rows.indices[begin:end]
