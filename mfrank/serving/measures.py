"""What is noted of requests: counts and times as Prometheus reads them, and a line each in a log.

One process counts by itself, which costs a request a microsecond. Where several processes answer at
one address, prometheus_client keeps their counts in a folder, and each process tells those of all.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import queue
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mfrank._version import __version__
from mfrank.arrays import needs
from mfrank.serving.live_model import LiveModel

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client knows that several processes count together."""

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
    ("loaded_seconds", "gauge", "Unix time of the earliest load.", lambda live: live.since),
    ("users", "gauge", "Users of the model.", lambda live: len(live.current.user_ids)),
    ("items", "gauge", "Items of the model.", lambda live: len(live.current.item_ids)),
    ("reloads_total", "counter", "Newer models loaded.", lambda live: live.loads),
    ("reload_failures_total", "counter", "Unreadable models.", lambda live: live.failures),
)
"""Measures of a model: name, kind, what it is, and its value."""


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


class SharedMeasures:
    """The same for several processes: what each has counted stays in a folder when it ends.

    Raises
    ------
    ModuleNotFoundError
        prometheus_client is not installed.
    """

    def __init__(self) -> None:
        with needs("serve", "counting over several processes needs prometheus_client"):
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        own: dict[str, Any] = {"registry": CollectorRegistry()}

        def counter(name: str, about: str, *labels: str) -> Any:
            return Counter(f"mfrank_{name}", about, labels, **own)

        def gauge(name: str, about: str, *labels: str, mode: Any = "livemin") -> Any:
            return Gauge(f"mfrank_{name}", about, labels, multiprocess_mode=mode, **own)

        self._makers = {"counter": counter, "gauge": gauge}
        self._answered = counter("requests", "Requests answered.", "route", "method", "status")
        self._of_arms = counter("arm_answers", "Lists, scores, explanations.", "arm")
        self._seconds = Histogram(
            "mfrank_request_seconds", "Time to an answer.", ["route"], buckets=_BUCKETS, **own
        )
        about = "Requests not yet answered."
        self._waiting = gauge("requests_in_progress", about, mode="livesum")
        self._in_progress = 0
        self._of_models: dict[str, Any] = {}
        self._noted = defaultdict[tuple[str | None, str], float](float)
        gauge("info", "Version.", "version", mode="max").labels(__version__).set(1)
        gauge("start_time_seconds", "Unix time of the start.", mode="min").set(time.time())
        gauge("workers", "Processes that answer.", mode="livesum").set(1)

    @property
    def in_progress(self) -> int:
        """Requests of this process that are not yet answered."""
        return self._in_progress

    @in_progress.setter
    def in_progress(self, number: int) -> None:
        self._in_progress = number
        self._waiting.set(number)

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._answered.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def add_arms(self, counts: Mapping[str, int]) -> None:
        """Count the lists, scores and explanations of an answer by their arms."""
        for name, count in counts.items():
            self._of_arms.labels(name).inc(count)

    def note(self, *lives: LiveModel) -> None:
        """Let the other processes know of this one's models."""
        for live in lives:
            labels = {} if live.name is None else {"arm": live.name}
            for name, kind, about, read in _OF_MODELS:
                if name not in self._of_models:
                    self._of_models[name] = self._makers[kind](name, about, *labels)
                metric, value, of = self._of_models[name], read(live), (live.name, name)
                child = metric.labels(**labels) if labels else metric
                if kind == "gauge":
                    child.set(value)
                else:
                    child.inc(value - self._noted[of])
                    self._noted[of] = value

    def text(self, *lives: LiveModel) -> str:
        """The measures of all processes, one a line."""
        from prometheus_client import CollectorRegistry, generate_latest

        self.note(*lives)
        every, collector = CollectorRegistry(), _Written(Path(os.environ[FOLDER]))
        every.register(collector)
        return str(generate_latest(every).decode())


class _Written:
    """What the processes have written; a file that one of them has only just begun is empty."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Any:
        """As the collector of prometheus_client, which fails at an empty file."""
        from prometheus_client import multiprocess

        files: list[str] = []
        for each in self._folder.glob("*.db"):
            with suppress(FileNotFoundError):
                files += [str(each)] * bool(each.stat().st_size)
        anything: Any = multiprocess
        return anything.MultiProcessCollector.merge(files, accumulate=True)


AnyMeasures = Measures | SharedMeasures


def measures_of_now() -> AnyMeasures:
    """Those of this process alone, unless prometheus_client's variable names a folder for many."""
    return SharedMeasures() if os.environ.get(FOLDER) else Measures()


def forget(process: int | None, folder: str) -> None:
    """Let a process that has ended no longer count among those that answer."""
    from prometheus_client import multiprocess

    anything: Any = multiprocess
    anything.mark_process_dead(process, folder)


# The log: one JSON line for each request, without ids of users or items.

_FORMAT = "%Y-%m-%dT%H:%M:%S"


class RequestLog:
    """Writes lines in a thread, so that a slow disk or a full pipe holds up no request.

    Parameters
    ----------
    path : str
        A file, to which lines are appended, or "-" for the standard output. A file that is renamed,
        as by logrotate, is opened anew.

    Raises
    ------
    OSError
        The file cannot be written.
    """

    def __init__(self, path: str) -> None:
        writing: logging.Handler = (
            logging.StreamHandler(sys.stdout)
            if path == "-"
            else logging.handlers.WatchedFileHandler(path, encoding="utf-8")
        )
        waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._put = waiting.put
        self._listener = logging.handlers.QueueListener(waiting, writing)
        self._writing = writing
        self._is_open = False

    def start(self) -> None:
        """Begin to write."""
        if not self._is_open:
            self._listener.start()
            self._is_open = True

    def stop(self) -> None:
        """Write what waits, and end."""
        if self._is_open:
            self._listener.stop()
            self._is_open = False
        self._writing.close()

    def add(self, **told: Any) -> None:
        """Write a line with the time of now."""
        now = time.time()
        moment = time.strftime(_FORMAT, time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        line = json.dumps({"time": moment, **told}, separators=(",", ":"))
        self._put(logging.makeLogRecord({"msg": line, "levelno": logging.INFO}))
