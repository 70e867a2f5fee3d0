"""One interface to everything that can be evaluated, on all items or a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import (
    CSR,
    Picked,
    Seed,
    as_array,
    beside,
    check_count,
    check_instance,
    on_host,
    reachable,
)
from mfrank.backends import Backend, Factors
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation.judgements import keys, nth_others
from mfrank.evaluation.metrics import LimitedAUC, ListMetric, Metric
from mfrank.evaluation.popularity import PopularItems
from mfrank.evaluation.report import FULL
from mfrank.retrieval import (
    Candidates,
    Recommender,
    emptied,
    recommend,
    unannounced,
    without_repeats,
)
from mfrank.steering import Steering
from mfrank.store import FactorStore, check_ranks_by_factors, empty_rows, ranks_anybody

Users = NDArray[np.int64]
_CELLS_AT_ONCE = 1 << 22
_IN_CACHE = 1 << 17

Recommend = Callable[..., tuple[NDArray[Any], NDArray[Any]]]


class Ranker(Protocol):
    """Ranks the whole catalog, except seen items, for users."""

    def lists(self, users: Users, k: int) -> NDArray[np.int32]:
        """Best k items, distinct, shape (U, at most k), padded with id -1."""

    def scores(self, users: Users) -> NDArray[Any]:
        """Score of every item, shape (U, N); NaN if it is excluded."""

    def of_items(self, users: Users, items: NDArray[np.int32]) -> NDArray[Any]:
        """Scores of some items of each user, on the host, shape (U, C); arbitrary at padding."""


@dataclass(frozen=True, slots=True, eq=False)
class _FactorRanker:
    """Scores p_u . q_i + b_i, with item factors and biases on the backend's device.

    There is no credit for ties at nothing: items that are unmet (bool, shape (N,), or None) are in
    no list, nor is any for users without factors, unless biases rank items for anybody. Their
    scores are -inf, below all others.
    """

    user_factors: NDArray[Any]
    item_factors: NDArray[Any]
    item_biases: NDArray[Any] | None
    unmet: NDArray[np.bool_] | None
    ranks_anybody: bool
    seen: CSR
    backend: Backend
    n_threads: int

    def lists(self, users: Users, k: int) -> NDArray[np.int32]:
        queries = self._queries(users)
        lists = recommend(
            queries,
            self.item_factors,
            n=k,
            candidates=Candidates((Picked(self.seen, users),)),
            item_bias=self.item_biases,
            unmet=self.unmet,
            backend=self.backend,
            n_threads=self.n_threads,
        )
        return emptied(lists, self._nobody(queries))[0]

    def scores(self, users: Users) -> NDArray[Any]:
        # BLAS may sum equal rows in different orders; rounding float64 sums keeps them tied.
        queries = self._queries(users)
        wide = queries.astype(np.float64) @ self.item_factors.T.astype(np.float64)
        if self.item_biases is not None:
            wide += self.item_biases
        scores: NDArray[Any] = wide.astype(self.item_factors.dtype, copy=False)
        if self.unmet is not None:
            scores[:, beside(self.unmet, scores)] = -np.inf
        scores[beside(self._nobody(queries), scores)] = -np.inf
        scores[_cells(self.seen.pick(users), scores)] = np.nan
        return scores

    def of_items(self, users: Users, items: NDArray[np.int32]) -> NDArray[Any]:
        queries, factors = on_host(self._queries(users)), on_host(self.item_factors)
        biases = None if self.item_biases is None else on_host(self.item_biases)
        scores = np.empty(items.shape, dtype=factors.dtype)
        step = max(1, _IN_CACHE // max(1, items.shape[1] * factors.shape[1]))
        for begin in range(0, len(users), step):
            part = slice(begin, begin + step)
            # einsum adds up the same for equal rows, which are then tied; BLAS may not.
            scores[part] = np.einsum(
                "uf,ucf->uc", queries[part], np.take(factors, items[part], axis=0, mode="wrap")
            )
            if biases is not None:
                scores[part] += biases[items[part]]
        if self.unmet is not None:
            scores[on_host(self.unmet)[items]] = -np.inf
        scores[on_host(self._nobody(queries))] = -np.inf
        return scores

    def _nobody(self, queries: Factors) -> NDArray[np.bool_]:
        """Users without factors, for whom no biases rank items either."""
        nobody: NDArray[np.bool_] = np.logical_not(queries.any(axis=1))
        return nobody & (not self.ranks_anybody)

    def _queries(self, users: Users) -> Factors:
        return self.backend.place(self.user_factors[beside(users, self.user_factors)])


@dataclass(frozen=True, slots=True, eq=False)
class _RecommendRanker:
    """Lists from a function ``recommend(users, user_items, N=) -> (ids, scores)``."""

    recommend: Recommend
    seen: sp.csr_array

    def lists(self, users: Users, k: int) -> NDArray[np.int32]:
        return self._call(users, k)[0]

    def scores(self, users: Users) -> NDArray[Any]:
        n_items = self.seen.shape[1]
        ids, listed = self._call(users, n_items)
        scores = np.empty((len(users), n_items), dtype=np.float64, like=ids)
        scores[:] = -np.inf
        there = (ids >= 0) & ~np.isnan(listed)
        scores[np.nonzero(there)[0], ids[there]] = listed[there]
        scores[_cells(CSR.from_scipy(self.seen[users], None), scores)] = np.nan
        return scores

    def of_items(self, users: Users, items: NDArray[np.int32]) -> NDArray[Any]:
        found: NDArray[Any] = np.empty(items.shape)
        step = max(1, _CELLS_AT_ONCE // self.seen.shape[1])
        for begin in range(0, len(users), step):
            part = slice(begin, begin + step)
            scores = on_host(self.scores(users[part]))
            found[part] = np.take_along_axis(scores, items[part].astype(np.int64), axis=1)
        return found

    def _call(self, users: Users, k: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        # csr_matrix, because other libraries do not accept csr_array
        with unannounced():
            returned = self.recommend(users, sp.csr_matrix(self.seen[users]), N=k)
        ids, scores = (as_array(each, "the result of recommend") for each in returned[:2])
        if ids.ndim != 2 or len(ids) != len(users) or ids.shape[1] > k or scores.shape != ids.shape:
            raise InputValueError(
                f"`recommend` must return ids and scores of shape ({len(users)}, at most {k}) for "
                f"{len(users)} users and `N={k}`; got {ids.shape} and {scores.shape}"
            )
        n_items = self.seen.shape[1]
        if not (ids.dtype.kind in "iu" and bool(((ids >= -1) & (ids < n_items)).all())):
            raise InputValueError(
                f"`recommend` must return integer item rows below {n_items}, or -1 after a list's "
                "end"
            )
        # Some recommenders pad short lists with a repeated item.
        return without_repeats(ids.astype(np.int32)), beside(scores, ids)


def ranker_of(
    model: Any, seen: sp.csr_array, rows_seen: CSR, backend: Backend, n_threads: int
) -> Ranker:
    """Wrap a model: rank by its factors if it does so, else call ``recommend``, else itself.

    The stored entries of ``seen``, shape (users, items), are excluded; ``rows_seen`` are its rows
    for the kernels.

    Raises
    ------
    TypeError
        The model has neither factors nor ``recommend`` and is not callable.
    ValueError
        Factors or biases do not match each other or the shape of ``seen``, or are not finite; or a
        store belongs to a model that does not rank by its factors alone.
    """
    if isinstance(model, PopularItems):
        return model.ranker(rows_seen)
    if isinstance(model, FactorStore):
        check_ranks_by_factors(model, "pass the model itself, or mfrank.ItemBlend.of(store)")
    # Read an estimator's FactorStore, because only the store has the biases.
    source = model.placed if isinstance(model, Recommender) else getattr(model, "store", model)
    sides = getattr(source, "user_factors", None), getattr(source, "item_factors", None)
    if sides[0] is not None and sides[1] is not None and not _ranks_otherwise(model):
        users, items = (
            _floats(side, name) for side, name in zip(sides, ("user", "item"), strict=True)
        )
        _check_shapes(users, items, seen.shape)
        users, items = reachable(users, backend.place), backend.place(items)
        biases = getattr(source, "item_biases", None)
        if biases is not None:
            biases = beside(as_array(biases, "item_biases"), items, items.dtype)
            if biases.shape != (len(items),) or not np.isfinite(biases).all():
                raise InputValueError(f"`item_biases` must be finite, of shape ({len(items)},)")
        if isinstance(source, FactorStore):
            unmet, anybody = source.unmet_items, source.ranks_anybody
        elif hasattr(model, "recommend"):  # another library's model
            unmet, anybody = empty_rows(items, biases), ranks_anybody(items, biases)
        else:  # bare arrays: their scores are what they are
            unmet, anybody = None, True
        if unmet is not None:
            unmet = beside(unmet, items)
        return _FactorRanker(users, items, biases, unmet, anybody, rows_seen, backend, n_threads)
    function = getattr(model, "recommend", model)
    if callable(function):
        return _RecommendRanker(_by_row(function), seen)
    raise InputTypeError(
        "`model` must have `user_factors` and `item_factors`, or a method `recommend(users, "
        f"user_items, N=)`, or be such a function; got {type(model).__name__}"
    )


def steered_ranker(
    model: Any, seen: sp.csr_array, steer: Steering, n_threads: int, *, filters: bool
) -> Ranker:
    """The steered lists of a model of mfrank; parameters as in :func:`ranker_of`.

    Without ``filters``, nothing is excluded, and calibration uses the items of the fit.

    Raises
    ------
    TypeError
        The model is another library's, or ``steer`` is not a Steering.
    UnknownIdError
        An item in the boosts is unknown.
    """
    check_instance("model", model, Recommender, "a model of mfrank, such as an ALS, to be steered")
    check_instance("steer", steer, Steering, "a Steering, such as `mfrank.Steering(diversity=0.3)`")
    in_rows = steer.in_rows(model.item_ids)
    options = {"by_row": True, "n_threads": n_threads, "steer": in_rows}

    def recommend(users: Users, user_items: sp.csr_matrix, N: int) -> Any:
        rows = user_items if filters else None
        return model.recommend(users, rows, N, filter_already_liked_items=filters, **options)

    return _RecommendRanker(recommend, seen)


def _ranks_otherwise(model: Any) -> bool:
    """Whether this is an mfrank recommender that does not rank by its factors, such as a walk."""
    return isinstance(model, Recommender) and type(model).recommend is not Recommender.recommend


def _by_row(function: Recommend) -> Recommend:
    """Bind ``by_row=True`` if the function has that argument, so that it takes row numbers."""
    try:
        known = signature(function).parameters
    except (TypeError, ValueError):  # compiled functions may have no signature
        return function
    return partial(function, by_row=True) if "by_row" in known else function


def _floats(factors: Any, side: str) -> NDArray[Any]:
    array: NDArray[Any] = as_array(factors, f"{side}_factors")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != 2 or not np.isfinite(array).all():
        raise InputValueError(
            f"`{side}_factors` must be a finite 2-D array, got shape {array.shape}"
            + (" with NaN or infinity" if array.ndim == 2 else "")
        )
    return array


def _check_shapes(users: NDArray[Any], items: NDArray[Any], shape: tuple[int, int]) -> None:
    if users.shape[1] != items.shape[1]:
        raise InputValueError(
            "`user_factors` and `item_factors` must have the same number of columns, got "
            f"{users.shape[1]} and {items.shape[1]}"
        )
    if (len(users), len(items)) != shape:
        raise InputValueError(
            f"`test` has {shape[0]} users and {shape[1]} items, the factors have {len(users)} and "
            f"{len(items)}",
            "build test with the shape and ids of the model's training data",
        )


def _cells(rows: CSR, scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows and columns of the stored entries, on the device of ``scores``."""
    users = np.repeat(np.arange(rows.n_rows), rows.counts)
    return beside(users, scores), beside(rows.indices, scores)


