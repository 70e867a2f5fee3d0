"""Top-K lists, similar rows and scores of pairs, from plain factor arrays.

All functions work on row numbers; :class:`mfrank.Recommender` adds ids and fold-in. To list users
for an item, call :func:`recommend` with the sides swapped. Arrays may be on the host or on a GPU;
results are on the device of the queries. A backend that cannot read an array there copies it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    as_array,
    beside,
    check_length,
    check_threads,
    counted,
    directions_of,
    empty_beside,
    is_on_gpu,
    readable,
    zero_rows,
)
from mfrank.backends import Backend, Factors, choose
from mfrank.errors import InputValueError
from mfrank.retrieval.filters import EVERY_ITEM, Candidates
from mfrank.retrieval.side import Rows, check_rows_there

Lists: TypeAlias = tuple[NDArray[np.int32], NDArray[Any]]
"""Item rows and scores, both (n_queries, n), padded with row -1 and score NaN at the end."""

_PAIRS_AT_ONCE = 1 << 16


def recommend(
    queries: Factors,
    item_factors: Factors,
    *,
    n: int = 10,
    candidates: Candidates | None = None,
    item_bias: NDArray[Any] | None = None,
    unmet: NDArray[np.bool_] | None = None,
    backend: Backend | None = None,
    n_threads: int = 0,
) -> Lists:
    """Exact best ``n`` items of each query, by descending score, ties by lower row.

    Items of a list are distinct and pass its filters.

    Parameters
    ----------
    queries : shape (U, K)
        Factors of the queries.
    item_factors : float32 or float64, shape (N, K)
        Scores are ``queries @ item_factors.T + item_bias``, in this dtype.
    n : int, default 10
        Length of a list, >= 1; it may exceed N.
    candidates : Candidates, optional
        Filters of the lists; by default every item is a candidate.
    item_bias : shape (N,), optional
        Added to every query's scores.
    unmet : bool, shape (N,), optional
        Items that are in no list (:attr:`mfrank.FactorStore.unmet_items`).
    backend : Backend, optional
        Where to compute; default ``choose("auto")``, the fastest CPU backend.
    n_threads : int, default 0
        0 uses every core this process may use. The result does not depend on it.

    Raises
    ------
    TypeError, ValueError
        ``n`` is not an integer >= 1, ``queries`` or ``item_bias`` has the wrong shape, or
        ``candidates`` is for another number of queries or items.
    """
    check_length("n", n)
    check_threads(n_threads)
    candidates = candidates or Candidates()
    backend = backend or choose()
    item_factors = as_array(item_factors, "item_factors")
    queries = _as_queries(queries, item_factors, "queries")
    candidates.check(len(queries), len(item_factors))
    if item_bias is not None:
        item_bias = as_array(item_bias, "item_bias")
        if item_bias.shape != (len(item_factors),):
            raise InputValueError(
                f"`item_bias` must have {len(item_factors)} values, got shape {item_bias.shape}"
            )
    return best_rows(queries, item_factors, n, candidates, item_bias, unmet, backend, n_threads)


def best_rows(
    queries: Factors,
    item_factors: Factors,
    n: int,
    candidates: Candidates,
    item_bias: NDArray[Any] | None,
    unmet: NDArray[np.bool_] | None,
    backend: Backend,
    n_threads: int,
) -> Lists:
    """Like :func:`recommend`, for arguments that have been checked."""
    dtype = item_factors.dtype
    if item_bias is not None:
        item_bias = _contiguous(item_bias, dtype)
    placed_queries = _placed(queries, dtype, backend)
    placed_items = _placed(item_factors, dtype, backend)

    def best(some: Factors, allowed: Candidates) -> Lists:
        return backend.top_k(
            some,
            placed_items,
            int(n),
            item_bias=None if item_bias is None else beside(item_bias, placed_items),
            exclude=allowed.exclude,
            exclude_all=allowed.exclude_all,
            candidates=allowed.only,
            n_threads=n_threads,
        )

    if unmet is not None and not isinstance(placed_items, np.ndarray):
        candidates, unmet = candidates.without_any(unmet), None
    ids, scores = best(placed_queries, candidates)
    if unmet is not None:
        # Excluded from the first, they would cost a CPU its search order; few lists have any.
        found = beside(unmet, ids)[ids] & (ids >= 0)
        if np.count_nonzero(found):
            wrong = np.flatnonzero(found.any(axis=1))
            rows = beside(wrong, placed_queries)
            again = best(placed_queries[rows], candidates.of_queries(wrong).without_any(unmet))
            ids[wrong], scores[wrong] = (
                beside(new, old) for new, old in zip(again, (ids, scores), strict=True)
            )
    return beside(ids, queries), beside(scores, queries)


def nearest(
    vectors: ArrayLike,
    factors: Factors,
    *,
    n: int = 10,
    candidates: Candidates | None = None,
    directions: Factors | None = None,
    unmet: NDArray[np.bool_] | None = None,
    backend: Backend | None = None,
    n_threads: int = 0,
) -> Lists:
    """Exact ``n`` rows of ``factors`` with the highest cosine to each vector.

    The cosine with a zero vector is 0. Other parameters and errors are as in :func:`recommend`.

    Parameters
    ----------
    vectors : shape (U, K)
    factors : float32 or float64, shape (N, K)
    directions : shape (N, K), optional
        The factors normalized by :func:`mfrank.arrays.placement.directions_of`, if already
        computed.

    Raises
    ------
    ValueError
        ``vectors`` has the wrong shape or contains NaN or infinity.
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
        unmet=unmet,
        backend=backend,
        n_threads=n_threads,
    )
    return beside(ids, queries), beside(scores, queries)


