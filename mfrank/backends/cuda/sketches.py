"""Top-K lists in two steps: all scores in float16, then the scores of each query's shortlist.

Tensor cores compute the approximate scores, with a proven bound of their error
(``kernels/sketch.cu``). Only items that may be among the best by that bound are scored in the
factors' dtype, so that lists and scores are those of a search without approximations.
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
_PART_OF_FREE = 0.125  # fraction of free memory for approximate scores
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
