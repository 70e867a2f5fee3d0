"""A service that is asked all sorts of things for a while does not grow, fail or lose events."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixed_load import mixed_load
from small_site import data, data_file, items_file, pair

import mfrank

if not Path("/proc/self/statm").exists():
    pytest.skip("memory is read from /proc, which is not here", allow_module_level=True)

USERS, ITEMS = data().user_ids.labels.tolist(), data().item_ids.labels.tolist()
REQUESTS, CONNECTIONS = 300, 4
MOST_GROWN = 3.0
"""MiB from the second part of the requests to the third: 10 KiB for a request are too many."""

Request = tuple[str, str, dict[str, Any] | None]


def of_serve(rng: np.random.Generator) -> Iterator[Request]:
    """What is asked of ``mfrank serve``, right and wrong."""
    while True:
        user, item, share = rng.choice(USERS), rng.choice(ITEMS), rng.random()
        yield "GET", f"/recommend/{user}?n=20", None
        yield "GET", f"/recommend/{user}?diversity={share:.3f}&popularity_penalty={share:.3f}", None
        yield "GET", f"/similar/{item}", None
        yield "GET", f"/score/{user}?item={item}", None
        yield "GET", f"/explain/{user}/{item}", None
        yield "POST", "/recommend", {"users": rng.choice(USERS, 8).tolist(), "n": 5}
        boosts = {str(rng.choice(ITEMS)): share}
        yield "POST", "/recommend", {"from_items": rng.choice(ITEMS, 3).tolist(), "boosts": boosts}
        yield "GET", f"/recommend/nobody-{share}", None
        yield "GET", f"/recommend/{user}?n=-{share}", None
        yield "POST", "/recommend", {f"wrong{share}": 1}
        yield "GET", f"/nowhere/{share}", None
        yield "GET", "/health", None
        yield "GET", "/metrics", None


def of_explore(rng: np.random.Generator) -> Iterator[Request]:
    """What is asked of ``mfrank explore``, right and wrong."""
    while True:
        user, item, share = rng.choice(USERS), rng.choice(ITEMS), rng.random()
        for path in (
            f"/user/{user}",
            f"/user/{user}?diversity={share:.3f}&popularity_penalty={share:.3f}&at_most=3",
            f"/user/{user}?model=1&only=kinds:Tea&boost=kinds:Pie&by={share:.3f}&format=json",
            f"/user/{user}/why/{item}",
            f"/item/{item}",
            f"/compare/{user}?weight={share:.3f}",
            f"/sandbox?like={item}&q=n&diversity={share:.3f}",
            f"/search?q={share}",
            f"/map?n={rng.integers(4, 60)}&format=json",
            f"/quality/{rng.integers(2)}",
            "/model/0",
            f"/user/{user}?diversity=x{share}",
            f"/user/nobody-{share}",
        ):
            yield "GET", path, None


@contextmanager
def running(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A service of ``mfrank`` and its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mfrank", *command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        found = re.match(r"http://\S+:(\d+)/", process.stdout.readline())  # type: ignore[union-attr]
        assert found
        yield process, int(found[1])
    finally:
        process.terminate()
        process.communicate(timeout=15)


def ask(port: int, requests: Iterator[Request], n: int) -> list[int]:
    """The statuses of so many requests on a connection that stays open."""
    connection, statuses = HTTPConnection("127.0.0.1", port, timeout=60), []
    for _ in range(n):
        method, path, body = next(requests)
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()
    return statuses


def memory(process: subprocess.Popen[str]) -> float:
    """MiB that a process holds."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096 / 2**20


@pytest.mark.parametrize(
    ("name", "mix"), [("serve", of_serve), ("explore", of_explore)], ids=["serve", "explore"]
)
def test_memory_does_not_grow_with_requests(
    tmp_path: Path, name: str, mix: Callable[[np.random.Generator], Iterator[Request]]
) -> None:
    folders = [str(model.save(tmp_path / each)) for each, model in pair().items()]
    command = [name, folders[0]]
    if name == "explore":
        command = [name, *folders, "--items", str(items_file(tmp_path))]
        command += ["--data", str(data_file(tmp_path))]
    with running(command) as (process, port), ThreadPoolExecutor(CONNECTIONS) as threads:
        streams = [mix(np.random.default_rng(seed)) for seed in range(CONNECTIONS)]
        held = []
        for _ in range(3):
            n = REQUESTS // CONNECTIONS
            parts = [threads.submit(ask, port, stream, n) for stream in streams]
            statuses = {status for part in parts for status in part.result()}
            assert statuses == {200, 404, 422}
            held.append(memory(process))
    assert held[2] - held[1] < MOST_GROWN, held


def test_workers_that_are_killed_lose_no_event_and_fail_nobody_who_asks_again(
    tmp_path: Path,
) -> None:
    """For ten minutes: python tests/support/mixed_load.py --minutes 10."""
    pytest.importorskip("prometheus_client", reason="needs it: pip install mfrank[serve]")
    drawn = mfrank.synthetic(100, 60, 1500, random_state=0)
    outcome = mixed_load(tmp_path, drawn, seconds=4.0, pause=0.6, n_clients=2)
    assert not outcome.failed
    assert outcome.cut_off <= 2 * outcome.kills  # the one connection of each client
    assert outcome.in_journal == len(outcome.acknowledged) > 0
    assert outcome.answers["page", 410] < outcome.answers["page", 200] / 10
    assert outcome.updates
    assert {what for what, _ in outcome.answers} >= {"list", "filtered", "batch", "page"}
