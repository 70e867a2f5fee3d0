"""Matrices on their way through a cluster: their tasks, which keep blocks on workers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.backends.sharded.blocks import Block, columns_of, route
from mfrank.backends.sharded.cuts import Cuts, Sums
from mfrank.cluster.answers import array_of, wrong
from mfrank.cluster.surface import Engine, Task

__all__ = ["Part", "Route", "Routes", "Summed"]


class Part(NamedTuple):
    """Some rows, the task that keeps their entries, and the columns that these touch."""

    rows: slice | NDArray[np.int64]
    routed: Task
    touched: NDArray[np.int32]


class Summed(NamedTuple):
    """Rows that are solved from sums over ranges of columns, and their part in each range."""

    rows: NDArray[np.int64]
    parts: list[Part]


class Route(NamedTuple):
    """All parts of a matrix, which is kept here because its memory identifies it."""

    whole: CSR
    sums: Sums
    blocks: list[Part]
    summed: list[Summed]

    @property
    def touched(self) -> int:
        """Columns that the parts touch, altogether."""
        parts = [*self.blocks, *(part for group in self.summed for part in group.parts)]
        return sum(len(part.touched) for part in parts)

    def serves(self, rows: CSR, sums: Sums) -> bool:
        """Whether rows can be solved by these parts; parts with values also serve rows without."""
        alike = self.sums.rows_from == sums.rows_from and self.sums.at_once == sums.at_once
        return alike and (self.whole.data is not None or rows.data is None)


class Routes:
    """The routes of matrices, each found the first time that it is asked for.

    Parameters
    ----------
    engine : Engine
    at_once : int
        Blocks that are on their way at a time.
    """

    def __init__(self, engine: Engine, at_once: int) -> None:
        self._engine, self._at_once = engine, at_once
        self._known: dict[int, Route] = {}

    def of(self, rows: CSR, sums: Sums) -> Route:
        """The route of a matrix."""
        key = rows.indices.ctypes.data
        known = self._known.get(key)
        if known is None or not known.serves(rows, sums):
            self._known[key] = self._found(rows, sums)
        return self._known[key]

    def _found(self, rows: CSR, sums: Sums) -> Route:
        cuts = Cuts(rows, sums)
        summed = [
            Summed(group, self._parts([group] * (len(sums.ranges) - 1), cuts.ranges(group)))
            for group in cuts.groups
        ]
        return Route(rows, sums, self._parts(cuts.slices, cuts.blocks()), summed)

    def _parts(
        self, which: Iterable[slice | NDArray[np.int64]], blocks: Iterable[Block]
    ) -> list[Part]:
        pairs, parts = zip(which, blocks, strict=True), list[Part]()
        while some := list(islice(pairs, self._at_once)):
            routed = [self._engine.submit(route, block) for _, block in some]
            touched = self._engine.gather(
                [self._engine.submit(columns_of, each) for each in routed]
            )
            for (rows, block), task, columns in zip(some, routed, touched, strict=True):
                parts.append(Part(rows, task, _columns(columns, block, self._engine)))
        return parts


def _columns(answer: Any, block: Block, engine: Engine) -> NDArray[np.int32]:
    """The columns that a block touches, as an engine returned them, checked."""
    task = f"the columns of {block.indptr[-1]} entries"
    columns = array_of(answer, (-1,), np.int32, engine, task)
    ascends = bool((columns[1:] > columns[:-1]).all())
    inside = not len(columns) or (columns[0] >= 0 and columns[-1] < block.n_columns)
    if not (ascends and inside) or bool(len(columns)) != bool(block.indptr[-1]):
        raise wrong(engine, "columns that are not those of a block", task)
    return columns
