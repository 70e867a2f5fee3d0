"""Lists that follow a Steering, of models with and without factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Listed, beside, check_instance, listed_on_host, on_host
from mfrank.backends import Factors
from mfrank.data import OnUnknown
from mfrank.errors import InputValueError
from mfrank.retrieval.filters import Candidates
from mfrank.retrieval.lists_by_id import ListOptions, QueryFactors
from mfrank.retrieval.scored_lists import best_lists
from mfrank.retrieval.side import Rows, Side
from mfrank.retrieval.top_k import Lists, recommend
from mfrank.steering import ItemFacts, Levers, Steering, filled, levers_of, shares_of, spread_of
from mfrank.store import FactorStore


def set_levers(
    steer: Steering, store: FactorStore, items: Side, on_unknown: OnUnknown
) -> Levers | None:
    """The levers of a call; None if lists are by score alone.

    Raises
    ------
    TypeError, ValueError
        The argument is not a Steering, an item in ``boosts`` is unknown, or the store has no
        counts.
    """
    check_instance("steer", steer, Steering, "a Steering, such as `mfrank.Steering(diversity=0.3)`")

    def find(ids: list[Any], name: str, missing: int | None) -> Rows:
        if not ids:
            return np.empty(0, np.int64)
        return on_host(
            items.rows_asked(ids, f"steer.{name}", "error" if missing is None else "skip")
        )

    levers = levers_of(steer, store, items.by_row, find, skip=on_unknown == "skip")
    return levers if levers.chooses or levers.bonus is not None else None


def calibrates(levers: Levers, given: object, seen: object) -> bool:
    """Whether levers need the users' items: ``given`` in the call, or ``seen`` in the fit.

    Raises
    ------
    ValueError
        The levers need them, and both are missing.
    """
    if not levers.calibration:
        return False
    if given is None and seen is None:
        raise InputValueError(
            "`user_items` is needed for the calibration of steer, because this model has no "
            "interactions:",
            "pass it, or use `calibration=0`",
        )
    return True


def best_steered(
    levers: Levers,
    store: FactorStore,
    history: Listed | None,
    query_factors: QueryFactors,
    items: Side,
    options: ListOptions,
    candidates: Candidates,
    *,
    directions: FactorStore | None = None,
) -> Lists:
    """Rows of the items as levers choose them.

    Parameters
    ----------
    levers : Levers
    store : FactorStore
        Store of the items.
    history : a row for each query, or None
        Items of the queries, for calibration.
    query_factors, items, options, candidates
        As in :func:`mfrank.retrieval.lists_by_id.best`.
    directions : FactorStore, optional
        Store whose factors define the similarity of items; default ``store``.
    """
    queries, matrix, bias, spread = query_factors.factors, items.factors, items.biases, None
    if levers.bonus is not None:
        queries, spread = _scaled(queries, store)
        matrix, bias = store.item_coordinates, levers.bonus
    unmet = items.unmet

    def fetch(rows: Rows, size: int) -> Lists:
        every = len(rows) == len(queries)
        ids, scores = map(
            on_host,
            recommend(
                queries if every else queries[beside(rows, queries)],
                matrix,
                n=size,
                candidates=candidates if every else candidates.of_queries(rows),
                item_bias=bias,
                unmet=unmet,
                backend=options.backend,
                n_threads=options.n_threads,
            ),
        )
        if spread is not None:
            scores = (scores * spread[rows, None]).astype(scores.dtype)
        if query_factors.biases is not None:
            scores = scores + on_host(query_factors.biases)[rows, None]
        return ids, scores

    shape = len(queries), options.n
    if not levers.chooses:
        return fetch(np.arange(shape[0]), options.n)
    known = ItemFacts(wanted=_wanted(levers, history))
    if levers.diversity:
        unit = (directions or store).item_directions
        known = known._replace(directions=lambda rows: on_host(unit[beside(rows, unit)]))
    return filled(fetch, shape, store.n_items, store.dtype, levers, known)


def scored_steered(
    scores_of: Callable[[Rows], NDArray[Any]],
    unlinked: Callable[[Rows, NDArray[Any], int], tuple[Rows, NDArray[np.bool_]]],
    shape: tuple[int, int],
    candidates: Candidates,
    n: int,
    levers: Levers | None,
    history: Listed | None,
) -> Lists:
    """The same for a model that scores all items, as in ``best_lists``.

    Parameters
    ----------
    scores_of : function of queries
    unlinked : function of queries, their scores and the length of lists
        Returns some of these queries, and their items without a link, bool, which are listed only
        if they are boosted.
    shape : (n_queries, n_items)
    candidates, n, levers, history
        As above.
    """
    n_queries, n_items = shape

    def fetch(rows: Rows, size: int) -> Lists:
        some = candidates if len(rows) == n_queries else candidates.of_queries(rows)
        if levers is not None and levers.bonus is not None:
            return best_lists(lambda block: raised(rows[block]), len(rows), n_items, some, size)
        return best_lists(
            lambda block: scores_of(rows[block]),
            len(rows),
            n_items,
            some,
            size,
            unlinked=lambda block, scores: unlinked(rows[block], scores, size),
        )

    def raised(rows: Rows) -> NDArray[Any]:
        assert levers is not None
        found = scores_of(rows)
        there = np.isfinite(found)
        spread = found.std(axis=1, keepdims=True, where=there) if n_items else 0.0
        sums: NDArray[Any] = found + np.where(spread > 0, spread, 1.0) * levers.bonus
        at, nothing = unlinked(rows, found, n_items + 1)
        sums[at] = np.where(nothing & ~levers.boosted, -np.inf, sums[at])
        return sums

    if levers is None or not levers.chooses:
        return fetch(np.arange(n_queries), n)
    known = ItemFacts(wanted=_wanted(levers, history))
    return filled(fetch, (n_queries, n), n_items, np.float64, levers, known)


def _scaled(queries: Factors, store: FactorStore) -> tuple[Factors, NDArray[np.float64]]:
    """Queries whose scores of all items have standard deviation 1, and the deviations before."""
    wide = on_host(queries)
    if store.item_biases is not None:
        wide = np.column_stack([wide, np.ones(len(wide), dtype=wide.dtype)])
    spread = spread_of(wide, store.item_covariance)
    scaled = (wide / spread[:, None]).astype(store.dtype)
    return beside(scaled, queries), spread


def _wanted(levers: Levers, history: Listed | None) -> Callable[[Rows], NDArray[np.float64]] | None:
    categories = levers.categories
    if categories is None or not levers.calibration or history is None:
        return None
    rows = listed_on_host(history)
    return lambda queries: shares_of(rows.pick(queries), categories)
