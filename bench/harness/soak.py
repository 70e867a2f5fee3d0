"""Minutes of mixed requests to mfrank serve and mfrank explore: the memory of each over time.

The model that is served is saved anew in every round, so it is loaded again and again. ``mfrank
explore`` has two models, and data of which a part is held out.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness.http_load import Ask, load, memory, wait_for
from harness.records import line

import mfrank

__all__ = ["soak"]

PORTS = {"serve": 8743, "explore": 8744}
STATUSES = (200, 404, 422)
"""Some of the requests are wrong."""
CONNECTIONS, ROUND_SECONDS = 8, 15.0
ROUNDS_OF_A_ROW = 4


def _got(path: str) -> bytes:
    return b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % path.encode()


def of_serve(n_users: int, n_items: int) -> Ask:
    """What is asked of ``mfrank serve``."""

    def ask(rng: np.random.Generator) -> bytes:
        user, item, share = rng.integers(n_users), rng.integers(n_items), rng.random()
        body = {"users": rng.integers(n_users, size=20).tolist(), "n": 10}
        if share < 0.5:
            body = {"from_items": rng.integers(n_items, size=5).tolist(), "diversity": share}
        content = json.dumps(body).encode()
        head = "POST /recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        asked = (
            _got(f"/recommend/{user}?n=10"),
            _got(f"/recommend/{user}?n=10&popularity_penalty={share:.4f}"),
            _got(f"/similar/{item}"),
            _got(f"/score/{user}?item={item}"),
            _got(f"/explain/{user}/{item}"),
            _got(f"/recommend/nobody-{share}"),
            _got(f"/recommend/{user}?n=-{share}"),
            head.encode() + b"content-length: %d\r\n\r\n%s" % (len(content), content),
        )
        return asked[rng.integers(len(asked))]

    return ask


def of_explore(n_users: int, n_items: int) -> Ask:
    """What is asked of ``mfrank explore``."""

    def ask(rng: np.random.Generator) -> bytes:
        user, item, share = rng.integers(n_users), rng.integers(n_items), rng.random()
        asked = (
            f"/user/{user}",
            f"/user/{user}?popularity_penalty={share:.4f}&diversity={share:.4f}",
            f"/user/{user}/why/{item}?format=json",
            f"/item/{item}",
            f"/compare/{user}?weight={share:.4f}",
            f"/sandbox?like={item}&diversity={share:.4f}",
            f"/search?q={item}",
            f"/map?n={rng.integers(20, 200)}&format=json",
            f"/quality/{rng.integers(2)}",
            "/model/0",
            f"/user/nobody-{share}",
            f"/user/{user}?diversity=-{share}",
        )
        return _got(asked[rng.integers(len(asked))])

    return ask


def soak(folder: Path, data: mfrank.Interactions, factors: int, minutes: float) -> list[Any]:
    """A row for each minute of each service: requests so far, and MiB held."""
    train = mfrank.by_ratio(data, train=0.8, valid=0.0, test=0.2, random_state=0).train
    options = {"factors": factors, "iterations": 2, "random_state": 0}
    models = {"one": mfrank.ALS(**options), "two": mfrank.ALS(mfrank.WRMF(), **options)}
    for name, model in models.items():
        model.fit(train).save(folder / name)
    data.to_folder(folder / "data")
    one, two = (str(folder / name) for name in models)
    sizes = data.n_users, data.n_items
    services = {
        "serve": ([one], of_serve(*sizes)),
        "explore": ([one, two, "--data", str(folder / "data")], of_explore(*sizes)),
    }
    rows = []
    for name, (given, ask) in services.items():
        port = PORTS[name]
        command = [sys.executable, "-m", "mfrank", name, *given, "--port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(process, port, lambda _: _got("/docs"), STATUSES)
            began, asked, turn = time.perf_counter(), 0, 0
            while (elapsed := time.perf_counter() - began) < 60 * minutes:
                seconds = min(ROUND_SECONDS, max(1.0, 60 * minutes - elapsed))
                _, taken = asyncio.run(load(port, ask, CONNECTIONS, seconds, turn, STATUSES))
                asked, turn = asked + len(taken), turn + 1
                row = {
                    "service": name,
                    "minutes": (time.perf_counter() - began) / 60,
                    "requests": asked,
                    "p99_ms": 1e3 * float(np.percentile(taken, 99)),
                    "held_mib": memory(process),
                }
                print(line(row), flush=True)
                if turn % ROUNDS_OF_A_ROW == 0:
                    rows.append(row)
                models["one"].save(folder / "one")
        finally:
            process.terminate()
            process.wait()
    return rows
