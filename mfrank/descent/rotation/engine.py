"""Sends the meetings of every epoch to an engine of tasks, and collects their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.backends.sharded.arithmetic import arithmetic, same_workers, threads_of_a_task
from mfrank.backends.sharded.blocks import block_of
from mfrank.cluster.surface import Engine, Task
from mfrank.descent.engine import DescentPlan, Share, ended
from mfrank.descent.factor_tables import Tables
from mfrank.descent.rotation.layout import Deal, Pair, deal, user_bounds
from mfrank.descent.rotation.meeting import Fit, Meeting, TableRows, keep, meet
from mfrank.descent.sampler import Sampling
from mfrank.store.step import Step

__all__ = ["rotate"]

_TASKS_OF_A_WORKER = 2
"""Number of tasks sent to a worker at a time: while one runs, the rows of the next are on their
way."""


def rotate(
    rows: CSR,
    n_blocks: int,
    sampling: Sampling,
    plan: DescentPlan,
    tables: Tables,
    engine: Engine,
    backend: str,
    done: int = 0,
    watch: Callable[[int, int, float], object] | None = None,
) -> Iterator[Step]:
    """Run gradient descent by rotation; yield copies of the tables after every epoch.

    The result depends on the number of blocks, but not on the engine.

    Parameters
    ----------
    rows : CSR
        Positives by user.
    n_blocks : int
        Of users, and of items.
    sampling : Sampling
    plan : DescentPlan
        Its loss decomposes, and its optimizer's state has a row for each row of a table.
    tables : Tables
        On the host; updated in place.
    engine : Engine
    backend : str
        Its name.
    done : int, default 0
        Epochs already completed, when a fit continues from their tables.
    watch : function, optional
        Called after every meeting with the number of visits done in the epoch, the number of visits
        in the epoch, and the seconds since it began.

    Raises
    ------
    ValueError
        The engine has no workers, they do not all have the arithmetic of this process, or one
        cannot run the backend.
    FloatingPointError
        Losses or factors are no longer finite: the learning rate is too large.
    """
    workers = same_workers(engine, backend)
    threads = threads_of_a_task(workers, tables.n_threads)
    fit = Fit(backend, arithmetic(), plan, sampling, tables.scoring, tables.temperature, threads)
    tables.begin(plan.rule)
    of_users = plan.batches.of == "users"
    visits = np.minimum(rows.counts, 1) if of_users else rows.counts
    bounds = user_bounds(visits, n_blocks)
    rotation = _Rotation(rows, bounds, fit, tables, engine, _TASKS_OF_A_WORKER * len(workers))
    for epoch in range(done + 1, plan.iterations + 1):
        began = perf_counter()
        dealt = deal(rows, bounds, plan, epoch)
        total = int(dealt.visits.sum())
        losses = dict[Pair, float]()
        n_done = 0
        for pair, loss in rotation.losses(dealt, epoch):
            losses[pair] = loss
            n_done += int(dealt.visits[pair.users, pair.items])
            if watch:
                watch(n_done, total, perf_counter() - began)
        mean = sum(losses[pair] for pair in sorted(losses)) / max(total, 1)
        yield ended(plan, epoch, perf_counter() - began, mean, tables)


class _Rotation:
    """The blocks of users on the workers, and the tables here."""

    def __init__(
        self,
        rows: CSR,
        bounds: NDArray[np.int64],
        fit: Fit,
        tables: Tables,
        engine: Engine,
        most: int,
    ) -> None:
        self._fit, self._tables, self._engine, self._most = fit, tables, engine, most
        self._catalog = fit.sampling.catalog(rows)
        self._begins = bounds[:-1].tolist()
        ends = pairwise(bounds.tolist())
        pattern = rows.pattern()
        self._blocks = [engine.submit(keep, block_of(pattern, *block)) for block in ends]

    def losses(self, dealt: Deal, epoch: int) -> Iterator[tuple[Pair, float]]:
        """Let the blocks meet, each in the order of its rounds; yield sums of losses."""
        shares = dealt.shares()
        waiting, running = list(shares), dict[Task, Pair]()
        while waiting or running:
            for pair in self._free(waiting, list(running.values())):
                waiting.remove(pair)
                running[self._submit(dealt, pair, shares[pair], epoch)] = pair
            for task in self._engine.wait(running):
                pair = running.pop(task)
                new, loss = self._engine.gather([task])[0]
                self._put(new, dealt, pair)
                yield pair, loss

    def _free(self, waiting: list[Pair], running: list[Pair]) -> list[Pair]:
        """Pairs that can meet now: no earlier pair that is not done has one of their blocks."""
        free: list[Pair] = []
        users, items = ({pair[side] for pair in running} for side in (1, 2))
        for pair in waiting:
            if len(running) + len(free) == self._most:
                break
            if pair.users not in users and pair.items not in items:
                free.append(pair)
            users.add(pair.users)
            items.add(pair.items)
        return free

    def _submit(self, dealt: Deal, pair: Pair, share: Share, epoch: int) -> Task:
        users, items = dealt.users[pair.users][pair.items], dealt.items[pair.items]
        given = {
            name: TableRows.of(table, self._tables.kept[name], users if name == "users" else items)
            for name, table in self._tables.by_name().items()
        }
        local, catalog = users - self._begins[pair.users], self._catalog.part(users, items)
        meeting = Meeting(epoch, share, local, items, catalog, given)
        return self._engine.submit(meet, self._blocks[pair.users], self._fit, meeting)

    def _put(self, new: dict[str, TableRows], dealt: Deal, pair: Pair) -> None:
        users, items = dealt.users[pair.users][pair.items], dealt.items[pair.items]
        for name, table in self._tables.by_name().items():
            rows = users if name == "users" else items
            new[name].put(table, self._tables.kept[name], rows)
