"""The graph of items with similar factors, from a fitted store."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import check_count
from mfrank.arrays.csr import CSR
from mfrank.arrays.threads import check_threads
from mfrank.backends import choose
from mfrank.pagerank import checks as check
from mfrank.pagerank.graphs import Graphs
from mfrank.store.factors import FactorStore

__all__ = ["similar_items"]


def similar_items(
    store: FactorStore,
    neighbors: int = 20,
    item_features: ArrayLike | None = None,
    *,
    backend: str = "auto",
    n_threads: int = 0,
) -> Graphs:
    """One graph of all items, with edges from each to the most similar; every item is a seed.

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
    found, cosines = choose(backend).top_k(
        units, units, min(neighbors, n), exclude=[itself], n_threads=n_threads
    )
    similar = (found >= 0) & (np.nan_to_num(cosines) > 0)
    sources = np.repeat(np.arange(n), similar.sum(axis=1))
    return sources, found[similar].astype(np.int64), cosines[similar].astype(np.float64)
