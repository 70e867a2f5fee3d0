"""Seconds per epoch against implicit's, and how far each descends.

One objective for all: WRMF in implicit's convention (confidence alpha r on observed cells, 1 on
the rest), the same weights, factors, threads and float32. ``over_`` columns are a contender's
seconds over mfrank's. bench/epoch_cost.py has every peer, the floor and the memory.

    python bench/against_implicit.py --data gowalla ml-1m --factors 64 128 256
"""

from __future__ import annotations

from contenders import NAMES
from harness.race import options, parse, race
from harness.records import line, save
from harness.subjects import interactions

LIBRARIES = "mfrank", "implicit"


def main() -> None:
    """Measure, print and save."""
    made = options(__doc__, [name for name in NAMES if name.startswith(LIBRARIES)])
    made.add_argument("--data", nargs="+", default=["gowalla", "ml-1m"])
    args = parse(made)

    rows = []
    for name in args.data:
        data = interactions(name)
        for factors in args.factors:
            for row in race(data, factors, args):
                rows.append({"data": name, **row})
                print(line(rows[-1]), flush=True)
            save(args.folder, "against-implicit", rows)


if __name__ == "__main__":
    main()
