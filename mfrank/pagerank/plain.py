"""PageRank and personalized PageRank of one weighted graph, such as a graph of similar items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    CSR,
    check_above_zero,
    check_count,
    check_threads,
    checked_rows,
    readable,
    refuse_labels,
    share,
)
from mfrank.backends import Moves, choose
from mfrank.backends.sharded import (
    Arithmetic,
    arithmetic,
    check_one_place,
    refuse_joined,
    same_workers,
    threads_of_a_task,
)
from mfrank.cluster import Call, Cluster, array_of, as_done, connected, wrong
from mfrank.errors import InputValueError
from mfrank.pagerank import graph_checks as check
from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.stationary import Walker, stationary_rows
from mfrank.store import FactorStore

# Walks as tasks: each worker has the graph, each task some of the restarts.
#
# Walks are independent, so the bits are those of one process.


_CELLS = 1 << 20
"""Size of a task's result: about a thousand walks on a graph of a thousand nodes."""
_SUMS = 1e-2
"""Largest distance from 1 of the sum of a walk's probabilities."""
_ABREAST = 16
"""Walks that share each pass over the edges; a task has a multiple of this, at least one."""

Floats = NDArray[np.float64]


class _Settings(NamedTuple):
    """Settings that all tasks share."""

    alpha: float
    tolerance: float
    backend: str
    n_threads: int
    arithmetic: Arithmetic


def stationary_on_workers(
    moves: Moves,
    restarts: CSR,
    tolerance: float,
    *,
    alpha: float,
    backend: str,
    n_threads: int,
    cluster: Cluster,
) -> Floats:
    """Stationary distributions of walks on one graph, as from :func:`stationary_rows`.

    Parameters
    ----------
    moves, restarts, tolerance, alpha, backend, n_threads
        As in :func:`stationary_rows` and :class:`Walker`. ``n_threads`` is per task; 0 divides each
        machine's cores among its workers.
    cluster : Cluster
        Checked.

    Raises
    ------
    ConnectionError, ValueError
        The cluster does not answer, or its workers' arithmetic differs from this process's.
    """
    values = np.empty((restarts.n_rows, restarts.n_columns))
    with connected(cluster) as engine:
        workers = same_workers(engine, backend)
        threads = threads_of_a_task(workers, n_threads)
        settings = _Settings(alpha, tolerance, backend, threads, arithmetic())
        graph = engine.submit(_readable_moves, moves)
        calls = (
            (rows, Call(_settled, (graph, _some(restarts, rows), settings)))
            for rows in _blocks(restarts)
        )
        for rows, result in as_done(engine, len(workers), calls):
            task = f"the walks {rows.start} to {rows.stop}"
            shape = rows.stop - rows.start, restarts.n_columns
            values[rows] = array_of(result, shape, np.float64, engine, task)
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


def _readable_moves(moves: Moves) -> Moves:
    """The graph, aligned for the kernels: received arrays may lie at any address."""
    vectors = (moves.shares, moves.waves, moves.order, moves.place)
    return Moves(_readable(moves.rows), *map(readable, vectors))


def _settled(moves: Moves, restarts: CSR, settings: _Settings) -> Floats:
    refuse_joined(settings.arithmetic)
    walker = Walker(settings.alpha, choose(settings.backend), settings.n_threads)
    return stationary_rows(moves, _readable(restarts), settings.tolerance, walker)


def _readable(rows: CSR) -> CSR:
    data = None if rows.data is None else readable(rows.data)
    return CSR(readable(rows.indptr), readable(rows.indices), data, rows.n_columns)


