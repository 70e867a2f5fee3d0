"""Walks from many restarts as tasks: each worker has the graph, a task some of the restarts.

A walk does not depend on the others, so the bits are those of one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.placement import readable
from mfrank.backends import choose
from mfrank.backends.sharded.arithmetic import (
    Arithmetic,
    arithmetic,
    refuse_joined,
    same_workers,
    threads_of_a_task,
)
from mfrank.backends.walks import Moves
from mfrank.cluster.answers import array_of, wrong
from mfrank.cluster.connecting import Cluster, connected
from mfrank.cluster.flow import as_done
from mfrank.cluster.worker import Call
from mfrank.pagerank.stationary import Walker, settled

__all__ = ["settled_on_workers"]

_CELLS = 1 << 20
"""Of the result of a task: about a thousand walks on a graph of a thousand nodes."""
_SUMS = 1e-2
"""Largest distance from 1 of the sum of a walk's probabilities."""
_ABREAST = 16
"""Walks that share each reading of the edges; a task has a multiple of it, also on large graphs."""

Floats = NDArray[np.float64]


class _Settings(NamedTuple):
    """What all tasks have in common."""

    alpha: float
    tolerance: float
    backend: str
    n_threads: int
    arithmetic: Arithmetic


def settled_on_workers(
    moves: Moves,
    restarts: CSR,
    tolerance: float,
    *,
    alpha: float,
    backend: str,
    n_threads: int,
    cluster: Cluster,
) -> Floats:
    """Stationary distributions of walks on one graph, as :func:`settled` computes them.

    Parameters
    ----------
    moves, restarts, tolerance, alpha, backend, n_threads
        As of :func:`settled` and a :class:`Walker`. ``n_threads`` is that of a task; 0 divides each
        machine's cores among its workers.
    cluster : Cluster
        Checked.

    Raises
    ------
    ConnectionError, ValueError
        Nothing answers there, or the workers do not all have the arithmetic of this process.
    """
    values = np.empty((restarts.n_rows, restarts.n_columns))
    with connected(cluster) as engine:
        workers = same_workers(engine, backend)
        threads = threads_of_a_task(workers, n_threads)
        settings = _Settings(alpha, tolerance, backend, threads, arithmetic())
        graph = engine.submit(_kept, moves)
        calls = (
            (rows, Call(_settled, (graph, _some(restarts, rows), settings)))
            for rows in _blocks(restarts)
        )
        for rows, found in as_done(engine, len(workers), calls):
            task = f"the walks {rows.start} to {rows.stop}"
            shape = rows.stop - rows.start, restarts.n_columns
            values[rows] = array_of(found, shape, np.float64, engine, task)
            if not np.allclose(values[rows].sum(axis=1), 1, atol=_SUMS):
                raise wrong(engine, "what are no probabilities", task)
    return values


def _blocks(restarts: CSR) -> Iterator[slice]:
    size = _ABREAST * max(1, _CELLS // (_ABREAST * restarts.n_columns))
    for begin in range(0, restarts.n_rows, size):
        yield slice(begin, min(begin + size, restarts.n_rows))


def _some(rows: CSR, some: slice) -> CSR:
    indptr = rows.indptr[some.start : some.stop + 1]
    entries = slice(indptr[0], indptr[-1])
    data = None if rows.data is None else rows.data[entries]
    return CSR(indptr - indptr[0], rows.indices[entries], data, rows.n_columns)


def _kept(moves: Moves) -> Moves:
    """The graph, as kernels can read it: what was sent may lie at any address."""
    vectors = (moves.shares, moves.waves, moves.order, moves.place)
    return Moves(_readable(moves.rows), *map(readable, vectors))


def _settled(moves: Moves, restarts: CSR, settings: _Settings) -> Floats:
    refuse_joined(settings.arithmetic)
    walker = Walker(settings.alpha, choose(settings.backend), settings.n_threads)
    return settled(moves, _readable(restarts), settings.tolerance, walker)


def _readable(rows: CSR) -> CSR:
    data = None if rows.data is None else readable(rows.data)
    return CSR(readable(rows.indptr), readable(rows.indices), data, rows.n_columns)
