"""What an epoch on a cluster of any size would take, from rates that are measured here.

Measures how fast a core solves rows, how fast bytes go through a pipe, pickling included, and how
long the client's own work takes. From these rates, the formulas of harness/cluster_cost.py give the
seconds of an epoch, the bytes sent and a worker's memory. They are first checked on small fits that
are really run on 1, 2 and 4 worker processes: measured values stand beside predicted ones. Then
they predict a large cluster, by default with 1 G entries, 100 M users, 10 M items, 128 factors and
32 workers with 16 cores each at 10 Gbit/s, in three ways. ``client``: how fits run where a worker
has no room for all fixed factors; the client has all factors, and sends each block those that it
touches. ``relayed``: how fits run on Dask and Ray where there is room (``mib_free_a_worker``); the
client sends all fixed factors once, and workers send them on. ``peers``, which is not built: each
worker keeps the factors of its own rows, in one block a side, and sends them to the others. Cores
are assumed to add up.

    python bench/cluster_simulator.py --check-entries 300000 --repeats 1 --folder /tmp
    python bench/cluster_simulator.py
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import scipy.sparse as sp
from harness.cluster_cost import (
    Block,
    Rates,
    Side,
    blocks_of,
    expected_blocks,
    half_step_seconds,
    sent_everywhere,
    whole,
)
from harness.cluster_fits import fitted, on_processes
from harness.cluster_rates import measured
from harness.drawn_folder import drawn_to, expected_degrees
from harness.records import line, parser, save

from mfrank.backends.sharded import backend
from mfrank.data import Interactions

_SAMPLE = 500_000
_MIB = 2**20


def main() -> None:
    """Measure, check, predict, print and save."""
    made = parser(__doc__)
    made.add_argument("--check-entries", type=int, default=4_000_000)
    made.add_argument("--check-workers", type=int, nargs="*", default=[1, 2, 4])
    made.add_argument("--entries", type=float, default=1e9)
    made.add_argument("--users", type=float, default=1e8)
    made.add_argument("--items", type=float, default=1e7)
    made.add_argument("--factors", type=int, default=128)
    made.add_argument("--workers", type=int, default=32)
    made.add_argument("--cores", type=int, default=16, help="of a worker, and of the client")
    made.add_argument("--gbit", type=float, default=10, help="a second, of each machine's link")
    args = made.parse_args()

    rows = [*checked(args), *large(args)]
    save(args.folder, "cluster-simulator", rows)


def checked(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Predicted beside measured, on worker processes of this machine."""
    if not args.check_workers:
        return []
    data = drawn(args.check_entries // 100, args.check_entries // 1000, args.check_entries)
    sample = drawn(data.n_users // 2, data.n_items // 2, args.check_entries // 2)
    rates = measured(sample, args.factors)
    users, items = (
        blocks_of(matrix, args.factors)
        for matrix in (data.user_rows("float32"), data.item_rows("float32"))
    )
    rows, cores = [], len(os.sched_getaffinity(0))
    for n in args.check_workers:
        fits = []
        for _ in range(args.repeats):
            with on_processes(n) as cluster:
                fits.append(fitted(data, args.factors, 1, cluster))
        row: dict[str, Any] = {"case": "check", "entries": data.nnz, "workers": n}
        row |= predicted(users, items, args.factors, rates, n, cores, copies=n)
        for name, of_fit in (
            ("seconds", "seconds_per_epoch"),
            ("mib_out", "mib_out"),
            ("mib_back", "mib_back"),
            ("mib_a_worker", "mib_a_worker"),
        ):
            row[f"measured_{name}"] = median(fit[of_fit] for fit in fits)
        row["predicted_over_measured"] = row["seconds"] / row["measured_seconds"]
        print(line(row), flush=True)
        rows.append(row)
    return rows


def large(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The large case, through a client and among peers."""
    users, items = shape(args.users, args.items, args.entries)
    per_user, per_item = args.entries / args.users, args.entries / args.items
    n_users = max(int(_SAMPLE / per_user), 10)
    sample = drawn(n_users, max(int(n_users * per_user / per_item), 10), _SAMPLE)
    rates = on_cores(measured(sample, args.factors), args.cores, args.gbit)
    size = {"entries": int(args.entries), "workers": args.workers, "factors": args.factors}
    blocks = (
        expected_blocks(users, items, args.factors),
        expected_blocks(items, users, args.factors),
    )
    client: dict[str, Any] = {"case": "client", **size}
    client |= predicted(*blocks, args.factors, rates, args.workers, args.workers)
    # Both sides, the epoch before, the items once more, and momentum's.
    tables = 2 * users.rows + 4 * items.rows
    client["mib_client"] = 4 * args.factors * tables / _MIB
    relayed: dict[str, Any] = {"case": "relayed", **size}
    relayed |= predicted(*blocks, args.factors, rates, args.workers, args.workers, copies=1)
    # The last worker has all when the client has sent them once and another has sent them on.
    links = 4 * args.factors * (users.rows + items.rows) / rates.out
    relayed["seconds"] += links
    relayed["mib_client"] = client["mib_client"]
    # A fit goes this way only where the larger side takes no more than its share of what is free.
    larger = 4 * args.factors * max(users.rows, items.rows)
    relayed["mib_free_a_worker"] = larger / backend._SHARE_OF_MEMORY / _MIB
    rows = [client, relayed, {"case": "peers", **size, **among_peers(users, items, args, rates)}]
    for row in rows:
        print(line(row), flush=True)
    return rows


def predicted(
    users: Sequence[Block],
    items: Sequence[Block],
    factors: int,
    rates: Rates,
    n_workers: int,
    cores: int,
    copies: int | None = None,
) -> dict[str, float]:
    """Seconds of an epoch and what they are spent on, mebibytes, a worker's memory.

    ``copies`` are those of all fixed factors that the client sends where that is less; by default
    each block gets its own.
    """
    both = [*users, *items]
    n_rows = sum(block.rows for block in both)
    n_users = sum(block.rows for block in users)
    steps, out, working = [], 0.0, 0.0
    for some, n_fixed, rate in (
        (users, n_rows - n_users, rates.users),
        (items, n_users, rates.items),
    ):
        table = sent_everywhere(some, n_fixed, factors, copies) if copies else None
        steps.append(half_step_seconds(some, factors, rates, rate, n_workers, cores, table))
        out += table or 0.0
        out += sum(b.out(factors) if table is None else b.start(factors) for b in some)
        held_table = 0.0 if table is None else 4 * factors * n_fixed
        working = max(working, held_table + max(b.working(factors, n_fixed) for b in some))
    held = sum(block.held() for block in both) / n_workers
    return {
        "seconds": sum(steps) + rates.row * n_rows,
        "user_step": steps[0],
        "item_step": steps[1],
        "client_alone": rates.row * n_rows,
        "mib_out": out / _MIB,
        "mib_back": sum(block.back(factors) for block in both) / _MIB,
        "mib_a_worker": (rates.worker + held + working) / _MIB,
    }


def among_peers(
    users: Side, items: Side, args: argparse.Namespace, rates: Rates
) -> dict[str, float]:
    """As :func:`predicted`, if each worker had the factors of its own rows, a block a side."""
    n, factors = args.workers, args.factors
    sides = whole(users, items, factors, n), whole(items, users, factors, n)
    rows = users.rows + items.rows
    # What a worker has itself does not travel.
    sent = [4 * factors * side.touched * (n - 1) / n for side in sides]
    solving = [
        side.multiply_adds / rate
        for side, rate in zip(sides, (rates.users, rates.items), strict=True)
    ]
    working = max(4 * factors * (side.touched + 2 * side.rows) for side in sides)
    own = 4 * factors * 2 * rows / n + sum(side.held() for side in sides)
    steps = [bytes_in / rates.out + work for bytes_in, work in zip(sent, solving, strict=True)]
    return {
        "seconds": sum(steps) + rates.row * rows / n,
        "user_step": steps[0],
        "item_step": steps[1],
        "client_alone": 0.0,
        "mib_out": n * sum(sent) / _MIB,
        "mib_back": 0.0,
        "mib_a_worker": (rates.worker + own + working) / _MIB,
    }


def on_cores(rates: Rates, cores: int, gbit: float) -> Rates:
    """Rates of machines with so many cores and such a link, which pickling hides behind."""
    link = gbit * 1e9 / 8
    return replace(
        rates,
        users=rates.users * cores,
        items=rates.items * cores,
        row=rates.row / cores,
        out=min(rates.out, link),
        back=min(rates.back, link),
    )


def shape(n_users: float, n_items: float, n_entries: float) -> tuple[Side, Side]:
    """Users and items as they are drawn, each some that stand for all."""
    of_users, of_items = expected_degrees(int(n_users), int(n_items), int(n_entries))
    return Side(of_users, n_users / len(of_users)), Side(of_items, n_items / len(of_items))


def drawn(n_users: int, n_items: int, n_entries: int) -> Interactions:
    """Interactions in memory."""
    with tempfile.TemporaryDirectory(prefix="cluster-simulator-") as place:
        drawn_to(Path(place, "data"), n_users, max(n_items, 10), n_entries)
        rows = Interactions.open(Path(place, "data")).user_items
        return Interactions.from_sparse(sp.csr_array(rows, copy=True))


if __name__ == "__main__":
    main()
