"""Seconds of everyday calls in two checkouts of this repository, in turns, as ratios.

Shows what a change made faster or slower. The other checkout has its extension built in place. Each
measurement is a process that imports one of the two; rounds take turns in their order. ``ratio`` is
the median over the rounds of this checkout's seconds over the other's, ``least`` and ``most`` are
its extremes. Gowalla is fitted, asked and evaluated; the text file is made up.

    git worktree add ../before COMMIT && (cd ../before && python setup.py build_ext --inplace)
    python bench/checkouts.py ../before
    python bench/checkouts.py ../before --only "recommend, one user" --repeats 9
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from harness.everyday import MEASURED
from harness.records import line, parser, save
from harness.subjects import data_folder

HERE = Path(__file__).resolve().parents[1]


def seconds_in(checkout: Path, name: str, folder: Path) -> float:
    """What a process that imports a checkout measures."""
    ended = subprocess.run(
        [sys.executable, HERE / "bench/harness/everyday.py", name],
        env=os.environ | {"PYTHONPATH": str(checkout), "MFRANK_EVERYDAY": str(folder)},
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(ended.stdout.split()[-1])


def prepare(folder: Path, other: Path) -> None:
    """Interactions, and a model of the other checkout: the older format, which both read."""
    with np.load(data_folder("gowalla") / "interactions.npz") as arrays:
        users, items, parts = (arrays[name] for name in ("user", "item", "split"))
    for name, part in (("train", 0), ("test", 2)):
        chosen = parts == part
        np.savez(folder / f"{name}.npz", users=users[chosen], items=items[chosen])
    seconds_in(other, "prepare", folder)


def compared(name: str, folder: Path, other: Path, repeats: int) -> dict[str, Any]:
    """A row: seconds of both checkouts and their ratio."""
    seconds: dict[Path, list[float]] = {HERE: [], other: []}
    for turn in range(repeats):
        for checkout in (HERE, other) if turn % 2 else (other, HERE):
            seconds[checkout].append(seconds_in(checkout, name, folder))
    ratios = [mine / its for mine, its in zip(seconds[HERE], seconds[other], strict=True)]
    return {
        "measured": name,
        "other_seconds": median(seconds[other]),
        "seconds": median(seconds[HERE]),
        "ratio": median(ratios),
        "least": min(ratios),
        "most": max(ratios),
    }


def main() -> None:
    """Measure, print and write the rows."""
    arguments = parser(__doc__, repeats=5)
    arguments.add_argument("other", type=Path, help="folder of the other checkout")
    arguments.add_argument("--only", nargs="+", choices=list(MEASURED), default=list(MEASURED))
    args = arguments.parse_args()
    other, rows = args.other.resolve(), []
    with TemporaryDirectory() as work:
        prepare(Path(work), other)
        for name in args.only:
            rows.append(compared(name, Path(work), other, args.repeats))
            print(line(rows[-1]), flush=True)
    save(args.folder, "checkouts", rows)


if __name__ == "__main__":
    main()
