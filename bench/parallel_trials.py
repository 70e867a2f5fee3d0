"""Whether two processes of one thread each try more models per minute than one of two threads.

Runs trials of ``mfrank.tune`` (first points, narrow and wide) both ways, in turns. If two processes
try more, the search should run trials side by side.

    python bench/parallel_trials.py ml-1m
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from harness.records import line, parser, save
from harness.subjects import divided
from threadpoolctl import threadpool_limits
from tuned import CHOSEN_BY, MOST_FACTORS, SUBJECTS

from mfrank.tuning import Budget, Facts, Runner, Setting, Trial, TrialJudge, named

TRIALS = (("IALS", 0, 12), ("IALS", 1, 8), ("IALS", 2, 2), ("SampledSoftmax", 0, 2), ("EASE", 0, 2))
"""Family, rung, and how many trials are run."""


def work(name: str, family: str, rung: int, trials: int, threads: int, ready: Barrier) -> None:
    """Run trials in this process, after all are ready."""
    judge = TrialJudge.of(divided(name).train, CHOSEN_BY, 0, threads)
    setting = Setting(Facts.of(judge.train), MOST_FACTORS, 0, threads)
    trial = Trial(family, named(family).first, rung)
    with threadpool_limits(threads, "blas"):
        ready.wait()
        for _ in range(trials):
            Runner(setting, judge, Budget(None), {}).run(trial, 0.0)
        ready.wait()


def trials_a_minute(
    name: str, family: str, rung: int, trials: int, processes: int, threads: int
) -> float:
    """Of all processes together."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(processes + 1)
    given = (name, family, rung, trials // processes, threads, ready)
    children = [context.Process(target=work, args=given) for _ in range(processes)]
    for child in children:
        child.start()
    ready.wait()
    began = time.perf_counter()
    ready.wait()
    took = time.perf_counter() - began
    for child in children:
        child.join()
    return 60 * trials / took


def rows_of(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each kind of trial."""
    rows = []
    for family, rung, trials in TRIALS:
        pairs = []
        for _ in range(args.repeats):
            one = trials_a_minute(name, family, rung, trials, 1, 2)
            two = trials_a_minute(name, family, rung, trials, 2, 1)
            pairs.append((one, two))
        row = {
            "family": family,
            "rung": rung,
            "one_of_two_threads": statistics.median(one for one, _ in pairs),
            "two_of_one_thread": statistics.median(two for _, two in pairs),
            "ratio": statistics.median(two / one for one, two in pairs),
        }
        print(name, line(row), flush=True)
        rows.append(row)
    return rows


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__)
    made.add_argument("data", nargs="+", choices=SUBJECTS)
    args = made.parse_args()
    for name in args.data:
        save(Path(args.folder), f"parallel-trials-{name}", rows_of(name, args))


if __name__ == "__main__":
    main()
