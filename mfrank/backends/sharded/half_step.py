"""The tasks of one half-step, as they are sent to workers and come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.backends.float16 import scale_of
from mfrank.backends.row_problem import RowProblem, Vector
from mfrank.backends.sharded.routes import Part
from mfrank.backends.sharded.sent import Sent, held, pieces
from mfrank.backends.sharded.tasks import Coefficients, Step, solve, sum_rows
from mfrank.backends.surface import Factors
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
    """

    engine: Engine
    most: int
    problem: RowProblem
    step: Step
    fixed: Factors
    scale: float | None
    table: Sequence[Task]

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
    ) -> HalfStep:
        """Send all fixed factors, in ``least`` pieces or more, if they are to be everywhere."""
        scale = scale_of(fixed) if rounds else None
        cut = pieces(fixed, scale, least) if step.everywhere else ()
        table = [engine.submit(held, piece) for piece in cut]
        return cls(engine, most, problem, step, fixed, scale, table)

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
            (of_range,) = self.engine.gather([task])
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
        running = dict[Task, Any]()
        for part in blocks:
            self._collect(running, out, gain, most=self.most - 1)
            task = self._submitted(
                solve,
                part,
                Sent.of(start[part.rows], scale) if warm else None,
                None if prior is None else Sent.of(prior[part.rows], None),
            )
            running[task] = part.rows
        self._collect(running, out, gain, most=0)

    def _submitted(self, function: Any, part: Part, *own: Sent | None) -> Task:
        """A task of a part, with the fixed factors that it needs."""
        columns = np.concatenate([part.touched, self.step.beyond])
        coefficients = Coefficients.of(self.problem, part.rows, columns)
        fixed = self.table or [Sent.of(self.fixed[columns], self.scale)]
        return self.engine.submit(function, part.routed, self.step, coefficients, *own, *fixed)

    def _collect(self, running: dict[Task, Any], out: Factors, gain: Vector, *, most: int) -> None:
        """Write down what is done, until at most ``most`` tasks are running."""
        while len(running) > most:
            for task in self.engine.wait(running):
                rows = running.pop(task)
                out[rows], gain[rows] = self.engine.gather([task])[0]
