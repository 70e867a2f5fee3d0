"""Types of a backend's arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import CSR, Array

Factors = NDArray[Any]
"""Factors of users or items: a numpy array, or a device array with numpy's interface."""

# Options of the solvers of a half-step.


Solver = Literal["auto", "cholesky", "cg"]
GatherDtype = Literal["float16"]


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """Options of the solution of a half-step's rows.

    Attributes
    ----------
    solver : {"auto", "cholesky", "cg"}, default "auto"
        ``cholesky`` is exact; ``cg`` runs preconditioned conjugate gradients from a warm start;
        ``auto`` uses ``cg`` for rows whose exact solution would cost more, else ``cholesky``; rows
        of 4 million entries or more are solved exactly, if their dtype is precise enough for it.
    cg_steps : int, default 3
        Conjugate gradient steps per row without a tolerance. A row stops earlier only if its
        residual is at the level of rounding (:meth:`residual`).
    cg_tolerance : float, optional
        Iterate until the solution x of a row's system A x = b satisfies
        |x - A^-1 b|_A <= |A x - b|_D^-1 <= cg_tolerance |b|_D^-1, where D = weight_r M + ridge_r I
        is the preconditioner (the first bound needs A - D >= 0: no c_e < 0). A row that would need
        more steps than an exact solution costs is solved exactly.
    n_threads : int, default 0
        Number of CPU threads; 0 uses every core this process may use.
    gather_dtype : {"float16"}, optional
        Round the fixed factors f_e to this dtype (:mod:`mfrank.backends.dense`), to read fewer
        bytes. M and v use the unrounded factors: they add no cost per row, and the basis is the
        eigenbasis of this M. Only for backends with this dtype in ``GATHERS``.
    """

    solver: Solver = "auto"
    cg_steps: int = 3
    cg_tolerance: float | None = None
    n_threads: int = 0
    gather_dtype: GatherDtype | None = None

    def residual(self, dtype: DTypeLike) -> float:
        """Bound on |A x - b|_D^-1 / |b|_D^-1 at which steps end: the tolerance, or dtype epsilon.

        Epsilon is relative to the initial residual if that is larger than |b|_D^-1.
        """
        return float(np.finfo(dtype).eps) if self.cg_tolerance is None else self.cg_tolerance


# State and hyperparameters of Adam updates of table rows.


class AdamAverages(NamedTuple):
    """Moving averages of gradients and of their squares (n, K); updates per row, int64 (n,)."""

    means: Array
    squares: Array
    updates: NDArray[np.int64]


class AdamRates(NamedTuple):
    """Hyperparameters of Adam; see :class:`mfrank.descent.optimizers.Adam`."""

    learning_rate: float
    decay_1: float
    decay_2: float
    epsilon: float


# Sampling items that are not in a user's row, uniformly or by given probabilities.


ROUNDS = 50
"""Maximum number of tries to draw an item that is not in the user's row."""


class ItemProbabilities(NamedTuple):
    """Sampling probabilities of items.

    Attributes
    ----------
    cumulative : float64, shape (n_items,)
        Cumulative probabilities; the last is 1.
    guide : int64, shape (n_items,)
        At j, the first item with a cumulative probability above j / n_items, where the search for
        a number in [j, j + 1) / n_items begins.
    """

    cumulative: NDArray[np.float64]
    guide: NDArray[np.int64]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> ItemProbabilities:
        """Probabilities proportional to ``weights`` >= 0, at least one of them > 0."""
        cumulative = np.cumsum(weights / weights.sum())
        cumulative[np.flatnonzero(weights)[-1] :] = 1.0  # exactly 1, despite rounding
        starts = np.arange(len(weights)) / len(weights)
        return cls(cumulative, np.searchsorted(cumulative, starts, side="right"))


