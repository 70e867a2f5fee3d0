"""Limits of requests, and work that ends when no request waits for it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from typing import TypeVar

from mfrank.arrays import check_above_zero, check_count, check_time, time_limit

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Limits of requests and connections; requests beyond them are refused before any work.

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
        Concurrent requests, waiting or in progress; further requests get a "try again later".
    max_steered : int, default 10000000
        Users x n x n of a request with diversity, whose lists are filled position by position; one
        core handles about this many in two seconds.
    max_depth : int, default 10000
        Place down to which pages of a list go.
    max_page_seconds : float, default 600
        Seconds that a replaced model is held for further pages, from the last page on.
    max_connections : int, default 512
        Open connections.
    max_headers : int, default 65536
        Bytes of a request's first line and headers.
    max_header_seconds : float, default 10
        Seconds until the headers have arrived, from the opening of a connection or their first
        byte.

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
    max_depth: int = 10**4
    max_page_seconds: float = 600.0
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
        """Default length of a list."""
        return min(10, self.max_n)


def in_time(work: Callable[[], T], seconds: float, nobody_waits: Callable[[], bool]) -> T:
    """The result of ``work``, in a thread of a shared pool, with a time limit.

    The work stops at its next :func:`mfrank.arrays.work.check_time` when the time is over or no
    request waits for it any more, because of a timeout or a closed connection.

    Raises
    ------
    OutOfTimeError
    """

    def clock() -> float:
        return math.inf if nobody_waits() else time.perf_counter()

    with time_limit(seconds, clock):
        check_time()
        return work()


async def in_thread(pool: Executor, work: Callable[[], T], seconds: float) -> T:
    """The result of ``work``, in a thread of a pool; stopped when this call is cancelled.

    Raises
    ------
    OutOfTimeError
    """
    nobody_waits, loop = threading.Event(), asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(pool, in_time, work, seconds, nobody_waits.is_set)
    finally:
        nobody_waits.set()
