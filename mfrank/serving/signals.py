"""What signals do to a service, from its start to its end.

SIGHUP loads the model of the folder, also one that is being loaded when it comes. SIGTERM ends the
process with 0: uvicorn answers what has begun and raises it again; before and after it runs, it
ends the process at once. Ctrl-C stays what Python makes of it. Handlers that the program has are
left as they are, and all are put back in the end; in a thread none can be set.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mfrank.serving.arms import Arms
    from mfrank.serving.live_model import LiveModel

_LAST = 5.0
"""Seconds in which threads may end after the service; then the process does."""
_HANGUP: Any = getattr(signal, "SIGHUP", None)  # Windows has none
_ENDS = [each for each in (signal.SIGTERM, signal.SIGINT, _HANGUP) if each is not None]


class _Hangups:
    """The handler of SIGHUP; one that comes before there is a model is kept for it."""

    def __init__(self) -> None:
        self._live: LiveModel | Arms | None = None
        self._were_any = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self._were_any = True
        if self._live is not None:
            self._live.look_now()

    def are_for(self, live: LiveModel | Arms) -> None:
        """Let this model be loaded anew, at once if it was asked for before."""
        self._live = live
        if self._were_any:
            live.look_now()


@contextmanager
def handled(live: LiveModel | Arms | None = None, *, starting: bool = False) -> Iterator[None]:
    """Within, signals do what the module says.

    Parameters
    ----------
    live : LiveModel or Arms, optional
        What SIGHUP loads anew.
    starting : bool, default False
        Whether the model is yet to come, in a call within.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own: dict[int, Callable[[int, FrameType | None], None]] = {signal.SIGTERM: _end}
    if _HANGUP is not None and (live is not None or starting):
        before = signal.getsignal(_HANGUP)
        hangups = before if isinstance(before, _Hangups) else _Hangups()
        if live is not None:
            hangups.are_for(live)
        own[_HANGUP] = hangups
    replaced = {
        number: signal.signal(number, handler)
        for number, handler in own.items()
        if signal.getsignal(number) in (signal.SIG_DFL, signal.SIG_IGN)
    }
    try:
        yield
    finally:
        for number, before in replaced.items():
            if signal.getsignal(number) is own[number]:  # not where the process ends
                signal.signal(number, before)


def end_soon(code: int) -> None:
    """End the process with this code in a few seconds, whatever its threads do.

    Python waits for its threads before it exits. One that is deep in a kernel is not waited for.
    Signals that come meanwhile would stop the exit halfway, and are ignored.
    """
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_anyway, args=(code,), daemon=True).start()


def _end(_signal: int, _frame: FrameType | None) -> None:
    end_soon(0)
    sys.exit(0)


def _end_anyway(code: int) -> None:
    time.sleep(_LAST)
    os.write(2, b"mfrank: the service ends before a thread that still works does\n")  # no lock
    os._exit(code)
