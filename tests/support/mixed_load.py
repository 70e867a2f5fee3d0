"""Everything at once on a service of two workers, and what became of it.

    python tests/support/mixed_load.py --minutes 10

Clients ask for lists, filtered lists, batches and pages, and send events. Meanwhile the model is
updated from the journal of these events, replaced and rolled back, and workers are killed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import numpy as np

import mfrank
from mfrank import serving
from mfrank.models import roll_back

GENRES = ("Comedy", "Drama|War", "Western")
GONE: dict[str, Any] = {}
"""The answer where a new worker has never held the model that a page was begun with."""


@dataclass
class Outcome:
    """What happened.

    Attributes
    ----------
    answers : Counter
        Of the statuses of requests, by what was asked: ``("page", 200)``.
    cut_off : int
        Requests over a connection that a killed worker held; each was sent again.
    failed : list of str
        Requests that failed otherwise.
    acknowledged : set of str
        Ids of the events that were.
    in_journal : int
        Events at the end.
    kills, updates, rollbacks : int
    held : list of (minute, MiB, MiB)
        Memory of the service, pages that processes share counted once, and of its oldest worker.
    """

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    cut_off: int = 0
    failed: list[str] = field(default_factory=list)
    acknowledged: set[str] = field(default_factory=set)
    in_journal: int = 0
    kills: int = 0
    updates: int = 0
    rollbacks: int = 0
    held: list[tuple[float, float, float]] = field(default_factory=list)


class Client:
    """Somebody who keeps a connection open, and sends a request again if it is cut off."""

    def __init__(self, port: int, seed: int, model: Any, outcome: Outcome, ended: Any) -> None:
        self._port, self._outcome, self._ended = port, outcome, ended
        self._rng, self._name = np.random.default_rng(seed), f"client-{seed}"
        self._users = [str(each) for each in model.user_ids.labels.tolist()]
        self._items = [str(each) for each in model.item_ids.labels.tolist()]
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def run(self) -> None:
        """Ask until it has ended."""
        number = 0
        while not self._ended.is_set():
            user, other = self._rng.choice(self._users, 2)
            item, share = self._rng.choice(self._items), self._rng.random()
            self._ask("list", f"/recommend/{user}?n=10")
            self._ask("filtered", f"/recommend/{user}?where=year>=1980&fields=title,genres")
            self._ask("filtered", f"/recommend/{user}?popularity_penalty={share:.3f}")
            self._ask("similar", f"/similar/{item}?exclude={item}")
            self._ask("batch", "/recommend", {"users": [user, other], "n": 5})
            self._ask("new user", "/recommend", {"from_items": [item], "n": 5})
            event = {"user": user, "item": item, "id": f"{self._name}-{number}"}
            if self._ask("events", "/events", {"events": [event]}) is not None:
                self._outcome.acknowledged.add(event["id"])
            page = self._ask("page", f"/recommend/{other}?n=5&offset=0")
            if page is not None and page["next"]:
                self._connection.close()  # the next page may come to another worker
                if self._ask("page", f"/recommend/{other}?cursor={page['next']}") is GONE:
                    self._ask("page", f"/recommend/{other}?n=5&offset=5")
            number += 1
        self._connection.close()

    def _ask(self, what: str, path: str, body: Any = None) -> Any:
        """The answer; None if the request has failed, which is noted."""
        for attempt in range(2):
            try:
                return self._answer(what, path, body)
            except (HTTPException, OSError) as error:
                self._connection.close()
                if attempt:
                    self._outcome.failed.append(f"{what} {path}: {error!r}")
                else:
                    self._outcome.cut_off += 1
        return None

    def _answer(self, what: str, path: str, body: Any) -> Any:
        sent = None if body is None else json.dumps(body)
        method, headers = "GET" if body is None else "POST", {"content-type": "application/json"}
        self._connection.request(method, path, sent, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        self._outcome.answers[what, answer.status] += 1
        if answer.status == 410 and what == "page":
            return GONE
        if answer.status != 200:
            self._outcome.failed.append(f"{what} {path}: {answer.status} {content[:200]!r}")
            return None
        return json.loads(content)


def workers_of(process: int) -> list[int]:
    """The workers of a process of ``mfrank serve``."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process and b"spawn_main" in (each / "cmdline").read_bytes():
                found.append(int(each.name))
        except OSError:  # it has ended
            continue
    return sorted(found)


