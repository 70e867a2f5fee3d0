"""What a worker process runs: the calls that arrive on a pipe, until the pipe is closed."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

__all__ = ["BEAT", "Call", "Kept", "Order", "Results", "serve"]

BEAT = 1.0
"""Seconds between two signs of life."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An argument that stands for the result of another call, which stays on the worker."""

    key: int


class Call(NamedTuple):
    """A function and its arguments, some of them perhaps :class:`Kept`."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


class Order(NamedTuple):
    """A message to a worker.

    Attributes
    ----------
    call : Call
        To be run now; the worker answers whether it succeeded, and the result or the error.
    recipes : dict of Call
        Calls by key, which are run when their results are first needed and then kept.
    forget : iterable of int
        Keys that no call will need again.
    """

    call: Call
    recipes: dict[int, Call]
    forget: Iterable[int]


class Results:
    """Results of calls that other calls take."""

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
        if not isinstance(arg, Kept):
            return arg
        if arg.key in self._recipes:
            # The recipe may hold data, which its result then holds in its own form.
            self._results[arg.key] = self._run(self._recipes[arg.key])
            del self._recipes[arg.key]
        return self._results[arg.key]


def serve(descriptor: int, beats: int) -> None:
    """Carry out the orders that arrive on a pipe until its other end is closed.

    ``beats`` is a pipe for signs of life, which does not block.
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
    """Give signs of life, until nobody reads them; a kernel lets this thread run beside it."""
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
