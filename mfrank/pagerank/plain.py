"""PageRank and personalized PageRank of one weighted graph, for many restart vectors at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import check_above_zero, share
from mfrank.arrays.csr import CSR
from mfrank.arrays.csr_checks import checked_rows
from mfrank.arrays.labelled import refuse_labels
from mfrank.arrays.threads import check_threads
from mfrank.backends import choose
from mfrank.backends.sharded import check_one_place
from mfrank.backends.walks import Moves
from mfrank.cluster.connecting import Cluster
from mfrank.pagerank.on_workers import settled_on_workers
from mfrank.pagerank.stationary import Walker, settled

__all__ = ["RandomWalk", "pagerank"]

Floats = NDArray[np.float64]


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
            raise ValueError(f"links must be square, nodes x nodes, got shape {out.shape}")
        if not (out.has_canonical_format and out.data.all()):
            out = out.copy()  # leave the caller's matrix unchanged
            out.sum_duplicates()
            out.eliminate_zeros()
        if not np.isfinite(out.data).all() or out.data.min(initial=0.0) < 0:
            raise ValueError("weights of links must be finite and >= 0")
        if not np.isfinite(out.sum(axis=1)).all():
            raise ValueError("weights of links overflow in their sum; scale them down")
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
            >= 0, proportional to the probabilities that the walk restarts at a node; it also
            restarts from nodes without edges. One column for each of k walks. Default: all nodes
            are equally likely (PageRank).
        alpha : float, default 0.15
            Probability of a restart, in (0, 1); 1 - alpha is the damping of Page et al. 1999.
        tolerance : float, default 1e-6
            > 0, certified bound on the sum of absolute errors of each column.
        backend : str, default "auto"
        n_threads : int, default 0
            0 takes every core this process may use.
        cluster : int, dask.distributed.Client, str, Engine or None, default None
            Where the k walks run, as in :meth:`mfrank.ALS.fit`, with the same bits as without a
            cluster. The graph is sent to each worker once, and every task has some of the walks.
            ``n_threads`` is then the number of threads of a task; 0 divides each machine's cores
            among its workers.

        Raises
        ------
        ValueError, TypeError
            ``restarts`` has the wrong shape, is negative, or has a column of zeros; or an option is
            invalid; or ``cluster`` is not a cluster, or its workers have other instruction sets or
            versions of mfrank.
        ConnectionError, ModuleNotFoundError
            No scheduler answers at the address ``cluster``, or there is no Ray cluster; or Dask or
            Ray is not installed.
        """
        share("alpha", alpha)
        check_above_zero(tolerance=tolerance)
        check_threads(n_threads)
        check_one_place(cluster, backend)
        begin = self._restarts(restarts)
        starts = CSR.from_scipy(sp.csr_array(begin.reshape(self.n_nodes, -1).T), np.float64)
        if cluster is None:
            walker = Walker(alpha, choose(backend), n_threads)
            values = settled(self.moves, starts, tolerance, walker)
        else:
            values = settled_on_workers(
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
            raise ValueError(
                f"restarts must have shape ({self.n_nodes},) or ({self.n_nodes}, k), got "
                f"{begin.shape}"
            )
        totals = begin.sum(axis=0)
        if not np.isfinite(totals).all() or begin.min() < 0 or np.min(totals) <= 0:
            raise ValueError(
                "restarts must be finite and >= 0, with a positive value in each column"
            )
        return np.asarray(begin / totals)


def pagerank(links: Any, restarts: ArrayLike | None = None, **options: Any) -> Floats:
    """PageRank of the nodes of a graph; personalized by ``restarts``.

    ``links`` is that of :meth:`RandomWalk.of`, the other arguments are those of
    :meth:`RandomWalk.rank`. For several walks on the same graph, keep a :class:`RandomWalk`.
    """
    return RandomWalk.of(links).rank(restarts, **options)
