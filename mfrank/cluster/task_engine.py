"""The interface of every engine: the only boundary between a fit and its workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import shown
from mfrank.cluster.processes import Call

Task = Any
"""What an engine returns for a submitted task: hashable, and equal only to itself."""

_Told = TypeVar("_Told")


@runtime_checkable
class Engine(Protocol):
    """Runs tasks: calls of functions that depend only on their arguments.

    If a worker is lost, its task therefore runs again on another one. Functions must be importable
    on the workers; arguments and results are pickled.
    """

    relays: bool
    """Whether workers send each other the results of tasks; if not, each worker receives a task's
    arguments from this process and runs the task itself."""

    def submit(self, function: Callable[..., Any], *args: Any) -> Task:
        """Submit a call; it runs, at the latest, when it is waited for.

        An argument may itself be a task: the function receives its result. The result stays on the
        workers, may be computed on several of them, and is freed when nothing refers to the task.
        """

    def wait(self, tasks: Iterable[Task]) -> set[Task]:
        """Block until at least one task has succeeded or failed; return all such tasks.

        ``tasks`` must not be empty.
        """

    def gather(self, tasks: Iterable[Task]) -> list[Any]:
        """Results of the tasks, in the same order; raises the error of a failed task."""

    def workers(self, probe: Callable[[], _Told]) -> Sequence[tuple[str, _Told]]:
        """Call ``probe`` on every worker; return the workers' names and the results.

        A worker that runs n tasks at a time is listed n times. Nothing else may be running.
        """


_Kept = TypeVar("_Kept")


def held(value: _Kept) -> _Kept:
    """The value, as the result of a task that stays on workers."""
    return value


# Calls as tasks of an engine, in a bounded queue.


_TASKS_OF_A_WORKER = 2
"""Tasks in the queue of a worker: the second one is there when the first one ends."""

_Label = TypeVar("_Label")


def as_done(
    engine: Engine, n_workers: int, calls: Iterable[tuple[_Label, Call]]
) -> Iterator[tuple[_Label, Any]]:
    """Run calls on ``n_workers`` workers; yield each call's label and result when it is done.

    ``calls`` is read only as fast as the queue, which is bounded, has room.
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


# Results of tasks as an engine returns them, checked before they are used.
#
# A third-party engine may lose or change results, and a fit would silently end in another model. So
# each result must have the shape and dtype that its task returns.


def wrong(engine: Engine, what: str, task: str) -> RuntimeError:
    """The error for an impossible result; ``task`` says what was computed."""
    return RuntimeError(
        f"cluster: the engine {type(engine).__name__} returned {what} for {task}, which is not "
        "what the task gives; use another engine, or no cluster"
    )


def parts_of(result: Any, n: int, engine: Engine, task: str) -> tuple[Any, ...]:
    """A result with ``n`` parts; raises RuntimeError otherwise."""
    if not isinstance(result, tuple) or len(result) != n:
        raise wrong(engine, kind_of(result), task)
    return result


def kind_of(result: Any) -> str:
    """A short description of a result's type."""
    if isinstance(result, str | int | float | None):
        return shown(result)
    return f"a {type(result).__name__}"


def array_of(
    result: Any, shape: tuple[int, ...], dtype: DTypeLike, engine: Engine, task: str
) -> NDArray[Any]:
    """A result that is an array of this dtype and shape; raises RuntimeError otherwise.

    -1 in ``shape`` is any length.
    """
    if not isinstance(result, np.ndarray):
        raise wrong(engine, f"{kind_of(result)} in place of an array", task)
    is_form = len(shape) == result.ndim and all(
        wanted in (-1, length) for wanted, length in zip(shape, result.shape, strict=True)
    )
    if not is_form or result.dtype != dtype:
        wanted = ", ".join("any" if length < 0 else str(length) for length in shape)
        raise wrong(
            engine,
            f"{result.dtype} of shape {result.shape} in place of {np.dtype(dtype)} of shape "
            f"({wanted})",
            task,
        )
    return result
