"""Which arithmetic a process has; workers must all have the same for the same bits."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from mfrank._version import __version__
from mfrank.arrays import ext, memory_free_now, usable_cores
from mfrank.backends.registry import choose
from mfrank.cluster import Engine, kind_of, wrong
from mfrank.errors import InputValueError


class Arithmetic(NamedTuple):
    """What the bits of a half-step depend on, besides its numbers."""

    version: str
    instructions: str

    def __str__(self) -> str:
        return f"mfrank {self.version} with {self.instructions}"


class Worker(NamedTuple):
    """What a worker reports about itself."""

    arithmetic: Arithmetic
    machine: str
    cores: int
    memory: float


def arithmetic() -> Arithmetic:
    """The arithmetic of this process."""
    return Arithmetic(__version__, "numpy alone" if ext is None else ext.isa())


def probe(backend: str) -> Worker:
    """Report on this process as a worker; raises ValueError if the backend cannot run here."""
    choose(backend)
    return Worker(arithmetic(), socket.gethostname(), usable_cores(), memory_free_now())


def same_workers(engine: Engine, backend: str) -> list[tuple[str, Worker]]:
    """The workers of an engine, by their names, which all have the arithmetic of this process.

    Raises
    ------
    ValueError
        They do not all have it, there are no workers, or one cannot run the backend.
    """
    workers = list(engine.workers(partial(probe, backend)))
    for each in workers:
        if not isinstance(each, tuple) or len(each) != 2 or not isinstance(each[1], Worker):
            raise wrong(engine, kind_of(each), "the names of its workers and what they are")
    refuse_other(workers)
    return workers


def refuse_other(workers: Sequence[tuple[str, Worker]]) -> None:
    """Raise unless there are workers, and all have the arithmetic of this process.

    Raises
    ------
    ValueError
        The message names a worker and says what it has.
    """
    if not workers:
        raise InputValueError("`cluster` has no workers", "start some with `dask worker ADDRESS`")
    here = arithmetic()
    for name, worker in workers:
        if worker.arithmetic != here:
            raise InputValueError(
                f"cluster mixes arithmetics, which give different bits: {here} here, "
                f"{worker.arithmetic} on {name}",
                "install the same version on all, and set MFRANK_ISA, here and on the workers, to "
                "what all of them can run, such as avx2 or baseline",
            )


def refuse_joined(began: Arithmetic) -> None:
    """Raise RuntimeError, on a worker, unless it has the arithmetic that the fit began with."""
    if (here := arithmetic()) != began:
        raise RuntimeError(f"a worker joined with {here}; this fit is by {began}")


def memory_of_a_task(workers: Sequence[tuple[str, Worker]]) -> float:
    """Bytes: the least share of free memory that a task, or this process, has on its machine."""
    tasks = Counter(worker.machine for _, worker in workers)
    shares = (worker.memory / tasks[worker.machine] for _, worker in workers)
    return min(memory_free_now(), *shares)


def threads_of_a_task(workers: Sequence[tuple[str, Worker]], n_threads: int) -> int:
    """``n_threads``; for 0, the smallest equal share of a machine's cores for each task."""
    tasks = Counter(worker.machine for _, worker in workers)
    return n_threads or min(max(1, worker.cores // tasks[worker.machine]) for _, worker in workers)
