"""Users judged on the workers of a cluster, some at a time, with the numbers of one process."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.backends.sharded.arithmetic import same_workers, threads_of_a_task
from mfrank.cluster.answers import kind_of, wrong
from mfrank.cluster.connecting import Cluster, connected
from mfrank.cluster.flow import as_done
from mfrank.cluster.worker import Call
from mfrank.evaluation.tally import Tally

__all__ = ["Judge", "judged_on_workers"]

Ints = NDArray[np.int64]

_PARTS_OF_A_WORKER = 4


class Judge(Protocol):
    """Ranks for users, and scores the rankings."""

    @property
    def backend(self) -> str:
        """Name of the backend."""

    @property
    def n_threads(self) -> int:
        """Threads of the backend."""

    def judged(self, users: Ints) -> Tally:
        """The values of these users, in their order."""

    def by_threads(self, n_threads: int) -> Self:
        """The same with this number of threads."""


def judged_on_workers(cluster: Cluster, judge: Judge, users: Ints) -> Tally:
    """The values of all users; each task judges a part of them.

    Raises
    ------
    ConnectionError, ValueError
        Nothing answers there, or the workers do not all have the arithmetic of this process.
    """
    with connected(cluster) as engine:
        workers = same_workers(engine, judge.backend)
        threads = threads_of_a_task(workers, judge.n_threads)
        held = engine.submit(_itself, judge.by_threads(threads))
        n_parts = max(1, min(len(users), _PARTS_OF_A_WORKER * len(workers)))
        given = np.array_split(users, n_parts)
        calls = ((number, Call(_judged, (held, part))) for number, part in enumerate(given))
        found: dict[int, Tally] = dict(as_done(engine, len(workers), calls))
        for part in found.values():
            if not isinstance(part, Tally):
                raise wrong(engine, kind_of(part), "the values of some users")
    whole = found[0]
    for number in range(1, n_parts):
        whole.append(found[number])
    return whole


def _itself(judge: Any) -> Any:
    return judge


def _judged(judge: Judge, users: Ints) -> Tally:
    return judge.judged(users)