# The sampled protocol: relevant items ranked among random others instead of the whole catalog.


Ints = NDArray[np.int64]

_SAMPLED_AT_ONCE = 1 << 19  # what is drawn for a block stays in the cache


@dataclass(frozen=True, slots=True, eq=False)
class SampledLists:
    """Lists of each user's relevant items and ``negatives`` others, sampled without replacement.

    Negatives are drawn uniformly from the items that are neither seen nor relevant; if there are
    fewer than ``negatives``, all are used. Equal generators draw equal samples for all models, if
    the order of users is the same.
    """

    ranker: Ranker
    seen: CSR
    negatives: int
    rng: np.random.Generator

    def __call__(self, users: Ints, relevant: sp.csr_array, k: int) -> NDArray[np.int32]:
        """Best k of the items ranked, shape (U, k); -1 after a list's end."""
        rows = CSR.from_scipy(relevant, None)
        width = int(rows.counts.max()) + self.negatives
        step = max(1, _SAMPLED_AT_ONCE // width)
        lists = np.full((len(users), k), -1, dtype=np.int32)
        for begin in range(0, len(users), step):
            some = np.arange(begin, min(begin + step, len(users)))
            items = self._items(users[some], rows.pick(some), width)
            scores = np.where(items < 0, -np.inf, self.ranker.of_items(users[some], items))
            items = np.where(np.isneginf(scores), np.int32(-1), items)  # not ranked at all
            # Items are ascending and absent ones are last, so a stable order breaks ties by lower
            # row.
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            lists[some, : order.shape[1]] = np.take_along_axis(items, order, axis=1)
        return lists

    def _items(self, users: Ints, relevant: CSR, width: int) -> NDArray[np.int32]:
        """Rows of the items to be ranked, ascending, shape (U, width); -1 at the end."""
        n_items = relevant.n_columns
        excluded = np.sort(np.concatenate([keys(self.seen.pick(users)), keys(relevant)]))
        owners = excluded // n_items
        free = n_items - np.bincount(owners)  # of every user, for each has a relevant item
        drawn = _distinct(self.rng.random((len(users), self.negatives)), free)
        items = np.full((len(users), width), n_items, dtype=np.int64)
        others = nth_others(excluded, n_items, drawn)
        items[:, : self.negatives] = np.where(drawn < 0, n_items, others)
        users_of = np.repeat(np.arange(relevant.n_rows), relevant.counts)
        offsets = np.arange(len(users_of)) - relevant.indptr[:-1][users_of]
        items[users_of, self.negatives + offsets] = relevant.indices
        items.sort(axis=1)
        items[items == n_items] = -1
        return items.astype(np.int32)


def check_sampled(negatives: int, metrics: Iterable[Metric]) -> None:
    """Raise unless the metrics can be computed on a sample of this size."""
    check_count("negatives", negatives, 1, 10_000)
    for metric in metrics:
        if not isinstance(metric, ListMetric) or isinstance(metric, type(LimitedAUC)):
            raise InputValueError(
                "with `negatives`, `metrics` must be of relevance at the top ranks, such as "
                f"`mfrank.NDCG @ 10`; got {metric}"
            )


def protocol_of(negatives: int | None, random_state: Seed) -> str:
    """Description of the ranked items."""
    if negatives is None:
        return FULL
    return f"sampled: {negatives} negatives, random_state={random_state}"


def _distinct(uniform: NDArray[np.float64], sizes: Ints) -> Ints:
    """Distinct numbers below each row's size, all sets equally likely; -1 if there are no more.

    Floyd's method (Bentley & Floyd 1987): of the numbers up to j, one is drawn; if it has been
    drawn before, it is j.
    """
    n = uniform.shape[1]
    drawn = np.empty((n, len(uniform)), dtype=np.int32)  # step by step, in one piece
    for step in range(n):
        last = (sizes - n + step).astype(np.int32)
        number = np.minimum((uniform[:, step] * (last + 1)).astype(np.int32), last)
        again = (drawn[:step] == number).any(axis=0)
        drawn[step] = np.where(last < 0, -1, np.where(again, last, number))
    return drawn.T.astype(np.int64)
