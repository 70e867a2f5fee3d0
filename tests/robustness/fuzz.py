"""Calls every public name with hostile arguments, in processes of their own.

``python tests/robustness/fuzz.py --calls 2000 --seed 0`` makes the first calls of a seed, in
``--processes`` at a time. A call must return, or raise one of :data:`REFUSALS`. It must not end the
process, hang, or raise anything else. A call that does is printed with the command that makes it
again.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS / "support")]

import numpy as np  # noqa: E402
import public_calls  # noqa: E402
from hostile import UsersOwnError  # noqa: E402

REFUSALS = (TypeError, ValueError, MemoryError, OSError, ImportError, UsersOwnError)
"""What a call may raise: errors of arguments, of files, of memory, and the caller's own."""

MOST_MEMORY = 6 * 2**30
CALLS_OF_A_CHILD = 5000
"""Few children, because most of a thousand calls' time was Python's start and the imports."""
SECONDS = 60
"""A call that takes longer hangs."""
FILES = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where calls write: in memory, because on a disk they wait for their files to be safe."""


# --- in the child


def make_calls(seed: int, first: int, n_calls: int) -> None:
    """Make some calls; print the number of each before, and what it raised that it must not."""
    _limit_memory()
    warnings.simplefilter("ignore")
    logging.disable()
    entries = list(public_calls.entries())
    weights = np.array([entry.weight for entry in entries])
    for number in range(first, first + n_calls):
        print(f"call {number}", flush=True)
        rng = np.random.default_rng([seed, number])
        entry = entries[rng.choice(len(entries), p=weights / weights.sum())]
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        with tempfile.TemporaryDirectory(dir=FILES) as folder:
            os.chdir(folder)
            _make(entry, rng)
            os.chdir("/")
    faulthandler.cancel_dump_traceback_later()
    print("all", flush=True)


def _make(entry: public_calls.Entry, rng: np.random.Generator) -> None:
    public_calls.told.clear()
    hostility = rng.choice([0.0, 0.15, 0.3, 0.6])
    try:
        public_calls.called(entry.function(rng), rng, hostility, entry.name)
    except REFUSALS:
        pass
    except BaseException as error:
        calls = "; ".join(public_calls.told)
        lines = "".join(traceback.format_exception(error, limit=-4))
        print(f"failed: {entry.name}: {calls}\n{lines}", flush=True)


def _limit_memory() -> None:
    """Make large arrays fail; not under a sanitizer, which reserves terabytes."""
    if "LD_PRELOAD" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


# --- in the parent


@dataclass(frozen=True)
class Failure:
    """A call that crashed, hung or raised what it must not."""

    seed: int
    number: int
    what: str

    def __str__(self) -> str:
        again = (
            f"python tests/robustness/fuzz.py --seed {self.seed} --first {self.number} --calls 1"
        )
        return f"{again}\n{self.what}"


def failures(
    seed: int, first: int, n_calls: int, program: str = __file__, options: Sequence[str] = ()
) -> Iterator[Failure]:
    """Every failure of the calls, made by one child after another of the program."""
    end = first + n_calls
    while first < end:
        child = subprocess.run(
            [
                *(sys.executable, program, "--child", f"--seed={seed}", f"--first={first}"),
                f"--calls={min(CALLS_OF_A_CHILD, end - first)}",
                *options,
            ],
            env=os.environ | {"PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            errors="replace",
        )
        calls = ("\n" + child.stdout).split("\ncall ")[1:]
        if not calls:
            raise RuntimeError(f"no call was made: {child.stderr}")
        for call in calls:
            number, _, said = call.partition("\n")
            if said.startswith("failed: "):
                yield Failure(seed, int(number), said.removesuffix("all\n"))
        first = int(number) + 1
        if not child.stdout.endswith("all\n"):
            yield Failure(seed, first - 1, f"ended with {child.returncode}\n{child.stderr[-4000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--processes", type=int, default=1, help="at a time")
    parser.add_argument("--without", help="a package that is as if it were not installed")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.without:
        sys.modules[asked.without] = None  # type: ignore[assignment]
    if asked.child:
        make_calls(asked.seed, asked.first, asked.calls)
        return
    start, n_failures = time.monotonic(), 0
    options = (f"--without={asked.without}",) if asked.without else ()
    end = asked.first + asked.calls

    def of_a_child(first: int) -> list[Failure]:
        n_calls = min(CALLS_OF_A_CHILD, end - first)
        return list(failures(asked.seed, first, n_calls, options=options))

    with ThreadPoolExecutor(asked.processes) as pool:
        for found in pool.map(of_a_child, range(asked.first, end, CALLS_OF_A_CHILD)):
            n_failures += len(found)
            print(*found, sep="\n", end="\n" * bool(found), flush=True)
    took = time.monotonic() - start
    print(f"{asked.calls} calls of seed {asked.seed} in {took:.0f} s, {n_failures} failures")
    sys.exit(n_failures > 0)


if __name__ == "__main__":
    main()
