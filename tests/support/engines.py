"""Engines in this process, which run tasks in an order that no fit may depend on."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


class Delayed:
    """A submitted call and, once it is run, its result in a list."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function, self.args, self.results = function, args, list[Any]()


class Shuffled:
    """Runs tasks in a random order, some of them again as if a worker had been lost.

    Arguments and results are pickled, as on the way to another process and back.

    Attributes
    ----------
    alive : set of Delayed
        Tasks that something refers to.
    most_alive : int
        The largest number of them at a time.
    """

    relays = True

    def __init__(self, n_workers: int, seed: int = 0) -> None:
        self.n_workers, self.random = n_workers, np.random.default_rng(seed)
        self.alive, self.most_alive = weakref.WeakSet[Delayed](), 0

    def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
        task = Delayed(function, args)
        self.alive.add(task)
        self.most_alive = max(self.most_alive, len(self.alive))
        return task

    def wait(self, tasks: Iterable[Delayed]) -> set[Delayed]:
        tasks = list(tasks)
        done = {task for task in tasks if task.results}
        for at in self.random.permutation(len(tasks)):
            if done and self.random.random() < 0.5:
                break
            self.gather([tasks[at]])
            done.add(tasks[at])
        return done

    def gather(self, tasks: Iterable[Delayed]) -> list[Any]:
        return [self._result(task) for task in tasks]

    def workers(self, probe: Callable[[], Any]) -> list[tuple[str, Any]]:
        return [(f"worker {number}", probe()) for number in range(self.n_workers)]

    def _result(self, task: Delayed) -> Any:
        while not task.results or self.random.random() < 0.1:
            args = [self._result(arg) if isinstance(arg, Delayed) else arg for arg in task.args]
            result = task.function(*pickle.loads(pickle.dumps(args)))
            task.results = [pickle.loads(pickle.dumps(result))]
        return task.results[0]


class Spoiling(Shuffled):
    """Returns something else for one task of a kind, as an engine with an error might.

    Parameters
    ----------
    task : str
        Name of the task's function.
    spoil : function
        Of the result; arrays in it are copies.
    """

    def __init__(self, task: str, spoil: Callable[[Any], Any]) -> None:
        super().__init__(2)
        self.task, self.spoil, self.spoiled = task, spoil, 0

    def gather(self, tasks: Iterable[Delayed]) -> list[Any]:
        return [self._given(task, result) for task, result in self._gathered(tasks)]

    def _gathered(self, tasks: Iterable[Delayed]) -> list[tuple[Delayed, Any]]:
        tasks = list(tasks)
        return list(zip(tasks, super().gather(tasks), strict=True))

    def _given(self, task: Delayed, result: Any) -> Any:
        if self._kind(task) != self.task:
            return result
        self.spoiled += 1
        return self.spoil(pickle.loads(pickle.dumps(result)))

    @staticmethod
    def _kind(task: Delayed) -> str:
        return str(task.function.__name__)