@dataclass(frozen=True, eq=False)
class RandomWalk:
    """A walk along the edges of a graph, with probabilities proportional to their weights.

    Attributes
    ----------
    moves : Moves
        The graph's edges and their probabilities.
    """

    moves: Moves

    @classmethod
    def of(cls, links: Any) -> RandomWalk:
        """Make the walk on a square scipy sparse matrix of weights >= 0, from rows to columns.

        Raises
        ------
        ValueError, TypeError
            The matrix is not square, or weights are negative or not finite.
        """
        out = checked_rows(links, "links").astype(np.float64, copy=False)
        if out.shape[0] != out.shape[1] or out.shape[0] == 0:
            raise InputValueError(f"`links` must be square, nodes x nodes, got shape {out.shape}")
        if not (out.has_canonical_format and out.data.all()):
            out = out.copy()  # leave the caller's matrix unchanged
            out.sum_duplicates()
            out.eliminate_zeros()
        if not np.isfinite(out.data).all() or out.data.min(initial=0.0) < 0:
            raise InputValueError("weights of `links` must be finite and >= 0")
        with np.errstate(over="ignore"):
            totals = out.sum(axis=1)
        if not np.isfinite(totals).all():
            raise InputValueError("weights of links overflow in their sum", "scale them down")
        return cls(Moves.of(out))

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.moves.rows.n_rows

    def rank(
        self,
        restarts: ArrayLike | None = None,
        *,
        alpha: float = 0.15,
        tolerance: float = 1e-6,
        backend: str = "auto",
        n_threads: int = 0,
        cluster: Cluster | None = None,
    ) -> Floats:
        """Stationary probabilities of the nodes, of the shape of ``restarts``.

        Parameters
        ----------
        restarts : shape (n,) or (n, k), optional
            >= 0, proportional to the restart probabilities of nodes; one column per walk. Walks
            also restart from nodes without edges. Default: all nodes are equally likely (PageRank).
        alpha : float, default 0.15
            Probability of a restart, in (0, 1); 1 - alpha is the damping of Page et al. 1999.
        tolerance : float, default 1e-6
            > 0. Certified bound on the sum of absolute errors of each column.
        backend : str, default "auto"
        n_threads : int, default 0
            0 takes every core this process may use.
        cluster : int, dask.distributed.Client, str, Engine or None, default None
            Where the k walks run, as in :meth:`mfrank.ALS.fit`, with the same bits as without a
            cluster. The graph is sent to each worker once; each task computes some of the walks.

        Raises
        ------
        ValueError, TypeError
            ``restarts`` has the wrong shape, is negative, or has a column of zeros; an option is
            invalid; or ``cluster`` is not a cluster, or its workers have other instruction sets or
            another version of mfrank.
        ConnectionError, ModuleNotFoundError
            As in :meth:`mfrank.ALS.fit`.
        """
        share("alpha", alpha)
        check_above_zero(tolerance=tolerance)
        check_threads(n_threads)
        check_one_place(cluster, backend)
        begin = self._restarts(restarts)
        starts = CSR.from_scipy(sp.csr_array(begin.reshape(self.n_nodes, -1).T), np.float64)
        if cluster is None:
            walker = Walker(alpha, choose(backend), n_threads)
            values = stationary_rows(self.moves, starts, tolerance, walker)
        else:
            values = stationary_on_workers(
                self.moves,
                starts,
                tolerance,
                alpha=alpha,
                backend=backend,
                n_threads=n_threads,
                cluster=cluster,
            )
        return values.T.reshape(begin.shape)

    def _restarts(self, restarts: ArrayLike | None) -> Floats:
        if restarts is None:
            return np.full(self.n_nodes, 1 / self.n_nodes)
        refuse_labels("restarts", restarts, "bring it into the order of the nodes")
        begin = np.array(restarts, dtype=np.float64, order="C")
        if begin.ndim not in (1, 2) or len(begin) != self.n_nodes or begin.size == 0:
            raise InputValueError(
                f"`restarts` must have shape ({self.n_nodes},) or ({self.n_nodes}, k), got "
                f"{begin.shape}"
            )
        totals = begin.sum(axis=0)
        if not np.isfinite(totals).all() or begin.min() < 0 or np.min(totals) <= 0:
            raise InputValueError(
                "`restarts` must be finite and >= 0, with a positive value in each column"
            )
        return np.asarray(begin / totals)


def pagerank(links: Any, restarts: ArrayLike | None = None, **options: Any) -> Floats:
    """PageRank of the nodes of a graph; personalized by ``restarts``.

    For ``links`` see :meth:`RandomWalk.of`, for all other arguments :meth:`RandomWalk.rank`. For
    several walks on the same graph, use a :class:`RandomWalk`.
    """
    return RandomWalk.of(links).rank(restarts, **options)


# The graph of items with similar factors, from a fitted store.


def similar_items(
    store: FactorStore,
    neighbors: int = 20,
    item_features: ArrayLike | None = None,
    *,
    backend: str = "auto",
    n_threads: int = 0,
) -> Graphs:
    """One graph of all items, with edges to the most similar items; every item is a seed.

    Features of an item: log(1 + its users), the norm of its factors, and ``item_features``.
    Features of an edge: the cosine of both items' factors, and the features of its target. Only
    cosines > 0 make edges.

    Parameters
    ----------
    store : FactorStore
    neighbors : int, default 20
        Maximum number of edges from an item, >= 1.
    item_features : shape (n_items, k), optional
        >= 0, such as the recency of an item.
    backend : str, default "auto"
    n_threads : int, default 0
        0 takes every core this process may use.

    Raises
    ------
    ValueError, TypeError
        An option is invalid, or features are invalid or do not match.
    """
    check_count("neighbors", neighbors, 1)
    check_threads(n_threads)
    store = store.on_host()
    lengths = np.linalg.norm(store.item_factors.astype(np.float64), axis=1)
    known = [np.log1p(store.known_counts.items), lengths]
    if item_features is not None:
        known.append(check.features_of("item_features", item_features, store.item_ids))
    of_items = np.column_stack(known)
    sources, targets, cosines = _nearest(store, lengths, neighbors, backend, n_threads)
    return Graphs.from_edges(
        sources,
        targets,
        seeds="all",
        node_features=of_items,
        edge_features=np.column_stack([cosines, of_items[targets]]),
    )


def _nearest(
    store: FactorStore,
    lengths: NDArray[np.float64],
    neighbors: int,
    backend: str,
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Sources, targets and cosines of the edges."""
    n = store.n_items
    units = store.item_factors / np.where(lengths > 0, lengths, 1)[:, None].astype(store.dtype)
    itself = CSR(np.arange(n + 1), np.arange(n, dtype=np.int32), None, n)
    ids, cosines = choose(backend).top_k(
        units, units, min(neighbors, n), exclude=[itself], n_threads=n_threads
    )
    similar = (ids >= 0) & (np.nan_to_num(cosines) > 0)
    sources = np.repeat(np.arange(n), similar.sum(axis=1))
    return sources, ids[similar].astype(np.int64), cosines[similar].astype(np.float64)
