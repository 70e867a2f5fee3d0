"""What an epoch on a cluster sends, holds and takes, by formulas of the data's shape.

A half-step's block of rows is sent the T fixed rows that it touches and its own R rows, from which
iterations begin, and returns R rows and as many gains:

    out = 4 K (T + R),    back = (4 K + 8) R    bytes, float32

Rows with very many entries are not in these blocks. For each range of columns, a task is sent the T
fixed rows that P such rows touch in it, and returns P matrices and vectors:

    out = 4 K T,    back = 4 K (K + 1) P    bytes

Where that is less, all S fixed rows are sent instead: once if workers relay them, else to each.

A block with the share f of all entries touches T = sum over the fixed rows of 1 - (1 - f)^n, if n
is the number of entries of a fixed row and they fall into blocks at random. Its arithmetic is the
multiply-adds of harness/floor.py, at the rate that the kernels have.

The client sends and receives one message at a time; each worker solves one block at a time.
``half_step_seconds`` simulates that, block by block.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.backends import SolveOptions, choose
from mfrank.backends.sharded import Cuts, SumPlan, blocks

__all__ = [
    "Block",
    "Rates",
    "Side",
    "blocks_of",
    "expected_blocks",
    "half_step_seconds",
    "sent_everywhere",
    "whole",
]

_BYTES = 4  # of a factor
_GAIN = 8
_ENTRY = 8  # of a block that was sent: column and value
_OFFSET = 8
_OPTIONS = SolveOptions()


@dataclass(frozen=True, slots=True)
class Block:
    """A block, or long rows in a range of columns.

    Attributes
    ----------
    rows, entries, touched : float
        Its own rows, which are solved; its entries, and the fixed rows that these touch.
    multiply_adds : float
    summed : float
        Long rows of which it returns sums.
    """

    rows: float
    entries: float
    touched: float
    multiply_adds: float
    summed: float = 0

    def out(self, factors: int) -> float:
        """Bytes sent to a worker."""
        return _BYTES * factors * (self.touched + self.rows)

    def start(self, factors: int) -> float:
        """Bytes of them that are its own rows."""
        return _BYTES * factors * self.rows

    def back(self, factors: int) -> float:
        """Bytes that it returns."""
        sums = _BYTES * factors * (factors + 1) * self.summed
        return (_BYTES * factors + _GAIN) * self.rows + sums

    def held(self) -> float:
        """Bytes that a worker keeps from one epoch to the next."""
        return _ENTRY * self.entries + 4 * self.touched + _OFFSET * (self.rows + self.summed)

    def working(self, factors: int, n_columns: float) -> float:
        """Bytes while it is solved.

        What came, as a message and as arrays; the entries, as they are, renumbered and with what
        is computed for each; what is returned, as arrays and as a message.
        """
        here = 3 * _ENTRY * self.entries + 4 * n_columns
        return 2 * self.out(factors) + 2 * self.back(factors) + here


@dataclass(frozen=True, slots=True)
class Side:
    """Numbers of entries of rows that were drawn, each of which stands for ``weight`` rows."""

    degrees: NDArray[np.float64]
    weight: float

    @property
    def rows(self) -> float:
        """Number of rows."""
        return len(self.degrees) * self.weight

    @property
    def entries(self) -> float:
        """Number of entries."""
        return float(self.degrees.sum()) * self.weight

    def divided(self, longest: float) -> tuple[Side, Side]:
        """Rows with at least so many entries, and the others."""
        is_long = self.degrees >= longest
        return (
            Side(self.degrees[is_long], self.weight),
            Side(self.degrees[~is_long], self.weight),
        )

    def touched(self, share: float) -> float:
        """Rows with an entry in a block that has this share of all entries."""
        if share >= 1:
            return self.rows
        return float(-np.expm1(self.degrees * np.log1p(-share)).sum()) * self.weight

    def multiply_adds(self, factors: int) -> float:
        """Of an exact solution of all rows."""
        return _multiply_adds(self.degrees, factors) * self.weight


@dataclass(frozen=True, slots=True)
class Rates:
    """Of this machine, a core each; see harness/cluster_rates.py.

    Attributes
    ----------
    users, items : float
        Multiply-adds a second in tasks that solve users and items, with all that they do.
    out, back : float
        Bytes a second from the client to a worker process, and back, pickling included.
    task : float
        Seconds of a task that does nothing.
    row : float
        Seconds of the client for a row of either side: Gram matrices, rotations, momentum.
    worker : float
        Bytes that a worker has before any data.
    """

    users: float
    items: float
    out: float
    back: float
    task: float
    row: float
    worker: float


def blocks_of(rows: CSR, factors: int) -> list[Block]:
    """The parts into which a fit on a cluster cuts a matrix."""
    row_sums, single = choose("cpu").SUMS, np.dtype(np.float32)
    sums = SumPlan.of(row_sums, factors, single, _OPTIONS, rows.n_columns, curved=True)
    cuts = Cuts(rows, sums)
    found = []
    for block in cuts.blocks():
        degrees = np.diff(block.indptr).astype(np.float64)
        touched = len(blocks.columns_of(blocks.route(block)))
        work = _multiply_adds(degrees, factors)
        found.append(Block(len(degrees), degrees.sum(), touched, work))
    for group in cuts.groups:
        for block in cuts.ranges(group):
            n = float(block.indptr[-1])
            touched = len(blocks.columns_of(blocks.route(block)))
            found.append(Block(0, n, touched, n * factors**2 / 2, len(group)))
    return found


def expected_blocks(solved: Side, fixed: Side, factors: int) -> list[Block]:
    """Equal blocks of a shape, as many as a fit cuts, and ranges of its long rows."""
    row_sums, single = choose("cpu").SUMS, np.dtype(np.float32)
    sums = SumPlan.of(row_sums, factors, single, _OPTIONS, int(fixed.rows), curved=True)
    long, short = solved.divided(sums.rows_from or np.inf)
    short_share = short.entries / solved.entries
    work = short.entries + solved.rows
    size = np.clip(work / blocks._BLOCKS, blocks._FEWEST_ENTRIES, blocks._MOST_ENTRIES)
    n_blocks = int(np.ceil(work / size))
    block = Block(
        solved.rows / n_blocks,
        short.entries / n_blocks,
        fixed.touched(short_share / n_blocks),
        short.multiply_adds(factors) / n_blocks,
    )
    found = [block] * n_blocks
    if long.rows:
        n_groups, n_ranges = int(np.ceil(long.rows / sums.at_once)), len(sums.ranges) - 1
        entries = long.entries / n_groups / n_ranges
        part = Block(
            0,
            entries,
            fixed.touched((1 - short_share) / n_groups) / n_ranges,
            entries * factors**2 / 2,
            long.rows / n_groups,
        )
        found += [part] * (n_groups * n_ranges)
    return found


def whole(solved: Side, fixed: Side, factors: int, n_blocks: int) -> Block:
    """One of so many equal blocks, long rows among the others."""
    return Block(
        solved.rows / n_blocks,
        solved.entries / n_blocks,
        fixed.touched(1 / n_blocks),
        solved.multiply_adds(factors) / n_blocks,
    )


def sent_everywhere(
    some: Sequence[Block], n_fixed: float, factors: int, copies: int
) -> float | None:
    """Bytes of all fixed rows, as often as they are sent; None if each block gets its own."""
    if copies * n_fixed < sum(block.touched for block in some):
        return copies * _BYTES * factors * n_fixed
    return None


def half_step_seconds(
    some: Sequence[Block],
    factors: int,
    rates: Rates,
    rate: float,
    n_workers: int,
    cores: int,
    everywhere: float | None = None,
) -> float:
    """Seconds of a half-step, of workers with a core each as far as there are so many.

    ``rate`` is that of the multiply-adds; ``everywhere`` is :func:`sent_everywhere`.
    """
    crowded = max(1.0, n_workers / cores)
    client, busy = (everywhere or 0.0) / rates.out, list[tuple[float, float]]()

    def receive() -> None:
        nonlocal client
        done, back = heapq.heappop(busy)
        client = max(client, done) + back

    for block in some:
        if len(busy) == n_workers:
            receive()
        out = block.out if everywhere is None else block.start
        client += out(factors) / rates.out + rates.task
        done = client + crowded * block.multiply_adds / rate
        heapq.heappush(busy, (done, block.back(factors) / rates.back))
    while busy:
        receive()
    return client


def _multiply_adds(degrees: NDArray[np.float64], factors: int) -> float:
    n, k = degrees, float(factors)
    dual, primal = n**2 * k / 2 + n**3 / 6, n * k**2 / 2 + k**3 / 6
    return float(np.minimum(dual, primal).sum())
