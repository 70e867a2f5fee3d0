"""Dividing the rows of a half-step among the available GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.device import Array, Device
from mfrank.backends.cuda.blocks import blocks
from mfrank.backends.cuda.fixed_factors import Fixed
from mfrank.backends.cuda.half_step import HalfStep
from mfrank.backends.cuda.resident import resident_on
from mfrank.backends.cuda.system import System
from mfrank.backends.row_problem import RowProblem

if TYPE_CHECKING:
    from mfrank.backends.row_problem import Shared
    from mfrank.backends.solve_options import SolveOptions

__all__ = ["RowsTask", "solve"]

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
        start = task.start[rows]
        if device is not first and first.holds(start):
            start = device.asarray(start)
        system = System.of(device, task.fixed.on(device), task.shared)
        resident = resident_on(device)
        turn = None if task.turn is None else resident.small(task.turn, system.dtype)
        step = HalfStep(system, task.options, start, turn, rows.start)
        in_place = device is first and first.holds(out)
        k = system.k
        width = 3 * k  # starts, starts in the new basis, and solutions
        for block in blocks(
            device, resident, task.problem, rows, width, system.dtype, system.fixed.scale
        ):
            solved = (
                out[block.rows] if in_place else device.xp.empty((block.n_rows, k), system.dtype)
            )
            gain = device.xp.empty(block.n_rows, np.float64)
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
