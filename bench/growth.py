"""How the seconds of an epoch grow with entries, rows, factors and threads: table, exponent, plot.

One size grows while the others stay as ``Size`` says, on synthetic data with a quarter as many
items as users. Rounds alternate over the sizes; seconds are medians. The exponent is the slope of
log seconds on log size by least squares: 1 is growth in proportion, -1 a perfect use of threads.

    python bench/growth.py --plot bench/results/growth.png
    python bench/growth.py --sweeps factors users --scale 0.1
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from contenders import contender
from harness.exponents import exponent
from harness.records import line, parser, save

import mfrank
from mfrank.arrays import usable_cores

EPOCHS = 4
SWEEPS = {
    "entries": (1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000),
    "users": (25_000, 50_000, 100_000, 200_000, 400_000),
    "factors": (32, 64, 128, 256, 512),
    "threads": tuple(2**power for power in range(usable_cores().bit_length())),
}


class Size(NamedTuple):
    """What an epoch's time depends on."""

    entries: int = 4_000_000
    users: int = 100_000
    factors: int = 128
    threads: int = 2


def sweep(what: str, scale: float, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each value of one size; ``scale`` shrinks the data."""
    base = Size(threads=args.threads)
    sizes = [base._replace(**{what: value}) for value in SWEEPS[what]]
    shapes = {size: (int(size.users * scale), int(size.entries * scale)) for size in sizes}
    data = {shape: drawn(*shape) for shape in dict.fromkeys(shapes.values())}
    rounds: dict[Size, list[float]] = {size: [] for size in sizes}
    for _ in range(args.repeats):
        for size in sizes:
            rounds[size].append(epoch(size, data[shapes[size]]))
    return [
        {
            "sweep": what,
            "users": shapes[size][0],
            "entries": shapes[size][1],
            "factors": size.factors,
            "threads": size.threads,
            "seconds_per_epoch": median(rounds[size]),
        }
        for size in sizes
    ]


def drawn(users: int, entries: int) -> mfrank.Interactions:
    """Synthetic data of that size."""
    return mfrank.synthetic(users, users // 4, entries, random_state=0)


def epoch(size: Size, data: mfrank.Interactions) -> float:
    """Median seconds of an epoch of one fit."""
    seconds: list[float] = []
    contender("mfrank auto")(
        objective=mfrank.IALS(),
        factors=size.factors,
        iterations=EPOCHS,
        n_threads=size.threads,
    ).fit(data.to_scipy(), lambda _, took: seconds.append(took))
    return median(seconds)


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Seconds against each size, both logarithmic, one panel a sweep."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    sweeps = dict.fromkeys(row["sweep"] for row in rows)
    figure = Figure(figsize=(3.2 * len(sweeps), 3.2), layout="constrained")
    panels = figure.subplots(1, len(sweeps), squeeze=False, sharey=True)[0]
    for panel, what in zip(panels, sweeps, strict=True):
        own = [row for row in rows if row["sweep"] == what]
        sizes = [row[what] for row in own]
        panel.loglog(sizes, [row["seconds_per_epoch"] for row in own], "o-")
        panel.set_xticks(sizes, map(EngFormatter(sep=""), sizes))
        panel.set_xticks([], minor=True)
        panel.set(xlabel=what, title=f"exponent {exponent(own, what):.2f}")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("seconds per epoch")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, print, save, plot."""
    made = parser(__doc__)
    made.add_argument("--sweeps", nargs="+", choices=SWEEPS, default=list(SWEEPS))
    made.add_argument("--scale", type=float, default=1.0, help="of users, items and entries")
    made.add_argument("--plot", type=Path, help="PNG to draw (pip install mfrank[plot])")
    args = made.parse_args()

    rows = []
    for what in args.sweeps:
        measured = sweep(what, args.scale, args)
        slope = exponent(measured, what)
        rows += [{**row, "exponent": slope} for row in measured]
        print("\n".join(line(row) for row in rows[-len(measured) :]), flush=True)
        save(args.folder, "growth", rows)
    if args.plot:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
