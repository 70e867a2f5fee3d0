"""The square loss with margins over pairs of graded pages (Supervised PageRank, 3.1 and 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_at_least_zero, check_choice
from mfrank.arrays.lazy import lazy
from mfrank.pagerank.graphs import Graphs

__all__ = ["Pairs", "SquareLoss"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Sign = Literal["margin", "tolerance"]


@dataclass(frozen=True, eq=False)
class SquareLoss:
    """Mean over queries of the sum over pairs of (pi_worse - pi_better + b)_+ squared.

    The paper writes the sign of b in two ways, which agree only for b = 0:

    - "margin": (A pi + b)_+ as in (3.5); the loss is 0 if the better page leads by at least b.
    - "tolerance": (A pi - b)_+ as in (3.1), min(pi_better - pi_worse + b, 0); the loss is 0 if the
      better page trails by at most b.

    Parameters
    ----------
    margin : float or mapping, default 0.0
        b >= 0, or b_{j1 j2} by pair of labels, ``{(worse, better): b}``, 0 for all other pairs. A
        page's probability is of the order 1 / n_nodes; the paper gives no values.
    sign : {"margin", "tolerance"}, default "margin"
        Sign of b, as above.
    """

    margin: float | Mapping[tuple[float, float], float] = 0.0
    sign: Sign = "margin"

    def __post_init__(self) -> None:
        check_choice("sign", self.sign, get_args(Sign))
        margins = self.margin if isinstance(self.margin, Mapping) else {"margin": self.margin}
        for labels, value in margins.items():
            check_at_least_zero(**{f"margin of {labels}": value})

    def pairs(self, graphs: Graphs) -> Pairs:
        """All pairs of pages of the same query with different labels.

        Raises
        ------
        ValueError
            No query has such a pair.
        """
        worse, better = _pairs(graphs)
        if not len(worse):
            raise ValueError(
                "no query has pages with different labels, so there is nothing to learn; pass at "
                "least two different ones of some query to graphs.with_labels"
            )
        if isinstance(self.margin, Mapping):
            margins = np.zeros(len(worse))
            for (low, high), value in self.margin.items():
                margins[(graphs.labels[worse] == low) & (graphs.labels[better] == high)] = value
        else:
            margins = np.full(len(worse), float(self.margin))
        return Pairs(worse, better, margins if self.sign == "margin" else -margins, graphs.nodes)


def _pairs(graphs: Graphs) -> tuple[Ints, Ints]:
    """Worse and better nodes of all pairs, ordered by query and better label."""
    judged = np.flatnonzero(np.isfinite(graphs.labels))
    query, label = graphs.query_of[judged], graphs.labels[judged]
    order = np.lexsort((label, query))
    judged, query, label = judged[order], query[order], label[order]
    grade = np.concatenate([[0], np.cumsum((np.diff(query) != 0) | (np.diff(label) != 0))])
    first_of_query = np.searchsorted(query, query)
    n_worse = np.searchsorted(grade[: len(judged)], grade[: len(judged)]) - first_of_query
    ends = np.cumsum(n_worse)
    within = np.arange(n_worse.sum()) - np.repeat(ends - n_worse, n_worse)
    return judged[np.repeat(first_of_query, n_worse) + within], np.repeat(judged, n_worse)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of nodes to compare: A and b of (3.5).

    Attributes
    ----------
    worse, better : int64, shape (n_pairs,)
        A has a row e_worse - e_better for each.
    margins : float64, shape (n_pairs,)
        b, negated for a tolerance.
    nodes : int64, shape (n_queries + 1,)
        Offsets of the queries' nodes, as in :class:`Graphs`.
    """

    worse: Ints
    better: Ints
    margins: Floats
    nodes: Ints

    def losses(self, values: Floats) -> Floats:
        """Loss of each query, given the nodes' probabilities, shape (n_queries,)."""
        losses = np.bincount(self._query, self.lags(values) ** 2, len(self.nodes) - 1)
        return np.asarray(losses, dtype=np.float64)

    def gradients(self, values: Floats) -> Floats:
        """Gradients of the queries' losses by pi, 2 A'(A pi + b)_+, shape (n_nodes,)."""
        lags, size = 2 * self.lags(values), int(self.nodes[-1])
        gradients = np.bincount(self.worse, lags, size) - np.bincount(self.better, lags, size)
        return np.asarray(gradients, dtype=np.float64)

    def lags(self, values: Floats) -> Floats:
        """(A pi + b)_+ of each pair, shape (n_pairs,)."""
        return np.maximum(values[self.worse] - values[self.better] + self.margins, 0.0)

    def loads(self, values: Floats) -> Floats:
        """For each query, the largest sum of (A pi + b)_+ over the pairs of one node."""
        lags, size = self.lags(values), int(self.nodes[-1])
        sums = np.bincount(self.worse, lags, size) + np.bincount(self.better, lags, size)
        return np.asarray(np.maximum.reduceat(sums, self.nodes[:-1]))

    @lazy
    def counts(self) -> Ints:
        """Number of pairs of each query; the largest is the paper's r."""
        return np.bincount(self._query, minlength=len(self.nodes) - 1)

    @lazy
    def degrees(self) -> Ints:
        """For each query, the largest number of pairs with one node."""
        size = int(self.nodes[-1])
        touched = np.bincount(self.worse, minlength=size) + np.bincount(self.better, minlength=size)
        return np.asarray(np.maximum.reduceat(touched, self.nodes[:-1]))

    @property
    def most(self) -> float:
        """Upper bound on (A pi + b)_+."""
        return 1 + max(0.0, float(self.margins.max()))

    @lazy
    def _query(self) -> Ints:
        return np.searchsorted(self.nodes, self.worse, side="right") - 1
