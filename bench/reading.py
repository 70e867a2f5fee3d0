"""How fast text tables are read, and how much memory that takes.

``python bench/reading.py --rows 2000000`` writes made-up files of that many rows and reads each of
them in a process of its own: whole, as ``Interactions.from_file`` does before it numbers the ids,
and in portions, as an ingest does. ``--beside FOLDER`` reads them in turn with the mfrank of
another checkout, too. Seconds are of the CPU, and the best of ``--times`` runs counts.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

_CHILD = """
import sys, time
from mfrank.data import read_columns, read_portions
path, how = sys.argv[1:]
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
for module in ("pandas", "pyarrow"):  # not what an import takes
    try:
        __import__(module)
    except ImportError:
        pass
start, before = time.process_time(), peak()
if how == "whole":
    n = len(read_columns(path, {})["user"])
else:
    n = sum(portion.n_rows for portion in read_portions(path, {}, n_rows=1 << 18))
print(n / (time.process_time() - start), (peak() - before) / 1024)
"""


def write_files(folder: Path, n_rows: int) -> list[Path]:
    """Write made-up ratings in the forms that are usual."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 200_000, n_rows), rng.integers(0, 60_000, n_rows)
    halves = rng.integers(1, 11, n_rows) / 2
    times = 1_600_000_000 + rng.integers(0, 10**8, n_rows)
    rows = list(zip(users.tolist(), items.tolist(), halves.tolist(), times.tolist(), strict=True))
    dates = np.datetime_as_string(times.astype("datetime64[s]")).tolist()
    forms = {
        "numbers.csv": ("user,item,rating,timestamp\n", "%d,%d,%g,%d\n", rows),
        "numbers.csv.gz": ("user,item,rating,timestamp\n", "%d,%d,%g,%d\n", rows),
        "colons.dat": ("", "%d::%d::%g::%d\n", rows),
        "words.csv": ("user,item,rating\n", "u%07d,B00%08d,%g\n", [row[:3] for row in rows]),
        "quoted.csv": (
            '"user","item","rating","timestamp"\n',
            '"u%07d","%d",%g,%d\n',
            rows,
        ),
        "fractions.csv": (
            "user,item,count\n",
            "%d,%d,%r\n",
            list(zip(users.tolist(), items.tolist(), rng.random(n_rows).tolist(), strict=True)),
        ),
        "dates.csv": (
            "user,item,date\n",
            "%d,%d,%s\n",
            list(zip(users.tolist(), items.tolist(), dates, strict=True)),
        ),
    }
    paths = []
    for name, (header, form, table) in forms.items():
        path = folder / name
        paths.append(path)
        if path.exists():
            continue
        opener = gzip.open if name.endswith(".gz") else open
        with opener(path, "wt") as file:
            file.write(header)
            file.writelines(form % row for row in table)
    return paths


def measured(checkout: Path, path: Path, how: str) -> tuple[float, float]:
    """Rows a second, and MiB that the peak memory grew by."""
    run = [sys.executable, "-c", _CHILD, str(path), how]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    result = subprocess.run(
        run, cwd=checkout, env=environment, check=True, capture_output=True, text=True
    )
    speed, memory = map(float, result.stdout.split())
    return speed, memory


def main() -> None:
    """Print a table of speeds and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    own = Path(__file__).resolve().parent.parent
    checkouts = [own] if args.beside is None else [args.beside.resolve(), own]
    with tempfile.TemporaryDirectory() as made:
        folder = args.folder or Path(made)
        folder.mkdir(exist_ok=True)
        print("| file | read | rows a second | MiB |\n|---|---|---|---|")
        for path in write_files(folder, args.rows):
            if args.only not in path.name:
                continue
            for how in ("whole", "portions"):
                runs = [[measured(c, path, how) for c in checkouts] for _ in range(args.times)]
                best = [
                    (max(r[0] for r in run), min(r[1] for r in run))
                    for run in zip(*runs, strict=True)
                ]
                speeds = " → ".join(f"{speed:,.0f}" for speed, _ in best)
                memory = " → ".join(f"{mib:,.0f}" for _, mib in best)
                print(f"| {path.name} | {how} | {speeds} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
