"""How fast text tables are read, and in how much memory, beside pandas, polars and pyarrow.

Made-up files of as many rows as asked for, with users and items as popular as by Zipf's law. Each
is read by each reader in turn, in a process of its own; the best of ``--repeats`` counts, and so
does the least memory: what the peak of the process grew by, without imports. mfrank is there twice:
"mfrank" is ``Interactions.from_file``, which also numbers the ids and sorts and merges the cells;
"mfrank, read" only has the columns. "pandas, matrix" makes of the table of pandas what mfrank does,
by ``factorize`` and scipy. polars and pyarrow use all cores; a second of the CPU is of one.

    python bench/reading.py
    python bench/reading.py --rows 1000000 --only words --repeats 5 --folder /tmp/trial
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from harness.records import line, parser, save

READERS = ("mfrank, read", "pandas", "polars", "pyarrow", "mfrank", "pandas, matrix")
_HEAD = ("user", "item", "rating", "timestamp")


def main() -> None:
    """Write the files, read them in turns, save the table."""
    asked = parser(__doc__)
    asked.add_argument("--rows", type=int, default=20_000_000)
    asked.add_argument("--only", default="", help="part of the names of the files that are read")
    asked.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = asked.parse_args()
    if args.child:
        print(*measured(*args.child, args.rows))
        return
    load, rows = os.getloadavg()[0], list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        for path in filter(lambda path: args.only in path.name, write_files(folder, args.rows)):
            runs = [
                [in_child(path, reader, args.rows) for reader in READERS]
                for _ in range(args.repeats)
            ]
            for reader, own in zip(READERS, zip(*runs, strict=True), strict=True):
                cpu, wall, mib = (np.array(each) for each in zip(*own, strict=True))
                row = {"file": path.name, "reader": reader}
                row |= {"million_rows_a_cpu_second": args.rows / cpu.min() / 1e6}
                row |= {"million_rows_a_second": args.rows / wall.min() / 1e6}
                rows.append(row | {"peak_mib": float(mib.min())})
                print(line(rows[-1]), flush=True)
            path.unlink()
    save(args.folder, "reading", rows, load=[load, os.getloadavg()[0]])


def write_files(folder: str, n_rows: int) -> list[Path]:
    """The files, by what is special about their fields."""
    rng, names = np.random.default_rng(0), [Path(folder, "numbers.csv")]
    users, items = popular(rng, 200_000, n_rows), popular(rng, 60_000, n_rows)
    halves, times = rng.integers(1, 11, n_rows) / 2, 1_600_000_000 + rng.integers(0, 10**8, n_rows)
    words = pl.Series([f"u{number:07d}" for number in range(200_000)])[users]
    codes = pl.Series([f"B00{number:07d}" for number in range(60_000)])[items]
    of_16_bytes = [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(200_000)]
    tables: dict[str, list[Any]] = {
        "numbers.csv": [users, items, halves, times],
        "words.csv": [words, codes, halves],
        "uuids.csv": [pl.Series(of_16_bytes)[users], codes, halves],
        "quoted.csv": [words, pl.Series(items).cast(pl.String), halves, times],
        "fractions.csv": [users, items, rng.random(n_rows)],
        "dates.csv": [users, items, halves, pl.from_epoch(pl.Series(times), "s")],
    }
    for name, columns in tables.items():
        table = pl.DataFrame(dict(zip(_HEAD, columns, strict=False)))
        style: Any = "non_numeric" if name == "quoted.csv" else "necessary"
        table.write_csv(Path(folder, name), quote_style=style, datetime_format="%Y-%m-%dT%H:%M:%S")
        names.append(Path(folder, name))
    packed = Path(folder, "numbers.csv.gz")
    with gzip.open(packed, "wb", compresslevel=1) as file, names[0].open("rb") as plain:
        while part := plain.read(1 << 24):
            file.write(part)
    return [*names[1:], packed]


def popular(rng: np.random.Generator, n: int, n_rows: int) -> np.ndarray:
    """Numbers below n, of which the r-th most frequent has a share like r^-.8."""
    shares = np.cumsum(np.arange(1, n + 1) ** -0.8)
    ranks = np.searchsorted(shares, rng.random(n_rows) * shares[-1])
    return rng.permutation(n)[np.minimum(ranks, n - 1)]


def in_child(path: Path, reader: str, n_rows: int) -> tuple[float, ...]:
    """Seconds of the CPU and of the clock, and MiB, of a process that reads the file."""
    run = [sys.executable, __file__, "--rows", str(n_rows), "--child", str(path), reader]
    result = subprocess.run(run, check=True, capture_output=True, text=True)
    return tuple(map(float, result.stdout.split()))


def measured(path: str, reader: str, n_rows: int) -> tuple[float, ...]:
    """The same, of this process."""
    import time

    import pandas
    import pyarrow.csv
    import scipy.sparse as sp

    import mfrank
    from mfrank.data import read_columns

    def by_pandas() -> Any:
        dates = ["timestamp"] * ("dates" in path)
        return pandas.read_csv(path, engine="c", parse_dates=dates)

    def matrix() -> Any:
        table = by_pandas()
        users, user_ids = pandas.factorize(table["user"], sort=True)
        items, item_ids = pandas.factorize(table["item"], sort=True)
        shape = len(user_ids), len(item_ids)
        made = sp.csr_array((table["rating"].to_numpy(), (users, items)), shape=shape)
        made.sum_duplicates()
        return table

    read = {
        "mfrank, read": lambda: read_columns(path, {})["user"],
        "pandas": by_pandas,
        "polars": lambda: pl.read_csv(path, try_parse_dates="dates" in path),
        "pyarrow": lambda: pyarrow.csv.read_csv(path),
        "mfrank": lambda: mfrank.Interactions.from_file(path),
        "pandas, matrix": matrix,
    }[reader]
    before, cpu, wall = peak_mib(), time.process_time(), time.perf_counter()
    found = read()
    seconds = time.process_time() - cpu, time.perf_counter() - wall
    assert reader == "mfrank" or len(found) == n_rows
    return *seconds, peak_mib() - before


def peak_mib() -> float:
    """The most memory that this process had so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    main()
