"""Rates of this machine from which a cluster's cost is computed, measured in a few seconds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from harness.cluster_cost import Rates, blocks_of
from harness.cluster_fits import peak

import mfrank
from mfrank.backends.sharded import solve, sum_rows
from mfrank.cluster import Processes
from mfrank.data import Interactions

__all__ = ["measured"]

_MESSAGE = 1 << 23
_EMPTY_TASKS = 200
_ROUNDS = 5


def measured(sample: Interactions, factors: int) -> Rates:
    """Rates for data whose rows are as long as those of the sample, with one thread a task."""
    engine = _Here()
    model = mfrank.ALS(mfrank.IALS(), factors, 4, random_state=0, n_threads=1)
    model.fit(sample, cluster=engine, callback=engine.epoch)
    rows = {True: sample.user_rows("float32"), False: sample.item_rows("float32")}
    rates = {
        users: sum(block.multiply_adds for block in blocks_of(matrix, factors))
        / median(engine.of_epochs(users))
        for users, matrix in rows.items()
    }
    seconds = [float(epoch["seconds"] or 0) for epoch in model.store.history]
    solving = [sum(epoch.values()) for epoch in engine.epochs]
    serial = median(a - b for a, b in list(zip(seconds, solving, strict=True))[1:])
    with Processes(1) as workers:
        small = mfrank.synthetic(200, 100, 2000, random_state=0)
        model.set_params(iterations=1).fit(small, cluster=workers)  # imports all that a task needs
        worker = peak(workers._workers[0].process.pid)
        message = np.ones(_MESSAGE, np.uint8)
        out = _seconds(lambda: workers.gather([workers.submit(len, message)]))
        back = _seconds(lambda: workers.gather([workers.submit(np.ones, _MESSAGE, np.uint8)]))
        made = _seconds(lambda: np.ones(_MESSAGE, np.uint8))

        def empty() -> None:
            for _ in range(_EMPTY_TASKS):
                workers.gather([workers.submit(len, ())])

        task = _seconds(empty) / _EMPTY_TASKS
    return Rates(
        users=rates[True],
        items=rates[False],
        out=_MESSAGE / out,
        back=_MESSAGE / max(back - made, 1e-9),
        task=task,
        row=max(serial, 0.0) / (sample.n_users + sample.n_items),
        worker=worker,
    )


class _Here:
    """An engine of one worker, this process; seconds of each epoch's solving, by users and items.

    Nothing is pickled: what the client and the workers do is told apart, and no more.
    """

    relays = False

    def __init__(self) -> None:
        self.epochs: list[dict[bool, float]] = []
        self._now = {True: 0.0, False: 0.0}

    def epoch(self, *_: object) -> None:
        """Note that an epoch is over."""
        self.epochs.append(self._now)
        self._now = {True: 0.0, False: 0.0}

    def of_epochs(self, users: bool) -> list[float]:
        """Seconds of a side's half-steps, without the first epoch, in which there is more."""
        return [epoch[users] for epoch in self.epochs[1:]]

    def submit(self, function: Callable[..., Any], *args: Any) -> _Result:
        args = tuple(arg.value if isinstance(arg, _Result) else arg for arg in args)
        began = perf_counter()
        result = _Result(function(*args))
        if function in (solve, sum_rows):
            self._now[args[1].users_are_rows] += perf_counter() - began
        return result

    def wait(self, tasks: Iterable[_Result]) -> set[_Result]:
        return set(tasks)

    def gather(self, tasks: Iterable[_Result]) -> list[Any]:
        return [task.value for task in tasks]

    def workers(self, probe: Callable[[], Any]) -> list[tuple[str, Any]]:
        return [(f"process {os.getpid()}", probe())]


class _Result:
    def __init__(self, value: Any) -> None:
        self.value = value


def _seconds(call: Callable[[], Any]) -> float:
    def once() -> float:
        began = perf_counter()
        call()
        return perf_counter() - began

    return median(once() for _ in range(_ROUNDS))
