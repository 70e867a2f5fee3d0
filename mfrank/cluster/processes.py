"""Worker processes on this machine, each with a pipe, and their main loop.

The calling process works only in ``wait`` and ``gather``, in the caller's thread. A task starts
when it is waited for. If a task is an argument of another one, it runs on the worker that needs it.
A worker that dies is replaced, and its task restarts. A worker that hangs is ended and replaced,
too: each worker has a thread that sends heartbeats, even during a long task, and a thread of the
calling process ends a worker that sends none.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from mfrank._system import pipe_that_does_not_block
from mfrank.arrays import check_above_zero

# What a worker process runs: the calls that arrive on a pipe, until the pipe is closed.


BEAT = 1.0
"""Seconds between two signs of life."""


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A placeholder argument for the result of another call; the result stays on the worker."""

    key: int


class Call(NamedTuple):
    """A function and its arguments; some may be :class:`KeptResult`."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


class Order(NamedTuple):
    """A message to a worker.

    Attributes
    ----------
    call : Call
        Run now; the worker answers whether it succeeded, with the result or the error.
    recipes : dict of Call
        Calls by key; each runs when its result is first needed, and the worker stores the result.
    forget : iterable of int
        Keys whose results no call will need again.
    """

    call: Call
    recipes: dict[int, Call]
    forget: Iterable[int]


class Results:
    """Stored results of calls that are arguments of other calls."""

    def __init__(self) -> None:
        self._recipes: dict[int, Call] = {}
        self._results: dict[int, Any] = {}

    def obey(self, order: Order) -> Any:
        """Carry out an order."""
        for key in order.forget:
            self._recipes.pop(key, None)
            self._results.pop(key, None)
        self._recipes |= order.recipes
        return self._run(order.call)

    def _run(self, call: Call) -> Any:
        return call.function(*(self._found(arg) for arg in call.args))

    def _found(self, arg: Any) -> Any:
        if not isinstance(arg, KeptResult):
            return arg
        if arg.key in self._recipes:
            # The recipe may hold data, which its result then holds in its own form.
            self._results[arg.key] = self._run(self._recipes[arg.key])
            del self._recipes[arg.key]
        return self._results[arg.key]


def serve(descriptor: int, beats: int) -> None:
    """Carry out the orders from a pipe until its other end is closed.

    ``beats`` is a non-blocking pipe for heartbeats.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the fit, which ends the workers
    threading.Thread(target=_beat, args=(beats,), daemon=True).start()
    link = Connection(descriptor)
    results = Results()
    while True:
        try:
            message = [link.recv_bytes()]
        except (EOFError, OSError):
            return
        try:
            link.send_bytes(_answer(results, message))
        except OSError:  # who asked was killed
            return


def _beat(beats: int) -> None:
    """Send heartbeats until the other end closes; kernels release the GIL for this thread."""
    while True:
        try:
            os.write(beats, b".")
        except BlockingIOError:  # nobody has read for hours
            pass
        except OSError:
            return
        time.sleep(BEAT)


