"""The filters of a call in row numbers, converted as ``recommend`` converts them."""

from __future__ import annotations

from typing import Any

import numpy as np

import mfrank
from mfrank.retrieval import Candidates, KnownQueries, OwnRows, Queries, sides


def asked(rows: Any, n_rows: int) -> Queries:
    """Queries that are rows of a model with ``n_rows`` of them."""
    return Queries(np.asarray(rows, dtype=np.int64), len(rows), n_rows)


def candidates(
    queries: Queries,
    n_items: int,
    *,
    user_items: Any = None,
    filter_items: Any = None,
    items: Any = None,
    on_unknown: Any = "error",
) -> Candidates:
    """What the lists of these queries may hold."""
    store = mfrank.FactorStore(np.ones((max(queries.n_rows, 1), 1)), np.ones((n_items, 1)))
    users, answering = sides(store, by_row=True)
    made = Candidates.of(queries, answering, filter_items, items, on_unknown)
    if user_items is None:
        return made
    known: Any = KnownQueries(users, queries.rows, queries)
    return made.without_lists(OwnRows(known, user_items, answering, None).seen())
