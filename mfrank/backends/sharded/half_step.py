"""The tasks of one half-step: functions of workers, their inputs and their results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import all_finite, counted, empty_aligned, readable
from mfrank.backends.arguments import Factors, SolveOptions
from mfrank.backends.dense import scale_of
from mfrank.backends.registry import choose
from mfrank.backends.row_problem import CellTerm, ObservedLoss, RowProblem, Shared, Vector
from mfrank.backends.sharded.blocks import RoutedBlock, block_of, route
from mfrank.backends.sharded.machine import Arithmetic, refuse_joined
from mfrank.backends.sharded.routes import RoutedPart, Sent, pieces, taken
from mfrank.cluster import Engine, Task, array_of, held, parts_of, wrong

# The tasks of a half-step: to solve the rows of a block, and to sum a part of long rows.
#
# Arrays that were sent may lie at any address, which kernels refuse, so all pass ``readable``.


@dataclass(frozen=True, slots=True, eq=False)
class HalfStepOfTasks:
    """Common data of all blocks of a half-step.

    Attributes
    ----------
    backend : str
    arithmetic : Arithmetic
        The arithmetic that the worker must have.
    shared : Shared
    turn : shape (K, K), or None
    options : SolveOptions
    has_values, users_are_rows, curved : bool
        Of the row problem.
    beyond : int32, shape (0,) or (1,)
        A fixed row that every block needs in addition to the rows that it touches.
    everywhere : bool
        Whether workers have all fixed factors, in pieces.
    """

    backend: str
    arithmetic: Arithmetic
    shared: Shared
    turn: NDArray[np.float64] | None
    options: SolveOptions
    has_values: bool
    users_are_rows: bool
    curved: bool
    beyond: NDArray[np.int32]
    everywhere: bool

    def problem(self, block: RoutedBlock, coefficients: Coefficients, n_columns: int) -> RowProblem:
        """The row problem of a block, on a worker with the arithmetic that the fit began with.

        Raises
        ------
        RuntimeError
            The worker joined later, with another one.
        """
        refuse_joined(self.arithmetic)
        rows = block.rows(n_columns, values=self.has_values)
        users = rows.n_rows if self.users_are_rows else rows.n_columns
        return RowProblem(
            rows,
            _unpacked(coefficients.weight, rows.n_rows),
            _unpacked(coefficients.ridge, rows.n_rows),
            coefficients.observed(users),
            self.users_are_rows,
        )

    def known(self, block: RoutedBlock, fixed: Sequence[Sent]) -> Factors:
        """Factors of the columns that a block touches, and of the one beyond."""
        if self.everywhere:
            return taken(fixed, np.concatenate([block.touched, self.beyond]))
        known = fixed[0].received()
        if len(known) != len(block.touched) + len(self.beyond):
            raise RuntimeError(
                f"cluster: a block touches {len(block.touched)} columns, but the engine told of "
                f"{len(known) - len(self.beyond)}; use another engine, or no cluster"
            )
        return known


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """Coefficients of a block's row problem; a vector of equal numbers is sent as one number."""

    weight: Vector
    ridge: Vector
    curvature: CellTerm
    pull: CellTerm

    @classmethod
    def of(
        cls, problem: RowProblem, rows: slice | NDArray[Any], columns: NDArray[Any]
    ) -> Coefficients:
        """The coefficients of the rows over these columns."""
        users = rows if problem.users_are_rows else columns
        terms = (problem.observed.curvature, problem.observed.pull)
        cells = [replace(term, offset=_packed(term.offset[users])) for term in terms]
        return cls(_packed(problem.weight[rows]), _packed(problem.ridge[rows]), *cells)

    def observed(self, n_users: int) -> ObservedLoss:
        """The cell terms; a half-step has no use for the constant one."""
        curvature, pull = (
            replace(term, offset=_unpacked(term.offset, n_users))
            for term in (self.curvature, self.pull)
        )
        return ObservedLoss(curvature, pull, CellTerm(np.zeros(n_users)))


def solve(
    block: RoutedBlock,
    step: HalfStepOfTasks,
    coefficients: Coefficients,
    start: Sent | None,
    prior: Sent | None,
    *fixed: Sent,
) -> tuple[Factors, Vector]:
    """Solve the R rows of a block: their factors (R, K), and gains as of ``Backend.solve_rows``.

    ``start`` has the initial values of iterations, ``prior`` the target of the ridges, both (R, K).
    ``fixed`` are the factors of the T touched columns, and perhaps of one more, (T, K) or
    (T + 1, K); or, if they are everywhere, the pieces of all.

    Raises
    ------
    RuntimeError
        The worker joined later, with another arithmetic.
    """
    known = step.known(block, fixed)
    problem = step.problem(block, coefficients, len(known))
    solved = empty_aligned((problem.rows.n_rows, known.shape[1]), known.dtype)
    solved[:] = 0
    shared = Shared(readable(step.shared.values), readable(step.shared.vector))
    begin, turn = (None, None) if start is None else (start.received(), _readable(step.turn))
    gain = choose(step.backend).solve_rows(
        problem,
        known,
        shared,
        solved,
        step.options,
        begin,
        turn,
        **({} if prior is None else {"prior": prior.received()}),
    )
    return solved, gain


