"""Requests per second and response times of mfrank serve, beside plain FastAPI with implicit.

Both answer from the same factors, each in one process of uvicorn, over local connections that stay
open; ids of users are drawn. Services take turns; rates are medians over the rounds, response times
are those of all requests. ``cpu_ms`` is the CPU time of a request, ``grown_mib`` the growth of a
service's memory between its first round and its last.

    python bench/serving.py
    python bench/serving.py --soak 10

With --soak, mfrank serve and mfrank explore instead answer all sorts of requests for the given
minutes each, while the model is saved again and again; rows tell how much memory each holds, minute
by minute.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.http_load import Ask, load, memory, processor_seconds, wait_for
from harness.records import line, parser, save
from harness.soak import soak
from harness.subjects import interactions
from implicit.cpu.als import AlternatingLeastSquares

import mfrank

BATCH = 100
PORTS = {"mfrank serve": 8741, "FastAPI and implicit": 8742}


def questions(n_users: int) -> dict[str, Ask]:
    """What is asked, as the bytes of a request."""

    def one(rng: np.random.Generator) -> bytes:
        return b"GET /recommend/%d?n=10 HTTP/1.1\r\nhost: localhost\r\n\r\n" % rng.integers(n_users)

    def batch(rng: np.random.Generator) -> bytes:
        body = json.dumps({"users": rng.integers(n_users, size=BATCH).tolist(), "n": 10}).encode()
        head = "POST /recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        return head.encode() + b"content-length: %d\r\n\r\n%s" % (len(body), body)

    return {"a user": one, f"{BATCH} users": batch}


@contextmanager
def services(folder: Path, n_users: int) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Both services, once they answer."""
    model, plain = str(folder / "model"), str(Path(__file__).parent / "servers/plain_implicit.py")
    commands = {
        "mfrank serve": ["-m", "mfrank", "serve", model, "--port", str(PORTS["mfrank serve"])],
        "FastAPI and implicit": [plain, str(folder), str(PORTS["FastAPI and implicit"])],
    }
    running = {
        name: subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
        for name, command in commands.items()
    }
    try:
        for name, process in running.items():
            wait_for(process, PORTS[name], questions(n_users)["a user"])
        yield running
    finally:
        for process in running.values():
            process.terminate()
            process.wait()


def race(running: dict[str, subprocess.Popen[bytes]], n_users: int, args: Any) -> list[Any]:
    """A row for each question, number of connections and service."""
    rows = []
    for question, ask in questions(n_users).items():
        for connections in args.connections:
            rates: dict[str, list[float]] = {name: [] for name in running}
            taken: dict[str, list[float]] = {name: [] for name in running}
            held: dict[str, list[float]] = {name: [] for name in running}
            worked = dict.fromkeys(running, 0.0)
            for _ in range(args.repeats):
                for name, process in running.items():
                    before = processor_seconds(process)
                    rate, seconds = asyncio.run(load(PORTS[name], ask, connections, args.seconds))
                    worked[name] += processor_seconds(process) - before
                    rates[name].append(rate)
                    taken[name] += seconds
                    held[name].append(memory(process))
            for name in running:
                rows.append(
                    {
                        "asked": question,
                        "connections": connections,
                        "service": name,
                        "requests_a_second": float(np.median(rates[name])),
                        "cpu_ms": 1e3 * worked[name] / len(taken[name]),
                        "p50_ms": 1e3 * float(np.percentile(taken[name], 50)),
                        "p99_ms": 1e3 * float(np.percentile(taken[name], 99)),
                        "grown_mib": held[name][-1] - held[name][0],
                    }
                )
                print(line(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Measure, print, save."""
    made = parser(__doc__, repeats=5)
    made.add_argument("--data", default="gowalla")
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--connections", nargs="+", type=int, default=[1, 16])
    made.add_argument("--seconds", type=float, default=5.0, help="of each round")
    made.add_argument("--soak", type=float, metavar="MINUTES", help="watch memory instead")
    args = made.parse_args()

    data = interactions(args.data)
    if args.soak is not None:
        with tempfile.TemporaryDirectory() as place:
            rows = soak(Path(place), data, args.factors, args.soak)
        save(args.folder, f"serving-soak-{args.data}", rows)
        return
    options = {"factors": args.factors, "iterations": 3, "n_threads": args.threads}
    model = mfrank.ALS(mfrank.IALS(), **options, random_state=0).fit(data)
    peer = AlternatingLeastSquares(factors=args.factors, num_threads=1)
    peer.user_factors, peer.item_factors = model.user_factors.copy(), model.item_factors.copy()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model.save(folder / "model")
        peer.save(folder / "implicit.npz")
        sp.save_npz(folder / "user_items.npz", data.to_scipy())
        with services(folder, data.n_users) as running:
            rows = race(running, data.n_users, args)
    save(args.folder, f"serving-{args.data}", rows)


if __name__ == "__main__":
    main()
