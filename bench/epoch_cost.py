"""Seconds per epoch, how far it descends, and its peak memory: mfrank, its peers, and the floor.

All contenders have the same objective: WRMF with confidence alpha r on observed cells, 1 on the
rest (contenders/). ``over_`` columns are a contender's seconds over mfrank's; ``over_floor`` is its
seconds over the least that an exact epoch can take (floor.py). ``peak_mib`` is the peak memory of a
fit of two epochs in a process of its own, its input included; for the floor it is both factor
matrices and the data in both orientations.

    python bench/epoch_cost.py --data gowalla ml-1m --factors 64 128 256
    python bench/epoch_cost.py --data gowalla --factors 512 1024 --contenders "mfrank auto"
"""

from __future__ import annotations

import argparse
from typing import Any

from contenders import NAMES
from harness.floor import Machine, Work
from harness.memory import needed_mib, peak_mib
from harness.race import entry, options, parse, race
from harness.records import line, save
from harness.subjects import interactions

from mfrank.data import Interactions

DATA = ["gowalla", "ml-1m", "globo", "ml-20m-shape"]


def main() -> None:
    """Measure, print and save, a file for each data set and number of factors."""
    made = options(__doc__, NAMES)
    made.add_argument("--data", nargs="+", default=DATA)
    made.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    args = parse(made)

    machine = Machine.measured(args.threads)
    for name in args.data:
        data = interactions(name)
        for factors in args.factors:
            floor = machine.floor(Work.of_epoch(data.counts, factors))
            print(f"{name}, floor: {line(floor)}", flush=True)
            rows = measure(data, factors, floor["seconds"], args)
            print("\n".join(map(line, rows)), flush=True)
            save(args.folder, f"epoch-cost-{name}-{factors}", rows, floor=floor)


def measure(
    data: Interactions, factors: int, least: float, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """A row for each contender, and the floor as the last."""
    rows = race(data, factors, args)
    rows.append({"factors": factors, "contender": "floor", "seconds_per_epoch": least})
    for row in rows:
        row["over_floor"] = row["seconds_per_epoch"] / least
        if args.memory:
            row["peak_mib"] = memory(row["contender"], data, factors, args)
    return rows


def memory(name: str, data: Interactions, factors: int, args: argparse.Namespace) -> float | None:
    """Peak of a fit of two epochs, or, for the floor, what any fit must hold."""
    if name == "floor":
        return needed_mib(data, factors)
    short = argparse.Namespace(**{**vars(args), "epochs": [2]})
    return peak_mib(entry(name, factors, short), data)


if __name__ == "__main__":
    main()
