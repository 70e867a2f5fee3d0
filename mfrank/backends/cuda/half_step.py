"""A half-step on the device: every row is solved by the kernel that its plan chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.device import Array, Grid
from mfrank.backends.cuda.blocks import Block
from mfrank.backends.cuda.exact import solve_dual, solve_heavy, solve_primal, solve_short
from mfrank.backends.cuda.iterations import add_long_pulls, iterate, iterate_long
from mfrank.backends.cuda.plan import Group, exact_groups, plan
from mfrank.backends.cuda.resident import resident_on
from mfrank.backends.cuda.system import WARP, Results, System

if TYPE_CHECKING:
    from mfrank.backends.solve_options import SolveOptions

__all__ = ["HalfStep"]

_UNFINISHED = 2  # Status of a row that is still to be solved exactly (kernels/row.cuh).


@dataclass(frozen=True, slots=True, eq=False)
class HalfStep:
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
    turn: Array | None = None
    first: int = 0

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
        has_right = group.flat or self.system.has_vector
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
        entries = *system.cells(block), block.weight, system.vector, *system.factors
        shared = system.bytes_of(system.over_groups(256))
        args = rows, *entries, flat_only, out
        system.launch("diagonal", "add_pulls", Grid(len(rows), 256, shared), args)

    def _solve_diagonal(self, block: Block, rows: Array, results: Results) -> None:
        system, grid = self.system, Grid(len(rows), 128, 8 * 128 // WARP)
        matrix = block.indptr, *system.diagonal(block), system.k, system.untouched
        system.launch("diagonal", "solve_diagonal", grid, (rows, *matrix, *results))
