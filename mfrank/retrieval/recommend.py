"""Top-K lists, similar rows and the scores of pairs, over plain factor arrays.

Everything here speaks row numbers; raw ids, scalars and fold-in are the estimators' business. Users
for an item are :func:`recommend` with the sides swapped. Arrays may lie on the host or on a GPU;
answers lie where the queries do. A backend that cannot read them there is given a copy.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.aligned import readable
from mfrank.amounts import check_length
from mfrank.arrays import beside, empty_beside, reachable
from mfrank.backends import Backend, Factors, choose
from mfrank.cores import check_threads
from mfrank.directions import directions_of
from mfrank.foreign import as_array, is_on_gpu
from mfrank.retrieval.asked import Rows, check_rows_there
from mfrank.retrieval.candidates import Candidates

__all__ = ["Lists", "look_up", "nearest", "recommend", "score", "similar"]

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
    check_length("n", n)
    check_threads(n_threads)
    candidates = candidates or Candidates()
    backend = backend or choose()
    item_factors = as_array(item_factors, "item_factors")
    queries = _as_queries(queries, item_factors, "queries")
    candidates.check(len(queries), len(item_factors))
    if item_bias is not None:
        item_bias = _contiguous(as_array(item_bias, "item_bias"), item_factors.dtype)
        if item_bias.shape != (len(item_factors),):
            raise ValueError(
                f"item_bias must have {len(item_factors)} values, got shape {item_bias.shape}"
            )
    asked, answering = (
        reachable(array, backend.place)
        for array in (queries, _contiguous(item_factors, item_factors.dtype))
    )
    ids, scores = backend.top_k(
        asked,
        answering,
        int(n),
        item_bias=None if item_bias is None else beside(item_bias, answering),
        exclude=candidates.exclude,
        exclude_all=candidates.exclude_all,
        candidates=candidates.only,
        n_threads=n_threads,
    )
    return beside(ids, queries), beside(scores, queries)


def nearest(
    vectors: ArrayLike,
    factors: Factors,
    *,
    n: int = 10,
    candidates: Candidates | None = None,
    directions: Factors | None = None,
    backend: Backend | None = None,
    n_threads: int = 0,
) -> Lists:
    """Exact ``n`` rows of ``factors`` with the highest cosine to each vector, shape (U, K).

    The cosine with a zero vector is 0. Other parameters and errors as in :func:`recommend`.

    Parameters
    ----------
    directions : shape (N, K), optional
        :func:`mfrank.directions.directions_of` the factors, where they are at hand.

    Raises
    ------
    ValueError
        ``vectors`` has another shape or holds NaN or infinities.
    """
    backend, factors = backend or choose(), as_array(factors, "factors")
    queries = _as_queries(vectors, factors, "vectors")
    _check_finite(queries, "vectors")
    if directions is None:
        directions = directions_of(backend.place(factors))
    ids, scores = recommend(
        directions_of(backend.place(queries)),
        directions,
        n=n,
        candidates=candidates,
        backend=backend,
        n_threads=n_threads,
    )
    return beside(ids, queries), beside(scores, queries)


def similar(
    rows: ArrayLike,
    factors: Factors,
    *,
    n: int = 10,
    candidates: Candidates | None = None,
    directions: Factors | None = None,
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
    check_length("n", n)
    check_threads(n_threads)
    factors = as_array(factors, "factors")
    own = check_rows_there(rows, len(factors), "rows")
    backend, candidates = backend or choose(), candidates or Candidates()
    candidates.check(len(own), len(factors))
    if directions is None:
        directions = directions_of(backend.place(factors))
    itself = look_up(own, directions, backend)
    _check_finite(itself, "factors of rows")
    ids, scores = recommend(
        itself,
        directions,
        n=n,
        candidates=candidates.without(own, len(factors)),
        backend=backend,
        n_threads=n_threads,
    )
    led = np.flatnonzero(beside(candidates.allow(own), ids))
    ids[led, 1:], scores[led, 1:] = ids[led, :-1], scores[led, :-1]
    ids[led, 0], scores[led, 0] = beside(own, ids)[led], (itself[led] != 0).any(axis=1)
    return beside(ids, own), beside(scores, own)


def score(
    user_factors: Factors,
    item_factors: Factors,
    users: ArrayLike,
    items: ArrayLike,
    *,
    item_bias: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Scores of pairs: user ``users[j]`` with item ``items[j]``, in the factors' dtype.

    Computed where the factors are, answered where ``users`` are.

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
    asked = check_rows_there(users, len(user_factors), "users")
    left = beside(asked, user_factors)
    right = beside(check_rows_there(items, len(item_factors), "items"), item_factors)
    if len(left) != len(right):
        raise ValueError(
            "users and items must be of one length, a pair each; "
            f"got {len(left)} users and {len(right)} items"
        )
    scores = empty_beside(item_factors, (len(left),))
    for begin in range(0, len(left), _PAIRS_AT_ONCE):
        part = slice(begin, begin + _PAIRS_AT_ONCE)
        u, i = user_factors[left[part]], item_factors[right[part]]
        scores[part] = np.einsum("ek,ek->e", u, i)
    if item_bias is not None:
        scores += beside(item_bias, scores)[right].astype(scores.dtype)
    return beside(scores, asked)


def look_up(rows: Rows, table: Factors, backend: Backend) -> Factors:
    """Some rows of a table, or itself; of rows on a GPU, where the backend reads tables."""
    reached = backend.place(table) if is_on_gpu(rows) else table
    as_many = len(rows) == len(reached)
    if as_many and bool((rows == np.arange(len(rows), like=rows)).all()):
        return reached
    found: Factors = reached[beside(rows, reached)]
    return found


def _as_queries(vectors: ArrayLike, factors: Factors, name: str) -> Factors:
    queries = _contiguous(as_array(vectors, name), factors.dtype)
    if queries.ndim != 2 or queries.shape[1] != factors.shape[1]:
        raise ValueError(
            f"{name} must have shape (n_queries, {factors.shape[1]}), got {queries.shape}"
        )
    return queries


def _check_finite(vectors: Factors, name: str) -> None:
    if not np.isfinite(vectors).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")


def _contiguous(array: Any, dtype: np.dtype[Any]) -> Factors:
    """C-contiguous, aligned and of a dtype, where it is."""
    if isinstance(array, np.ndarray):
        return readable(array, dtype)
    found: Factors = np.ascontiguousarray(array, dtype=dtype, like=array)
    return found
