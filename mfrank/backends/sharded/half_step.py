"""The tasks of one half-step, as they are sent to workers and come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.counted import counted
from mfrank.arrays.csr_checks import all_finite
from mfrank.backends.float16 import scale_of
from mfrank.backends.row_problem import RowProblem, Vector
from mfrank.backends.sharded.blocks import block_of, route
from mfrank.backends.sharded.routes import Part
from mfrank.backends.sharded.sent import Sent, held, pieces
from mfrank.backends.sharded.tasks import Coefficients, Step, solve, sum_rows
from mfrank.backends.surface import Factors
from mfrank.cluster.answers import array_of, kind_of, parts_of, wrong
from mfrank.cluster.surface import Engine, Task

__all__ = ["HalfStep"]


@dataclass(frozen=True, slots=True, eq=False)
class HalfStep:
    """A half-step on an engine.

    Attributes
    ----------
    engine : Engine
    most : int
        Tasks that are under way at a time.
    problem : RowProblem
    step : Step
    fixed : shape (S, K)
    scale : float or None
        Of factors that are sent in float16; None if they are sent as they are.
    table : list of Task
        All fixed factors on workers, if they are sent everywhere.
    long_from : int
        Entries from which on a row is not solved in a block, but from sums; 0 if none is.
    """

    engine: Engine
    most: int
    problem: RowProblem
    step: Step
    fixed: Factors
    scale: float | None
    table: Sequence[Task]
    long_from: int

    @classmethod
    def begun(
        cls,
        engine: Engine,
        most: int,
        problem: RowProblem,
        step: Step,
        fixed: Factors,
        *,
        rounds: bool,
        least: int,
        long_from: int,
    ) -> HalfStep:
        """Send all fixed factors, in ``least`` pieces or more, if they are to be everywhere."""
        scale = scale_of(fixed) if rounds else None
        cut = pieces(fixed, scale, least) if step.everywhere else ()
        table = [engine.submit(held, piece) for piece in cut]
        return cls(engine, most, problem, step, fixed, scale, table, long_from)

    def sums(self, parts: Sequence[Part]) -> NDArray[Any]:
        """Sums of long rows over all of their parts, which are added in order."""
        ahead, under_way, done = iter(parts), deque[Task](), set[Task]()
        total: NDArray[Any] | None = None
        while True:
            while len(under_way) < self.most and (part := next(ahead, None)) is not None:
                under_way.append(self._submitted(sum_rows, part))
            if not under_way:
                break
            while under_way[0] not in done:
                done |= self.engine.wait([task for task in under_way if task not in done])
            done.remove(task := under_way.popleft())
            (answer,) = self.engine.gather([task])
            of_range = self._sums_of(answer, parts[0], total)
            total = of_range if total is None else total + of_range
        assert total is not None  # there is no matrix without a range
        return total

    def solve(
        self,
        blocks: Sequence[Part],
        start: Factors,
        prior: Factors | None,
        out: Factors,
        gain: Vector,
    ) -> None:
        """Solve the rows of blocks into ``out``, and write their gains."""
        warm = self.step.options.solver != "cholesky"
        scale = scale_of(start) if warm and self.scale is not None else None

        def again(row: int) -> Factors:
            """The solution of one row, computed here by its task."""
            one = slice(row, row + 1)
            routed = route(block_of(self.problem.rows, row, row + 1))
            columns = np.concatenate([routed.touched, self.step.beyond])
            return solve(
                routed,
                replace(self.step, everywhere=False),
                Coefficients.of(self.problem, one, columns),
                Sent.of(start[one], scale) if warm else None,
                None if prior is None else Sent.of(prior[one], None),
                Sent.of(self.fixed[columns], self.scale),
            )[0]

        running = dict[Task, slice]()
        for part in blocks:
            self._collect(running, out, gain, again, most=self.most - 1)
            task = self._submitted(
                solve,
                part,
                Sent.of(start[part.rows], scale) if warm else None,
                None if prior is None else Sent.of(prior[part.rows], None),
            )
            assert isinstance(part.rows, slice)  # of a block
            running[task] = part.rows
        self._collect(running, out, gain, again, most=0)

    def _submitted(self, function: Any, part: Part, *own: Sent | None) -> Task:
        """A task of a part, with the fixed factors that it needs."""
        columns = np.concatenate([part.touched, self.step.beyond])
        coefficients = Coefficients.of(self.problem, part.rows, columns)
        fixed = self.table or [Sent.of(self.fixed[columns], self.scale)]
        return self.engine.submit(function, part.routed, self.step, coefficients, *own, *fixed)

    def _collect(
        self,
        running: dict[Task, slice],
        out: Factors,
        gain: Vector,
        again: Callable[[int], Factors],
        *,
        most: int,
    ) -> None:
        """Write down what is done, until at most ``most`` tasks are running."""
        while len(running) > most:
            for task in self.engine.wait(running):
                rows = running.pop(task)
                (answer,) = self.engine.gather([task])
                out[rows], gain[rows] = self._solution(answer, rows, out, again)

    def _solution(
        self, answer: Any, rows: slice, out: Factors, again: Callable[[int], Factors]
    ) -> tuple[Factors, Vector]:
        """What the task of a block returned, checked.

        Zeros and NaN can be right, where fixed factors are zero or a fit diverges: then a row of
        the block is solved here, too.
        """
        task = f"the half-step of rows {rows.start} to {rows.stop}"
        solved, gain = parts_of(answer, 2, self.engine, task)
        n_rows = rows.stop - rows.start
        solved = array_of(solved, (n_rows, out.shape[1]), out.dtype, self.engine, task)
        gain = array_of(gain, (n_rows,), np.float64, self.engine, task)
        if not all_finite(solved):
            row = int(np.argmin(np.isfinite(solved).all(axis=1)))
            if all_finite(again(rows.start + row)):
                raise wrong(self.engine, "NaN or infinite factors", task)
        elif not solved.any():
            counts = self.problem.rows.counts[rows]
            some = np.flatnonzero((counts > 0) & (counts < (self.long_from or np.inf)))[:1]
            if any(again(rows.start + row).any() for row in some.tolist()):
                raise wrong(self.engine, "zeros alone", task)
        return solved, gain

    def _sums_of(self, answer: Any, part: Part, before: NDArray[Any] | None) -> NDArray[Any]:
        """What the task of some long rows returned, checked; zeros are right in an empty range."""
        n_rows = len(self.problem.rows.counts[part.rows])
        task = f"the sums of {counted(n_rows, 'row')}"
        form = answer if before is None else before
        if not isinstance(form, np.ndarray) or form.dtype.kind != "f":
            raise wrong(self.engine, kind_of(answer), task)
        shape = n_rows, *(form.shape[1:] if before is not None else [-1] * (form.ndim - 1))
        sums = array_of(answer, shape, form.dtype, self.engine, task)
        if not all_finite(sums) and all_finite(self.fixed):
            raise wrong(self.engine, "sums that are NaN or infinite", task)
        return sums
