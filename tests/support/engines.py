"""Engines in this process, which run tasks in an order that no fit may depend on."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


class Delayed:
    """A submitted call."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function, self.args, self.answers = function, args, list[Any]()


class Shuffled:
    """Runs tasks in a random order, some of them again, with pickled arguments.

    Attributes
    ----------
    sent : list of tuple
        Function and arguments of each submitted call.
    most_alive : int
        The largest number of tasks that something referred to at a time.
    """

    def __init__(self, n: int, seed: int = 0) -> None:
        self.n, self.random = n, np.random.default_rng(seed)
        self.sent: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.log = True

    def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
        if self.log:
            self.sent.append((function, args))
        return Delayed(function, args)

    def wait(self, tasks: Iterable[Delayed]) -> set[Delayed]:
        tasks = list(tasks)
        done = {task for task in tasks if task.answers}
        for at in self.random.permutation(len(tasks)):
            if done and self.random.random() < 0.5:
                break
            self._run(tasks[at])
            done.add(tasks[at])
        return done

    def gather(self, tasks: Iterable[Delayed]) -> list[Any]:
        return [self._run(task) for task in tasks]

    def workers(self, probe: Callable[[], Any]) -> list[tuple[str, Any]]:
        return [(f"worker {number}", probe()) for number in range(self.n)]

    def _run(self, task: Delayed) -> Any:
        while not task.answers or self.random.random() < 0.1:  # as if a worker had been lost
            args = [self._run(arg) if isinstance(arg, Delayed) else arg for arg in task.args]
            task.answers = [task.function(*pickle.loads(pickle.dumps(args)))]
        return task.answers[0]
