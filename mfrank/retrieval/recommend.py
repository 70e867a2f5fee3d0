"""Top-K lists, similar rows and the scores of pairs, over plain factor arrays.

Everything here speaks row numbers; raw ids, scalars and fold-in are the estimators' business. Users
for an item are :func:`recommend` with the sides swapped.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_count
from mfrank.backends import Backend, Factors, choose
from mfrank.retrieval.asked import check_rows
from mfrank.retrieval.candidates import Candidates

__all__ = ["Lists", "nearest", "recommend", "score", "similar"]

Lists: TypeAlias = tuple[NDArray[np.int32], NDArray[Any]]
"""Item ids and scores, both of shape (n_queries, n); id -1, score NaN where a list ends early."""

_PAIRS_AT_ONCE = 1 << 16


def recommend(
    queries: Factors,
    item_factors: Factors,
    *,
    n: int = 10,
    candidates: Candidates | None = None,
    item_bias: NDArray[Any] | None = None,
    backend: Backend | None = None,
    n_threads: int = 0,
) -> Lists:
    """Exact best ``n`` items of each query, by score descending, ties by lower id.

    A list holds distinct items and never one that its filters exclude.

    Parameters
    ----------
    queries : shape (U, K)
        Factors of those who are asked for.
    item_factors : float32 or float64, shape (N, K)
        Scores are ``queries @ item_factors.T + item_bias``, in this dtype.
    n : int, default 10
        Length of a list, >= 1; it may exceed N.
    candidates : Candidates, optional
        What each list may hold; default every item.
    item_bias : shape (N,), optional
        Added to every query's scores.
    backend : Backend, optional
        Where to compute; default the fastest that can run here.
    n_threads : int, default 0
        0 takes every core this process may use. The result does not depend on it.

    Raises
    ------
    TypeError, ValueError
        ``n`` is no integer >= 1, ``queries`` or ``item_bias`` has another shape, or ``candidates``
        was made for another number of queries or items.
    """
    check_count("n", n, 1)
    candidates = candidates or Candidates()
    queries = _as_queries(queries, item_factors, "queries")
    candidates.check(len(queries), len(item_factors))
    if item_bias is not None:
        item_bias = _like(item_bias, item_factors)
        if item_bias.shape != (len(item_factors),):
            raise ValueError(
                f"item_bias must have {len(item_factors)} values, got shape {item_bias.shape}"
            )
    return (backend or choose()).top_k(
        queries,
        _like(item_factors, item_factors),
        int(n),
        item_bias=item_bias,
        exclude=candidates.exclude,
        exclude_all=candidates.exclude_all,
        candidates=candidates.only,
        n_threads=n_threads,
    )


def nearest(
    vectors: ArrayLike,
    factors: Factors,
    *,
    n: int = 10,
    candidates: Candidates | None = None,
    backend: Backend | None = None,
    n_threads: int = 0,
) -> Lists:
    """Exact ``n`` rows of ``factors`` with the highest cosine to each vector, shape (U, K).

    The cosine with a zero vector is 0. Other parameters and errors as in :func:`recommend`.

    Raises
    ------
    ValueError
        ``vectors`` has another shape or holds NaN or infinities.
    """
    queries = _as_queries(vectors, factors, "vectors")
    if not np.isfinite(queries).all():
        raise ValueError("vectors must be finite, got NaN or infinity")
    return recommend(
        _unit_rows(queries),
        _unit_rows(factors),
        n=n,
        candidates=candidates,
        backend=backend,
        n_threads=n_threads,
    )


def similar(
    rows: ArrayLike,
    factors: Factors,
    *,
    n: int = 10,
    candidates: Candidates | None = None,
    backend: Backend | None = None,
    n_threads: int = 0,
) -> Lists:
    """Exact ``n`` rows of ``factors`` with the highest cosine to each of the given rows.

    A row comes first in its own list, with score 1 (0 if its factors are zero), even where others
    have the same direction; unless it is filtered. Else as :func:`nearest`.

    Parameters
    ----------
    rows : integers, shape (U,)
        Rows of ``factors``.
    candidates : Candidates, optional
        What each list may hold, itself included.

    Raises
    ------
    TypeError, ValueError
        ``rows`` are not rows of ``factors``; or as in :func:`recommend`.
    """
    check_count("n", n, 1)
    own = check_rows(rows, len(factors), "rows")
    candidates = candidates or Candidates()
    candidates.check(len(own), len(factors))
    ids, scores = nearest(
        factors[own],
        factors,
        n=n,
        candidates=candidates.without(own, len(factors)),
        backend=backend,
        n_threads=n_threads,
    )
    led = candidates.allow(own)
    ids[led, 1:], scores[led, 1:] = ids[led, :-1], scores[led, :-1]
    ids[led, 0], scores[led, 0] = own[led], factors[own[led]].any(axis=1)
    return ids, scores


def score(
    user_factors: Factors,
    item_factors: Factors,
    users: ArrayLike,
    items: ArrayLike,
    *,
    item_bias: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Scores of pairs: user ``users[j]`` with item ``items[j]``, in the factors' dtype.

    Parameters
    ----------
    user_factors, item_factors : shape (M, K) and (N, K)
    users, items : integers, shape (P,)
        Rows of each.
    item_bias : shape (N,), optional

    Raises
    ------
    TypeError, ValueError
        ``users`` or ``items`` are not rows, or differ in length.
    """
    left = check_rows(users, len(user_factors), "users")
    right = check_rows(items, len(item_factors), "items")
    if len(left) != len(right):
        raise ValueError(
            "users and items must be of one length, a pair each; "
            f"got {len(left)} users and {len(right)} items"
        )
    scores = np.empty(len(left), dtype=item_factors.dtype)
    for begin in range(0, len(left), _PAIRS_AT_ONCE):
        part = slice(begin, begin + _PAIRS_AT_ONCE)
        u, i = user_factors[left[part]], item_factors[right[part]]
        np.einsum("ek,ek->e", u, i, out=scores[part])
    return scores if item_bias is None else scores + item_bias[right].astype(scores.dtype)


def _as_queries(vectors: ArrayLike, factors: Factors, name: str) -> Factors:
    queries = _like(vectors, factors)
    if queries.ndim != 2 or queries.shape[1] != factors.shape[1]:
        raise ValueError(
            f"{name} must have shape (n_queries, {factors.shape[1]}), got {np.shape(vectors)}"
        )
    return queries


def _like(array: ArrayLike, factors: Factors) -> NDArray[Any]:
    """C-contiguous, of the factors' dtype, and where they are: in numpy or on a device."""
    return np.ascontiguousarray(array, dtype=factors.dtype, like=factors)


def _unit_rows(factors: Factors) -> Factors:
    """Rows scaled to length 1, by their largest entry first, which neither over- nor underflows."""
    scale = np.abs(factors).max(axis=1, keepdims=True, initial=0)
    scaled = factors / np.where(scale > 0, scale, 1)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.ascontiguousarray(scaled / np.where(length > 0, length, 1))
