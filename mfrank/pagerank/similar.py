"""The graph of items whose factors are alike, from a fitted store."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_count
from mfrank.backends import choose
from mfrank.cores import check_threads
from mfrank.csr import CSR
from mfrank.pagerank import checks as check
from mfrank.pagerank.graphs import Graphs
from mfrank.store.factors import FactorStore

__all__ = ["similar_items"]


def similar_items(
    store: FactorStore,
    neighbours: int = 20,
    item_features: ArrayLike | None = None,
    *,
    backend: str = "auto",
    n_threads: int = 0,
) -> Graphs:
    """One graph of all items, with edges from each to those most alike; every item is a seed.

    Features of an item: log(1 + its users), the length of its factors, and those given. Features of
    an edge: the cosine of both items' factors, and the features of its target. Only edges with a
    cosine > 0 are there.

    Parameters
    ----------
    store : FactorStore
    neighbours : int, default 20
        Edges from an item, >= 1.
    item_features : shape (n_items, k), optional
        >= 0, such as how recent an item is.

    Raises
    ------
    ValueError, TypeError
        An option that is none, features that do not fit.
    """
    check_count("neighbours", neighbours, 1)
    check_threads(n_threads)
    store = store.on_host()
    lengths = np.linalg.norm(store.item_factors.astype(np.float64), axis=1)
    known = [np.log1p(store.counts.items), lengths]
    if item_features is not None:
        known.append(check.features("item_features", item_features, store.n_items))
    of_items = np.column_stack(known)
    sources, targets, cosines = _nearest(store, lengths, neighbours, backend, n_threads)
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
    neighbours: int,
    backend: str,
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Both ends and cosine of the edges."""
    n = store.n_items
    units = store.item_factors / np.where(lengths > 0, lengths, 1)[:, None].astype(store.dtype)
    itself = CSR(np.arange(n + 1), np.arange(n, dtype=np.int32), None, n)
    found, cosines = choose(backend).top_k(
        units, units, min(neighbours, n), exclude=[itself], n_threads=n_threads
    )
    alike = (found >= 0) & (np.nan_to_num(cosines) > 0)
    sources = np.repeat(np.arange(n), alike.sum(axis=1))
    return sources, found[alike].astype(np.int64), cosines[alike].astype(np.float64)
