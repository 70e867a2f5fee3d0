"""Sessions of a log, and the browsing graphs of their queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import CSR, check_above_zero, check_count, check_same_rows
from mfrank.data import (
    Ids,
    Interactions,
    RawIds,
    TimestampUnit,
    check_unit,
    epoch_seconds,
    is_frame,
    tell_of_duration,
)
from mfrank.errors import InputTypeError, InputValueError
from mfrank.pagerank import graph_checks as check
from mfrank.pagerank.graphs import Graphs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class _Counts(NamedTuple):
    """Nodes and edges of the browsing graphs, with their counts."""

    queries: Ints  # of nodes
    pages: Ints
    visits: Ints
    starts: Ints
    sources: Ints  # of edges
    targets: Ints
    moves: Ints

    def restricted(self, nodes: NDArray[np.bool_], edges: NDArray[np.bool_]) -> _Counts:
        """Keep only these nodes, and these edges if both their ends are kept."""
        number = np.cumsum(nodes) - 1
        inside = edges & nodes[self.sources] & nodes[self.targets]
        ends = number[self.sources[inside]], number[self.targets[inside]]
        of_nodes = [column[nodes] for column in self[:4]]
        return _Counts._make([*of_nodes, *ends, self.moves[inside]])


@dataclass(frozen=True, eq=False, repr=False)
class Sessions:
    """Page visits, grouped by session; each session starts from a query.

    A session ends when its visitor types another query or pauses for longer than a gap (Supervised
    PageRank, section 7.1).

    Attributes
    ----------
    pages : int64, shape (n_visits,)
        Row of the visited page, session by session.
    begins : int64, shape (n_sessions + 1,)
        Session s has the visits ``begins[s]:begins[s + 1]``.
    queries : int64, shape (n_sessions,)
        Row of the session's query.
    page_ids, query_ids : Ids
        Ids of the rows.
    """

    pages: Ints
    begins: Ints
    queries: Ints
    page_ids: Ids
    query_ids: Ids

    @classmethod
    def from_log(
        cls,
        visitors: RawIds,
        pages: RawIds,
        timestamps: ArrayLike,
        queries: RawIds | None = None,
        *,
        gap: float | None = 1800,
        page_ids: Ids | None = None,
        timestamp_unit: TimestampUnit | None = None,
    ) -> Sessions:
        """Make sessions from a log with one row per page visit, in any order.

        Parameters
        ----------
        visitors, pages : ids, shape (n,)
        timestamps : numbers or dates, shape (n,)
            As in :meth:`mfrank.Interactions.from_arrays`. Ties of a visitor stay in input order.
        queries : ids, shape (n,), optional
            Query of each visit: the last query of its visitor. Default: one query for all sessions.
        gap : float or None, default 1800
            > 0. Maximum pause within a session, in the unit of the timestamps (seconds for dates;
            the default is the paper's 30 minutes). None sets no limit.
        page_ids : Ids, optional
            Ids of the pages, if they already have rows.
        timestamp_unit : {"s", "ms", "us", "ns"} or None, default None
            As in :meth:`mfrank.Interactions.from_arrays`.

        Raises
        ------
        ValueError, TypeError
            Lengths differ, the log is empty, or ids or timestamps are invalid.
        """
        if gap is not None:
            check_above_zero(gap=gap)
        check_same_rows(visitors=visitors, pages=pages, timestamps=timestamps, queries=queries)
        visitor = Ids.factorize(visitors)[1]
        page_ids, page = (
            Ids.factorize(pages) if page_ids is None else (page_ids, page_ids.rows(pages))
        )
        check_unit(timestamp_unit)
        times = epoch_seconds(timestamps, timestamp_unit)
        if queries is None:
            query_ids, query = Ids.numbered(1), np.zeros(len(page), np.int64)
        else:
            query_ids, query = Ids.factorize(queries)
        sizes = {len(column) for column in (visitor, page, times, query)}
        if len(sizes) > 1:
            raise InputValueError(
                "`visitors`, `pages`, `timestamps` and `queries` must be of one length, got "
                f"{len(visitor)}, {len(page)}, {len(times)} and {len(query)}"
            )
        if sizes == {0}:
            raise InputValueError("the log is empty, so it has no sessions: `visitors` has no row")
        order = np.lexsort((times, visitor))
        visitor, page, times, query = visitor[order], page[order], times[order], query[order]
        new = (np.diff(visitor) != 0) | (np.diff(query) != 0)
        if gap is not None:
            tell_of_duration("gap", gap, times)
            new |= np.diff(times) > gap
        begins = np.concatenate([[0], np.flatnonzero(new) + 1, [len(page)]])
        return cls(page, begins, query[begins[:-1]], page_ids, query_ids)

    @classmethod
    def from_interactions(
        cls, data: Interactions, queries: RawIds | None = None, *, gap: float | None = None
    ) -> Sessions:
        """Make sessions from users' sequences of items, ordered by time.

        Parameters
        ----------
        data : Interactions
            With timestamps.
        queries : ids, shape (n_items,), optional
            Query of each item, such as its category; a session is then a run of items with the same
            query. Default: one query for all sessions.
        gap : float or None, default None
            As in :meth:`from_log`; None makes a user's sequence one session.

        Raises
        ------
        ValueError
            There are no timestamps.
        """
        if data.timestamps is None:
            raise InputValueError(
                "`data` must have timestamps, which order users' items into sequences",
                "pass them to `Interactions.from_arrays`",
            )
        items = data.user_items.indices.astype(np.int64)
        of_item = None if queries is None else _one_per_item(queries, data.n_items)[items]
        rows = cls.from_log(
            data.entry_users.astype(np.int64),
            items,
            data.timestamps,
            of_item,
            gap=gap,
            page_ids=Ids.numbered(data.n_items),
            timestamp_unit="s",
        )
        return cls(rows.pages, rows.begins, rows.queries, data.item_ids, rows.query_ids)

    @property
    def n_sessions(self) -> int:
        """Number of sessions."""
        return len(self.begins) - 1

    def graphs(
        self,
        page_features: ArrayLike | None = None,
        *,
        repeats: bool = False,
        least_visits: int = 1,
        least_moves: int = 1,
        least_starts: int = 1,
    ) -> Graphs:
        """The browsing graph of each query of the sessions.

        Nodes are the pages of the query's sessions, edges lead from a page to the next one, and
        seeds are first pages. Features of a node: log(1 + visits), log(1 + sessions that begin
        there), and the features of its page. Features of an edge: log(1 + count), and the features
        of both its nodes (as in the paper).

        Parameters
        ----------
        page_features : shape (n_pages, k), optional
            >= 0.
        repeats : bool, default False
            Whether consecutive visits of the same page make an edge.
        least_visits, least_moves, least_starts : int, default 1
            Minimum visits of a node, uses of an edge, and sessions that begin at a seed. Queries
            without remaining seeds are left out.

        Raises
        ------
        ValueError, TypeError
            Features are invalid or do not match, or no query is left.
        """
        for name in ("least_visits", "least_moves", "least_starts"):
            check_count(name, locals()[name], 1)
        if is_frame(page_features):
            raise InputTypeError(
                "`page_features` must be an array with the rows of `page_ids`, got a "
                f"{type(page_features).__name__}:",
                "pass its columns of features by reindex(page_ids.labels).to_numpy()",
            )
        if page_features is not None:
            page_features = check.features("page_features", page_features, len(self.page_ids))
        counts = self._counts(repeats)
        nodes = counts.visits >= least_visits
        seeds = nodes & (counts.starts >= least_starts)
        nodes &= np.isin(counts.queries, counts.queries[seeds])
        if not nodes.any():
            raise InputValueError(
                "no query keeps a seed",
                "lower `least_visits` or `least_starts` (the largest counts are "
                f"{counts.visits.max()} visits and {counts.starts.max()} starts)",
            )
        return _built(
            counts.restricted(nodes, counts.moves >= least_moves), page_features, least_starts
        )

    def _counts(self, repeats: bool) -> _Counts:
        query = np.repeat(self.queries, np.diff(self.begins))
        n_pages = len(self.page_ids)
        keys, node, visits = np.unique(
            query * n_pages + self.pages, return_inverse=True, return_counts=True
        )
        starts = np.bincount(node[self.begins[:-1]], minlength=len(keys))
        moved = np.ones(len(node) - 1, dtype=bool)
        moved[self.begins[1:-1] - 1] = False  # from a session's last page to the next one's first
        if not repeats:
            moved &= node[1:] != node[:-1]
        edges, moves = np.unique(node[:-1][moved] * len(keys) + node[1:][moved], return_counts=True)
        ends = np.divmod(edges, len(keys))
        return _Counts(*np.divmod(keys, n_pages), visits, starts, *ends, moves)

    def __repr__(self) -> str:
        return (
            f"Sessions({self.n_sessions:,} sessions of {len(self.query_ids):,} queries, "
            f"{len(self.pages):,} visits of {len(self.page_ids):,} pages)"
        )


def _one_per_item(queries: Any, n_items: int) -> NDArray[Any]:
    of_item = np.asarray(queries)
    if of_item.shape != (n_items,):
        raise InputValueError(
            f"`queries` must have shape ({n_items},), one per item, got {of_item.shape}"
        )
    return of_item


def _built(counts: _Counts, page_features: Floats | None, least_starts: int) -> Graphs:
    queries, first = np.unique(counts.queries, return_index=True)
    size = len(counts.pages)
    known = [] if page_features is None else [page_features[counts.pages]]
    of_node = np.column_stack([np.log1p(counts.visits), np.log1p(counts.starts), *known])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(counts.sources, minlength=size))])
    return Graphs(
        nodes=np.append(first, size),
        links=CSR(indptr, counts.targets.astype(np.int32), None, size),
        node_features=of_node,
        edge_features=np.column_stack(
            [np.log1p(counts.moves), of_node[counts.sources], of_node[counts.targets]]
        ),
        seeds=np.flatnonzero(counts.starts >= least_starts),
        labels=np.full(size, np.nan),
        queries=queries,
        pages=counts.pages,
    )