# Matrices of random walks, in the layouts that backends iterate: a Chain is block-diagonal, with
# blocks that are sparse plus rank one; Moves are the transitions of one graph, laid out for its
# stationary distributions.


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A square block-diagonal matrix M with blocks M_b = W_b + l_b r_b'.

    In a transition matrix P, W contains the edges' probabilities, l is 1 at nodes without edges
    (where walks restart) and 0 elsewhere, and r is the restart distribution. The transpose P' is W'
    with l and r exchanged.

    Attributes
    ----------
    rows : CSR, n rows and columns, float32 or float64
        W, with values; the entries of a block's rows are in the block's columns.
    blocks : int64, shape (n_blocks + 1,)
        Block b has the rows and columns ``blocks[b]:blocks[b + 1]``, at least one.
    left : shape (n, 1) or (n, k), or None
        l, in W's dtype: one for all k iterated columns, or one for each.
    right : shape (n,), or None
        r, in W's dtype; required with ``left``.
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
        Maximum number of steps.
    tolerance : float64, shape (n_blocks,), or None
        Stop after a step whose change has at most this norm; None runs all steps.
    norm : {"sum", "spread"}, default "sum"
        Norm of the change: the sum of absolute values, or half of (largest - smallest), which
        ignores an added constant. With several columns, the largest of their norms.
    """

    steps: int
    tolerance: NDArray[np.float64] | None = None
    norm: Literal["sum", "spread"] = "sum"


class Walked(NamedTuple):
    """Result of an iteration.

    Attributes
    ----------
    values : shape (n, k)
    changes : float64, shape (n_blocks,)
        Norm of the last step's change; infinite if no step was taken.
    steps : int64, shape (n_blocks,)
        Number of steps taken.
    """

    values: NDArray[Any]
    changes: NDArray[np.float64]
    steps: NDArray[np.int64]


_WAVES = 16


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """A graph's edges grouped by target node, with the nodes divided into waves.

    A walk leaves a node along its edges with probabilities proportional to their weights; at a node
    without edges it restarts. A sweep updates the nodes of a wave together, after those of earlier
    waves (block Gauss-Seidel). Nodes sorted by in-degree are assigned to the waves in turn, so that
    consecutive rows have about equal length and neighbors tend to be in different waves: the more
    updated values an update reads, the fewer sweeps are needed.

    Attributes
    ----------
    rows : CSR, n rows and columns, float64 or without values
        Row i contains the edges to node ``order[i]``; an edge's column is the ``place`` of its
        source. Values are the edges' probabilities; without values, all edges from a node are
        equally likely.
    shares : float64, shape (n,)
        Factor of the values on edges from node ``order[i]``: 1 if there are values, else
        1 / (number of edges from it); 0 if it has no edges, so that walks restart there.
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
        """From a square matrix without duplicates: weights > 0 of edges from rows to columns."""
        n, counts = links.shape[0], np.diff(links.indptr)
        has_edges = counts > 0
        first = np.zeros(n)
        first[has_edges] = links.data[links.indptr[:-1][has_edges]]
        uniform = bool((links.data == np.repeat(first, counts)).all())
        shares = has_edges * (1 / np.maximum(counts, 1) if uniform else 1.0)
        n_sources = np.bincount(links.indices, minlength=n)
        ranked, n_waves = np.argsort(-n_sources, kind="stable"), min(_WAVES, n)
        order = np.concatenate([ranked[wave::n_waves] for wave in range(n_waves)])
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        place_32 = place.astype(np.int32)
        values: NDArray[Any] = np.ones(links.nnz, dtype=bool)
        if not uniform:
            values = links.data / np.repeat(links.sum(axis=1), counts)
        offsets = links.indptr.astype(np.int32) if links.nnz < 2**31 else links.indptr
        by_target = sp.csr_array((values, place_32[links.indices], offsets), links.shape).tocsc()
        data = None if uniform else by_target.data
        rows = CSR(by_target.indptr.astype(np.int64), place_32[by_target.indices], data, n)
        sizes = [len(ranked[wave::n_waves]) for wave in range(n_waves)]
        return cls(rows, shares[order], np.concatenate([[0], np.cumsum(sizes)]), order, place)

    def chain(self, restarts: NDArray[np.float64]) -> Chain:
        """P' as a chain, for restart distributions ``restarts``, shape (n, k), both by row."""
        data = self.rows.data
        if data is None:
            data = self.shares[self.rows.indices]
        stuck = np.where(self.shares == 0, 1.0, 0.0)
        blocks = np.array([0, len(self.shares)])
        return Chain(replace(self.rows, data=data), blocks, restarts, stuck)


class Stationary(NamedTuple):
    """Stationary distributions.

    Attributes
    ----------
    values : float64, shape (k, n)
        One distribution per row, indexed by node, with sum 1.
    errors : float64, shape (k,)
        Upper bound on each row's sum of absolute errors, apart from float64 rounding.
    steps : int64, shape (k,)
        Number of sweeps over all edges.
    """

    values: NDArray[np.float64]
    errors: NDArray[np.float64]
    steps: NDArray[np.int64]
