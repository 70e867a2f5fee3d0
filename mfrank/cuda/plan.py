"""Which row of a half-step is solved how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mfrank.csr import CSR
from mfrank.cuda.blocks import Block

if TYPE_CHECKING:
    from mfrank.backends import SolveOptions

__all__ = ["HEAVY", "Group", "Way", "exact_groups", "padded", "plan"]

Way = str
"""``diagonal``, ``iterate``, ``dual``, ``primal`` or ``heavy``."""

HEAVY = 8192
"""Entries from which on the matrix of a row is summed by many blocks, so many to each."""

_SMALL, _LARGE = 32, 64
"""Sizes of tile; a matrix up to the small one is a tile of it."""

_CG_SLOWNESS = 4.0
"""How much slower a multiply-add of conjugate gradients runs, which reads a row's factors again at
each step, than one of the exact solution; the CPU's, not yet measured on a GPU."""


class Group(NamedTuple):
    """Rows of a block that are solved alike.

    Attributes
    ----------
    way : str
    rows : int32
    size : int
        Of their matrices, where these are made.
    flat : bool
        Whether some of their entries pull without curvature.
    """

    way: Way
    rows: NDArray[np.int32]
    size: int = 0
    flat: bool = True


_plans: WeakKeyDictionary[CSR, dict[Any, tuple[NDArray[np.uint8], list[Group]]]]
_plans = WeakKeyDictionary()


def padded(n: int) -> int:
    """Rows of the whole tiles that hold an n x n matrix."""
    return _SMALL if n <= _SMALL else -(-n // _LARGE) * _LARGE


def plan(block: Block, k: int, options: SolveOptions) -> list[Group]:
    """Every row of the block in one group; the same list from epoch to epoch."""
    key = block.rows.start, block.rows.stop, k, options.solver, options.cg_steps
    known = _plans.setdefault(block.owner, {})
    if key not in known or not np.array_equal(known[key][0], block.kinds):
        known[key] = block.kinds, _planned(block, k, options)
    return known[key][1]


def _planned(block: Block, k: int, options: SolveOptions) -> list[Group]:
    shared = (block.kinds & 1) == 0  # what all rows share is all of their matrix
    iterated = ~shared & _iterated(block.counts, k, options)
    groups = [("diagonal", shared), ("iterate", iterated)]
    found = [Group(way, _numbers(mask)) for way, mask in groups if mask.any()]
    return found + list(exact_groups(block, k, _numbers(~shared & ~iterated)))


def exact_groups(block: Block, k: int, rows: NDArray[np.int32]) -> Iterator[Group]:
    """Rows that have curvature, to be solved exactly."""
    counts, negative = block.counts[rows], (block.kinds[rows] & 2) != 0
    dual = (counts <= k) & ~negative
    for way, mask in (
        ("heavy", ~dual & (counts > HEAVY)),
        ("primal", ~dual & (counts <= HEAVY)),
    ):
        if mask.any():
            yield Group(way, rows[mask], padded(k))
    sizes = np.where(counts <= _SMALL, 0, -(-counts // _LARGE))
    for size in np.flatnonzero(np.bincount(sizes[dual]))[::-1]:
        some = rows[dual & (sizes == size)]
        flat = bool((block.kinds[some] & 4).any())
        yield Group("dual", some, int(size) * _LARGE or _SMALL, flat)


def steps_worth(counts: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Steps of conjugate gradients that cost rows of so many entries their exact solution."""
    n = np.maximum(counts, 1).astype(np.float64)
    dual, primal = n * n * (k / 2 + n / 6), k * k * (n / 2 + k / 6)
    worth: NDArray[np.float64] = np.minimum(dual, primal) / (_CG_SLOWNESS * 2 * n * k)
    return worth


def _iterated(counts: NDArray[np.int64], k: int, options: SolveOptions) -> NDArray[np.bool_]:
    if options.solver != "auto":
        return np.full(len(counts), options.solver == "cg")
    return np.asarray(options.cg_steps + 1 < steps_worth(counts, k))


def _numbers(mask: NDArray[np.bool_]) -> NDArray[np.int32]:
    return np.flatnonzero(mask).astype(np.int32)
