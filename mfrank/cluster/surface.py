"""The interface of every engine: the only boundary between a fit and where its tasks run."""

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
    """Runs tasks: calls of functions that depend on nothing but their arguments.

    So a task may be run again, on another worker, when its worker is lost. Functions must be
    importable on the workers; arguments and results are pickled.
    """

    relays: bool
    """Whether workers get the result of a task from each other; if not, each gets what the task
    was given from this process, and runs it."""

    def submit(self, function: Callable[..., Any], *args: Any) -> Task:
        """Note a call, to be run at the latest when it is waited for.

        An argument may itself be a task: the function gets its result, which stays on workers and
        may be computed on several. It is freed when nothing refers to the task any longer.
        """

    def wait(self, tasks: Iterable[Task]) -> set[Task]:
        """Block until at least one of the tasks is done, also by an error; return those that are.

        There must be at least one.
        """

    def gather(self, tasks: Iterable[Task]) -> list[Any]:
        """Results of the tasks, in their order; raises the error of one that failed."""

    def workers(self, probe: Callable[[], _Told]) -> Sequence[tuple[str, _Told]]:
        """Call ``probe`` on every worker; return the workers' names and what it returned.

        A worker that runs several tasks at a time is listed as often. Nothing else may be running.
        """


# Calls as tasks of an engine, a few at a time, so that little is on its way at once.


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


# Results of tasks as an engine returns them, checked before they are used.
#
# An engine of somebody else may lose or change what tasks return. A fit would go on with it and end
# in another model, so what comes back must have the form that its task gives it.


def wrong(engine: Engine, what: str, task: str) -> RuntimeError:
    """The error for a result that no task gives; ``task`` says what was computed."""
    return RuntimeError(
        f"cluster: the engine {type(engine).__name__} returned {what} for {task}, which is not "
        "what the task gives; use another engine, or cluster=None"
    )


def parts_of(result: Any, n: int, engine: Engine, task: str) -> tuple[Any, ...]:
    """A result of so many parts; raise RuntimeError if it is another."""
    if not isinstance(result, tuple) or len(result) != n:
        raise wrong(engine, kind_of(result), task)
    return result


def kind_of(result: Any) -> str:
    """What a result is, in a few words."""
    if isinstance(result, str | int | float | None):
        return shown(result)
    return f"a {type(result).__name__}"


def array_of(
    result: Any, shape: tuple[int, ...], dtype: DTypeLike, engine: Engine, task: str
) -> NDArray[Any]:
    """A result that is an array of this form; raise RuntimeError if it is another.

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
