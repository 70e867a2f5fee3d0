"""Seconds per epoch, how far it descends, and its peak memory: mfrank, its peers, and the floor.

One objective for all: WRMF with confidence alpha r on observed cells, 1 on the rest (contenders/).
``over_`` columns are a contender's seconds over mfrank's, ``over_floor`` those over the least an
exact epoch can take (floor.py). Memory is that of a fit of two epochs in a process of its own, its
input counted; ``needed`` are both factor matrices and the data in both orientations.

    python bench/epoch_cost.py --data gowalla ml-1m --factors 64 128 256
    python bench/epoch_cost.py --data gowalla --factors 512 1024 --contenders "mfrank auto"
"""

from __future__ import annotations

import argparse
from typing import Any

from contenders import NAMES, contender
from floor import Machine, Work
from memory import needed_mib, peak_mib
from race import entry, options, race
from records import line, save
from subjects import interactions

from mfrank.data.interactions import Interactions

DATA = ["gowalla", "ml-1m", "globo", "ml-20m-shape"]


def main() -> None:
    """Measure, print and save, a file for each data set and number of factors."""
    made = options(__doc__, NAMES)
    made.add_argument("--data", nargs="+", default=DATA)
    made.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    args = made.parse_args()

    machine = Machine.measured(args.threads)
    for name in args.data:
        data = interactions(name)
        print(f"{name}: {data}", flush=True)
        for factors in args.factors:
            rows = against_floor(race(data, factors, args), machine, data, factors)
            if args.memory:
                rows = [row | memory(row, data, args) for row in rows]
            print("\n".join(map(line, rows)), flush=True)
            save(args.folder, f"epoch-cost-{name}-{factors}", rows)


def against_floor(
    rows: list[dict[str, Any]], machine: Machine, data: Interactions, factors: int
) -> list[dict[str, Any]]:
    """The rows, with their seconds over the floor's, and the floor itself as the last."""
    floor = machine.floor(Work.of_epoch(data.counts, factors))
    least = floor["seconds_per_epoch"]
    measured = [row | {"over_floor": row["seconds_per_epoch"] / least} for row in rows]
    return [*measured, {"factors": factors, "contender": "floor", **floor}]


def memory(row: dict[str, Any], data: Interactions, args: argparse.Namespace) -> dict[str, Any]:
    """Peak memory of a fit of two epochs by a row's contender, beside what is needed."""
    factors, name = row["factors"], row["contender"]
    needed = {"needed_mib": needed_mib(data, factors)}
    if name not in args.contenders:
        return needed
    short = argparse.Namespace(**{**vars(args), "epochs": [2]})
    return {"peak_mib": peak_mib(entry(contender(name), factors, short), data), **needed}


if __name__ == "__main__":
    main()
