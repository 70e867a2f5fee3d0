"""Calls as tasks of an engine, a few at a time, so that little is on its way at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from mfrank.cluster.surface import Engine, Task
from mfrank.cluster.worker import Call

__all__ = ["as_done"]

_TASKS_OF_A_WORKER = 2
"""Number of tasks sent to a worker at a time, so that it need not wait for the next."""

_Label = TypeVar("_Label")


def as_done(
    engine: Engine, n_workers: int, calls: Iterable[tuple[_Label, Call]]
) -> Iterator[tuple[_Label, Any]]:
    """Run calls on so many workers; yield the label and the result of each when it is done.

    A call is taken from ``calls`` when there is room for it.
    """
    left, running, taken = iter(calls), dict[Task, _Label](), False
    while running or not taken:
        while not taken and len(running) < _TASKS_OF_A_WORKER * n_workers:
            try:
                label, call = next(left)
            except StopIteration:
                taken = True
            else:
                running[engine.submit(call.function, *call.args)] = label
        if running:
            for task in engine.wait(running):
                label = running.pop(task)
                yield label, engine.gather([task])[0]
