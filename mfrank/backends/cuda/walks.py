"""Random walks on the device: all blocks step at once, and each stops on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Array, Device, Grid
from mfrank.backends.arguments import Chain, Moves, Stationary, Until, Walked
from mfrank.backends.cuda.blocks import warps
from mfrank.backends.cuda.kernel_sources import Module

_CHUNK = 256  # Rows whose changes are summed by one block of threads.
_STEPS_BETWEEN_CHECKS = 8  # of whether all have stopped; each check waits for the device
_THREADS, _WARP = 128, 32
_COLUMNS = 64  # iterated at a time


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Steps of a chain on the device, on k columns."""

    device: Device
    chain: Chain
    arrays: tuple[Array, ...]  # indptr, indices, data, block of each row
    left: Array | None
    right: Array | None
    chunks: Array  # first row of each chunk
    of_blocks: Array  # first chunk of each block
    k: int
    spread: bool

    @classmethod
    def of(cls, device: Device, chain: Chain, left: Array | None, k: int, norm: str) -> _Steps:
        """Copy the chain to the device; ``left`` is there already."""
        sizes = np.diff(chain.blocks)
        n_chunks = -(-sizes // _CHUNK)
        of_blocks = np.concatenate([[0], np.cumsum(n_chunks)])
        within = np.arange(of_blocks[-1]) - np.repeat(of_blocks[:-1], n_chunks)
        chunks = np.repeat(chain.blocks[:-1], n_chunks) + _CHUNK * within
        block = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        rows = chain.rows.indptr, chain.rows.indices, np.asarray(chain.rows.data), block
        return cls(
            device,
            chain,
            tuple(map(device.asarray, rows)),
            left,
            None if chain.right is None else device.asarray(chain.right),
            device.asarray(np.append(chunks, chain.blocks[-1])),
            device.asarray(of_blocks),
            k,
            norm == "spread",
        )

    @property
    def n_blocks(self) -> int:
        return len(self.chain.blocks) - 1

    def advance(
        self, x: Array, base: Array, scale: float, moving: Array, dots: Array, next_x: Array
    ) -> None:
        """Step the columns of each block that are still ``moving``."""
        left_k = 1 if self.left is None else self.left.shape[1]
        walks = moving, self.left, left_k, dots, base, float(scale), x, len(x), self.k, next_x
        self._launch("advance", warps(len(x)), (*self.arrays, *walks), x.dtype)

    def measure(self, x: Array, next_x: Array) -> tuple[Array, Array]:
        """Norms of the change, and right . next_x, both (n_blocks, k)."""
        xp, n_chunks = self.device.xp, len(self.chunks) - 1
        sums = xp.empty((n_chunks, 4, self.k), np.float64)
        norms, dots = (xp.empty((self.n_blocks, self.k), np.float64) for _ in range(2))
        width = -(-self.k // _WARP) * _WARP if self.k < _THREADS else _THREADS
        shared = -(-4 * (_THREADS // width) * self.k * 8 // 16) * 16
        changes = self.chunks, x, next_x, self.right, self.k, sums
        self._launch("sum_chunks", Grid(n_chunks, _THREADS, shared), changes, x.dtype)
        chunks = self.of_blocks, sums, self.n_blocks, self.k, self.spread, norms, dots
        grid = Grid(-(-self.n_blocks * self.k // _THREADS), _THREADS)
        self._launch("add_chunks", grid, chunks, x.dtype)
        return norms, dots

    def _launch(self, kernel: str, grid: Grid, args: tuple[Any, ...], dtype: Any) -> None:
        self.device.launch(Module.of("walk", dtype), kernel, grid, args)


def walk(
    device: Device, chain: Chain, base: Array, start: Array, scale: float, until: Until
) -> Walked:
    """See ``Backend.walk``; the columns of a block stop together."""
    left = None if chain.left is None else device.asarray(chain.left)
    steps = _Steps.of(device, chain, left, start.shape[1], until.norm)
    tolerance = None
    if until.tolerance is not None:
        tolerance = device.asarray(until.tolerance)[:, None]
    x, changes, taken = _iterate(steps, base, start, scale, until.steps, tolerance, together=True)
    return Walked(x, device.asnumpy(changes[:, 0]), device.asnumpy(taken[:, 0]))


def stationary(
    device: Device, moves: Moves, restarts: CSR, alpha: float, tolerance: float, most: int
) -> Stationary:
    """See ``Backend.stationary``: power iteration; each restart is a column that stops alone."""
    n_restarts, n = restarts.n_rows, restarts.n_columns
    found = Stationary(
        np.empty((n_restarts, n)), np.empty(n_restarts), np.empty(n_restarts, np.int64)
    )
    enough = device.asarray(np.full((1, 1), alpha / (1 - alpha) * tolerance))
    for first in range(0, n_restarts, _COLUMNS):
        some = slice(first, min(first + _COLUMNS, n_restarts))
        begin = device.asarray(_columns(moves, restarts, some))
        chain = moves.chain(np.zeros((n, 1)))
        steps = _Steps.of(device, chain, begin, begin.shape[1], "sum")
        x, changes, taken = _iterate(
            steps, alpha * begin, begin, 1 - alpha, most, enough, together=False
        )
        found.values[some, moves.order] = device.asnumpy(x).T
        found.errors[some] = (1 - alpha) / alpha * device.asnumpy(changes[0])
        found.steps[some] = device.asnumpy(taken[0])
    return found


def _columns(moves: Moves, restarts: CSR, some: slice) -> NDArray[np.float64]:
    """Some restart distributions as columns, in the row order of ``moves``."""
    begin = np.zeros((restarts.n_columns, some.stop - some.start))
    for column, row in enumerate(range(some.start, some.stop)):
        nodes, probabilities = restarts.row(row)
        begin[moves.place[nodes], column] = probabilities
    return begin


def _iterate(
    steps: _Steps,
    base: Array,
    start: Array,
    scale: float,
    most: int,
    tolerance: Array | None,
    *,
    together: bool,
) -> tuple[Array, Array, Array]:
    """Final values, and the last change and number of steps of each block and column."""
    xp, shape = steps.device.xp, (steps.n_blocks, steps.k)
    moving, taken = xp.ones(shape, np.bool_), xp.zeros(shape, np.int64)
    changes, x, next_x = xp.full(shape, np.inf), start.copy(), xp.empty_like(start)
    _, dots = steps.measure(x, x)
    for step in range(most):
        steps.advance(x, base, scale, moving, dots, next_x)
        norms, dots = steps.measure(x, next_x)
        if together:
            norms = xp.broadcast_to(norms.max(axis=1, keepdims=True), shape)
        changes = xp.where(moving, norms, changes)
        taken += moving
        x, next_x = next_x, x
        if tolerance is not None:
            moving = moving & ~(changes <= tolerance)
            if step % _STEPS_BETWEEN_CHECKS == 0 and not moving.any():
                break
    return x, changes, taken
