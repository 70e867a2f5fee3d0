"""How a half-step is cut into tasks, which depends on the data and the width alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.backends.sharded.blocks import Block, block_of, bounds, long_rows, range_of
from mfrank.backends.solve_options import SolveOptions
from mfrank.backends.surface import RowSums

__all__ = ["Cuts", "Sums"]

_SUMS_AT_ONCE = 1 << 26
"""Maximum bytes of the sums that a task returns: above, fewer rows are summed together."""


class Sums(NamedTuple):
    """Which rows are solved from sums over ranges of columns, and how many of them together.

    Attributes
    ----------
    rows_from : int
        Minimum number of entries of such rows; 0 if there are no such rows.
    at_once : int
    ranges : int64
        Where ranges of columns begin, and the end.
    """

    rows_from: int
    at_once: int
    ranges: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        row_sums: RowSums | None,
        n_factors: int,
        dtype: np.dtype[Any],
        options: SolveOptions,
        n_columns: int,
        *,
        curved: bool,
    ) -> Self:
        """The sums of a backend, by its ``Backend.SUMS``; none if it has none."""
        if row_sums is None:
            return cls(0, 1, np.empty(0, dtype=np.int64))
        size = n_factors * (curved * n_factors + 1) * dtype.itemsize
        return cls(
            row_sums.summed_from(n_factors, dtype, options, curved=curved),
            max(1, _SUMS_AT_ONCE // size),
            row_sums.column_ranges(n_columns),
        )


class Cuts:
    """Blocks of rows, without the entries of long rows; and groups of these, range by range.

    Attributes
    ----------
    slices : list of slice
        The rows of each block.
    groups : list of int64 arrays
        Long rows that are summed together.
    """

    def __init__(self, rows: CSR, sums: Sums) -> None:
        self._rows, self._ranges = rows, list(pairwise(sums.ranges.tolist()))
        self._long = long_rows(rows, sums.rows_from)
        ends = bounds(rows, self._long).tolist()
        self.slices = [slice(begin, end) for begin, end in pairwise(ends)]
        places = range(0, len(self._long), sums.at_once)
        self.groups = [self._long[first : first + sums.at_once] for first in places]

    def blocks(self) -> Iterator[Block]:
        """The block of each slice."""
        for each in self.slices:
            yield block_of(self._rows, each.start, each.stop, self._long)

    def ranges(self, group: NDArray[np.int64]) -> Iterator[Block]:
        """The entries of a group's rows in each range of columns."""
        for begin, end in self._ranges:
            yield range_of(self._rows, group, begin, end)
