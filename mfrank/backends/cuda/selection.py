"""Exact top-K on the device: tiles of scores, filters, and radix selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mfrank.arrays.device import Array, Device, Grid
from mfrank.backends.cuda.filters import Filters, Lists
from mfrank.backends.cuda.sources import Module

__all__ = ["top_k"]

_PART_OF_FREE = 0.125  # fraction of free memory for scores
_LEAST_QUERIES = 64  # whose scores of all items must fit at once; else items come in chunks
_MOST_QUERIES = 1 << 15  # a grid has at most 2^16 - 1 blocks along y
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
    search = _Search(device, items, bias, filters)
    numbers = int(_PART_OF_FREE * device.free_bytes()) // items.dtype.itemsize
    n_at_once = min(len(items), max(k, numbers // _LEAST_QUERIES))
    max_queries = int(np.clip(numbers // n_at_once, 1, _MOST_QUERIES))
    for begin in range(0, n_queries, max_queries):
        part = slice(begin, min(begin + max_queries, n_queries))
        places, found = search.best(queries[part], part, min(k, len(items)), n_at_once)
        order = xp.argsort(-found, axis=1, kind="stable")  # places ascend: ties by lower id
        places = xp.take_along_axis(places, order, axis=1)
        if shelf is not None:
            places = xp.where(places >= 0, shelf[xp.maximum(places, 0)], -1)
        ids[part, : places.shape[1]] = places
        scores[part, : places.shape[1]] = xp.take_along_axis(found, order, axis=1)
    return ids, scores


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """The items that any query may get, on the device, and the queries' own filters."""

    device: Device
    items: Array
    bias: Array | None
    filters: Filters

    def best(self, queries: Array, part: slice, k: int, n_at_once: int) -> tuple[Array, Array]:
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
        if self.filters.only is not None:
            self._filter(self.filters.only, "keep_listed", part, items.start, scores)
        for lists in self.filters.exclude:
            self._filter(lists, "drop_listed", part, items.start, scores)
        return scores

    def _filter(self, lists: Lists, kernel: str, part: slice, begin: int, scores: Array) -> None:
        n_queries, n = scores.shape
        blocks: Any = n_queries if kernel == "drop_listed" else (-(-n // 128), n_queries)
        self.device.launch(
            Module.of("top", scores.dtype),
            kernel,
            Grid(blocks, 128),
            (*lists.spans(part), self.filters.shelf, begin, n, scores),
        )

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
