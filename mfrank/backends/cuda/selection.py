"""Exact top-K on the device: by sketches, or by tiles of scores and radix selection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array, Device, Grid
from mfrank.backends.cuda.kernel_sources import Module
from mfrank.backends.cuda.listed_filters import MOST_QUERIES, Filters
from mfrank.backends.cuda.sketches import Sketches, is_worthwhile

_PART_OF_FREE = 0.125  # fraction of free memory for scores
_LEAST_QUERIES = 64  # whose scores of all items must fit at once; else items come in chunks
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
        n_at_once = min(len(self.items), max(k, numbers // _LEAST_QUERIES))
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
