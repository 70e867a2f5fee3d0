"""The backend of a fit on a cluster: half-steps are tasks, all else runs in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.backends.arguments import Factors, SolveOptions
from mfrank.backends.registry import choose
from mfrank.backends.row_problem import RowProblem, Shared, Vector
from mfrank.backends.sharded.blocks import Cuts, RowBlock, SumPlan, columns_of, route
from mfrank.backends.sharded.half_step import HalfStepOfTasks, ShardedHalfStep
from mfrank.backends.sharded.machine import (
    arithmetic,
    memory_of_a_task,
    same_workers,
    threads_of_a_task,
)
from mfrank.backends.sharded.routes import Routes
from mfrank.backends.surface import Backend
from mfrank.cluster import Cluster, Engine, check_cluster, connected
from mfrank.errors import InputValueError

_SHARE_OF_MEMORY = 0.25
"""Largest share of a task's memory for all fixed factors: they are there twice on arrival."""
_TASKS_OF_A_WORKER = 2
"""Number of tasks sent to a worker at a time: while one is solved, the next one's factors are on
their way."""


class Shipped(NamedTuple):
    """Cost of a half-step: tasks, bytes that this process sends and gets, bytes of a task."""

    tasks: int
    sent: int
    back: int
    task: int


class Sharded:
    """The wrapped ``backend``, with another ``solve_rows``.

    Parameters
    ----------
    backend : Backend
    name : str
        Of the backend, for the workers.
    engine : Engine

    Raises
    ------
    ValueError
        The engine has no workers, a worker's arithmetic differs from this process's, or a worker
        cannot run the backend.
    """

    def __init__(self, backend: Backend, name: str, engine: Engine) -> None:
        self._backend, self._name, self._engine = backend, name, engine
        self._workers = same_workers(engine, name)
        self._memory = _SHARE_OF_MEMORY * memory_of_a_task(self._workers)
        self._routes = Routes(engine, self._most)

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
        row_sums, (n_columns, width) = self._backend.SUMS, fixed.shape
        curved = problem.curved
        sums = SumPlan.of(row_sums, width, fixed.dtype, options, n_columns, curved=curved)
        route = self._routes.of(problem.rows, sums)
        step = HalfStepOfTasks(
            self._name,
            arithmetic(),
            shared,
            turn,
            replace(
                options,
                n_threads=threads_of_a_task(self._workers, options.n_threads),
                gather_dtype=None,
            ),
            problem.rows.data is not None,
            problem.users_are_rows,
            curved,
            _beyond(fixed, shared),
            self._sends_all(route.touched, len(fixed), fixed.nbytes),
        )
        here = ShardedHalfStep.begun(
            self._engine,
            self._most,
            problem,
            step,
            fixed,
            rounds=options.gather_dtype == "float16",
            n_pieces=len(self._workers) if self._engine.relays else 1,
            long_from=sums.rows_from,
        )
        gain = np.empty(problem.rows.n_rows)
        begun = out if start is None else start
        starts = [begun[group.rows] for group in route.summed]
        here.solve(route.blocks, begun, prior, out, gain)
        for group, own in zip(route.summed, starts, strict=True):
            assert row_sums is not None
            known = here.sums(group.parts)  # their blocks had them without entries
            row_sums.solve_summed(
                problem,
                group.rows,
                known,
                fixed,
                shared,
                out,
                gain,
                options,
                own,
                turn,
                prior=prior,
            )
        return gain

    def shipped(
        self, rows: CSR, width: int, dtype: np.dtype[Any], options: SolveOptions
    ) -> Shipped:
        """Cost of a half-step of these rows; reads their entries."""
        sent_row = width * (2 if options.gather_dtype == "float16" else dtype.itemsize)
        warm, row = options.solver != "cholesky", width * dtype.itemsize
        sums = SumPlan.of(self._backend.SUMS, width, dtype, options, rows.n_columns, curved=True)
        cuts = Cuts(rows, sums)
        touched, summed, tasks = 0, 0, list[int]()

        def task(block: RowBlock, back: int) -> None:
            nonlocal touched
            n = len(columns_of(route(block)))
            touched += n
            # What came and what is returned, as messages, as arrays, and what the allocator keeps
            # of those before; entries three times.
            entries = 24 * int(block.indptr[-1])
            tasks.append(3 * (row * n + back) + entries + 4 * rows.n_columns)

        for each, block in zip(cuts.slices, cuts.blocks(), strict=True):
            task(block, 2 * row * (each.stop - each.start))
        for group in cuts.groups:
            for block in cuts.ranges(group):
                back = len(group) * row * (width + 1)
                summed += back
                task(block, back)
        everywhere = self._sends_all(touched, rows.n_columns, rows.n_columns * row)
        fixed = self._copies * rows.n_columns if everywhere else touched
        return Shipped(
            len(tasks),
            sent_row * (fixed + warm * rows.n_rows),
            (row + 8) * rows.n_rows + summed,
            max(tasks) + everywhere * row * rows.n_columns,
        )

    @property
    def n_workers(self) -> int:
        """Tasks that workers run at a time."""
        return len(self._workers)

    @property
    def free(self) -> float:
        """Bytes that a task, or this process, can use now, on the machine with the fewest."""
        return memory_of_a_task(self._workers)

    @property
    def _copies(self) -> int:
        """How often this process sends data that go to all workers."""
        return 1 if self._engine.relays else len({name for name, _ in self._workers})

    def _sends_all(self, touched: int, n_fixed: int, size: int) -> bool:
        """Whether this process sends fewer bytes if workers get all fixed factors, and they fit."""
        return self._copies * n_fixed < touched and size <= self._memory

    @property
    def _most(self) -> int:
        """Tasks under way at a time."""
        return _TASKS_OF_A_WORKER * len(self._workers)


def _beyond(fixed: Factors, shared: Shared) -> NDArray[np.int32]:
    """At most one row of the fixed factors that reaches into directions which the matrix lacks.

    Whether there is one decides how rows without a ridge are solved, also those of other blocks.
    """
    n_null = int(np.count_nonzero(shared.values == 0))
    reaching = np.flatnonzero(fixed[:, :n_null].any(axis=1)) if n_null else np.empty(0)
    return reaching[:1].astype(np.int32)


# The backend of a fit: in this process, or sharded on a cluster.


@contextmanager
def solving(name: str, cluster: Cluster | None) -> Iterator[Backend]:
    """The backend with that name, whose half-steps run on a checked ``cluster`` if there is one.

    Raises
    ------
    ConnectionError, ValueError
        The cluster does not answer, or its workers' arithmetic differs from this process's.
    """
    if cluster is None:
        yield choose(name)
        return
    with connected(cluster) as engine:
        yield cast(Backend, Sharded(choose(name), name, engine))


# Refuses GPU backends on a cluster.


def check_one_place(cluster: Any, backend: str) -> None:
    """Raise unless ``cluster`` is None, or names a cluster and the backend is not on a GPU.

    Raises
    ------
    TypeError, ValueError, ModuleNotFoundError
        See :func:`mfrank.cluster.connecting.check_cluster`; or the backend is on a GPU.
    """
    check_cluster(cluster)
    if cluster is not None and not isinstance(choose(backend).place(np.empty((1, 1))), np.ndarray):
        raise InputValueError(
            f"`cluster` and `backend={backend!r}` do not go together", "leave one out"
        )
