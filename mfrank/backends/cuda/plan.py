"""Choosing the solver of each row of a half-step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.backends.cuda.blocks import Block

if TYPE_CHECKING:
    from mfrank.backends.arguments import SolveOptions

Way = str
"""``diagonal``, ``diagonal-long``, ``short``, ``iterate``, ``long``, ``dual``, ``primal`` or
``heavy``."""

HEAVY = 1024
"""The matrix of a row with more entries is summed by many blocks, this many entries each."""

LONG = 2048
"""The sums of a row with more entries, iterated or diagonal, are made by many blocks."""

_SHORT = 32
"""A row with at most so many entries is solved exactly by one warp, sooner than by iterations."""

_SMALL, _LARGE = 32, 64
"""Tile sizes; a matrix that fits in a small tile is one small tile."""

_CG_SLOWNESS = 2.0
"""Time of a multiply-add in conjugate gradients, which rereads a row's factors at each step,
relative to one in the exact solution."""


class Group(NamedTuple):
    """Rows of a block that are solved in the same way.

    Attributes
    ----------
    way : str
    rows : int32
        Row numbers within the block.
    size : int
        Rows of their padded matrices, of ``short`` rows 8, 16 or 32; of iterated rows the entries
        to stage at a time, 64, 128 or 256; 0 for ``diagonal`` and ``long``.
    flat : bool
        Whether some of their entries may have a pull but no curvature.
    """

    way: Way
    rows: NDArray[np.int32]
    size: int = 0
    flat: bool = True


class RowPlan(NamedTuple):
    """The groups of a block, and the rows of those that iterate, one group after the other."""

    groups: list[Group]
    iterated: NDArray[np.int32]


_plans: WeakKeyDictionary[CSR, dict[Any, tuple[NDArray[np.uint8], RowPlan]]]
_plans = WeakKeyDictionary()


def padded(n: int) -> int:
    """Rows of an n x n matrix after padding to whole tiles."""
    return _SMALL if n <= _SMALL else -(-n // _LARGE) * _LARGE


def plan(block: Block, k: int, options: SolveOptions) -> RowPlan:
    """Put every row of the block in one group; the plan is cached for later epochs."""
    key = block.rows.start, block.rows.stop, k, options.solver, options.cg_steps
    known = _plans.setdefault(block.owner, {})
    kinds = known[key][0] if key in known else None
    if kinds is not block.kinds and (kinds is None or not np.array_equal(kinds, block.kinds)):
        known[key] = block.kinds, _planned(block, k, options)
    return known[key][1]


def _planned(block: Block, k: int, options: SolveOptions) -> RowPlan:
    diagonal = (block.kinds & 1) == 0  # no curvature: the matrix is diagonal
    iterated = ~diagonal & _iterated(block.counts, k, options)
    long, none = block.counts > LONG, np.empty(0, np.int32)
    iterating = [*_those("long", iterated & long)]
    iterating += _by_size("iterate", block, _numbers(iterated & ~long), 64, 256)
    others = [*_those("diagonal-long", diagonal & long), *_those("diagonal", diagonal & ~long)]
    others += exact_groups(block, k, _numbers(~diagonal & ~iterated))
    return RowPlan(iterating + others, np.concatenate([none, *(group.rows for group in iterating)]))


def _those(way: Way, mask: NDArray[np.bool_]) -> Iterator[Group]:
    if mask.any():
        yield Group(way, _numbers(mask))


def exact_groups(block: Block, k: int, rows: NDArray[np.int32]) -> Iterator[Group]:
    """Group rows that have curvature, to be solved exactly; groups with the longest rows first."""
    counts, negative = block.counts[rows], (block.kinds[rows] & 2) != 0
    dual = (counts <= k) & ~negative
    for way, mask in (
        ("heavy", ~dual & (counts > HEAVY)),
        ("primal", ~dual & (counts <= HEAVY)),
    ):
        if mask.any():
            yield Group(way, rows[mask][np.argsort(-counts[mask], kind="stable")], padded(k))
    short = dual & (counts <= _SHORT)
    sizes = -(-counts // _LARGE)
    for size in np.flatnonzero(np.bincount(sizes[dual & ~short]))[::-1]:
        some = rows[dual & ~short & (sizes == size)]
        yield Group("dual", some, int(size) * _LARGE, _is_flat(block, some))
    yield from _by_size("short", block, rows[short], 8, _SHORT)


def _by_size(
    way: Way, block: Block, rows: NDArray[np.int32], least: int, most: int
) -> Iterator[Group]:
    """Groups by entries, rounded up to ``least``, twice as many and so on; the longest first."""
    rows = rows[np.argsort(-block.counts[rows], kind="stable")]
    counts = block.counts[rows]
    size = most
    while size >= least:
        fits = counts <= size if size < most else np.ones(len(rows), np.bool_)
        some = rows[fits & ((counts > size // 2) | (size == least))]
        if len(some):
            yield Group(way, some, size, _is_flat(block, some))
        size //= 2


def _is_flat(block: Block, rows: NDArray[np.int32]) -> bool:
    return bool((block.kinds[rows] & 4).any())


def steps_worth(counts: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Steps of conjugate gradients that cost as much as the exact solution, per row."""
    n = np.maximum(counts, 1).astype(np.float64)
    dual, primal = n * n * (k / 2 + n / 6), k * k * (n / 2 + k / 6)
    steps: NDArray[np.float64] = np.minimum(dual, primal) / (_CG_SLOWNESS * 2 * n * k)
    return steps


def _iterated(counts: NDArray[np.int64], k: int, options: SolveOptions) -> NDArray[np.bool_]:
    if options.solver != "auto":
        return np.full(len(counts), options.solver == "cg")
    worth_it = options.cg_steps + 1 < steps_worth(counts, k)
    return np.asarray(worth_it & ((counts > _SHORT) | (counts > k)))


def _numbers(mask: NDArray[np.bool_]) -> NDArray[np.int32]:
    return np.flatnonzero(mask).astype(np.int32)
