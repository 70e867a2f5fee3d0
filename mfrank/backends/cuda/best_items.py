"""Exact top-K on the device: by sketches and shortlists, or by scores of all items.

Many queries are answered in two steps. Tensor cores compute the scores of all items in float16,
with a proven bound of their error (``kernels/sketch.cu``). Only items that may be among the best by
that bound are scored in the factors' dtype, so that lists and scores are those of a search without
approximations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array, Device, Grid
from mfrank.backends.cuda.blocks import warps
from mfrank.backends.cuda.kernel_sources import Module
from mfrank.backends.cuda.listed_filters import MOST_QUERIES, Filters

_LEAST_QUERIES = 128  # fewer do not pay for sketches of all items
_LEAST_ITEMS = 2048  # a vector of 8 scores for each thread
_LONGEST_LIST = 192  # of 256 maxima; further down, they are far below the largest scores
_PART_OF_FREE = 0.125  # fraction of free memory for scores
_MOST_BYTES = 1 << 30  # of approximate scores at once
_ALIGNED = 8  # numbers of float16 that are read at once, by tensor cores and by kernels
_THREADS = 256
_LONGEST = 1024  # items on a shortlist


def is_worthwhile(free: int, n_queries: int, shape: tuple[int, int], k: int) -> bool:
    """Whether sketches of items of that shape fit in the ``free`` bytes and save time."""
    n_items, n_factors = shape
    enough = n_queries >= _LEAST_QUERIES and n_items >= _LEAST_ITEMS and k <= _LONGEST_LIST
    needed = 2 * n_items * max(_LEAST_QUERIES, 2 * n_factors)  # bytes, of scores or sketches
    return enough and needed <= _PART_OF_FREE * free


@dataclass(frozen=True, slots=True, eq=False)
class Sketches:
    """Items and their sketches.

    Attributes
    ----------
    items : float32 or float64, shape (N, K)
    bias : shape (N,), or None
        Of the items, in their dtype.
    filters : Filters
        Of all queries. ``items`` are those of its shelf, if it has one.
    longest, largest_bias : float64, shape ()
        The longest item's norm, and the largest absolute bias or None.
    rounded : float16, shape (stride, width)
        Scaled items with their biases, padded to multiples of 8, and rows of NaN behind them.
    norms : float32, shape (stride,)
        Of the scaled items with their biases, and zeros behind them.
    """

    device: Device
    items: Array
    bias: Array | None
    filters: Filters
    longest: Array
    largest_bias: Array | None
    rounded: Array
    norms: Array

    @classmethod
    def of(cls, device: Device, items: Array, bias: Array | None, filters: Filters) -> Sketches:
        """Round all items, in three or five launches."""
        (n, k), xp = items.shape, device.xp
        norms = _norms(device, items)
        longest = norms.max()
        largest_bias = None if bias is None else _norms(device, bias[:, None]).max()
        stride, width = _padded(n), _padded(k + (bias is not None))
        rounded, scaled_norms = xp.empty((stride, width), np.float16), xp.empty(stride, np.float32)
        sizes = longest, largest_bias, stride, width
        device.launch(
            Module.of("sketch", items.dtype),
            "sketch_items",
            warps(stride),
            (items, n, k, norms, bias, *sizes, rounded, scaled_norms),
        )
        return cls(device, items, bias, filters, longest, largest_bias, rounded, scaled_norms)

    def search(self, free: int, queries: Array, ids: Array, scores: Array) -> Array:
        """Write the lists of all queries into ``ids`` and ``scores``, shape (U, k).

        Returns
        -------
        bool, shape (U,)
            Queries whose lists were not found, because too many items may be among the best, or
            because factors are not finite or of an extreme scale.
        """
        unfinished = self.device.xp.empty(len(queries), np.bool_)
        bytes_of_a_query = 2 * len(self.rounded)
        most = min(_MOST_BYTES, int(_PART_OF_FREE * free)) // bytes_of_a_query
        n_parts = -(-len(queries) // int(np.clip(most, 1, MOST_QUERIES)))
        n_at_once = -(-len(queries) // n_parts)
        for begin in range(0, len(queries), n_at_once):
            part = slice(begin, min(begin + n_at_once, len(queries)))
            self._search(queries[part], part, ids[part], scores[part], unfinished[part])
        return unfinished

    def rounded_queries(self, queries: Array) -> tuple[Array, Array]:
        """Sketches of queries, float16, shape (U, width), and bounds of errors, float32, (U, 3).

        Both are of scaled scores. Bounds are twice that of all items, infinity if none is known;
        that of an item per unit of its entry of ``norms``, and a constant to be added.
        """
        n, width = len(queries), self.rounded.shape[1]
        rounded = self.device.xp.empty((n, width), np.float16)
        bounds = self.device.xp.empty((n, 3), np.float32)
        self.device.launch(
            Module.of("sketch", self.items.dtype),
            "sketch_queries",
            warps(n),
            (queries, *queries.shape, self.longest, self.largest_bias, width, rounded, bounds),
        )
        return rounded, bounds

    def _search(
        self, queries: Array, part: slice, ids: Array, scores: Array, unfinished: Array
    ) -> None:
        device, (n_queries, n_factors), stride = self.device, queries.shape, len(self.rounded)
        rounded, bounds = self.rounded_queries(queries)
        approximate = device.xp.empty((n_queries, stride), np.float16)
        device.multiply_halves(rounded, self.rounded, approximate)
        self.filters.remove(device, part, slice(0, len(self.items)), approximate)
        shared = 4 * _THREADS + 64 + _LONGEST * (4 + self.items.dtype.itemsize)
        given = queries, self.items, self.bias, self.filters.shelf, n_factors
        device.launch(
            Module.of("shortlist", self.items.dtype),
            "best_of_shortlist",
            Grid(n_queries, _THREADS, shared),
            (
                approximate,
                stride,
                bounds,
                self.norms,
                *given,
                ids.shape[1],
                ids,
                scores,
                unfinished,
            ),
        )


def _norms(device: Device, rows: Array) -> Array:
    norms = device.xp.empty(len(rows), np.float64)
    args = rows, *rows.shape, norms
    device.launch(Module.of("sketch", rows.dtype), "norms", warps(len(rows)), args)
    return norms


def _padded(n: int) -> int:
    return -(-n // _ALIGNED) * _ALIGNED


# Without sketches: by tiles of scores and radix selection.

_LEAST_AT_ONCE = 64  # whose scores of all items must fit at once; else items come in chunks
_SELECT_THREADS = 256
_SELECT_SHARED = 1024 + 48  # bytes: kernels/best.cu


def top_k(
    device: Device,
    queries: Array,
    items: Array,
    k: int,
    bias: Array | None,
    filters: Filters,
) -> tuple[Array, Array]:
    """Best ``k`` items of each query: int32 ids and scores, both (U, k)."""
    xp, n_queries, shelf = device.xp, len(queries), filters.shelf
    ids = xp.full((n_queries, k), -1, np.int32)
    scores = xp.full((n_queries, k), np.nan, items.dtype)
    if shelf is not None:
        items, bias = items[shelf], None if bias is None else bias[shelf]
    if not (len(items) and n_queries):
        return ids, scores
    free = device.free_bytes()
    if not is_worthwhile(free, n_queries, items.shape, k):
        _Search(device, items, bias, filters).fill(free, queries, ids, scores)
        return ids, scores
    unfinished = Sketches.of(device, items, bias, filters).search(free, queries, ids, scores)
    left = xp.flatnonzero(unfinished)
    if len(left):
        some_ids, some_scores = ids[left], scores[left]
        search = _Search(device, items, bias, filters.of_queries(left))
        search.fill(free, queries[left], some_ids, some_scores)
        ids[left], scores[left] = some_ids, some_scores
    return ids, scores


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """The items that any query may get, on the device, and the queries' own filters."""

    device: Device
    items: Array
    bias: Array | None
    filters: Filters

    def fill(self, free: int, queries: Array, ids: Array, scores: Array) -> None:
        """Write the lists of all queries into ``ids`` and ``scores``, shape (U, k)."""
        xp, shelf, k = self.device.xp, self.filters.shelf, min(ids.shape[1], len(self.items))
        ids[:, k:], scores[:, k:] = -1, np.nan
        numbers = int(_PART_OF_FREE * free) // self.items.dtype.itemsize
        n_at_once = min(len(self.items), max(k, numbers // _LEAST_AT_ONCE))
        max_queries = int(np.clip(numbers // n_at_once, 1, MOST_QUERIES))
        for begin in range(0, len(queries), max_queries):
            part = slice(begin, min(begin + max_queries, len(queries)))
            places, found = self._best(queries[part], part, k, n_at_once)
            order = xp.argsort(-found, axis=1, kind="stable")  # places ascend: ties by lower id
            places = xp.take_along_axis(places, order, axis=1)
            if shelf is not None:
                places = xp.where(places >= 0, shelf[xp.maximum(places, 0)], -1)
            ids[part, :k] = places
            scores[part, :k] = xp.take_along_axis(found, order, axis=1)

    def _best(self, queries: Array, part: slice, k: int, n_at_once: int) -> tuple[Array, Array]:
        """Rows of ``items``, ascending, and scores of the best ``k`` for the queries ``part``."""
        xp, kept = self.device.xp, None
        for begin in range(0, len(self.items), n_at_once):
            items = slice(begin, min(begin + n_at_once, len(self.items)))
            places, scores = self._select(self._scores(queries, part, items), k)
            places = xp.where(places >= 0, places + begin, -1).astype(np.int32)
            if kept is not None:
                both = xp.concatenate([kept[0], places], axis=1)
                at, scores = self._select(xp.concatenate([kept[1], scores], axis=1), k)
                found = xp.take_along_axis(both, xp.maximum(at, 0), axis=1)
                places = xp.where(at >= 0, found, -1).astype(np.int32)
            kept = places, scores
        assert kept is not None
        return kept

    def _scores(self, queries: Array, part: slice, items: slice) -> Array:
        """Scores of some queries and items, NaN if filtered out."""
        device, n = self.device, items.stop - items.start
        k, dtype = self.items.shape[1], self.items.dtype
        scores = device.xp.empty((len(queries), n), dtype)
        tile = 32 if len(queries) <= 32 else 64
        bias = None if self.bias is None else self.bias[items]
        device.launch(
            Module.of("top", dtype, tile),
            "score_tiles",
            Grid(
                (-(-n // tile), -(-len(queries) // tile)),
                (tile // 4) ** 2,
                2 * 16 * (tile + 4) * dtype.itemsize,
            ),
            (queries, len(queries), self.items[items], n, k, bias, scores),
        )
        self.filters.remove(device, part, items, scores)
        return scores

    def _select(self, scores: Array, k: int) -> tuple[Array, Array]:
        """Columns and scores of the best ``k`` in each row, in ascending order of columns."""
        xp, (n_rows, n) = self.device.xp, scores.shape
        places, best = xp.empty((n_rows, k), np.int32), xp.empty((n_rows, k), scores.dtype)
        self.device.launch(
            Module.of("best", scores.dtype),
            "select_best",
            Grid(n_rows, _SELECT_THREADS, _SELECT_SHARED),
            (scores, n, k, places, best),
        )
        return places, best
