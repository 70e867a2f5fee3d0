"""Limits on requests, and work that ends when nobody waits for it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

from mfrank.arrays.checks import check_above_zero, check_count
from mfrank.arrays.time_limit import check_time, time_limit

__all__ = ["Limits", "in_time"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class Limits:
    """The most that a request, or a connection, may ask; more is refused before any work.

    Parameters
    ----------
    max_body : int, default 1048576
        Bytes of a request's body.
    max_batch : int, default 1000
        Users, items or filtered ids in a request.
    max_n : int, default 1000
        Length of a list.
    max_seconds : float, default 10
        Seconds until a request is answered, including its waiting time.
    max_waiting : int, default 256
        Requests that wait or are worked on at a time; further ones are told to try again later.
    max_steered : int, default 10000000
        Users x n x n of a request with diversity, whose lists are chosen place by place: a core
        chooses about this many in two seconds.
    max_connections : int, default 512
        Open connections.
    max_headers : int, default 65536
        Bytes of a request's first line and headers.
    max_header_seconds : float, default 10
        Seconds until these have arrived, from the opening of a connection or their first byte.

    Raises
    ------
    TypeError, ValueError
        A limit is not a number above 0.
    """

    max_body: int = 2**20
    max_batch: int = 1000
    max_n: int = 1000
    max_seconds: float = 10.0
    max_waiting: int = 256
    max_steered: int = 10**7
    max_connections: int = 512
    max_headers: int = 2**16
    max_header_seconds: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_seconds"):
                check_above_zero(**{field.name: value})
            else:
                check_count(field.name, value, 1)

    @property
    def usual_n(self) -> int:
        """Length of a list where a request does not say it."""
        return min(10, self.max_n)


def in_time(work: Callable[[], _T], seconds: float, nobody_waits: threading.Event) -> _T:
    """What ``work`` returns, in a thread that others wait for, with a time limit.

    The work gives up at its next :func:`mfrank.arrays.time_limit.check_time` when the time is over,
    or when nobody waits anymore, because it is too late already or the client has gone.

    Raises
    ------
    OutOfTimeError
    """

    def clock() -> float:
        return math.inf if nobody_waits.is_set() else time.perf_counter()

    with time_limit(seconds, clock):
        check_time()
        return work()
