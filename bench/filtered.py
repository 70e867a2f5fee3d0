"""Requests per second and response times of mfrank serve with conditions on a million items.

The model has ``--items`` items of synthetic interactions, and the table of items a column of their
places in a random order, so that ``place<N`` keeps any share. A condition that was asked before is
kept ready; of *others*, each request has a condition that no request had before.

    python bench/filtered.py
    python bench/filtered.py --items 20000 --seconds 0.5 --repeats 1 --folder /tmp/trial
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from harness.http_load import Ask, load, memory, wait_for
from harness.records import line, parser, save

import mfrank

PORT = 8743
SHARES = {"all": 1.0, "50 %": 0.5, "1 %": 0.01, ".01 %": 0.0001}


def questions(n_users: int, n_items: int) -> dict[str, Ask]:
    """What is asked, by the share of the items that a condition keeps."""

    def asking(where: str) -> Ask:
        def ask(rng: np.random.Generator) -> bytes:
            user = rng.integers(n_users)
            condition = where.replace("ANY", f"{rng.uniform(1, 1.2):.9f}")
            return b"GET /recommend/%d?n=10%s HTTP/1.1\r\nhost: localhost\r\n\r\n" % (
                user,
                condition.encode(),
            )

        return ask

    asked = {
        name: asking("" if share == 1 else f"&where=place%3C{share * n_items:g}")
        for name, share in SHARES.items()
    }
    others = asking(f"&where=place%3C{n_items // 100}&where=share%3CANY")
    return {**asked, "1 %, others": others}


@contextmanager
def service(folder: Path, ask: Ask) -> Iterator[subprocess.Popen[bytes]]:
    """The service, once it answers."""
    command = [*("-m", "mfrank", "serve", str(folder / "model"), "--port", str(PORT))]
    command += ["--items", str(folder / "items.parquet")]
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    try:
        wait_for(process, PORT, ask)
        yield process
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Measure, print, save."""
    made = parser(__doc__)
    made.add_argument("--items", type=int, default=1_000_000)
    made.add_argument("--users", type=int, default=20_000)
    made.add_argument("--connections", nargs="+", type=int, default=[1, 16])
    made.add_argument("--seconds", type=float, default=3.0, help="of each round")
    args = made.parse_args()

    import pandas as pd

    data = mfrank.synthetic(args.users, args.items, 4 * args.items, random_state=0)
    model = mfrank.ALS(mfrank.IALS(), factors=64, iterations=1, random_state=0).fit(data)
    place = np.random.default_rng(0).permutation(args.items)
    table = pd.DataFrame({"item_id": np.arange(args.items), "place": place, "share": 1.0})
    rows = []
    with tempfile.TemporaryDirectory() as found:
        folder = Path(found)
        model.save(folder / "model")
        table.to_parquet(folder / "items.parquet")
        asked = questions(data.n_users, args.items)
        with service(folder, asked["all"]) as process:
            for connections in args.connections:
                rates: dict[str, list[float]] = {name: [] for name in asked}
                taken: dict[str, list[float]] = {name: [] for name in asked}
                for _ in range(args.repeats):
                    for name, ask in asked.items():
                        rate, seconds = asyncio.run(load(PORT, ask, connections, args.seconds))
                        rates[name].append(rate)
                        taken[name] += seconds
                for name in asked:
                    row = {"kept": name, "items": args.items, "connections": connections}
                    row["requests_a_second"] = float(np.median(rates[name]))
                    row["p50_ms"] = 1e3 * float(np.percentile(taken[name], 50))
                    row["p99_ms"] = 1e3 * float(np.percentile(taken[name], 99))
                    row["held_mib"] = memory(process)
                    rows.append(row)
                    print(line(row), flush=True)
    save(args.folder, "serving-filtered", rows)


if __name__ == "__main__":
    main()
