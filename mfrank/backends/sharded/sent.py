"""Factors on their way to workers: the rows that a block touches, or a whole table in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import empty_aligned, readable
from mfrank.backends.float16 import rounded
from mfrank.backends.surface import Factors

__all__ = ["Sent", "held", "pieces", "taken"]

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


def pieces(table: Factors, scale: float | None, least: int) -> Iterator[Sent]:
    """Cut a table into ``least`` pieces or more, if it has as many rows."""
    size = max(1, min(-(-len(table) // least), _PIECE // max(1, table[:1].nbytes)))
    for begin in range(0, len(table), size):
        yield Sent.of(table[begin : begin + size], scale)


def held(piece: Sent) -> Sent:
    """A piece, as a task whose result stays on the worker."""
    return piece


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
