"""See :mod:`mfrank.backends.sharded`."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.backends.float16 import scale_of
from mfrank.backends.row_problem import RowProblem, Shared, Vector
from mfrank.backends.sharded.arithmetic import (
    arithmetic,
    memory_of_a_task,
    same_workers,
    threads_of_a_task,
)
from mfrank.backends.sharded.blocks import block_of, bounds, columns_of, route
from mfrank.backends.sharded.sent import Sent, held, pieces
from mfrank.backends.sharded.tasks import Coefficients, HalfStep, solve
from mfrank.backends.solve_options import SolveOptions
from mfrank.backends.surface import Backend, Factors
from mfrank.cluster.surface import Engine, Task

__all__ = ["Sharded", "Shipped"]

_SHARE_OF_MEMORY = 0.25
"""Most of a task's memory that all fixed factors may take: they are there twice as they come."""
_TASKS_OF_A_WORKER = 2
"""Under way at a time: while one is solved, the next one's factors are on their way."""


class _Part(NamedTuple):
    """A block of rows, as a task that routes it, and the columns that it touches."""

    rows: slice
    routed: Task
    touched: NDArray[np.int32]


class _Route(NamedTuple):
    """All blocks of a matrix, which is kept, as it is known by its memory."""

    whole: CSR
    parts: list[_Part]


class Shipped(NamedTuple):
    """What a half-step takes: tasks, bytes that this process sends and gets, bytes of a task."""

    tasks: int
    sent: int
    back: int
    task: int


