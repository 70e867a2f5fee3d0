"""Weights of interactions from information retrieval: BM25 and tf-idf.

An item is a document and its users are the terms: a user who has few items tells more about each of
them, and repeated use of one item tells less each time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.checks import check_at_least_zero
from mfrank.data.interactions import Interactions

__all__ = ["bm25_weight", "tfidf_weight"]

_LEAST_IDF = 1e-6
"""For users of all or nearly all items, whose idf is not positive: nothing becomes a dislike."""


def bm25_weight(interactions: Any, K1: float = 100.0, B: float = 0.8) -> Interactions:
    """Weight interactions by BM25, as ``implicit.nearest_neighbours.bm25_weight`` does.

    The value v of user x and item y becomes ``v (K1 + 1) / (K1 l_y + v) idf_x``, where
    ``l_y = 1 - B + B s_y / mean(s)`` with the sum s_y of the item's values, and
    ``idf_x = log(n_items / (1 + n_x))`` with the number n_x of the user's items (Robertson &
    Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond"; the idf is that of
    Lucene's first similarity). It is at least 1e-6, unlike in implicit: users of all items keep
    positive weights.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Values > 0, such as counts.
    K1 : float, default 100
        >= 0. The larger, the longer repeated use adds to the weight; with 0 values do not count.
    B : float, default 0.8
        In [0, 1]. How much the values of popular items are reduced.

    Returns
    -------
    Interactions
        The same cells, ids and timestamps, with new values in the same dtype.

    Raises
    ------
    ValueError
        A value is negative, or ``K1`` or ``B`` is out of range.
    TypeError
        ``interactions`` cannot be read as such.

    Examples
    --------
    >>> import mfrank
    >>> plays = mfrank.synthetic(30, 20, 100, random_state=0)
    >>> model = mfrank.ALS(mfrank.WRMF(), factors=4).fit(mfrank.bm25_weight(plays, K1=1.2))
    """
    check_at_least_zero(K1=K1, B=B)
    if B > 1:
        raise ValueError(f"B must be a number from 0 to 1, got {B!r}")
    data, values = _positive(interactions)
    lengths = np.bincount(data.user_items.indices, values, minlength=data.n_items)
    mean = lengths.sum() / max(data.n_items, 1)
    norms = 1 - B + B * lengths / (mean or 1)
    weights = values * (K1 + 1) / (K1 * norms[data.user_items.indices] + values)
    return _with_values(data, weights * _idf(data))


def tfidf_weight(interactions: Any) -> Interactions:
    """Weight interactions by tf-idf, as ``implicit.nearest_neighbours.tfidf_weight`` does.

    The value v of user x and item y becomes ``sqrt(v) log(n_items / (1 + n_x))``, with the number
    n_x of the user's items (Spärck Jones 1972, "A Statistical Interpretation of Term Specificity
    and Its Application in Retrieval"; the square root is Lucene's). The logarithm is at least 1e-6,
    as in :func:`bm25_weight`.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Values > 0, such as counts.

    Returns
    -------
    Interactions
        The same cells, ids and timestamps, with new values in the same dtype.

    Raises
    ------
    ValueError
        A value is negative.
    TypeError
        ``interactions`` cannot be read as such.
    """
    data, values = _positive(interactions)
    return _with_values(data, np.sqrt(values) * _idf(data))


def _positive(interactions: Any) -> tuple[Interactions, NDArray[np.float64]]:
    """The interactions, and their values in float64, all > 0."""
    data = Interactions.of(interactions)
    values = data.user_items.data.astype(np.float64)
    if (values < 0).any():
        raise ValueError(
            f"values must be > 0 to be weighted, got {values.min():g}; drop dislikes with "
            "interactions.at_least(0)"
        )
    return data, values


def _idf(data: Interactions) -> NDArray[np.float64]:
    """Log of all items over the items of the entry's user, for each entry."""
    idf = np.log(max(data.n_items, 1)) - np.log1p(data.counts.users)
    each: NDArray[np.float64] = np.maximum(idf, _LEAST_IDF)[data.entry_users]
    return each


def _with_values(data: Interactions, values: NDArray[np.float64]) -> Interactions:
    rows = data.user_items
    positive = np.maximum(values, np.finfo(rows.dtype).tiny).astype(rows.dtype)
    new = sp.csr_array((positive, rows.indices, rows.indptr), rows.shape)
    return replace(data, user_items=new)