def _memory(process: int) -> float:
    """MiB of a process: its own pages, and its parts of those that it shares."""
    with suppress(OSError):
        told = Path(f"/proc/{process}/smaps_rollup").read_text()
        return int(re.findall(r"^Pss: +(\d+) kB", told, re.MULTILINE)[0]) / 1024
    return 0.0


@contextmanager
def service(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A service of two workers with everything, once both answer; and its port."""
    options = {"port": 0, "workers": 2, "journal": "journal", "items": "items.csv", "log": "log"}
    options |= {"remember-shown": "1m", "shown-file": "shown.sqlite"}
    command = [sys.executable, "-m", "mfrank", "serve", "model"]
    command += [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder
    )
    try:
        found = re.match(r"http://\S+:(\d+)/", process.stdout.readline())  # type: ignore[union-attr]
        assert found
        yield process, int(found[1])
    finally:
        process.terminate()
        process.communicate(timeout=60)


def mixed_load(
    folder: Path, data: mfrank.Interactions, seconds: float, pause: float, n_clients: int = 4
) -> Outcome:
    """Ask for so long; every ``pause`` seconds, the operators do something."""
    model = mfrank.ALS(factors=32, iterations=2, random_state=0).fit(data)
    model.save(folder / "model")
    with (folder / "items.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["item_id", "title", "year", "genres"])
        for row, item in enumerate(model.item_ids.labels.tolist()):
            lines.writerow([item, f"Number {row}", 1950 + row % 70, GENRES[row % 3]])
    outcome, ended = Outcome(), threading.Event()
    with service(folder) as (process, port), serving.EventJournal(folder / "journal") as journal:
        clients = [Client(port, seed, model, outcome, ended) for seed in range(n_clients)]
        threads = [threading.Thread(target=each.run) for each in clients]
        for thread in threads:
            thread.start()
        try:
            began = time.monotonic()
            for turn in range(10**9):
                if ended.wait(min(pause, max(0.0, began + seconds - time.monotonic()))):
                    break
                if time.monotonic() >= began + seconds:
                    break
                _operate(turn % 4, folder / "model", journal, process.pid, outcome)
                oldest = [_memory(each) for each in workers_of(process.pid)[:1]]
                held = sum(map(_memory, [process.pid, *workers_of(process.pid)]))
                outcome.held.append(((time.monotonic() - began) / 60, held, *(oldest or [0.0])))
                print(_line(outcome), flush=True)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    with serving.EventJournal(folder / "journal") as journal:
        outcome.in_journal = journal.n_events(0, journal.last)
    return outcome


def _operate(
    turn: int, folder: Path, journal: serving.EventJournal, process: int, outcome: Outcome
) -> None:
    if turn in (0, 2):  # learn from the events, beside the service
        model = mfrank.load(folder)
        journal.update(model)
        model.save(folder, keep=3)
        outcome.updates += 1
    elif turn == 1:
        roll_back(folder)
        outcome.rollbacks += 1
    elif len(workers := workers_of(process)) == 2:
        outcome.kills += 1
        os.kill(workers[-1], signal.SIGKILL)  # the younger one: the other shows if it grows


def _line(outcome: Outcome) -> str:
    minute, held, oldest = outcome.held[-1]
    return (
        f"{minute:.2f} min: {sum(outcome.answers.values())} answers, {len(outcome.failed)} failed, "
        f"{outcome.cut_off} cut off by {outcome.kills} kills, {len(outcome.acknowledged)} events, "
        f"{outcome.updates} updates, {outcome.rollbacks} rollbacks, "
        f"{held:.0f} MiB, {oldest:.0f} of the oldest worker"
    )


def main() -> None:
    """Run for some minutes, and say what became of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    args = parser.parse_args()
    data = mfrank.synthetic(5000, 2000, 200_000, random_state=0)
    with tempfile.TemporaryDirectory() as place:
        outcome = mixed_load(Path(place), data, 60 * args.minutes, pause=10.0)
    print(_line(outcome))
    print(f"{outcome.in_journal} events in the journal; answers: {dict(outcome.answers)}")
    for each in outcome.failed[:20]:
        print(each)
    if outcome.failed or outcome.in_journal != len(outcome.acknowledged):
        sys.exit("requests have failed, or events are lost")


if __name__ == "__main__":
    main()
