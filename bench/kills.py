"""What is lost when a process is killed in any stage.

A run must survive the death of a worker; where the run itself was killed, the same call has to go
on. The bench ingests files, fits ALS on worker processes with a checkpoint, saves the model and
writes the lists of all users, in processes of their own, and kills a worker or the client (SIGKILL)
at a random moment of a stage. ``recovered``: if a worker was killed, the run went on; if the client
was, the same call succeeded. ``same_bits``: every array and every list has the bytes that it has
without a kill. ``stray_files`` and ``stray_processes`` count what is left afterwards, over all
times together.

    python bench/kills.py --repeats 10
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from harness.killed import STAGES, Ended, Stage, run
from harness.records import line, parser, save

import mfrank
from mfrank.data import write_table

_GENERATION = re.compile(r"data-[0-9a-f]{16}")
_TOLD = {".json", ".files"}
"""Files that have seconds or names in them, and are there or not."""

_OPERATIONS = ("ingest", "fit", "recommend")


def main() -> None:
    """Kill, compare, print and save."""
    made = parser(__doc__, repeats=10)
    made.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    made.add_argument("--seed", type=int, default=0)
    args = made.parse_args()

    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        rows = measure(Path(place), args)
    save(args.folder, "kills", rows)


def measure(place: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each stage and what is killed in it."""
    befores, calls = whole_run(place)
    rng, rows = random.Random(args.seed), []
    for name in args.stages:
        stage = STAGES[name]
        for victim in stage.victims:
            row: dict[str, Any] = {"stage": name, "killed": victim, "times": args.repeats}
            row |= dict.fromkeys(("recovered", "same_bits", "stray_files", "stray_processes"), 0)
            for _ in range(args.repeats):
                n_calls, seconds = calls[name]
                strike = {"stage": name, "victim": victim, "call": rng.randint(1, n_calls)}
                strike["delay"] = rng.uniform(0, seconds)
                trial = place / "trial"
                shutil.copytree(befores[stage.operation], trial)
                ended = killed(trial, stage, strike)
                found, wanted = contents(trial), contents(befores[f"after {stage.operation}"])
                row["recovered"] += ended.status == 0
                row["same_bits"] += wanted.items() <= found.items()
                row["stray_files"] += len(found.keys() - wanted.keys())
                row["stray_processes"] += ended.workers_left
                shutil.rmtree(trial)
            print(line(row), flush=True)
            rows.append(row)
    return rows


def whole_run(place: Path) -> tuple[dict[str, Path], dict[str, Any]]:
    """What there is before and after each operation, and each stage's calls and their seconds."""
    files = place / "before ingest"
    files.mkdir()
    cells = mfrank.synthetic(1500, 300, 40_000, random_state=0).user_items.tocoo()
    fans = np.arange(1500, 34_500)  # of one item, so many that it is summed by ranges of users
    columns = {
        "user": np.concatenate([cells.coords[0], fans]),
        "item": np.concatenate([cells.coords[1], np.zeros(len(fans), int)]),
        "value": np.concatenate([cells.data, np.ones(len(fans))]),
    }
    for number in range(4):
        some = {name: column[number::4] for name, column in columns.items()}
        write_table(files / f"part-{number}.csv", some)
    befores, calls, now = {"ingest": files}, dict[str, Any](), files
    for operation, following in zip(_OPERATIONS, (*_OPERATIONS[1:], None), strict=True):
        after = place / f"after {operation}"
        shutil.copytree(now, after)
        ended = run(after, operation)
        if ended.status:
            raise RuntimeError(f"{operation} failed though nothing was killed")
        calls |= {name: told for name, told in ended.told.items() if name in STAGES}
        befores[f"after {operation}"] = now = after
        if following:
            befores[following] = after
    return befores, calls


def killed(place: Path, stage: Stage, strike: dict[str, Any]) -> Ended:
    """How the run ended that has to recover: the struck one, or the next if the client died."""
    ended = run(place, stage.operation, strike)
    if not ended.told.get("struck"):
        raise RuntimeError(f"nothing was killed: {strike}")
    if strike["victim"] == "worker":
        return ended
    if ended.status != -9:
        raise RuntimeError(f"the client outlived {strike}")
    again = run(place, stage.operation)
    return again._replace(workers_left=again.workers_left + ended.workers_left)


def contents(place: Path) -> dict[str, str]:
    """SHA-256 of each file by its path; a generation's name differs each time."""
    return {
        _GENERATION.sub("data", str(path.relative_to(place))): digest(path)
        for path in place.rglob("*")
    }


def digest(path: Path) -> str:
    """Empty for folders and for files that are there or not."""
    if path.is_dir() or path.suffix in _TOLD or path.name in _TOLD:
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
