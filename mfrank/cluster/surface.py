"""The interface of every engine: the only boundary between a fit and where its tasks run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Engine", "Task"]

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