def similar(
    own: Rows,
    directions: Factors,
    n: int,
    candidates: Candidates,
    unmet: NDArray[np.bool_] | None,
    backend: Backend,
    n_threads: int,
) -> Lists:
    """Exact ``n`` rows with the highest cosine to each of the rows ``own``; nothing is checked.

    A row is first in its own list, with score 1 (0 if its factors are zero), even if others have
    the same direction, unless it is filtered. The list of an ``unmet`` row has no other row. Other
    parameters are as in :func:`nearest`.
    """
    itself = look_up(own, directions, backend)
    _check_finite(itself, "factors of rows")
    others = candidates.without(own, len(directions))
    ids, scores = best_rows(itself, directions, n, others, None, unmet, backend, n_threads)
    if unmet is not None:
        emptied((ids, scores), beside(unmet, own)[own])
    kept: Any = slice(None)
    if candidates is not EVERY_ITEM:
        kept = np.flatnonzero(beside(candidates.allow(own), ids))
    ids[kept, 1:], scores[kept, 1:] = ids[kept, :-1], scores[kept, :-1]
    ids[kept, 0], scores[kept, 0] = beside(own, ids)[kept], ~zero_rows(itself[kept])
    return beside(ids, own), beside(scores, own)


def score(
    user_factors: Factors,
    item_factors: Factors,
    users: ArrayLike,
    items: ArrayLike,
    *,
    item_bias: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Scores of user ``users[j]`` for item ``items[j]``, shape (P,), in the factors' dtype.

    Computed on the device of the factors and returned on the device of ``users``.

    Parameters
    ----------
    user_factors, item_factors : shape (M, K) and (N, K)
    users, items : integers, shape (P,)
        Rows of ``user_factors`` and ``item_factors``.
    item_bias : shape (N,), optional
        Added to the scores.

    Raises
    ------
    TypeError, ValueError
        ``users`` or ``items`` are not rows, or differ in length.
    """
    given_users = check_rows_there(users, len(user_factors), "users")
    user_rows = beside(given_users, user_factors)
    item_rows = beside(check_rows_there(items, len(item_factors), "items"), item_factors)
    if len(user_rows) != len(item_rows):
        raise InputValueError(
            "`users` and `items` must have one length, one item per user; got "
            f"{counted(len(user_rows), 'user')} and {counted(len(item_rows), 'item')}"
        )
    scores = empty_beside(item_factors, (len(user_rows),))
    for begin in range(0, len(user_rows), _PAIRS_AT_ONCE):
        part = slice(begin, begin + _PAIRS_AT_ONCE)
        u, i = user_factors[user_rows[part]], item_factors[item_rows[part]]
        scores[part] = np.einsum("ek,ek->e", u, i)
    if item_bias is not None:
        scores += beside(item_bias, scores)[item_rows].astype(scores.dtype)
    return beside(scores, given_users)


def emptied(lists: Lists, which: NDArray[np.bool_]) -> Lists:
    """Empty some of the lists, in place, and return them."""
    ids, scores = lists
    if bool(which.any()):
        empty = beside(which, ids)
        ids[empty], scores[empty] = -1, np.nan
    return ids, scores


def without_repeats(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """The ids of lists, with -1 in place of items that occur at a better rank."""
    order = np.argsort(ids, axis=1, kind="stable")
    ascending = np.take_along_axis(ids, order, axis=1)
    ascending[:, 1:][ascending[:, 1:] == ascending[:, :-1]] = -1
    kept = np.empty_like(ids)
    np.put_along_axis(kept, order, ascending, axis=1)
    return kept


def look_up(rows: Rows, table: Factors, backend: Backend) -> Factors:
    """Rows of a table; the table itself, not a copy, if ``rows`` are all rows in order.

    For rows on a GPU, the table is first placed where the backend keeps factors.
    """
    placed = backend.place(table) if is_on_gpu(rows) else table
    if len(rows) == len(placed) and bool((rows == np.arange(len(rows), like=rows)).all()):
        return placed
    found: Factors = placed.take(beside(rows, placed), axis=0)  # in a third of the time of [rows]
    return found


def _as_queries(vectors: ArrayLike, factors: Factors, name: str) -> Factors:
    queries = _contiguous(as_array(vectors, name), factors.dtype)
    if queries.ndim != 2 or queries.shape[1] != factors.shape[1]:
        raise InputValueError(
            f"`{name}` must have shape (`n_queries`, {factors.shape[1]}), got {queries.shape}"
        )
    return queries


def _check_finite(vectors: Factors, name: str) -> None:
    if np.count_nonzero(np.isfinite(vectors)) < vectors.size:
        raise InputValueError(f"`{name}` must be finite, got NaN or infinity")


def _placed(array: Any, dtype: np.dtype[Any], backend: Backend) -> Any:
    """The array in the form of :func:`_contiguous`, where the backend reads it."""
    if isinstance(array, np.ndarray):  # which all backends read
        return readable(array, dtype)
    return backend.place(_contiguous(array, dtype))


def _contiguous(array: Any, dtype: np.dtype[Any]) -> Factors:
    """The array as C-contiguous, aligned and of the dtype, on the device where it is."""
    if isinstance(array, np.ndarray):
        return readable(array, dtype)
    found: Factors = np.ascontiguousarray(array, dtype=dtype, like=array)
    return found
