"""Descent by rotation: blocks of users meet blocks of items, several at a time.

With D blocks of users and D of items, an epoch has D rounds of D meetings; two meetings of a round
have no row in common (``layout``). A meeting is a task (``meeting``): an ordinary descent on the
rows of both blocks. :func:`rotate` sends and collects the rows.

An epoch resembles an epoch in one process. Items are assigned to blocks at random in every epoch. A
user is visited once, in the block with most of their positives. All positives are equally likely to
be in that block, and so are all other items, so the mean gradient over the assignments is the
gradient of a list of the whole catalog. The meetings of a round share their batches: a meeting
makes about 1 / D of a batch, with negatives from 1 / D of the items. A batch thus updates as many
users and items, and draws each item as often, as in one process. Only the positives of a list are
fewer, because they are in one block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, all_finite
from mfrank.backends.sharded import RowBlock, arithmetic, block_of, same_workers, threads_of_a_task
from mfrank.cluster import Engine, Task, array_of, held, kind_of, parts_of, wrong
from mfrank.descent.engine import DescentPlan, Share, ended
from mfrank.descent.factor_tables import FactorTables
from mfrank.descent.rotation.layout import (
    BlockPair,
    Deal,
    count_blocks,
    deal,
    pairs,
    user_bounds,
)
from mfrank.descent.rotation.meeting import Meeting, RotatingFit, TableRows, meet
from mfrank.descent.sampler import Sampling
from mfrank.store import Step

__all__ = ["Deal", "count_blocks", "deal", "meet", "pairs", "rotate", "user_bounds"]

_TASKS_OF_A_WORKER = 2
"""Number of tasks per worker at a time: one runs while the rows of the next are sent."""


def rotate(
    rows: CSR,
    n_blocks: int,
    sampling: Sampling,
    plan: DescentPlan,
    tables: FactorTables,
    engine: Engine,
    backend: str,
    done: int,
    watch: Callable[[int, int, float], object],
) -> Iterator[Step]:
    """Run gradient descent by rotation; yield copies of the tables after every epoch.

    The result depends on the number of blocks, but not on the engine.

    Parameters
    ----------
    rows : CSR
        Positives by user.
    n_blocks : int
        Number of blocks of users, and of items.
    sampling : Sampling
    plan : DescentPlan
        The loss decomposes, and the optimizer's state has a row for each row of a table.
    tables : FactorTables
        On the host; updated in place.
    engine : Engine
    backend : str
        Name of the backend.
    done : int
        Epochs already completed, when a fit continues from their tables.
    watch : function
        Called after every meeting with the number of visits done in the epoch, the number of visits
        in the epoch, and the seconds since it began.

    Raises
    ------
    ValueError
        The engine has no workers, a worker's arithmetic differs from this process's, or a worker
        cannot run the backend.
    FloatingPointError
        Losses or factors are no longer finite: the learning rate is too large.
    """
    workers = same_workers(engine, backend)
    threads = threads_of_a_task(workers, tables.n_threads)
    fit = RotatingFit(
        backend, arithmetic(), plan, sampling, tables.scoring, tables.temperature, threads
    )
    tables.begin(plan.rule)
    of_users = plan.batches.of == "users"
    visits = np.minimum(rows.counts, 1) if of_users else rows.counts
    bounds = user_bounds(visits, n_blocks)
    rotation = _Rotation(rows, bounds, fit, tables, engine, _TASKS_OF_A_WORKER * len(workers))
    for epoch in range(done + 1, plan.iterations + 1):
        began = perf_counter()
        dealt = deal(rows, bounds, plan, epoch)
        total = int(dealt.visits.sum())
        losses = dict[BlockPair, float]()
        n_done = 0
        for pair, loss in rotation.losses(dealt, epoch):
            losses[pair] = loss
            n_done += int(dealt.visits[pair.users, pair.items])
            watch(n_done, total, perf_counter() - began)
        mean = sum(losses[pair] for pair in sorted(losses)) / max(total, 1)
        yield ended(plan, epoch, perf_counter() - began, mean, tables)


class _Rotation:
    """The blocks of users on the workers, and the tables here."""

    def __init__(
        self,
        rows: CSR,
        bounds: NDArray[np.int64],
        fit: RotatingFit,
        tables: FactorTables,
        engine: Engine,
        most: int,
    ) -> None:
        self._fit, self._tables, self._engine, self._most = fit, tables, engine, most
        self._catalog = fit.sampling.catalog(rows)
        self._begins = bounds[:-1].tolist()
        self._ends, self._pattern = list(pairwise(bounds.tolist())), rows.pattern()
        self._blocks = [engine.submit(held, self._block(users)) for users in range(len(bounds) - 1)]

    def losses(self, dealt: Deal, epoch: int) -> Iterator[tuple[BlockPair, float]]:
        """Run the meetings, those of each block in the order of rounds; yield sums of losses."""
        shares = dealt.shares()
        waiting, running = list(shares), dict[Task, BlockPair]()
        while waiting or running:
            for pair in self._free(waiting, list(running.values())):
                waiting.remove(pair)
                meeting = self._meeting(dealt, pair, shares[pair], epoch)
                block = self._blocks[pair.users]
                running[self._engine.submit(meet, block, self._fit, meeting)] = pair
            for task in self._engine.wait(running):
                pair = running.pop(task)
                (answer,) = self._engine.gather([task])
                meeting = self._meeting(dealt, pair, shares[pair], epoch)
                new, loss = self._checked(answer, pair, meeting)
                self._put(new, dealt, pair)
                yield pair, loss

    def _free(self, waiting: list[BlockPair], running: list[BlockPair]) -> list[BlockPair]:
        """Pairs that can meet now: no unfinished earlier pair has one of their blocks."""
        free: list[BlockPair] = []
        users, items = ({pair[side] for pair in running} for side in (1, 2))
        for pair in waiting:
            if len(running) + len(free) == self._most:
                break
            if pair.users not in users and pair.items not in items:
                free.append(pair)
            users.add(pair.users)
            items.add(pair.items)
        return free

    def _meeting(self, dealt: Deal, pair: BlockPair, share: Share, epoch: int) -> Meeting:
        users, items = dealt.users[pair.users][pair.items], dealt.items[pair.items]
        given = {
            name: TableRows.of(
                table, self._tables.states[name], users if name == "users" else items
            )
            for name, table in self._tables.by_name().items()
        }
        local, catalog = users - self._begins[pair.users], self._catalog.part(users, items)
        return Meeting(epoch, share, local, items, catalog, given)

    def _checked(
        self, answer: Any, pair: BlockPair, meeting: Meeting
    ) -> tuple[dict[str, TableRows], float]:
        """Check the result of a meeting against ``meeting``, its input.

        NaN and zeros are right if a fit diverges or stands still; the meeting is then repeated here
        for comparison.
        """
        task = f"the meeting of users {pair.users} and items {pair.items}"
        new, loss = parts_of(answer, 2, self._engine, task)
        if not isinstance(new, dict) or new.keys() != meeting.tables.keys():
            raise wrong(self._engine, kind_of(new), task)
        if not isinstance(loss, float):
            raise wrong(self._engine, kind_of(loss), task)
        is_odd = not math.isfinite(loss)
        for name, (old, state) in meeting.tables.items():
            own = new[name]
            if not isinstance(own, TableRows) or own.state.keys() != state.keys():
                raise wrong(self._engine, kind_of(own), task)
            array_of(own.table, old.shape, old.dtype, self._engine, task)
            for which, array in state.items():
                array_of(own.state[which], array.shape, array.dtype, self._engine, task)
            is_odd |= not all_finite(own.table) or not own.table.any()
        if is_odd and not _same(meet(self._block(pair.users), self._fit, meeting), (new, loss)):
            raise wrong(self._engine, "NaN or zeros alone", task)
        return new, loss

    def _block(self, users: int) -> RowBlock:
        return block_of(self._pattern, *self._ends[users])

    def _put(self, new: dict[str, TableRows], dealt: Deal, pair: BlockPair) -> None:
        users, items = dealt.users[pair.users][pair.items], dealt.items[pair.items]
        for name, table in self._tables.by_name().items():
            rows = users if name == "users" else items
            new[name].put(table, self._tables.states[name], rows)


def _same(one: tuple[dict[str, TableRows], float], other: tuple[Any, Any]) -> bool:
    """Whether two meetings have the same rows, bit by bit or both NaN."""
    (tables, loss), (others, other_loss) = one, other
    return np.array_equal(loss, other_loss, equal_nan=True) and all(
        np.array_equal(rows.table, others[name].table, equal_nan=True)
        for name, rows in tables.items()
    )
