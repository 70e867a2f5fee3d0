"""A walk on items with learned probabilities, which restarts at a user's own items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.csr_checks import check_csr
from mfrank.arrays.lazy import lazy
from mfrank.backends.walks import Moves
from mfrank.data.pickling import MadeOfFields
from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.stationary import Walker, settled
from mfrank.pagerank.transitions import Transitions
from mfrank.store.checks import check_finite

__all__ = ["ItemWalk"]

Floats = NDArray[np.float64]

_CELLS_AT_ONCE = 1 << 21
_PRIOR_TOLERANCE = 1e-12  # scores use its logarithm, so rare items must be accurate too


@dataclass(frozen=True, eq=False)
class ItemWalk(MadeOfFields):
    """Step probabilities of a walk on items, and the weights of items as restarts.

    Attributes
    ----------
    steps : csr_array, float64, shape (n_items, n_items)
        Entry (a, b) is the probability of the step from a to b; from an empty row a walk restarts.
    bases : float64, shape (n_items,)
        >= 0, <phi1, V_i> of each item i, 0 if it is not in the graph. The walk of a user without
        known items restarts in proportion to it.
    recency : float
        >= 0, weight of an item's recency among the restarts of a user.
    """

    steps: sp.csr_array
    bases: Floats
    recency: float = 0.0

    @classmethod
    def of(cls, graphs: Graphs, weights: Floats, n_items: int, *, has_recency: bool) -> ItemWalk:
        """Merge the graphs of all queries into one walk, for given feature weights.

        The weight of an edge between two items is the sum of its weights in the graphs, the weight
        of an item the mean of its nodes' weights. With ``has_recency``, the last node feature is
        the recency.
        """
        walk = Transitions.of(graphs, weights)
        of_edges = walk.steps * walk.node_sums[graphs.sources]
        ends = graphs.pages[graphs.sources], graphs.pages[graphs.links.indices]
        links = sp.csr_array((of_edges, ends), (n_items, n_items))
        links.eliminate_zeros()
        links.data /= np.repeat(links.sum(axis=1), np.diff(links.indptr))
        m1 = graphs.n_features[0]
        of_nodes = (graphs.node_features * walk.weights[:m1]).sum(axis=1)
        counts = np.bincount(graphs.pages, minlength=n_items)
        bases = np.bincount(graphs.pages, of_nodes, n_items) / np.maximum(counts, 1)
        return cls(links, bases, float(walk.weights[m1 - 1]) if has_recency else 0.0)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.bases)

    @lazy
    def dangling(self) -> NDArray[np.bool_]:
        """Items without steps from them, bool, shape (n_items,)."""
        return np.asarray(np.diff(self.steps.indptr) == 0)

    def starts(self, recencies: sp.csr_array) -> sp.csr_array:
        """Restart probabilities, one row per row of ``recencies``; empty rows stay empty.

        The weight of an item with recency c is its base + c times :attr:`recency`; if a row's
        weights are all 0, its items are equally likely.
        """
        weights = self.bases[recencies.indices] + self.recency * recencies.data
        counts = np.diff(recencies.indptr)
        row = np.repeat(np.arange(len(counts)), counts)
        totals = np.bincount(row, weights, len(counts))[row]
        chances = np.where(totals > 0, weights / np.where(totals > 0, totals, 1), 1 / counts[row])
        return sp.csr_array((chances, recencies.indices, recencies.indptr), recencies.shape)

    def blocks(self, n_rows: int) -> Iterator[slice]:
        """Blocks of rows whose walks are computed together, so that memory stays bounded."""
        size = max(1, _CELLS_AT_ONCE // self.n_items)
        yield from (slice(at, min(at + size, n_rows)) for at in range(0, n_rows, size))

    def rank(self, starts: sp.csr_array, tolerance: float, walker: Walker) -> Floats:
        """Stationary probabilities of the walk from each row of ``starts``, shape (rows, n_items).

        A row of the result does not depend on the other rows.

        Parameters
        ----------
        starts : csr_array, float64, shape (rows, n_items)
            Restart probabilities, as of :meth:`starts`; empty rows restart according to ``bases``.
        tolerance : float
            > 0, bound on the sum of absolute errors of each row.
        """
        blank = np.diff(starts.indptr) == 0
        if blank.any():  # users without known items
            some = sp.csr_array(self.bases / self.bases.sum())
            starts = starts + sp.csr_array(blank[:, None] * 1.0) @ some.reshape((1, -1))
        rows = CSR.from_scipy(sp.csr_array(starts), np.float64)
        return settled(self._moves, rows, tolerance, walker)

    def prior(self, walker: Walker) -> Floats:
        """Probabilities of the walk of a user without known items, shape (n_items,)."""
        return self.rank(sp.csr_array((1, self.n_items)), _PRIOR_TOLERANCE, walker).ravel()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to save, by name."""
        return {
            "indptr": self.steps.indptr.astype(np.int64),
            "indices": self.steps.indices.astype(np.int32),
            "steps": self.steps.data,
            "bases": self.bases,
            "recency": np.array([self.recency]),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> ItemWalk:
        """Rebuild the walk from :meth:`to_arrays`; checks all arrays, which reads them entirely.

        Raises
        ------
        KeyError, ValueError
            An array is missing or invalid.
        """
        steps, indices, indptr = (arrays[name] for name in ("steps", "indices", "indptr"))
        bases, recency = arrays["bases"], arrays["recency"]
        for name, values in (("steps", steps), ("bases", bases), ("recency", recency)):
            if values.dtype != np.float64 or values.ndim != 1:
                raise ValueError(f"{name} must be float64 of shape (n,), got {values.dtype}")
            check_finite(name, values)
        if len(recency) != 1:
            raise ValueError(f"recency must be one number, got {len(recency)}")
        n = len(bases)
        check_csr(indptr, indices, n, n, "steps", data=steps)
        return cls(sp.csr_array((steps, indices, indptr), (n, n)), bases, float(recency[0]))

    @lazy
    def _moves(self) -> Moves:
        return Moves.of(self.steps)
