"""Several processes that answer at one address, watched by the process that began them.

They accept connections from one socket: one that no process has accepted yet waits for the others
when a process dies. (With a socket for each, as SO_REUSEPORT has it, those that wait at the dead
process would be cut off.) uvicorn's own supervisor is not used: it knows no wait for ``/ready``
before the end, and restarts processes on SIGHUP instead of letting them load their models.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from types import FrameType
from typing import Any

from fastapi import FastAPI

from mfrank._system import BLOCKS_SIGNALS, leave_group, signals_blocked, unblock_signals
from mfrank.arrays import needs, usable_cores
from mfrank.errors import InputTypeError, InputValueError
from mfrank.serving.measures import FOLDER, forget
from mfrank.serving.signals import end_soon, handled

_LOG = logging.getLogger("mfrank.serving")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until another process is begun where one could not start: they double each time."""
_SIGNALS = [
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
]
_PROCESSES = get_context("spawn")  # a fork would take over threads' locks, but not the threads

Make = Callable[[], FastAPI]
Answer = Callable[[FastAPI, Callable[[], None]], None]
"""Answers requests until the process is told to end; calls the function once it does."""


@dataclass(frozen=True)
class Job:
    """What a worker does.

    Attributes
    ----------
    make : callable
        Makes the application.
    answer : callable
        Answers with it.
    n : int
        Number of workers.
    folder : str
        In which they count together.
    """

    make: Make
    answer: Answer
    n: int
    folder: str = ""


