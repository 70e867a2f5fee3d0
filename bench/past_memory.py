r"""Seconds per epoch and memory of a fit to interactions that are larger than its memory.

Draws interactions by power laws straight to a folder, and fits ALS to them three times, in
processes of their own: mapped, with private memory that the kernel limits (harness/capped.py says
how, and why in this way); in memory, unlimited; and in memory under the same limit, which has to
fail. The limit is ``--tables`` times the size of both factor matrices and the offsets, plus 64 MiB;
it has no room for the entries. Fewer entries are drawn than asked for, because a user has an item
only once. ``over_memory`` is seconds per epoch over those in memory, ``same_bits`` whether all
factors are equal to the last bit. ``peak_anonymous_mib`` is what the process held itself,
``peak_mapped_mib`` pages of files that it had in view, ``page_cache_grew_mib`` what the system kept
of files.

    python bench/past_memory.py --entries 4000000 --repeats 1 --data-folder /tmp
    python bench/past_memory.py --entries 200000000 --data-folder /var/tmp  # 7 GB of disk
    python bench/past_memory.py --entries 730000000 --users 21900000 --items 1470000 \
        --ways mapped --tables 1.7 --repeats 1 --epochs 2 --data-folder /var/tmp  # 24 GB of disk
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from harness.capped import MIB, fitted
from harness.drawn_folder import drawn_to
from harness.records import line, parser, save

from mfrank.data import Interactions

WAYS = {"mapped": (True, True), "memory": (False, False), "memory, limited": (False, True)}
"""Name -> whether interactions are mapped, and whether memory is limited."""

BYTES_AN_ENTRY = 32
SPARE_MIB = 64


def main() -> None:
    """Draw, measure, print and save."""
    made = parser(__doc__)
    made.add_argument("--entries", type=int, default=4_000_000)
    made.add_argument("--users", type=int, help="default: a user for 100 entries")
    made.add_argument("--items", type=int, help="default: an item for 10 users")
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--epochs", type=int, default=3)
    made.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    made.add_argument("--tables", type=float, default=2.0, help="both factor matrices, in a limit")
    made.add_argument("--data-folder", type=Path, help="where to draw to (default: the system's)")
    args = made.parse_args()

    free = shutil.disk_usage(args.data_folder or tempfile.gettempdir()).free
    if free < BYTES_AN_ENTRY * args.entries:
        sys.exit(f"drawing takes {BYTES_AN_ENTRY * args.entries:,} bytes, {free:,} are free")
    users = args.users or max(args.entries // 100, 10)
    items = args.items or max(users // 10, 10)
    with tempfile.TemporaryDirectory(dir=args.data_folder, prefix="past-memory-") as place:
        folder = Path(place, "data")
        drawn_to(folder, users, items, args.entries)
        rows = measure(folder, args)
    print("\n".join(map(line, rows)), flush=True)
    save(args.folder, f"past-memory-{args.entries}", rows, users=users, items=items)


def measure(folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each way, of medians over the repeats, which alternate."""
    data = Interactions.open(folder)
    limit = limit_mib(data, args.factors, args.tables)
    size = sum(path.stat().st_size for path in folder.rglob("*.npy")) / MIB
    rounds: dict[str, list[dict[str, Any]]] = {way: [] for way in args.ways}
    for _ in range(args.repeats):
        for way, (mapped, limited) in WAYS.items():
            if way in rounds:
                rounds[way].append(
                    fitted(
                        folder,
                        mapped=mapped,
                        limit_mib=limit if limited else None,
                        factors=args.factors,
                        epochs=args.epochs,
                        threads=args.threads,
                    )
                )
    bits = {fit["sha256"] for fits in rounds.values() for fit in fits if "sha256" in fit}
    rows = []
    for way, fits in rounds.items():
        row: dict[str, Any] = {"way": way, "entries": data.nnz, "factors": args.factors}
        row |= {"data_mib": size, "limit_mib": float(limit) if WAYS[way][1] else None}
        if any("out_of_memory" in fit for fit in fits):
            rows.append(row | {"out_of_memory": True})
            continue
        numbers = [name for name, value in fits[0].items() if isinstance(value, float)]
        row |= {name: median(fit[name] for fit in fits) for name in numbers}
        rows.append(row | {"same_bits": len(bits) == 1})
    of_way = {row["way"]: row.get("seconds_per_epoch") for row in rows}
    for row in rows:
        if of_way.get("memory") and row.get("seconds_per_epoch"):
            row["over_memory"] = row["seconds_per_epoch"] / of_way["memory"]
    return rows


def limit_mib(data: Interactions, factors: int, tables: float) -> int:
    """Private memory for a fit whose interactions are mapped."""
    n_rows = data.n_users + data.n_items
    return int(tables * n_rows * (4 * factors + 8) / MIB) + SPARE_MIB


if __name__ == "__main__":
    main()