def _answer(results: Results, message: list[bytes]) -> bytes:
    """Carry out the order of a message; nothing of it is held when the next one comes."""
    try:
        order = pickle.loads(message.pop())  # not held while the call runs
        return pickle.dumps((True, results.obey(order)), -1)
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> bytes:
    error.add_note("In a worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        answer = pickle.dumps((False, error))
        pickle.loads(answer)  # some errors can be written and not read
    except Exception:
        answer = pickle.dumps((False, RuntimeError("\n".join(error.__notes__))))
    return answer


_MOST_DEATHS = 3
_Told = TypeVar("_Told")


class _Task:
    """A submitted call and, when it is done, its result or error."""

    def __init__(self, key: int, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.key, self.function, self.args = key, function, args
        self.waited_for, self.done, self.deaths = False, False, 0
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def call(self) -> Call:
        kept = (KeptResult(arg.key) if isinstance(arg, _Task) else arg for arg in self.args)
        return Call(self.function, tuple(kept))

    @property
    def needs(self) -> list[_Task]:
        """Tasks whose results it takes."""
        return [arg for arg in self.args if isinstance(arg, _Task)]

    def finish(self, result: Any = None, error: BaseException | None = None) -> None:
        self.done, self.result, self.error, self.args = True, result, error, ()


class _Worker:
    """A process, the task it runs, and the keys of the tasks whose results or recipes it has."""

    def __init__(self) -> None:
        self.link, far_end = Pipe()
        self._beats, far_beats = pipe_that_does_not_block()
        self.silent = 0.0
        self.task: _Task | None = None
        self.known: set[int] = set()
        paths = os.pathsep.join(path for path in sys.path if path)
        with far_end:
            pipe = far_end.fileno()
            program = f"from mfrank.cluster.processes import serve; serve({pipe}, {far_beats})"
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", program],
                pass_fds=[pipe, far_beats],
                env=os.environ | {"PYTHONPATH": paths},
            )
        os.close(far_beats)

    def start(self, task: _Task, live: weakref.WeakValueDictionary[int, _Task]) -> None:
        """Send a task, with the recipes that the worker lacks."""
        self.task, recipes, missing = task, dict[int, Call](), task.needs
        while missing:
            one = missing.pop()
            if one.key not in self.known and one.key not in recipes:
                recipes[one.key] = one.call
                missing += one.needs
        forget = [key for key in self.known if key not in live]
        self.known = self.known.difference(forget).union(recipes)
        self.silent = 0.0
        self.link.send_bytes(pickle.dumps(Order(task.call, recipes, forget), -1))

    def watch(self, seconds: float, patience: float) -> None:
        """Kill the process if it runs a task and gave no sign of life for too long.

        ``seconds`` are those since the last look.
        """
        try:
            heard = len(os.read(self._beats, 1 << 16))
        except BlockingIOError:
            heard = 0
        except OSError:  # it was ended meanwhile
            return
        self.silent = 0.0 if heard or self.task is None else self.silent + seconds
        if self.silent > patience:
            self.process.kill()  # whoever reads or writes its pipe notices

    def end(self) -> int:
        """End the process; return its exit status."""
        self.link.close()
        self.process.kill()
        status = self.process.wait()
        with suppress(OSError):
            os.close(self._beats)
        return status


class Processes:
    """An engine of worker processes; a context manager that ends them.

    Workers do not import the main module again, so a script needs no ``__main__`` guard.

    Parameters
    ----------
    n : int
        Number of workers.
    patience : float, default 120.0
        > 0. Seconds without a heartbeat after which a worker with a task is replaced, because it is
        stopped or hangs; the task restarts on another worker. A task may take any time, because
        heartbeats are sent while it runs.
    """

    relays = False

    def __init__(self, n: int, patience: float = 120.0) -> None:
        check_above_zero(patience=patience)
        self._keys = itertools.count()
        self._live = weakref.WeakValueDictionary[int, _Task]()
        self._queue: list[_Task] = []
        self._workers = [_Worker() for _ in range(n)]
        self._ended = threading.Event()
        watch = (self._workers, float(patience), self._ended)
        self._watch = threading.Thread(target=_watch, args=watch, daemon=True)
        self._watch.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._watch.join()
        for worker in self._workers:
            worker.end()

    def submit(self, function: Callable[..., Any], *args: Any) -> _Task:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        task = _Task(next(self._keys), function, args)
        self._live[task.key] = task
        return task

    def wait(self, tasks: Iterable[_Task]) -> set[_Task]:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        tasks = list(tasks)
        for task in tasks:
            if not task.waited_for:
                self._queue.append(task)
                task.waited_for = True
        self._give_out()
        while not (done := {task for task in tasks if task.done}):
            busy: dict[Any, _Worker] = {w.link: w for w in self._workers if w.task is not None}
            for link in wait(list(busy)):
                self._receive(busy[link])
            self._give_out()
        return done

    def gather(self, tasks: Iterable[_Task]) -> list[Any]:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        tasks = list(tasks)
        left = set(tasks)
        while left:
            left -= self.wait(left)
        for task in tasks:
            if task.error is not None:
                raise task.error
        return [task.result for task in tasks]

    def workers(self, probe: Callable[[], _Told]) -> Sequence[tuple[str, _Told]]:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        tasks = []
        for worker in self._workers:
            task = self.submit(probe)
            task.waited_for = True
            self._start(worker, task)
            tasks.append(task)
        told = self.gather(tasks)
        names = (f"process {worker.process.pid}" for worker in self._workers)
        return list(zip(names, told, strict=True))

    def _give_out(self) -> None:
        """Give tasks to idle workers, first to those that have the task's arguments."""
        while self._queue and (worker := self._idle()):
            near = (task for task in self._queue if self._is_near(task, worker))
            task = next(near, self._queue[0])
            self._queue.remove(task)
            self._start(worker, task)

    def _idle(self) -> _Worker | None:
        """A worker without a task, perhaps one that has just replaced another."""
        return next((worker for worker in self._workers if worker.task is None), None)

    def _is_near(self, task: _Task, worker: _Worker) -> bool:
        """Whether the worker has the task's arguments, or no worker has them."""
        needs = {need.key for need in task.needs}
        return needs <= worker.known or not any(needs & each.known for each in self._workers)

    def _start(self, worker: _Worker, task: _Task) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # noticed where its answer is awaited
            worker.start(task, self._live)

    def _receive(self, worker: _Worker) -> None:
        assert worker.task is not None
        try:
            answer = worker.link.recv_bytes()
        except (EOFError, ConnectionResetError):
            self._replace(worker)
            return
        task, worker.task = worker.task, None
        succeeded, value = pickle.loads(answer)
        if succeeded:
            task.finish(value)
        else:
            task.finish(error=value)

    def _replace(self, worker: _Worker) -> None:
        """Start another worker in place of one that died; its task is to be run again."""
        status, task = worker.end(), worker.task
        assert task is not None
        self._workers[self._workers.index(worker)] = _Worker()
        task.deaths += 1
        if task.deaths < _MOST_DEATHS:
            self._queue.insert(0, task)
            return
        task.finish(
            error=RuntimeError(
                f"one task ended {_MOST_DEATHS} worker processes, the last with exit status "
                f"{status}; if they ran out of memory, use fewer workers or fewer factors; in "
                "Python, see patience of mfrank.cluster.processes.Processes if they were stopped "
                "or hung"
            )
        )


def _watch(workers: list[_Worker], patience: float, ended: threading.Event) -> None:
    """Look at the workers until the end; what was silent is counted only while this thread runs.

    So nobody is given up because all processes were stopped together, as by Ctrl-Z.
    """
    pause = min(BEAT, patience / 4)
    while not ended.wait(pause):
        for worker in list(workers):
            worker.watch(pause, patience)
