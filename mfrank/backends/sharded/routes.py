"""Matrices and factors on their way through a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, empty_aligned, readable
from mfrank.backends.arguments import Factors
from mfrank.backends.dense import rounded
from mfrank.backends.sharded.blocks import Cuts, RowBlock, SumPlan, columns_of, route
from mfrank.cluster import Engine, Task, array_of, wrong


class RoutedPart(NamedTuple):
    """Some rows, the task that holds their entries, and the columns of these."""

    rows: slice | NDArray[np.int64]
    routed: Task
    touched: NDArray[np.int32]


class SummedRows(NamedTuple):
    """Rows that are solved from sums over ranges of columns, and their part in each range."""

    rows: NDArray[np.int64]
    parts: list[RoutedPart]


class Route(NamedTuple):
    """All parts of a matrix; the reference to the matrix identifies the route."""

    whole: CSR
    sums: SumPlan
    blocks: list[RoutedPart]
    summed: list[SummedRows]

    @property
    def touched(self) -> int:
        """Columns that the parts touch, altogether."""
        parts = [*self.blocks, *(part for group in self.summed for part in group.parts)]
        return sum(len(part.touched) for part in parts)

    def serves(self, rows: CSR, sums: SumPlan) -> bool:
        """Whether rows can be solved by these parts; parts with values also serve rows without."""
        alike = self.sums.rows_from == sums.rows_from and self.sums.at_once == sums.at_once
        return alike and (self.whole.data is not None or rows.data is None)


class Routes:
    """The routes of matrices, each computed on first use.

    Parameters
    ----------
    engine : Engine
    at_once : int
        Maximum number of blocks in transit.
    """

    def __init__(self, engine: Engine, at_once: int) -> None:
        self._engine, self._at_once = engine, at_once
        self._known: dict[int, Route] = {}

    def of(self, rows: CSR, sums: SumPlan) -> Route:
        """The route of a matrix."""
        key = rows.indices.ctypes.data
        known = self._known.get(key)
        if known is None or not known.serves(rows, sums):
            self._known[key] = self._found(rows, sums)
        return self._known[key]

    def _found(self, rows: CSR, sums: SumPlan) -> Route:
        cuts = Cuts(rows, sums)
        summed = [
            SummedRows(group, self._parts([group] * (len(sums.ranges) - 1), cuts.ranges(group)))
            for group in cuts.groups
        ]
        return Route(rows, sums, self._parts(cuts.slices, cuts.blocks()), summed)

    def _parts(
        self, which: Iterable[slice | NDArray[np.int64]], blocks: Iterable[RowBlock]
    ) -> list[RoutedPart]:
        pairs, parts = zip(which, blocks, strict=True), list[RoutedPart]()
        while some := list(islice(pairs, self._at_once)):
            routed = [self._engine.submit(route, block) for _, block in some]
            touched = self._engine.gather(
                [self._engine.submit(columns_of, each) for each in routed]
            )
            for (rows, block), task, columns in zip(some, routed, touched, strict=True):
                parts.append(RoutedPart(rows, task, _columns(columns, block, self._engine)))
        return parts


def _columns(answer: Any, block: RowBlock, engine: Engine) -> NDArray[np.int32]:
    """The columns that a block touches, as an engine returned them, checked."""
    task = f"the columns of {block.indptr[-1]} entries"
    columns = array_of(answer, (-1,), np.int32, engine, task)
    ascends = bool((columns[1:] > columns[:-1]).all())
    inside = not len(columns) or (columns[0] >= 0 and columns[-1] < block.n_columns)
    if not (ascends and inside) or bool(len(columns)) != bool(block.indptr[-1]):
        raise wrong(engine, "columns that are not those of a block", task)
    return columns


# Factors on their way to workers: the rows that a block touches, or a whole table in pieces.


_PIECE = 1 << 26
"""Maximum bytes of a piece: workers send each other pieces, several at a time."""


class Sent(NamedTuple):
    """Some factors; if they are float16, they were divided by ``scale``."""

    factors: Factors
    scale: float
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, factors: Factors, scale: float | None) -> Self:
        """Factors as they are, or rounded to float16 for a scale."""
        sent = factors if scale is None else rounded(factors, scale)
        return cls(sent, 1.0 if scale is None else scale, factors.dtype)

    def received(self) -> Factors:
        """The factors as kernels can read them."""
        if self.factors.dtype == self.dtype:
            return readable(self.factors)
        wide: Factors = self.factors.astype(self.dtype) * self.dtype.type(self.scale)
        return wide

    def rows(self, which: NDArray[Any]) -> Factors:
        """Some rows, in the form in which they were sent."""
        return self._replace(factors=self.factors[which]).received()


def pieces(table: Factors, scale: float | None, n_pieces: int) -> Iterator[Sent]:
    """Cut a table into equal pieces: ``n_pieces`` at most, or more where these were too large."""
    size = max(1, min(-(-len(table) // n_pieces), _PIECE // max(1, table[:1].nbytes)))
    for begin in range(0, len(table), size):
        yield Sent.of(table[begin : begin + size], scale)


def taken(table: Sequence[Sent], rows: NDArray[np.int32]) -> Factors:
    """Rows of a table that came in pieces."""
    some = empty_aligned((len(rows), table[0].factors.shape[1]), table[0].dtype)
    begin = 0
    for piece in table:
        end = begin + len(piece.factors)
        places = np.flatnonzero((rows >= begin) & (rows < end))
        some[places] = piece.rows(rows[places] - begin)
        begin = end
    return some
