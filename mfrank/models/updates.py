"""Updates of a fitted ALS: new users, items and interactions without a new fit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
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
from mfrank.arrays import CSR, check_above_zero, check_count, shown, sparse_to_host
from mfrank.backends import Backend, SolveOptions
from mfrank.data import Counts, Ids, Interactions, cells, check_numbering, with_labels
from mfrank.errors import InputTypeError, InputValueError, Notice
from mfrank.models.closed_form import (
    check_solvable,
    clean_rows,
    feature_means,
    had_biases,
    training_rows,
)
from mfrank.models.features_of_update import FeaturesOfUpdate
from mfrank.models.odd_updates import tell_odd_update, tell_other_scale
from mfrank.models.options import source_of, tell_uncut, tell_unread_values
from mfrank.models.partial_fit import Delta, grown, refit, with_rows
from mfrank.retrieval import (
    Matrix,
    ModelState,
    Raw,
    Recommender,
    Seen,
    Side,
    given_ids,
    given_rows,
    given_seen,
    of_filter,
    sides,
)
from mfrank.store import FactorStore, History, Record, featured, names_of

# Which updates a model has had, in its history, so that none is applied twice unseen.
#
# The record of an update has two numbers of 52 bits, which JSON and JavaScript have as they are:
# one made of the name of its batch, and one of its interactions.


_log = logging.getLogger("mfrank")

_MOST = 1000  # updates whose numbers are kept


def check_batch(batch: str | None) -> None:
    """Raise unless ``batch`` is a valid name or None."""
    if batch is not None and not isinstance(batch, str):
        raise InputTypeError(f'`batch` must be a name, such as "2026-11-25", got {shown(batch)}')
    if batch is not None and not batch.strip():
        raise InputValueError('`batch` must be a name, such as "2026-11-25", got an empty one')


def was_applied(history: History, batch: str | None, content: int) -> bool:
    """Whether the model has already applied a batch of this name; logs it.

    Also warns if the same interactions were applied without this name: they are applied again.
    """
    name = _number(batch)
    if name is not None and (before := [one for one in history if one.get("batch") == name]):
        if before[-1].get("content") == content:
            _log.info("batch %r was applied before: the model stays as it is", batch)
        else:
            _log.warning(
                Notice(
                    f"batch {batch!r} was applied before, with other interactions: the model stays "
                    "as it is; if these are new ones, name them otherwise with `batch=`"
                )
            )
        return True
    if content and any(one.get("content") == content for one in history):
        _log.warning(
            Notice(
                "these interactions are those of an earlier update, and are applied again; where "
                "each update has a name, by `batch=`, it is applied once"
            )
        )
    return False


def last_batch(model: Recommender, batches: Sequence[str]) -> int | None:
    """The index of the last of these batches that a model has applied; None if it has none.

    Raises
    ------
    ValueError
        The history does not go back far enough to know.
    """
    records = model._updates
    applied = {one["batch"] for one in records if one.get("batch") is not None}
    for index in reversed(range(len(batches))):
        if _number(batches[index]) in applied:
            return index
    if batches and sum("content" in one for one in records) >= _MOST:
        raise InputValueError(
            f"the model has had {_MOST:,} other updates since, so that it is not known which of "
            "these it has",
            "fit it anew",
        )
    return None


def updated(history: History, record: Record, batch: str | None, content: int) -> Sequence[Record]:
    """The history with the record of this update at the end; old records lose batch and content."""
    numbered = [place for place, one in enumerate(history) if "content" in one]
    forgotten = set(numbered[: max(0, len(numbered) + 1 - _MOST)])
    records = [
        {name: one[name] for name in one if name not in ("batch", "content")}
        if place in forgotten
        else dict(one)
        for place, one in enumerate(history)
    ]
    return [*records, {**record, "batch": _number(batch), "content": content}]


def content_of(new: Interactions) -> int:
    """A hash of interactions, including ids, values and times; 0 if there are none."""
    if not new.nnz:
        return 0
    try:
        text = str(of_filter(new, with_values=True))
    except ValueError:  # ids that cannot be saved
        ids = new.user_ids.labels.tolist(), new.item_ids.labels.tolist()
        text = f"{ids} {of_filter(new.user_items, with_values=True)}"
    times = b"" if new.timestamps is None else new.timestamps.tobytes()
    return _of_bytes(text.encode() + times)


def _number(batch: str | None) -> int | None:
    return None if batch is None else _of_bytes(batch.encode(errors="surrogatepass"))


def _of_bytes(text: bytes) -> int:
    return int.from_bytes(sha256(text).digest()[:7], "big") >> 4


# An update with new interactions, of the arguments of :meth:`mfrank.ALS.partial_fit`.

_LEARNED = "are learned from like the others"
_NOTHING = sp.csr_array((0, 0), dtype=np.float32)


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
        record = {
            "epoch": len(store.history) + 1,
            "seconds": perf_counter() - self.began,
            "objective": None,
            "rows": solved,
        }
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
            history=updated(store.history, record, self.batch, self.content),
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
        tell_other_scale(argument, given.data, seen.data, reader)
    only = _only_seen(matrix, raw, side, other)
    solve = folding.users_and_biases if side.name == "user" else folding.items_and_biases
    solved = solve(CSR.from_scipy(given, store.dtype), feature_means(store, side, raw))
    after, entries = refit(store, seen, side.name, ids, rows, (given, only), *solved)
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


def chosen_of_update(given: Any, seen: Seen | None) -> Interactions | None:
    """What lists leave out of an update, for a model whose lists leave out only some items."""
    if given is None:
        if seen is not None and seen.left_out is not None:
            _log.info(
                Notice("lists leave out all that is new in this update; `leave_out` names a part")
            )
        return None
    if seen is None or seen.left_out is None:
        raise InputValueError(
            "`leave_out` is for models whose lists leave out only some items of a user:",
            "choose these first, with `model.leave_out(user_items)`",
        )
    if sp.issparse(sparse_to_host(given)):
        raise InputTypeError(
            "`leave_out` is matched by id, and a matrix has none:", "pass Interactions or a table"
        )
    return Interactions.of(given)


def new_of(new: Any, store: FactorStore) -> Interactions:
    """New interactions, matched by id; raise if they are a matrix and the model's ids numbers."""
    here = sparse_to_host(_NOTHING if new is None else new)
    data = Interactions.of(here)
    for side in ("user", "item"):
        known: Ids = getattr(store, f"{side}_ids")
        if new is not None and sp.issparse(here) and known.table is not None and known.are_numbers:
            raise InputValueError(
                f"`new` is a matrix, whose rows have no ids, and the model's {side} ids are like "
                f"{known.labels.item(0)!r}:",
                "pass `Interactions.from_sparse(new, user_ids=..., item_ids=...)`",
            )
        check_numbering(getattr(data, f"{side}_ids"), known, "new", side)
    return data


def _only_seen(matrix: Matrix, raw: Raw, side: Side, other: Side) -> sp.csr_array | None:
    """What the ids of ``raw`` have only seen, canonical, a row for each; None if nothing is."""
    if not isinstance(matrix, Interactions) or matrix.seen_only is None:
        return None
    rows = given_seen(matrix, raw, side, other, f"{side.name}_{other.name}s")
    rows.sort_indices()
    return cells.select(rows, np.flatnonzero(rows.data == 0))
