"""Matrices of random walks, as backends iterate them.

A :class:`Chain` is any of them, sparse blocks plus, in each, rank one; :class:`Moves` are those of
one graph, laid out for its stationary distributions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.csr import CSR

__all__ = ["Chain", "Moves", "Settled", "Until", "Walked"]


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A square matrix M of diagonal blocks, each M_b = W_b + l_b r_b'.

    With the transition probabilities of edges in W, and the nodes without edges restarting, P has
    l = 1 at those nodes, r = where walks restart; its transpose is W' with l and r exchanged.

    Attributes
    ----------
    rows : CSR, n rows and columns, float32 or float64
        W, with values; entries of a block lie in its columns.
    blocks : int64, shape (n_blocks + 1,)
        Block b has the rows and columns ``blocks[b]:blocks[b + 1]``, at least one.
    left : shape (n, 1) or (n, k), or None
        l, of W's dtype; where k columns are iterated, each may have its own.
    right : shape (n,), or None
        r, of W's dtype, where there is a ``left``.
    """

    rows: CSR
    blocks: NDArray[np.int64]
    left: NDArray[Any] | None = None
    right: NDArray[Any] | None = None


class Until(NamedTuple):
    """When the iteration of a block ends.

    Attributes
    ----------
    steps : int
        Most steps.
    tolerance : float64, shape (n_blocks,), or None
        Where the last step changed the block no more than this; None takes all steps.
    norm : {"sum", "spread"}
        Of the change: the sum of absolute values, or half of (largest - smallest), which constants
        do not count in. Of several columns the largest norm.
    """

    steps: int
    tolerance: NDArray[np.float64] | None = None
    norm: Literal["sum", "spread"] = "sum"


class Walked(NamedTuple):
    """Where an iteration ended.

    Attributes
    ----------
    values : shape (n, k)
    changes : float64, shape (n_blocks,)
        Norm of the last step's change; infinite where no step was taken.
    steps : int64, shape (n_blocks,)
    """

    values: NDArray[Any]
    changes: NDArray[np.float64]
    steps: NDArray[np.int64]


_WAVES = 16


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """A graph's edges by their targets, the nodes dealt out to waves.

    A node's probability goes along its edges in proportion to their weights, and back to where the
    walk restarts from one without edges. Nodes of a wave are brought up to date together, after
    those of the waves before. The nodes are dealt by the number of edges to them, so that rows of
    about equal length follow each other and neighbours of a graph come into different waves: the
    more of what a node is made of is new, the fewer the sweeps.

    Attributes
    ----------
    rows : CSR, n rows and columns, float64 or without values
        Row i, of node ``order[i]``, has the edges to it, in columns the ``place`` of their sources.
        Values are the edges' probabilities; without any, all edges from a node have the same.
    shares : float64, shape (n,)
        What node ``order[i]`` gives along an edge, times its value: 1 where there are values, else
        1 / (edges from it); 0 where there are none, which restarts.
    waves : int64, shape (n_waves + 1,)
        Wave w has the rows ``waves[w]:waves[w + 1]``.
    order, place : int64, shape (n,)
        Node of each row, and row of each node.
    """

    rows: CSR
    shares: NDArray[np.float64]
    waves: NDArray[np.int64]
    order: NDArray[np.int64]
    place: NDArray[np.int64]

    @classmethod
    def of(cls, links: sp.csr_array) -> Moves:
        """Of weights > 0 of the edges from rows to columns, square, none twice."""
        n, counts = links.shape[0], np.diff(links.indptr)
        there = counts > 0
        first = np.zeros(n)
        first[there] = links.data[links.indptr[:-1][there]]
        alike = bool((links.data == np.repeat(first, counts)).all())
        shares = there * (1 / np.maximum(counts, 1) if alike else 1.0)
        n_sources = np.bincount(links.indices, minlength=n)
        ranked, n_waves = np.argsort(-n_sources, kind="stable"), min(_WAVES, n)
        order = np.concatenate([ranked[wave::n_waves] for wave in range(n_waves)])
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        short = place.astype(np.int32)
        values: NDArray[Any] = np.ones(links.nnz, dtype=bool)
        if not alike:
            values = links.data / np.repeat(links.sum(axis=1), counts)
        offsets = links.indptr.astype(np.int32) if links.nnz < 2**31 else links.indptr
        back = sp.csr_array((values, short[links.indices], offsets), links.shape).tocsc()
        kept = None if alike else back.data
        rows = CSR(back.indptr.astype(np.int64), short[back.indices], kept, n)
        sizes = [len(ranked[wave::n_waves]) for wave in range(n_waves)]
        return cls(rows, shares[order], np.concatenate([[0], np.cumsum(sizes)]), order, place)

    def chain(self, restarts: NDArray[np.float64]) -> Chain:
        """The same matrix, by rows, for ``restarts``, shape (n, k), by rows."""
        data = self.rows.data
        if data is None:
            data = self.shares[self.rows.indices]
        stuck = np.where(self.shares == 0, 1.0, 0.0)
        blocks = np.array([0, len(self.shares)])
        return Chain(replace(self.rows, data=data), blocks, restarts, stuck)


class Settled(NamedTuple):
    """Stationary distributions.

    Attributes
    ----------
    values : float64, shape (k, n)
        By nodes, each row of sum 1.
    errors : float64, shape (k,)
        Bound of the sum of absolute errors of each row, the rounding of float64 apart.
    steps : int64, shape (k,)
        Sweeps over all edges.
    """

    values: NDArray[np.float64]
    errors: NDArray[np.float64]
    steps: NDArray[np.int64]
