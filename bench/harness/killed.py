"""A process that ingests, fits or recommends, and kills itself or one of its workers meanwhile.

It strikes a given delay after a given call of the stage's function begins, or at the end of that
call if that comes sooner. ``run`` starts it and tells how it ended; without anything to kill it
tells how often the function of each stage is called, and how long a call takes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import mfrank
from mfrank.als import HalfSteps
from mfrank.backends.sharded import Routes, Sharded, ShardedHalfStep, blocks
from mfrank.cluster import Processes
from mfrank.data import ingest as ingest_module
from mfrank.files import journal
from mfrank.models import Checkpoint
from mfrank.models import als as als_module
from mfrank.retrieval import AllLists, all_lists

__all__ = ["STAGES", "Ended", "Stage", "run"]

N_WORKERS = 2


def ingest(place: Path, engine: Any) -> None:
    """Read the files into a folder of interactions, with a note after each step."""
    journal._SECONDS = journal._SHARE = 0
    ingest_module._ENTRIES_AT_ONCE = 10_000
    mfrank.Interactions.ingest(sorted(place.glob("*.csv")), place / "data")


def fit(place: Path, engine: Any) -> None:
    """Fit to the folder of interactions with a checkpoint."""
    model = mfrank.ALS(mfrank.RGX(), factors=8, iterations=4, random_state=0, n_threads=1)
    data = mfrank.Interactions.open(place / "data")
    save(model.fit(data, checkpoint=place / "state", cluster=engine), place)


def save(model: mfrank.ALS, place: Path) -> None:
    """Save the model, twice, as over an older one."""
    model.save(place / "model")
    model.save(place / "model")


def recommend(place: Path, engine: Any) -> None:
    """Write the lists of all users."""
    mfrank.load(place / "model").recommend_all(place / "lists", format="csv", cluster=engine)


class Stage(NamedTuple):
    """What is done, the function during which something is killed, and what can be killed then."""

    operation: str
    owner: Any
    function: str
    victims: tuple[str, ...]


_HERE = sys.modules[__name__]
_ANY = ("worker", "client")
STAGES = {
    "ingest": Stage("ingest", _HERE, "ingest", ("client",)),
    "note of an ingest": Stage("ingest", journal.Journal, "_note", ("client",)),
    "start of a fit": Stage("fit", als_module, "first_factors", _ANY),
    "blocks sent": Stage("fit", Routes, "_found", _ANY),
    "half-step": Stage("fit", Sharded, "solve_rows", _ANY),
    "popular items": Stage("fit", ShardedHalfStep, "sums", _ANY),
    "Gram matrix": Stage("fit", HalfSteps, "user_gram", _ANY),
    "checkpoint": Stage("fit", Checkpoint, "save", _ANY),
    "half-step saved": Stage("fit", Checkpoint, "save_half_step", _ANY),
    "save of the model": Stage("fit", _HERE, "save", _ANY),
    "lists of all users": Stage("recommend", AllLists, "write", _ANY),
}


class Ended(NamedTuple):
    """How a process ended: its status, what it told, and how many of its workers live on."""

    status: int
    told: dict[str, Any]
    workers_left: int


def run(place: Path, operation: str, strike: dict[str, Any] | None = None) -> Ended:
    """Run an operation in a process of its own.

    ``strike`` has the ``stage``, the ``victim``, the number of the ``call``, from 1, and the
    ``delay`` in seconds.
    """
    child = subprocess.run(
        [sys.executable, __file__, str(place), operation, json.dumps(strike)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    workers = lines[0]["workers"] if lines else []
    until = perf_counter() + 10
    while (left := sum(map(_lives, workers))) and perf_counter() < until:
        threading.Event().wait(0.05)  # a worker ends when its task is done
    return Ended(child.returncode, lines[-1] if lines else {}, left)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class _Striker:
    """Kills at one call of a function."""

    def __init__(self, workers: list[int], strike: dict[str, Any]) -> None:
        self._victim = os.getpid() if strike["victim"] == "client" else workers[0]
        self._call, self._delay, self._struck = strike["call"], strike["delay"], threading.Lock()

    def watch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._call -= 1
            if self._call:
                return function(*args, **kwargs)
            timer = threading.Timer(self._delay, self._strike)
            timer.daemon = True
            timer.start()
            result = function(*args, **kwargs)
            self._strike()
            return result

        return watched

    def _strike(self) -> None:
        if self._struck.acquire(blocking=False):
            print(json.dumps({"struck": True}), flush=True)
            os.kill(self._victim, signal.SIGKILL)


def _timed(seconds: list[float], function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = perf_counter()
        result = function(*args, **kwargs)
        seconds.append(perf_counter() - began)
        return result

    return timed


def _child(place: str, operation: str, strike: dict[str, Any] | None) -> None:
    blocks._FEWEST_ENTRIES = 5_000
    all_lists._PLACES_AT_ONCE = 1_000
    with Processes(N_WORKERS) as engine:
        pids = [worker.process.pid for worker in engine._workers]
        print(json.dumps({"workers": pids}), flush=True)
        seconds = defaultdict[str, list[float]](list)
        for name, stage in STAGES.items():
            function = getattr(stage.owner, stage.function)
            if strike is None:
                function = _timed(seconds[name], function)
            elif strike["stage"] == name:
                function = _Striker(pids, strike).watch(function)
            setattr(stage.owner, stage.function, function)
        getattr(_HERE, operation)(Path(place), engine)
    if strike is None:
        calls = {name: [len(some), median(some)] for name, some in seconds.items() if some}
        print(json.dumps(calls), flush=True)


if __name__ == "__main__":
    _child(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
