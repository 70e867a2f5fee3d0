"""What a fit on worker processes or a local Dask cluster costs, beside the plain fit.

Fits ALS to interactions that are drawn by power laws, in one process with ``--threads`` threads,
and on 1, 2 and 4 workers, which share the cores of these threads. ``over_plain`` is seconds per
epoch over those of the plain fit of the same size. ``over_formula`` is the bytes of an epoch over
those of harness/cluster_cost.py. Under Dask the bytes are those of the loopback device: arguments
and results go through the scheduler, so they count twice, and workers send each other what goes
everywhere. The last line tells from which size on a cluster pays off here.

    python bench/cluster.py --entries 100000 --repeats 1 --folder /tmp
    python bench/cluster.py --entries 1000000 4000000 16000000
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from harness.cluster_cost import Block, blocks_of, sent_everywhere
from harness.cluster_fits import fitted, on_dask, on_processes
from harness.drawn_folder import drawn_to
from harness.records import line, parser, save

from mfrank.data import Interactions

ENGINES: dict[str, Callable[[int], Any]] = {"processes": on_processes, "dask": on_dask}


def main() -> None:
    """Draw, measure, print and save."""
    made = parser(__doc__)
    made.add_argument("--entries", type=int, nargs="+", default=[1_000_000, 4_000_000, 16_000_000])
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    made.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    args = made.parse_args()

    rows: list[dict[str, Any]] = []
    for entries in args.entries:
        with tempfile.TemporaryDirectory(prefix="cluster-") as place:
            folder = Path(place, "data")
            drawn_to(folder, entries // 100, max(entries // 1000, 10), entries)
            rows += measure(Interactions.open(folder), args)
    print(told(rows))
    save(args.folder, f"cluster-{args.factors}", rows, pays=told(rows))


def measure(data: Interactions, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each way, of medians over the repeats, which alternate."""
    ways: dict[tuple[str, int], Callable[[], Any]] = {("plain", 0): nullcontext}
    for engine in args.engines:
        for n in args.workers:
            ways[engine, n] = lambda engine=engine, n=n: ENGINES[engine](n)  # type: ignore[misc]
    rounds: dict[tuple[str, int], list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(args.repeats):
        for (engine, n), opened in ways.items():
            with opened() as cluster:
                threads = max(1, args.threads // n) if n else args.threads
                rounds[engine, n].append(fitted(data, args.factors, threads, cluster))
    bits = rounds["plain", 0][0]["sha256"]
    plain = median(fit["seconds_per_epoch"] for fit in rounds["plain", 0])
    sides = data.user_rows("float32"), data.item_rows("float32")
    halves = [(blocks_of(side, args.factors), side.n_columns) for side in sides]
    rows = []
    for (engine, n), fits in rounds.items():
        row: dict[str, Any] = {"entries": data.nnz, "engine": engine, "workers": n or None}
        numbers = [name for name, value in fits[0].items() if isinstance(value, float)]
        row |= {name: median(fit[name] for fit in fits) for name in numbers}
        row["over_plain"] = row["seconds_per_epoch"] / plain
        if n:
            wanted = sum(shipped(*half, args.factors, engine, n) for half in halves) / 2**20
            row["over_formula"] = (row["mib_out"] + row["mib_back"]) / wanted
        row["same_bits"] = all(fit["sha256"] == bits for fit in fits)
        print(line(row), flush=True)
        rows.append(row)
    return rows


def shipped(
    some: Sequence[Block], n_fixed: int, factors: int, engine: str, n_workers: int
) -> float:
    """Bytes of a half-step."""
    relays = engine == "dask"
    back = sum(block.back(factors) for block in some)
    table = sent_everywhere(some, n_fixed, factors, 1 if relays else n_workers)
    if table is None:
        return (1 + relays) * (sum(block.out(factors) for block in some) + back)
    own = sum(block.start(factors) for block in some)
    return (1 + relays) * (table + own + back) + (table * (n_workers - 1) if relays else 0)


def told(rows: list[dict[str, Any]]) -> str:
    """From which size a cluster pays."""
    paying = [row for row in rows if row["workers"] and row["over_plain"] < 1]
    if not paying:
        return "on this machine a cluster pays at none of these sizes"
    least = min(paying, key=lambda row: row["entries"])
    return f"{least['workers']} workers by {least['engine']} pay from {least['entries']:,} entries"


if __name__ == "__main__":
    main()
