"""Work that is counted on a progress bar, and limited in time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from mfrank.arrays.checks import check_flags

_WIDTH = 70
_MANY = 100_000  # from here on tqdm prints 1.2M instead of 1234567


class Advance(Protocol):
    """Reports progress to the bar."""

    def __call__(self, n: int, note: str = "") -> None:
        """Count ``n`` more units and show ``note`` after the count."""


@contextmanager
def progress_bar(
    total: int | None, label: str, unit: str, *, shown: bool = True
) -> Iterator[Advance]:
    """Show the progress and the remaining time; yield the function that advances it.

    This is a tqdm bar if tqdm is installed (``pip install mfrank[progress]``), otherwise a line of
    text that is overwritten. Nothing is shown if ``shown`` is False.

    Parameters
    ----------
    total : int or None
        Units of the whole work; None if unknown.
    label, unit : str
        Names of the work and of a unit, in the singular.
    shown : bool, default True
    """
    check_flags(show_progress=shown)
    if not shown:
        yield lambda n, note="": None
        return
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        with _plain(total, label, unit) as advance:
            yield advance
        return
    many = total is None or total >= _MANY
    with tqdm(total=total, desc=label, unit=unit, unit_scale=many) as bar:

        def advance(n: int, note: str = "") -> None:
            if note:
                bar.set_postfix_str(note, refresh=False)
            bar.update(n)

        yield advance


@contextmanager
def _plain(total: int | None, label: str, unit: str) -> Iterator[Advance]:
    began, done = perf_counter(), 0

    def advance(n: int, note: str = "") -> None:
        nonlocal done
        done += n
        behind = f", {note}" if note else ""
        if total is None:
            _overwrite(f"{label}: {unit} {done:,}{behind}")
            return
        left = (perf_counter() - began) / max(done, 1) * (total - done)
        _overwrite(f"{label}: {unit} {done}/{total}{behind}, {left:.0f} s left")

    try:
        _overwrite(f"{label}: {unit} 0" + ("" if total is None else f"/{total}"))
        yield advance
    finally:
        sys.stderr.write("\n")


def _overwrite(line: str) -> None:
    """Overwrite the previous line, which may be longer."""
    sys.stderr.write(f"\r{line:<{_WIDTH}}")
    sys.stderr.flush()


# A time limit: the caller sets it, and long loops check it between blocks of work.
#
#     with time_limit(60.0):
#         model.fit(data)  # raises OutOfTimeError after a minute, or once a minute proves too short
#
# Without a limit the calls in the loops do nothing.


_KNOWN_PACE = 0.05
"""Fraction of the limit after which the pace is used to predict the end."""


class OutOfTimeError(TimeoutError):
    """Work took, or would take, longer than its limit."""


@dataclass(frozen=True, slots=True)
class _Limit:
    seconds: float
    ends: float
    clock: Callable[[], float]


_limit: ContextVar[_Limit | None] = ContextVar("time_limit", default=None)


@contextmanager
def time_limit(seconds: float, clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
    """Limit the time of the body in this thread; an outer limit that ends sooner still applies."""
    ends, around = clock() + seconds, _limit.get()
    if around is not None and around.ends < ends:
        yield
        return
    token = _limit.set(_Limit(seconds, ends, clock))
    try:
        yield
    finally:
        _limit.reset(token)


def check_time() -> None:
    """Raise if the time is over.

    Raises
    ------
    OutOfTimeError
    """
    limit = _limit.get()
    if limit is not None and limit.clock() >= limit.ends:
        raise OutOfTimeError(
            f"stopped after {max(limit.seconds, 0.0):.3g} s: there is no more time"
        )


class Work:
    """Work of a known size, abandoned once its pace shows that it will take too long."""

    def __init__(self, size: float) -> None:
        limit = _limit.get()
        self._size, self._done = size, 0.0
        self._began = 0.0 if limit is None else limit.clock()

    def advance(self, size: float = 1.0) -> None:
        """Count work that is done.

        Raises
        ------
        OutOfTimeError
            The time is over, or will be before the end at the present pace.
        """
        limit = _limit.get()
        self._done += size
        if limit is None or self._done >= self._size:
            return
        check_time()
        now = limit.clock()
        took = now - self._began
        to_come = took * (self._size / self._done - 1) if self._done else 0.0
        if took >= _KNOWN_PACE * limit.seconds and now + to_come > limit.ends:
            raise OutOfTimeError(
                f"given up after {took:.3g} s: it would take about {took + to_come:.3g} s, "
                f"of which there are {took + limit.ends - now:.3g}"
            )
