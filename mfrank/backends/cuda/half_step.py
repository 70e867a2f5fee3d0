"""A half-step on the device: its rows are divided among GPUs, and solved as their plan chooses."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Array, Device, Grid
from mfrank.backends.cuda.blocks import Block, blocks
from mfrank.backends.cuda.plan import Group, exact_groups, plan
from mfrank.backends.cuda.resident import resident_on
from mfrank.backends.cuda.rows import (
    add_long_pulls,
    iterate,
    iterate_long,
    solve_dual,
    solve_heavy,
    solve_primal,
    solve_short,
)
from mfrank.backends.cuda.system import WARP, Fixed, Results, System
from mfrank.backends.row_problem import RowProblem

if TYPE_CHECKING:
    from mfrank.backends.arguments import SolveOptions
    from mfrank.backends.row_problem import Shared

_UNFINISHED = 2  # Status of a row that is still to be solved exactly (kernels/row.cuh).


@dataclass(frozen=True, slots=True, eq=False)
class BlockSolver:
    """Solver of the blocks of a half-step.

    Attributes
    ----------
    system : System
    options : SolveOptions
    start : shape (rows from ``first`` on, K), on the host or the device
        Initial values of iterations.
    turn : shape (K, K), on the device, optional
        Change of basis: ``start @ turn`` is in the basis of the fixed factors.
    first : int
        Row of the problem for ``start[0]``.
    """

    system: System
    options: SolveOptions
    start: Any
    turn: Array | None
    first: int

    def solve(self, block: Block, out: Array, gain: Array) -> NDArray[np.uint8] | None:
        """Solve the block's rows into ``out`` (R, K) and ``gain`` (R,).

        Returns each row's status: 0, or 1 if the dtype is not precise enough; None if all are 0.
        """
        device, k = self.system.device, self.system.k
        results = out, gain, device.xp.empty(block.n_rows, np.uint8)
        groups, iterated = plan(block, k, self.options)
        # Read the starts first: `out`, which may contain them, is overwritten.
        starts, n_begun = self._starts(block, iterated), 0
        for group in groups:
            some = None if starts is None else starts[n_begun : n_begun + len(group.rows)]
            self._solve(block, group, results, some)
            n_begun += len(group.rows)
        if not results[2].any():
            return None
        status = device.asnumpy(results[2])
        unfinished = np.flatnonzero(status == _UNFINISHED).astype(np.int32)
        if len(unfinished):
            for group in exact_groups(block, k, unfinished):
                self._solve(block, group, results)
            status = device.asnumpy(results[2])
        return status

    def _starts(self, block: Block, rows: NDArray[np.int32]) -> Array | None:
        first = block.rows.start - self.first
        return self.system.starts(self.start, first, rows, self.turn) if len(rows) else None

    def _solve(
        self, block: Block, group: Group, results: Results, starts: Array | None = None
    ) -> None:
        rows = resident_on(self.system.device).array(group.rows)
        has_right = group.flat or self.system.has_right(block)
        if group.way == "iterate":
            iterate(self.system, block, group, rows, starts, self.options, results)
            return
        if group.way == "long":
            iterate_long(self.system, block, group, rows, starts, self.options, results)
            return
        if group.way == "short":
            solve_short(self.system, block, group, rows, results, has_right)
            return
        if group.way != "dual" or has_right:
            self._add_pulls(block, group, rows, results[0])
        if group.way == "dual":
            solve_dual(self.system, block, group, rows, results, has_right)
        elif group.way in ("diagonal", "diagonal-long"):
            self._solve_diagonal(block, rows, results)
        elif group.way == "primal":
            solve_primal(self.system, block, group, rows, results)
        else:
            solve_heavy(self.system, block, group, rows, results)

    def _add_pulls(self, block: Block, group: Group, rows: Array, out: Array) -> None:
        """Write the rows' right-hand sides to ``out``, where the kernels read them."""
        system, flat_only = self.system, group.way == "dual"
        if group.way in ("diagonal-long", "heavy"):
            add_long_pulls(system, block, group, rows, out)
            return
        of_row = block.weight, block.ridge, *system.background(block)
        entries = *system.cells(block), *of_row, *system.factors
        shared = system.bytes_of(system.over_groups(256))
        args = rows, *entries, flat_only, out
        system.launch("diagonal", "add_pulls", Grid(len(rows), 256, shared), args)

    def _solve_diagonal(self, block: Block, rows: Array, results: Results) -> None:
        system, grid = self.system, Grid(len(rows), 128, 8 * 128 // WARP)
        matrix = block.indptr, *system.diagonal(block), system.k, system.untouched
        system.launch("diagonal", "solve_diagonal", grid, (rows, *matrix, *results))


# Dividing the rows of a half-step among the available GPUs.


WORTH_A_DEVICE = 1 << 28
"""Gathered numbers per device (1 GiB in float32) from which copying the factors to another device
pays off; not yet measured."""

Solved = tuple[Array, NDArray[np.int64]]
"""Gains of some rows, on the first device if the solutions are, else on the host; and the row
numbers among them that need more precision."""


@dataclass(frozen=True, slots=True, eq=False)
class RowsTask:
    """The arguments of ``Backend.solve_rows``, ``fixed`` on the first device."""

    problem: RowProblem
    fixed: Fixed
    shared: Shared
    options: SolveOptions
    start: Any
    turn: NDArray[np.float64] | None = None
    prior: Any = None


def solve(devices: Sequence[Device], task: RowsTask, out: Any) -> Solved:
    """Solve every row into ``out``, which is on the host or the first device.

    Each row is solved by one device. Which one matters only for rounding, between different models
    of GPU.
    """
    rows, work = task.problem.rows, len(task.problem.rows.indices) * task.fixed.k
    n = min(len(devices), max(1, work // WORTH_A_DEVICE))
    if n == 1:
        return _solve_share(devices[0], devices[0], task, slice(0, rows.n_rows), out)
    devices[0].synchronize()  # its factors are complete before others copy them
    with ThreadPoolExecutor(n) as pool:
        begun = [
            pool.submit(_solve_share, devices[0], device, task, share, out)
            for device, share in zip(devices, _shares(rows, n), strict=False)
        ]
        gains, failed = zip(*(each.result() for each in begun), strict=True)
    devices[0].synchronize()  # threads may have streams of their own
    whole = np.concatenate([_on_host(devices[0], each) for each in gains])
    return whole, np.concatenate(failed)


def _shares(rows: CSR, n: int) -> list[slice]:
    """Consecutive rows for each device, with about equal numbers of entries plus rows."""
    cost = rows.indptr + np.arange(rows.n_rows + 1)
    cuts = np.searchsorted(cost, np.linspace(0, cost[-1], n + 1)[1:-1])
    ends = [0, *map(int, cuts), rows.n_rows]
    return [slice(begin, end) for begin, end in pairwise(ends)]


def _solve_share(first: Device, device: Device, task: RowsTask, rows: slice, out: Any) -> Solved:
    gains, failed = [], [np.empty(0, dtype=np.int64)]
    with device.current():
        start, prior = task.start[rows], None if task.prior is None else task.prior[rows]
        if device is not first and first.holds(start):
            start = device.asarray(start)
        system = System.of(device, task.fixed.on(device), task.shared)
        resident = resident_on(device)
        turn = None if task.turn is None else resident.small(task.turn, system.dtype)
        step = BlockSolver(system, task.options, start, turn, rows.start)
        in_place = device is first and first.holds(out)
        k = system.k
        # Starts, starts in the new basis, solutions and, if there is one, a prior.
        width = (3 + (prior is not None)) * k
        for block in blocks(
            device, resident, task.problem, rows, width, system.dtype, system.fixed.scale
        ):
            solved = (
                out[block.rows] if in_place else device.xp.empty((block.n_rows, k), system.dtype)
            )
            gain = device.xp.empty(block.n_rows, np.float64)
            if prior is not None:
                own = prior[block.rows.start - rows.start : block.rows.stop - rows.start]
                block = replace(block, prior=device.asarray(own, system.dtype))
            status = step.solve(block, solved, gain)
            if not in_place:
                _put(first, device, solved, out, block.rows)
            gains.append(gain if in_place else device.asnumpy(gain))
            if status is not None:
                failed.append(block.rows.start + np.flatnonzero(status))
        if not gains:
            return np.empty(0), failed[0]
        whole = gains[0] if len(gains) == 1 else np.concatenate(gains)
        return whole, np.concatenate(failed)


def _on_host(device: Device, gain: Array) -> NDArray[np.float64]:
    on_host: NDArray[np.float64] = device.asnumpy(gain) if device.holds(gain) else gain
    return on_host


def _put(first: Device, device: Device, solved: Array, out: Any, rows: slice) -> None:
    if first.holds(out):
        with first.current():
            out[rows] = first.asarray(solved)
    else:
        out[rows] = device.asnumpy(solved)
