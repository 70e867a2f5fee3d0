"""Updates of a fitted ALS: new users, items and interactions without a new fit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.als import (
    FoldIn,
    HalfSteps,
    QuadraticObjective,
    WorkingTables,
    alternate,
    refuse_dislikes,
)
from mfrank.arrays import CSR, check_above_zero, check_count, counted, sparse_to_host
from mfrank.backends import Backend, Factors, SolveOptions
from mfrank.data import (
    Counts,
    FeatureTable,
    Ids,
    Interactions,
    cells,
    feature_rows,
    is_table,
    with_labels,
    with_more,
)
from mfrank.errors import InputValueError
from mfrank.models.closed_form import (
    check_solvable,
    clean_rows,
    feature_means,
    had_biases,
    training_rows,
)
from mfrank.models.odd_updates import tell_odd_update, tell_other_scale, tell_unweighted
from mfrank.models.partial_fit import Delta, grown, with_rows, with_solved
from mfrank.models.update_data import check_batch, content_of, new_of, updated, was_applied
from mfrank.models.value_notes import source_of, tell_uncut, tell_unread_values
from mfrank.retrieval import (
    Matrix,
    ModelState,
    Raw,
    Seen,
    Side,
    given_ids,
    given_rows,
    given_seen,
    sides,
)
from mfrank.store import (
    FactorStore,
    columns_of,
    featured,
    means_of,
    names_of,
    weights_of,
    with_means,
)

_LEARNED = "are learned from like the others"


def check_update(alternations: int, decay: float, batch: str | None) -> None:
    """Raise unless these arguments are in their range."""
    check_count("alternations", alternations, 0)
    check_batch(batch)
    check_above_zero(decay=decay)
    if decay > 1:
        raise InputValueError(f"`decay` must be at most 1, got {decay}")


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """New interactions and features for a store, read and checked.

    Attributes
    ----------
    store : FactorStore
        In numpy, before the update.
    objective : QuadraticObjective
        Of its fit.
    given, data : Interactions
        The new interactions, as they are given and with the new ids of feature tables.
    features : FeaturesOfUpdate
    alternations : int
    decay : float
    batch : str, or None
    content : int
        Number of the interactions in the history.
    began : float
        When the update began, on the clock of ``perf_counter``.
    """

    store: FactorStore
    objective: QuadraticObjective
    given: Interactions
    data: Interactions
    features: FeaturesOfUpdate
    alternations: int
    decay: float
    batch: str | None
    content: int
    began: float

    @classmethod
    def of(
        cls,
        store: FactorStore,
        objective: QuadraticObjective,
        new: Any,
        *,
        alternations: int,
        decay: float,
        batch: str | None,
        user_features: Any,
        item_features: Any,
    ) -> Self | None:
        """Read and check what is new; None if the model has had this batch, which is logged."""
        began = perf_counter()
        if decay < 1 and not objective.uses_values:
            raise InputValueError(
                "`decay` needs an objective that uses values, such as WRMF; "
                f"{type(objective).__name__} reads only which cells are observed"
            )
        features = FeaturesOfUpdate.of(user_features, item_features, store)
        given = new_of(new, store)
        content = content_of(given)
        if was_applied(store.history, batch, content):
            return None
        data = with_labels(given, *features.new_labels())
        refuse_dislikes(objective, data.user_items.data, "new")
        features.read(data)
        return cls(
            *(store, objective, given, data, features),
            *(int(alternations), float(decay), batch, content, began),
        )

    def applied(
        self, seen: Seen | None, user_items: Matrix | None, backend: Backend, n_threads: int
    ) -> tuple[FactorStore, Seen]:
        """The store and the seen entries after the update.

        ``user_items`` are all old interactions, by default those that are ``seen``.
        """
        store, objective = self.store, self.objective
        old = _old_rows(seen, user_items, store, objective)
        _tell_unread(objective, self.given.user_items.data, self.given, old.data)
        tell_uncut("new", self.given, store, _LEARNED)
        tell_odd_update(store, old, self.given, _reader(objective))
        delta = Delta.of(store, old, self.data, self.decay)
        check_solvable(store, new_items=len(delta.item_ids) > store.n_items)
        options = SolveOptions("cholesky", n_threads=n_threads)
        half_steps = HalfSteps(objective, delta.counts, backend, options, featured(store))
        tables = _tables(store, delta, n_threads)
        extras, changed = self._placed(tables, delta, half_steps.counts)
        touched = delta.touched(
            extras,
            store.dtype,
            changed,
            following=self.alternations > 0,
            decayed=self.decay < 1,
        )
        solved = alternate(half_steps, *touched, tables, self.alternations)
        biases: dict[str, Any] = {}
        if tables.user_biases is not None:  # else those of the store, if any, are a prior
            biases = {"user_biases": tables.user_biases, "item_biases": tables.item_biases}
        after = replace(
            store,
            user_factors=tables.users,
            item_factors=tables.items,
            user_ids=delta.user_ids,
            item_ids=delta.item_ids,
            counts=half_steps.counts,
            extras=extras,
            history=updated(store.history, solved, self.began, self.batch, self.content),
            **biases,
        )
        return after, Seen(delta.seen) if seen is None else seen.updated(delta.seen)

    def _placed(
        self, tables: WorkingTables, delta: Delta, counts: Counts
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.int64]]]:
        """Write the factors of rows that only have features; return the extras with all means.

        Also returned are the rows with interactions whose means changed, by side.
        """
        extras, changed = dict(self.store.extras), {}
        for side, factors, ids, own in (
            ("user", tables.users, delta.user_ids, counts.users),
            ("item", tables.items, delta.item_ids, counts.items),
        ):
            extras, others = self.features.written(extras, side, ids)
            changed[side] = others[own[others] > 0]
            if side in featured(self.store):
                new_rows = np.arange(getattr(self.store, f"n_{side}s"), len(ids))
                by_features = np.concatenate([new_rows, others[own[others] == 0]])
                factors[by_features] = extras[names_of(side)[1]][by_features]
        return extras, changed


def _tables(store: FactorStore, delta: Delta, n_threads: int) -> WorkingTables:
    """Copies of all factors, and of the biases if the fit had biases, with zeros for new rows."""
    n_users, n_items = len(delta.user_ids), len(delta.item_ids)
    users = with_rows(store.user_factors, n_users, n_threads)
    items = with_rows(store.item_factors, n_items, n_threads)
    if not had_biases(store) or store.user_biases is None or store.item_biases is None:
        return WorkingTables(users, items)
    biases = with_rows(store.user_biases, n_users, 1), with_rows(store.item_biases, n_items, 1)
    return WorkingTables(users, items, *biases)


def _old_rows(
    seen: Seen | None,
    user_items: Matrix | None,
    store: FactorStore,
    objective: QuadraticObjective,
) -> sp.csr_array:
    """All interactions of the model, as given or as it has them."""
    if user_items is None:
        return training_rows(seen, objective).checked
    tell_uncut("user_items", sparse_to_host(user_items), store, _LEARNED)
    users, items = sides(store)
    given = given_rows(user_items, users.ids.labels, users, items, "user_items")
    old = clean_rows(given, "user_items", objective)
    if (only := _only_seen(user_items, users.ids.labels, users, items)) is not None:
        old = cells.with_zeros(old, only)
    return old if seen is None else cells.with_zeros(old, seen.only)


def solved_anew(
    held: ModelState, folding: FoldIn, side: Side, other: Side, raw: Raw, matrix: Matrix
) -> tuple[FactorStore, Seen | None]:
    """The store and the seen entries with rows of one side solved from ``matrix``, or added."""
    store, objective = held.store, folding.objective
    raw = given_ids(raw, f"{side.name}ids")
    seen = None if held.seen is None else held.seen.checked
    ids, rows = grown(side, raw)
    check_solvable(store, new_items=side.name == "item" and len(ids) > len(side.ids))
    argument = f"{side.name}_{other.name}s"
    if held.seen is not None:
        held.seen.refuse_other_order(matrix, rows, side.name, argument)
    given = clean_rows(given_rows(matrix, raw, side, other, argument), argument, objective)
    _tell_unread(objective, given.data, matrix)
    told = matrix if isinstance(matrix, Interactions) else given
    tell_uncut(argument, told, store, _LEARNED)
    if (reader := _reader(objective)) is not None and seen is not None and seen.dtype != bool:
        tell_unweighted(argument, matrix, store.weightings)
        tell_other_scale(argument, given.data, seen.data, reader)
    only = _only_seen(matrix, raw, side, other)
    solve = folding.users_and_biases if side.name == "user" else folding.items_and_biases
    solved = solve(CSR.from_scipy(given, store.dtype), feature_means(store, side, raw))
    after, entries = with_solved(store, seen, side.name, ids, rows, (given, only), *solved)
    if entries is None or held.seen is None:
        return after, None
    return after, held.seen.updated(entries)


def _reader(objective: QuadraticObjective) -> str | None:
    """The name of an objective that reads values."""
    return type(objective).__name__ if objective.uses_values else None


def _tell_unread(
    objective: QuadraticObjective,
    new: NDArray[np.floating],
    given: Matrix,
    old: NDArray[np.floating] | None = None,
) -> None:
    """Tell of values, which are of interactions or a matrix, and of what the model had."""
    if not objective.uses_values:
        tell_unread_values(type(objective).__name__, new, source_of(given), old)


def _only_seen(matrix: Matrix, raw: Raw, side: Side, other: Side) -> sp.csr_array | None:
    """What the ids of ``raw`` have only seen, canonical, a row for each; None if nothing is."""
    if not isinstance(matrix, Interactions) or matrix.seen_only is None:
        return None
    rows = given_seen(matrix, raw, side, other, f"{side.name}_{other.name}s")
    rows.sort_indices()
    return cells.select(rows, np.flatnonzero(rows.data == 0))


# Features in an update, of new and known users and items.

_log = logging.getLogger("mfrank")

_SIDES = ("user", "item")
_ROUNDING = 1e-4  # of means in float32 that were summed in another order


@dataclass(frozen=True, eq=False)
class FeaturesOfUpdate:
    """Features of both sides, with tables read, and their means.

    A table may have rows of new ids, of all ids, or of ids whose features changed. A matrix has a
    row for each id of the interactions.
    """

    store: FactorStore
    given: Mapping[str, Any]
    _means: dict[str, tuple[Ids, Factors]] = field(default_factory=dict)

    @classmethod
    def of(cls, user_features: Any, item_features: Any, store: FactorStore) -> Self:
        """Read the arguments of an update of a store.

        Raises
        ------
        ValueError, TypeError
            The fit had no features of the side, or in another form, or a table cannot be read.
        """
        both = {"user": user_features, "item": item_features}
        return cls(store, {side: _read(side, both[side], store) for side in _SIDES})

    def new_labels(self) -> list[NDArray[Any] | None]:
        """Ids of users and items in the tables that the model lacks."""
        return [self._new(side, self.given[side]) for side in _SIDES]

    def read(self, data: Interactions) -> None:
        """Compute the means of rows with features, with ``data`` as the new interactions.

        New rows outside the table get the common mean. Known rows outside the table do not change,
        because a table of today's new items says nothing about others.
        """
        for side, own in zip(_SIDES, (data.user_ids, data.item_ids), strict=True):
            given, weights = self.given[side], weights_of(self.store, side)
            if given is None or weights is None:
                continue
            columns = columns_of(self.store, side)
            if isinstance(given, FeatureTable) and columns is not None:
                ids = with_more(Ids.of(given.labels), own.labels[self._rows(side, own.labels) < 0])
                # A whole table is given each day: its known rows were read before.
                familiar = own.rows(ids.labels, missing=-1) < 0
                rows = given.features(columns, ids, familiar=familiar)
            else:
                ids = own
                rows = feature_rows(f"{side}_features", given, own, len(weights))
            self._means[side] = ids, (rows @ weights).astype(self.store.dtype)

    def written(
        self, extras: Mapping[str, NDArray[Any]], side: str, ids: Ids
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
        """The extras with the means of all rows, and the known rows whose means changed.

        ``ids`` are all ids of the side, the model's first.
        """
        none = np.empty(0, dtype=np.int64)
        old = means_of(self.store, side)
        if side not in self._means or old is None:
            return with_means(extras, side, len(ids)), none
        own, means = self._means[side]
        rows = ids.rows(own.labels)
        known = rows < len(old)
        before, now = old[rows[known]], means[known]
        limit = _ROUNDING * (np.abs(before) + np.abs(old).max())
        others = (np.abs(now - before) > limit).any(axis=1)
        changed = np.sort(rows[known][others])
        if len(changed):
            _log.info(
                "%s_features: %s that the model has now have other features, and are solved again",
                *(side, counted(len(changed), side)),
            )
        return with_means(extras, side, len(ids), rows, means), changed

    def _new(self, side: str, given: Any) -> NDArray[Any] | None:
        if not isinstance(given, FeatureTable):
            return None
        return given.labels[self._rows(side, given.labels) < 0]

    def _rows(self, side: str, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Rows of the model, -1 for ids that it does not have."""
        ids: Ids = getattr(self.store, f"{side}_ids")
        return ids.rows(labels, missing=-1)


def _read(side: str, given: Any, store: FactorStore) -> Any:
    """Features as they are given, tables read; raise if the fit had none, or of another form."""
    name = f"{side}_features"
    if given is None:
        return None
    if weights_of(store, side) is None:
        raise InputValueError(
            f"the model was fitted without `{name}`", "leave it out, or fit anew with it"
        )
    had_table = columns_of(store, side) is not None
    if is_table(given) != had_table:
        form = "a table" if had_table else "a matrix"
        raise InputValueError(
            f"the model was fitted with {form} as `{name}`", f"pass {form} here, too"
        )
    ids: Ids = getattr(store, f"{side}_ids")
    return FeatureTable.of(name, given, ids) if had_table else given
