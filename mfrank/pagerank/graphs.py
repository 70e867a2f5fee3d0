"""Graphs of all queries in one structure: nodes, edges and features are concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import CSR, check_same_rows, lazy, refuse_labels
from mfrank.errors import InputValueError
from mfrank.pagerank import graph_checks as check

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Backlinks(NamedTuple):
    """The edges grouped by target.

    Attributes
    ----------
    rows : CSR, n_nodes rows and columns, without values
        Row i contains the sources of the edges to node i.
    edges : int64, shape (n_edges,)
        Index of each entry of ``rows`` in :attr:`Graphs.links`.
    """

    rows: CSR
    edges: Ints


@dataclass(frozen=True, eq=False, repr=False)
class Graphs:
    """One directed graph per query, with the features that determine node and edge weights.

    Nodes are numbered across all queries; no edge connects the graphs of two queries. Create with
    :meth:`from_edges`, :meth:`mfrank.pagerank.Sessions.graphs` or
    :func:`mfrank.pagerank.similar_items`. (Zhukovskii et al. 2014; the notation of the Supervised
    PageRank paper is in brackets.)

    Attributes
    ----------
    nodes : int64, shape (n_queries + 1,)
        Query q has the nodes ``nodes[q]:nodes[q + 1]`` [V_q].
    links : CSR, n_nodes rows and columns, without values
        Row i contains the targets of the edges from node i, ascending [E_q].
    node_features : float64, shape (n_nodes, m1)
        >= 0 [V].
    edge_features : float64, shape (n_edges, m2)
        >= 0, in the order of ``links`` [E].
    seeds : int64, shape (n_seeds,)
        Nodes where walks begin and restart, ascending, at least one per query [U_q].
    labels : float64, shape (n_nodes,)
        Graded relevance to the query, higher is better; NaN if unjudged.
    queries : int64, shape (n_queries,)
        Caller's row of each query, such as the user's row.
    pages : int64, shape (n_nodes,)
        Row of each node's page or item, ascending within a query.

    Raises
    ------
    ValueError, TypeError
        Shapes do not match, features are negative or not finite, a query has no nodes or no seeds,
        or an edge leads to another query.
    """

    nodes: Ints
    links: CSR
    node_features: Floats
    edge_features: Floats
    seeds: Ints
    labels: Floats
    queries: Ints
    pages: Ints

    def __post_init__(self) -> None:
        check.partition(self.nodes, self.links.n_rows)
        put = object.__setattr__
        for name, rows in (("node_features", self.n_nodes), ("edge_features", self.n_edges)):
            put(self, name, check.features(name, getattr(self, name), rows))
        put(self, "labels", check.labels(self.labels, self.n_nodes))
        for name, size in (("queries", self.n_queries), ("pages", self.n_nodes)):
            put(self, name, check.rows(name, getattr(self, name), size))
        put(self, "seeds", check.seeds(self.seeds, self.nodes))
        check.edges_within(self.query_of, self.sources, self.links.indices)

    @classmethod
    def from_edges(
        cls,
        sources: ArrayLike,
        targets: ArrayLike,
        *,
        seeds: ArrayLike | Literal["all"],
        node_features: ArrayLike | None = None,
        edge_features: ArrayLike | None = None,
        query_of: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        n_nodes: int | None = None,
    ) -> Graphs:
        """Make graphs from an edge list; nodes are numbered from 0 across all queries.

        Parameters
        ----------
        sources, targets : int, shape (n_edges,)
            In any order, without duplicates.
        seeds : int, shape (n_seeds,), or "all"
            Nodes where walks begin, at least one per query.
        node_features, edge_features : shape (n_nodes, m1), (n_edges, m2), optional
            >= 0; default a single feature of 1, which gives all nodes or edges equal weights.
        query_of : int, shape (n_nodes,), optional
            Query of each node, 0, 0, ..., 1, 1, ...; default a single query.
        labels : shape (n_nodes,), optional
            Graded relevance, NaN if unjudged; default NaN everywhere.
        n_nodes : int, optional
            Number of nodes; required if no argument has one row per node and the last node has no
            edge.

        Raises
        ------
        ValueError, TypeError
            As for :class:`Graphs`; also nodes out of range, or repeated edges.
        """
        for name, of_nodes in (
            ("node_features", node_features),
            ("query_of", query_of),
            ("labels", labels),
        ):
            refuse_labels(name, of_nodes, "bring it into the order of the nodes")
        check_same_rows(sources=sources, targets=targets, edge_features=edge_features)
        sources, targets = np.asarray(sources), np.asarray(targets)
        sizes = [len(np.asarray(a)) for a in (node_features, query_of, labels) if a is not None]
        size = check.n_nodes(n_nodes, sizes, sources, targets)
        from_, to = check.edges(sources, targets, size)
        order = np.lexsort((to, from_))
        from_, to = from_[order], to[order]
        check.unique_edges(from_, to)
        features = np.ones((len(to), 1)) if edge_features is None else np.asarray(edge_features)
        if len(features) != len(to):
            raise InputValueError(f"`edge_features` has {len(features)} rows for {len(to)} edges")
        nodes = check.offsets(np.zeros(size, np.int64) if query_of is None else query_of, size)
        every = np.arange(size)
        return cls(
            nodes,
            CSR(_offsets(from_, size), to.astype(np.int32), None, size),
            np.ones((size, 1)) if node_features is None else np.asarray(node_features),
            features[order],
            every if isinstance(seeds, str) and seeds == "all" else np.asarray(seeds),
            np.full(size, np.nan) if labels is None else np.asarray(labels),
            np.arange(len(nodes) - 1),
            every - np.repeat(nodes[:-1], np.diff(nodes)),
        )

    @property
    def n_queries(self) -> int:
        """Number of queries, |Q|."""
        return len(self.nodes) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all queries."""
        return self.links.n_rows

    @property
    def n_edges(self) -> int:
        """Number of edges of all queries."""
        return len(self.links.indices)

    @property
    def n_features(self) -> tuple[int, int]:
        """Number of node and of edge features, m1 and m2."""
        return self.node_features.shape[1], self.edge_features.shape[1]

    @lazy
    def query_of(self) -> Ints:
        """Query of each node, int64, shape (n_nodes,)."""
        return np.repeat(np.arange(self.n_queries), np.diff(self.nodes))

    @lazy
    def sources(self) -> NDArray[np.int32]:
        """Source of each edge, int32, shape (n_edges,)."""
        return np.repeat(np.arange(self.n_nodes, dtype=np.int32), self.links.counts)

    @lazy
    def dangling(self) -> NDArray[np.bool_]:
        """Nodes without edges from them, where walks restart; bool, shape (n_nodes,)."""
        return np.asarray(self.links.counts == 0)

    @lazy
    def backlinks(self) -> Backlinks:
        """The edges grouped by target; computed once."""
        numbers = np.arange(self.n_edges)
        shape = self.n_nodes, self.n_nodes
        back = sp.csr_array((numbers, self.links.indices, self.links.indptr), shape=shape).tocsc()
        return Backlinks(CSR.from_scipy(back.T, None), back.data)

    def find(self, queries: ArrayLike, pages: ArrayLike) -> Ints:
        """Node of each pair (query row, page row), int64, shape (n,); -1 if there is none.

        ``queries`` and ``pages`` are whole numbers of shape (n,). A row of -1, which
        :meth:`mfrank.data.Ids.rows` gives for unknown ids, is in no graph.

        Raises
        ------
        ValueError, TypeError
            Lengths differ, or the numbers are not whole.
        """
        check_same_rows(queries=queries, pages=pages)
        query = check.whole("queries", np.asarray(queries))
        page = check.whole("pages", np.asarray(pages))
        if len(query) != len(page):
            raise InputValueError(
                f"`queries` and `pages` must have one length, got {len(query)} and {len(page)}"
            )
        width = 1 + int(self.pages.max())
        order = np.argsort(self.queries[self.query_of], kind="stable")
        known = self.queries[self.query_of[order]] * width + self.pages[order]
        wanted = np.where((page < 0) | (page >= width), -1, query * width + page)
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[at] == wanted, order[at], -1)

    def with_labels(self, labels: ArrayLike) -> Graphs:
        """The same graphs with these labels, shape (n_nodes,), NaN where not judged."""
        refuse_labels("labels", labels, "bring it into the order of the nodes")
        return replace(self, labels=np.asarray(labels))

    def with_constant(self) -> Graphs:
        """The same graphs with one more node feature and edge feature, 1 everywhere.

        It keeps the sums of the weights, of seeds and of the edges from a node, above 0.
        """
        return replace(
            self,
            node_features=np.append(self.node_features, np.ones((self.n_nodes, 1)), axis=1),
            edge_features=np.append(self.edge_features, np.ones((self.n_edges, 1)), axis=1),
        )

    def take(self, queries: Sequence[int] | NDArray[Any]) -> Graphs:
        """The graphs of some queries, by index, in the order of the argument.

        Raises
        ------
        ValueError
            There is no query, or an index is out of range.
        """
        chosen = check.numbers("queries", queries, self.n_queries)
        sizes = np.diff(self.nodes)[chosen]
        own = _ranges(self.nodes[chosen], sizes)
        counts = self.links.counts[own]
        edges = _ranges(self.links.indptr[own], counts)
        nodes = np.concatenate([[0], np.cumsum(sizes)])
        shift = np.repeat(nodes[:-1] - self.nodes[chosen], sizes)
        targets = self.links.indices[edges] + np.repeat(shift, counts)
        is_seed = np.zeros(self.n_nodes, dtype=bool)
        is_seed[self.seeds] = True
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return Graphs(
            nodes,
            CSR(indptr, targets.astype(np.int32), None, len(own)),
            self.node_features[own],
            self.edge_features[edges],
            np.flatnonzero(is_seed[own]),
            self.labels[own],
            self.queries[chosen],
            self.pages[own],
        )

    def __repr__(self) -> str:
        m1, m2 = self.n_features
        return (
            f"Graphs({self.n_queries:,} queries, {self.n_nodes:,} nodes with {m1} features, "
            f"{self.n_edges:,} edges with {m2}, {len(self.seeds):,} seeds, "
            f"{int(np.isfinite(self.labels).sum()):,} labels)"
        )


def _offsets(rows: Ints, n_rows: int) -> Ints:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))])


def _ranges(begins: Ints, sizes: Ints) -> Ints:
    """The numbers begin, begin + 1, ... of each range, concatenated; at least one range."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) + np.repeat(begins - ends + sizes, sizes)
