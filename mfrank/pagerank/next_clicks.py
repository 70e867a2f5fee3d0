"""The item graph of users' sequences, and queries to learn the next item from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import CSR, distinct
from mfrank.data import Interactions, rank_in_rows
from mfrank.errors import InputValueError
from mfrank.pagerank import graph_checks as check
from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.item_walk import ItemWalk
from mfrank.pagerank.sessions import Sessions
from mfrank.pagerank.stationary import Walker

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_TOLERANCE = 1e-6  # of the walks that select candidates


class Draw(NamedTuple):
    """Number of queries to draw, candidates per query, and the random generator."""

    queries: int
    candidates: int
    random: np.random.Generator


def recencies(data: Interactions, recent: int) -> sp.csr_array:
    """Recency of each user's last ``recent`` items: 1 for the last, then 1/2, 1/3, ...

    For equal timestamps, the higher row is later, as in :class:`Sessions`.

    Returns
    -------
    csr_array, float64, shape (n_users, n_items)
    """
    users, rows = data.entry_users, data.user_items
    places = data.counts.users[users] - rank_in_rows(rows.indptr, np.asarray(data.timestamps))
    is_recent = places <= recent
    counts = np.bincount(users[is_recent], minlength=data.n_users)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sp.csr_array((1 / places[is_recent], rows.indices[is_recent], indptr), rows.shape)


def item_graph(data: Interactions, item_features: ArrayLike | None, gap: float | None) -> Graphs:
    """The graph of the users' items, with edges both ways between consecutive items.

    - Features of an item: log(1 + its users), log(1 + sessions that begin with it), and
      ``item_features``, each divided by its largest value; then its recency, which depends on the
      user and is 0 here.
    - Features of an edge: the counts of the edge and of its reverse, 1, and the features of its
      target except recency, each divided by its sum over the edges from the same source. Each edge
      feature thus defines a walk, and the weights mix these walks.

    Every item is a seed.
    """
    if item_features is not None:
        item_features = check.features_of("item_features", item_features, data.item_ids)
    browsed = Sessions.from_interactions(data, gap=gap).graphs(item_features)
    edges = _both_ways(browsed)
    of_target = browsed.node_features[edges.links.indices]
    known = np.column_stack([edges.taken, edges.reverse, np.ones(len(of_target)), of_target])
    recency = np.zeros((browsed.n_nodes, 1))
    return replace(
        browsed,
        links=edges.links,
        node_features=_scaled(np.append(browsed.node_features, recency, axis=1)),
        edge_features=by_source(edges.sources, known, browsed.n_nodes),
        seeds=np.arange(browsed.n_nodes),
    )


class _Edges(NamedTuple):
    """Edges, with the number of times each and its reverse were taken."""

    links: CSR
    sources: Ints
    taken: Floats
    reverse: Floats


def _both_ways(browsed: Graphs) -> _Edges:
    """The edges of a browsing graph and their reverses."""
    size, times = browsed.n_nodes, np.rint(np.expm1(browsed.edge_features[:, 0]))
    from_, to = browsed.sources.astype(np.int64), browsed.links.indices.astype(np.int64)
    keys, place = np.unique(
        np.concatenate([from_ * size + to, to * size + from_]), return_inverse=True
    )
    taken: Floats
    reverse: Floats
    taken, reverse = (
        np.bincount(half, times, len(keys)).astype(np.float64) for half in np.split(place, 2)
    )
    sources, targets = np.divmod(keys, size)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=size))])
    return _Edges(CSR(indptr, targets.astype(np.int32), None, size), sources, taken, reverse)


def by_source(sources: NDArray[Any], features: Floats, n_nodes: int) -> Floats:
    """Edge features, each divided by its sum over the edges from the same source, if > 0."""
    sums = np.stack([np.bincount(sources, column, n_nodes) for column in features.T], axis=1)
    fractions: Floats = features / np.where(sums > 0, sums, 1)[sources]
    return fractions


def next_click_queries(
    graph: Graphs,
    recent: sp.csr_array,
    seen: sp.csr_array,
    labels: sp.csr_array,
    draw: Draw,
    walker: Walker,
) -> Graphs:
    """One query for each drawn user: which item follows the user's last items.

    The graph of a query has the user's recent items (the seeds), the relevant items, and the most
    likely candidates of the untuned walk from the seeds, with the edges of the item graph between
    them. Relevant items have their labels, other items of the user are unjudged (NaN), and the rest
    are labeled 0.

    Parameters
    ----------
    graph : Graphs
        From :func:`item_graph`.
    recent : csr_array, shape (n_users, n_items)
        From :func:`recencies`.
    seen, labels : csr_array, shape (n_users, n_items)
        Items that users have (the stored entries), and relevance of further items (if above 0).
    draw : Draw
    walker : Walker
        Computes the untuned walks.

    Raises
    ------
    ValueError
        No user has both a recent and a relevant item in the graph.
    """
    n_items = recent.shape[1]
    eligible = np.flatnonzero(_has_any_of(graph, recent) & _has_any_of(graph, labels))
    if not len(eligible):
        raise InputValueError(
            "there is no next item to learn from: no user has both a recent and a relevant item "
            "in the graph",
            "pass labels, or `method=None`",
        )
    users = np.sort(draw.random.choice(eligible, min(draw.queries, len(eligible)), replace=False))
    walk = ItemWalk.of(graph, np.ones(sum(graph.n_features)), n_items, has_recency=True)
    starts = walk.starts(recent[users])
    parts: list[_Part] = []
    # The number of each edge, from 1, because a 0 is no entry of a sparse matrix.
    numbers = sp.csr_array(
        (np.arange(1, graph.n_edges + 1), graph.links.indices, graph.links.indptr),
        (graph.n_nodes, graph.n_nodes),
    )
    for block in walk.blocks(len(users)):
        values = walk.rank(starts[block], _TOLERANCE, walker)
        for user, likely in zip(users[block], values, strict=True):
            rows = [_row(table, user) for table in (recent, seen, labels)]
            parts.append(_part(graph, numbers, rows, likely, draw.candidates))
    return _joined(graph, parts, users)


def _has_any_of(graph: Graphs, table: sp.csr_array) -> NDArray[np.bool_]:
    """Whether each row has a value above 0 for an item of the graph."""
    in_graph = np.zeros(table.shape[1])
    in_graph[graph.pages] = 1
    return np.asarray((table > 0) @ in_graph > 0)


class _Part(NamedTuple):
    """The graph of one query: its nodes by their index in the item graph, and its edges."""

    nodes: Ints
    sources: Ints
    targets: Ints
    edges: Ints
    recency: Floats
    labels: Floats


def _row(table: sp.csr_array, row: int) -> tuple[NDArray[Any], NDArray[Any]]:
    part = slice(table.indptr[row], table.indptr[row + 1])
    return table.indices[part], table.data[part]


def _part(
    graph: Graphs,
    numbers: sp.csr_array,
    rows: list[tuple[NDArray[Any], NDArray[Any]]],
    likely: Floats,
    candidates: int,
) -> _Part:
    """Make the query of one user from their ``rows`` of recent, seen and relevant items."""
    (recent, recency), (seen, _), (labeled, labels) = rows
    likeliest = np.argsort(-likely, kind="stable")[: candidates + len(seen)]
    likeliest = likeliest[~np.isin(likeliest, seen)][:candidates]
    relevant = labels > 0
    items = distinct(np.concatenate([recent, labeled[relevant], likeliest]))
    items = items[np.isin(items, graph.pages)]
    judged = np.where(np.isin(items, seen), np.nan, 0.0)
    at = np.isin(labeled, items) & relevant
    judged[np.searchsorted(items, labeled[at])] = labels[at]
    of_item = np.zeros(len(items))
    there = np.isin(recent, items)
    of_item[np.searchsorted(items, recent[there])] = recency[there]
    nodes = np.searchsorted(graph.pages, items)
    links = numbers[nodes][:, nodes].tocsr()
    links.sort_indices()
    sources = np.repeat(np.arange(len(nodes)), np.diff(links.indptr))
    return _Part(nodes, sources, links.indices.astype(np.int64), links.data - 1, of_item, judged)


def _joined(graph: Graphs, parts: list[_Part], users: Ints) -> Graphs:
    begins = np.concatenate([[0], np.cumsum([len(part.nodes) for part in parts])])
    nodes, edges, recency, labels = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("nodes", "edges", "recency", "labels")
    )
    pairs = list(zip(begins[:-1], parts, strict=True))
    sources = np.concatenate([begin + part.sources for begin, part in pairs])
    targets = np.concatenate([begin + part.targets for begin, part in pairs])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=len(nodes)))])
    of_nodes = graph.node_features[nodes]
    of_nodes[:, -1] = recency
    return Graphs(
        begins,
        CSR(indptr, targets.astype(np.int32), None, len(nodes)),
        of_nodes,
        graph.edge_features[edges],
        np.flatnonzero(recency),
        labels,
        users,
        graph.pages[nodes],
    )


def _scaled(features: Floats) -> Floats:
    largest = features.max(axis=0)
    return features / np.where(largest > 0, largest, 1)
