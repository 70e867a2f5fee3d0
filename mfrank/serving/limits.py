"""Limits of requests, work that ends when no request waits for it, and measurements."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from typing import TypeVar

from mfrank._version import __version__
from mfrank.arrays import check_above_zero, check_count, check_time, time_limit
from mfrank.serving.live_model import LiveModel

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


# Counts and times of requests, in the text format that Prometheus reads.


_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Measures:
    """Counts and durations of requests by route; used only by the thread of the event loop."""

    def __init__(self) -> None:
        self.in_progress = 0
        self._answered: Counter[tuple[str, str, int]] = Counter()
        self._of_arms: Counter[str] = Counter()
        self._seconds: defaultdict[str, list[float]] = defaultdict(
            lambda: [0.0] * (len(_BUCKETS) + 2)
        )
        self._began = time.time()

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._answered[route, method, status] += 1
        row = self._seconds[route]
        row[bisect_left(_BUCKETS, seconds)] += 1
        row[-1] += seconds

    def add_arms(self, counts: Mapping[str, int]) -> None:
        """Count the lists, scores and explanations of an answer by their arms."""
        self._of_arms.update(counts)

    def text(self, *lives: LiveModel) -> str:
        """All measures, one a line."""
        lines: list[str] = []

        def family(name: str, kind: str, about: str, *samples: tuple[str, float]) -> None:
            lines.extend((f"# HELP mfrank_{name} {about}", f"# TYPE mfrank_{name} {kind}"))
            lines.extend(f"mfrank_{name}{suffix} {value:.15g}" for suffix, value in samples)

        family("info", "gauge", "Version.", (_labels(version=__version__), 1))
        family(
            "requests_total",
            "counter",
            "Requests answered.",
            *(
                (_labels(route=route, method=method, status=str(status)), count)
                for (route, method, status), count in sorted(self._answered.items())
            ),
        )
        family("request_seconds", "histogram", "Time to an answer.", *self._histogram())
        family(
            "requests_in_progress", "gauge", "Requests not yet answered.", ("", self.in_progress)
        )
        family("start_time_seconds", "gauge", "Unix time of the start.", ("", self._began))
        if self._of_arms:
            counts = sorted(self._of_arms.items())
            samples = [(_labels(arm=name), float(count)) for name, count in counts]
            family("arm_answers_total", "counter", "Lists, scores, explanations.", *samples)
        for name, kind, about, read in _OF_MODELS:
            each = [("" if o.name is None else _labels(arm=o.name), read(o)) for o in lives]
            family(f"model_{name}", kind, about, *each)
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[tuple[str, float]]:
        samples = []
        for route, row in sorted(self._seconds.items()):
            counts, total = row[:-1], 0.0
            for bound, count in zip((*map(str, _BUCKETS), "+Inf"), counts, strict=True):
                total += count
                samples.append(("_bucket" + _labels(route=route, le=bound), total))
            samples.append(("_sum" + _labels(route=route), row[-1]))
            samples.append(("_count" + _labels(route=route), total))
        return samples


_OF_MODELS: tuple[tuple[str, str, str, Callable[[LiveModel], float]], ...] = (
    ("loaded_seconds", "gauge", "Unix time of the load.", lambda live: live.since),
    ("users", "gauge", "Users of the model.", lambda live: len(live.current.user_ids)),
    ("items", "gauge", "Items of the model.", lambda live: len(live.current.item_ids)),
    ("reloads_total", "counter", "Newer models loaded.", lambda live: live.loads),
    ("reload_failures_total", "counter", "Unreadable models.", lambda live: live.failures),
)
"""Measures of a model: name, kind, what it is, and its value."""


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