class Sharded:
    """The backend; all but ``solve_rows`` is that of ``backend``.

    Parameters
    ----------
    backend : Backend
    name : str
        Of the backend, for the workers.
    engine : Engine

    Raises
    ------
    ValueError
        The engine has no workers, they do not all have the arithmetic of this process, or one
        cannot run the backend.
    """

    def __init__(self, backend: Backend, name: str, engine: Engine) -> None:
        self._backend, self._name, self._engine = backend, name, engine
        self._workers = same_workers(engine, name)
        self._memory = _SHARE_OF_MEMORY * memory_of_a_task(self._workers)
        self._routes: dict[int, _Route] = {}

    def __getattr__(self, part: str) -> Any:
        return getattr(self._backend, part)

    def solve_rows(
        self,
        problem: RowProblem,
        fixed: Factors,
        shared: Shared,
        out: Factors,
        options: SolveOptions,
        start: Factors | None = None,
        turn: NDArray[np.float64] | None = None,
        *,
        prior: Factors | None = None,
    ) -> Vector:
        """See :meth:`mfrank.backends.Backend.solve_rows`."""
        threads = threads_of_a_task(self._workers, options.n_threads)
        parts = self._parts(problem.rows)
        step = HalfStep(
            self._name,
            arithmetic(),
            shared,
            turn,
            replace(options, n_threads=threads, gather_dtype=None),
            problem.rows.data is not None,
            problem.users_are_rows,
            _beyond(fixed, shared),
            self._sends_all(sum(len(part.touched) for part in parts), len(fixed), fixed.nbytes),
        )
        begun = out if start is None else start
        rounds, warm = options.gather_dtype == "float16", options.solver != "cholesky"
        scale = scale_of(fixed) if rounds else None
        own_scale = scale_of(begun) if rounds and warm else None
        gain, running = np.empty(problem.rows.n_rows), dict[Task, slice]()
        table = self._held(fixed, scale) if step.everywhere else []
        for part in parts:
            self._collect(running, out, gain, most=self._most - 1)
            columns = np.concatenate([part.touched, step.beyond])
            task = self._engine.submit(
                solve,
                part.routed,
                step,
                Coefficients.of(problem, part.rows, columns),
                Sent.of(begun[part.rows], own_scale) if warm else None,
                None if prior is None else Sent.of(prior[part.rows], None),
                *(table or [Sent.of(fixed[columns], scale)]),
            )
            running[task] = part.rows
        self._collect(running, out, gain, most=0)
        return gain

    def shipped(
        self, rows: CSR, width: int, dtype: np.dtype[Any], options: SolveOptions
    ) -> Shipped:
        """What a half-step of these rows will take, told from their entries, which are read."""
        sent_row = width * (2 if options.gather_dtype == "float16" else dtype.itemsize)
        warm, row = options.solver != "cholesky", width * dtype.itemsize
        touched, tasks = 0, list[int]()
        for begin, end in pairwise(bounds(rows).tolist()):
            n = len(columns_of(route(block_of(rows, begin, end))))
            touched += n
            entries = int(rows.indptr[end] - rows.indptr[begin])
            # What came and what is returned, as messages, as arrays, and what the allocator keeps
            # of those before; entries three times.
            tasks.append(3 * (row * (n + 2 * (end - begin))) + 24 * entries + 4 * rows.n_columns)
        everywhere = self._sends_all(touched, rows.n_columns, rows.n_columns * row)
        fixed = self._copies * rows.n_columns if everywhere else touched
        return Shipped(
            len(tasks),
            sent_row * (fixed + warm * rows.n_rows),
            (row + 8) * rows.n_rows,
            max(tasks) + everywhere * row * rows.n_columns,
        )

    @property
    def n_workers(self) -> int:
        """Tasks that workers run at a time."""
        return len(self._workers)

    @property
    def free(self) -> float:
        """Bytes that a task, or this process, can use now where there are fewest."""
        return memory_of_a_task(self._workers)

    @property
    def _copies(self) -> int:
        """How often this process sends what goes to all workers."""
        return 1 if self._engine.relays else len({name for name, _ in self._workers})

    def _sends_all(self, touched: int, n_fixed: int, size: int) -> bool:
        """Whether this process sends fewer bytes if workers get all fixed factors, and they fit."""
        return self._copies * n_fixed < touched and size <= self._memory

    def _held(self, fixed: Factors, scale: float | None) -> list[Task]:
        """All fixed factors, as results that stay on workers."""
        cut = pieces(fixed, scale, least=len(self._workers) if self._engine.relays else 1)
        return [self._engine.submit(held, piece) for piece in cut]

    def _collect(
        self, running: dict[Task, slice], out: Factors, gain: Vector, *, most: int
    ) -> None:
        """Write down what is done, until at most ``most`` tasks are running."""
        while len(running) > most:
            for task in self._engine.wait(running):
                rows = running.pop(task)
                out[rows], gain[rows] = self._engine.gather([task])[0]

    @property
    def _most(self) -> int:
        """Tasks under way at a time."""
        return _TASKS_OF_A_WORKER * len(self._workers)

    def _parts(self, rows: CSR) -> list[_Part]:
        """The blocks of a matrix, routed the first time; one with values serves without them."""
        key = rows.indices.ctypes.data
        known = self._routes.get(key)
        if known is None or (known.whole.data is None and rows.data is not None):
            self._routes[key] = _Route(rows, self._routed(rows))
        return self._routes[key].parts

    def _routed(self, rows: CSR) -> list[_Part]:
        ends = bounds(rows).tolist()
        slices = [slice(begin, end) for begin, end in pairwise(ends)]
        parts: list[_Part] = []
        for first in range(0, len(slices), self._most):
            some = slices[first : first + self._most]
            routed = [
                self._engine.submit(route, block_of(rows, each.start, each.stop)) for each in some
            ]
            touched = self._engine.gather(
                [self._engine.submit(columns_of, each) for each in routed]
            )
            parts += map(_Part, some, routed, touched)
        return parts


def _beyond(fixed: Factors, shared: Shared) -> NDArray[np.int32]:
    """At most one row of the fixed factors that reaches into directions which the matrix lacks.

    Whether there is one decides how rows without a ridge are solved, also those of other blocks.
    """
    n_null = int(np.count_nonzero(shared.values == 0))
    reaching = np.flatnonzero(fixed[:, :n_null].any(axis=1)) if n_null else np.empty(0)
    return reaching[:1].astype(np.int32)