class _Answerer:
    """A process that answers, and what it reports: that it is ready, log records, or an error."""

    def __init__(self, job: Job) -> None:
        self.reports, theirs = _PROCESSES.Pipe(duplex=False)
        self.process = _PROCESSES.Process(target=_work, args=(job, theirs), daemon=True)
        self.is_ready = False
        self.error: Exception | None = None
        resource_tracker.ensure_running()  # it would change the mask that follows
        with signals_blocked(_SIGNALS):  # until the worker has handlers
            self.process.start()
        theirs.close()

    def read(self, *, with_records: bool) -> None:
        """Take its reports; its log records are logged here, if wanted."""
        with suppress(EOFError, OSError):
            while self.reports.poll():
                report = self.reports.recv()
                if isinstance(report, logging.LogRecord):
                    if with_records:
                        logging.getLogger(report.name).handle(report)
                elif isinstance(report, Exception):
                    self.error = report
                else:
                    self.is_ready = True

    def get(self, number: int) -> None:
        """Send it a signal."""
        pid = self.process.pid
        if pid is not None and self.process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    @property
    def fate(self) -> str:
        """How it ended."""
        code = self.process.exitcode or 0
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class Workers:
    """The processes of a service.

    Parameters
    ----------
    job : Job
    place : socket
        At which they answer; closed here when they are told to end.
    """

    def __init__(self, job: Job, place: socket.socket) -> None:
        self._job, self._place = job, place
        self._all: list[_Answerer] = []
        self._got: list[int] = []
        self._is_up = False
        self._pause, self._due = 0.0, list[float]()

    def run(self, announce: Callable[[], None]) -> None:
        """Begin, watch and end them; ``announce`` is called when the first one answers.

        Raises
        ------
        Exception
            The first one's, if it cannot start, or a later one's, if no other answers.
        KeyboardInterrupt
            After Ctrl-C.
        """
        try:
            with self._signals():
                self._begin()
                while not (self._is_ending or self._is_up):
                    self._wait()
                if not self._is_ending:
                    announce()
                    for _ in range(self._job.n - 1):
                        self._begin()
                while self._all or (self._due and not self._is_ending):
                    self._wait()
        finally:
            for worker in self._all:  # an error: they have no reason to go on
                worker.process.kill()
        if signal.SIGINT in self._got:
            raise KeyboardInterrupt

    @property
    def _is_ending(self) -> bool:
        return signal.SIGTERM in self._got or signal.SIGINT in self._got

    def _begin(self) -> None:
        self._all.append(worker := _Answerer(self._job))
        for number in self._got:  # one that came before it was listed here
            if number in (signal.SIGTERM, signal.SIGINT):
                worker.get(number)

    def _wait(self) -> None:
        """Wait until something happens, and see to it."""
        now = time.monotonic()
        what = [each for one in self._all for each in (one.process.sentinel, one.reports)]
        seconds = max(0.0, min(self._due, default=now + 1) - now)
        connection.wait([each for each in what if not getattr(each, "closed", False)], seconds)
        if self._is_ending:
            self._place.close()  # so that nobody waits there once the workers have closed it
        for worker in [*self._all]:
            # All say the same while they begin: it is told once.
            worker.read(with_records=worker.is_ready or not self._is_up)
            self._is_up |= worker.is_ready
            if not worker.process.is_alive():
                self._replace(worker)
        if self._due and time.monotonic() >= self._due[0] and not self._is_ending:
            self._due.pop(0)
            self._begin()

    def _replace(self, dead: _Answerer) -> None:
        """Let another worker take the place of one that has ended."""
        dead.read(with_records=True)
        dead.process.join()
        dead.reports.close()
        self._all.remove(dead)
        forget(dead.process.pid, self._job.folder)
        if self._is_ending:
            return
        if dead.is_ready:
            _LOG.warning("a worker has ended (%s): another one begins", dead.fate)
            self._pause = 0.0
            self._due.append(time.monotonic())
            return
        error = dead.error or RuntimeError(f"a worker ended before it answered ({dead.fate})")
        was_killed = (dead.process.exitcode or 0) < 0  # by somebody, or by a lack of memory
        if not any(each.is_ready for each in self._all) and not (self._is_up and was_killed):
            raise error
        self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
        _LOG.warning("a worker could not begin, and is tried again: %s", error)
        self._due.append(time.monotonic() + self._pause)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Within, signals go to the workers, which do with them what a single process does."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def hand_on(number: int, _: FrameType | None) -> None:
            self._got.append(number)
            for worker in self._all:
                worker.get(number)

        before = {each: signal.signal(each, hand_on) for each in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def several(
    make: Make, answer: Answer, n: int, place: socket.socket, announce: Callable[[], None]
) -> None:
    """Let ``n`` processes make an application each, and answer with it at one socket.

    Raises
    ------
    TypeError
        ``make`` cannot be sent to another process.
    ValueError
        The application cannot be one of several, as :func:`check_shareable` says.
    """
    if not BLOCKS_SIGNALS:
        raise InputValueError(
            "`workers` above 1 need a system with POSIX signals", "start services at several ports"
        )
    with needs("serve", "counting over several processes needs prometheus_client"):
        import prometheus_client.multiprocess  # noqa: F401
    try:
        pickle.dumps(make)
    except Exception as error:
        raise InputTypeError(
            "`application` cannot be sent to workers: "
            f"it must be a function of a module or a functools.partial of one ({error})"
        ) from None
    with tempfile.TemporaryDirectory(prefix="mfrank-") as folder:
        Workers(Job(make, answer, n, folder), place).run(announce)


def check_shareable(application: FastAPI) -> None:
    """Raise ValueError where each of several processes would answer in its own way."""
    arms = application.state.arms
    if any(arm.live.folder is None for arm in arms):
        raise InputValueError(
            "`workers` above 1 need a `model` that is a folder, which all of them follow:",
            "save it and pass its folder",
        )
    shown = arms.first.visitors.shown
    if shown is not None and not shown.is_shared:
        raise InputValueError(
            "`remember_shown` with `workers` above 1: each would only know its own lists",
            "pass `shown_file`, a file that all of them share",
        )


def _work(job: Job, reports: Any) -> None:
    """A worker's whole life."""
    leave_group()  # Ctrl-C in a terminal goes to the watching process, which hands it on
    os.environ[FOLDER] = job.folder
    threading.Thread(target=_end_with_parent, daemon=True).start()
    handler = _Reporting(reports)
    logger = logging.getLogger("mfrank")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with handled(starting=True):
            unblock_signals(_SIGNALS)
            application = job.make()
            check_shareable(application)
            keys = application.state.keys
            if keys is not None and keys.have_rates:
                _LOG.warning("each of %d workers counts the requests of keys by itself", job.n)
            for arm in application.state.arms:
                arm.live.hold_always(application.state.limits.max_page_seconds)
            application.state.desk.use_threads(-(-usable_cores() // job.n))
            job.answer(application, handler.tell_ready)
    except KeyboardInterrupt:
        end_soon(130)
        sys.exit(130)
    except Exception as error:
        error.add_note(f"in a worker:\n{traceback.format_exc()}")
        handler.tell(error)
        sys.exit(1)


class _Reporting(logging.handlers.QueueHandler):
    """Sends log records, and more, to the watching process."""

    queue: Any  # a connection

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send a record; the lock of the handler is held."""
        with suppress(OSError):
            self.queue.send(record)

    def tell(self, what: Any) -> None:
        """Send something else."""
        assert self.lock is not None
        try:
            pickle.loads(pickle.dumps(what))
        except Exception:
            what = RuntimeError(f"{type(what).__name__}: {what}")
        with self.lock, suppress(OSError):
            self.queue.send(what)

    def tell_ready(self) -> None:
        """Say that this worker answers."""
        self.tell("ready")


def _end_with_parent() -> None:
    """End in order when the watching process is gone, whatever ended it."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