def sum_rows(
    block: RoutedBlock, step: HalfStepOfTasks, coefficients: Coefficients, *fixed: Sent
) -> NDArray[Any]:
    """Sums over the entries of a block, for each of its rows (``Backend.SUMS``).

    Parameters and errors are as in :func:`solve`.
    """
    known = step.known(block, fixed)
    problem = step.problem(block, coefficients, len(known))
    row_sums = choose(step.backend).SUMS
    assert row_sums is not None  # asked of the backend by whoever made the task
    return row_sums.sum_rows(problem, known, step.options.n_threads, curved=step.curved)


def _readable(array: NDArray[Any] | None) -> NDArray[Any] | None:
    return None if array is None else readable(array)


def _packed(vector: Vector) -> Vector:
    return vector[:1] if len(vector) and (vector == vector[0]).all() else vector


def _unpacked(vector: Vector, size: int) -> Vector:
    return np.full(size, vector[0]) if len(vector) == 1 else readable(vector)


@dataclass(frozen=True, slots=True, eq=False)
class ShardedHalfStep:
    """A half-step on an engine.

    Attributes
    ----------
    engine : Engine
    most : int
        Maximum number of concurrent tasks.
    problem : RowProblem
    step : Step
    fixed : shape (S, K)
    scale : float or None
        Of factors that are sent in float16; None if they are sent as they are.
    table : list of Task
        All fixed factors on workers, if they are sent everywhere.
    long_from : int
        Minimum number of entries of a row that is solved from sums, not in a block; 0 for none.
    """

    engine: Engine
    most: int
    problem: RowProblem
    step: HalfStepOfTasks
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
        step: HalfStepOfTasks,
        fixed: Factors,
        *,
        rounds: bool,
        n_pieces: int,
        long_from: int,
    ) -> ShardedHalfStep:
        """Send all fixed factors, in pieces (:func:`pieces`), if they are to be everywhere."""
        scale = scale_of(fixed) if rounds else None
        cut = pieces(fixed, scale, n_pieces) if step.everywhere else ()
        table = [engine.submit(held, piece) for piece in cut]
        return cls(engine, most, problem, step, fixed, scale, table, long_from)

    def sums(self, parts: Sequence[RoutedPart]) -> NDArray[Any]:
        """Sums of long rows over all of their parts, which are added in order."""
        ahead, under_way, done = iter(parts), deque[Task](), set[Task]()
        form = self._sums_here(np.empty(0, dtype=np.int64))
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
            of_range = self._sums_of(answer, parts[0], form)
            with np.errstate(over="ignore", invalid="ignore"):  # as in one process
                total = of_range if total is None else total + of_range
        assert total is not None  # there is no matrix without a range
        return total

    def solve(
        self,
        blocks: Sequence[RoutedPart],
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

    def _submitted(self, function: Any, part: RoutedPart, *own: Sent | None) -> Task:
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

    def _sums_of(self, answer: Any, part: RoutedPart, form: NDArray[Any]) -> NDArray[Any]:
        """What the task of some long rows returned, checked against the ``form`` of sums of none.

        Zeros are right in an empty range. NaN and infinite sums can be right, too, where those of a
        whole row are.
        """
        assert isinstance(part.rows, np.ndarray)  # of long rows
        n_rows = len(part.rows)
        task = f"the sums of {counted(n_rows, 'row')}"
        sums = array_of(answer, (n_rows, *form.shape[1:]), form.dtype, self.engine, task)
        if not all_finite(sums):
            row = int(np.argmin(np.isfinite(sums.reshape(n_rows, -1)).all(axis=1)))
            if all_finite(self._sums_here(part.rows[row : row + 1])):
                raise wrong(self.engine, "sums that are NaN or infinite", task)
        return sums

    def _sums_here(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The sums of some long rows over all of their entries, computed here."""
        row_sums = choose(self.step.backend).SUMS
        assert row_sums is not None  # it has a task
        alone = self.problem.cut(rows)
        return row_sums.sum_rows(
            alone, self.fixed, self.step.options.n_threads, curved=self.step.curved
        )
