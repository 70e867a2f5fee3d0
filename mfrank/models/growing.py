"""Updates of a fitted ALS: new users, items and interactions without a new fit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from time import perf_counter
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.als import (
    HalfSteps,
    QuadraticObjective,
    Solved,
    WorkingTables,
    alternate,
    refuse_dislikes,
)
from mfrank.arrays import CSR, check_above_zero, check_count, in_turn, shown, sparse_to_host
from mfrank.backends import Factors, SolveOptions, choose
from mfrank.data import Ids, Interactions, cells, check_numbering, with_labels
from mfrank.models.closed_form import ClosedForm, check_solvable, feature_means, had_biases
from mfrank.models.features_of_update import FeaturesOfUpdate
from mfrank.models.options import source_of, tell_below, tell_unread_values
from mfrank.models.partial_fit import Delta, grown, refit, with_rows
from mfrank.retrieval import Matrix, Raw, Side, given_ids, given_rows, given_seen, of_filter, sides
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
        raise TypeError(f'batch must be a name, such as "2026-11-25", got {shown(batch)}')
    if batch is not None and not batch.strip():
        raise ValueError('batch must be a name, such as "2026-11-25", got an empty one')


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
                "batch %r was applied before, with other interactions: the model stays as it is; "
                "if these are new ones, name them otherwise with batch=",
                batch,
            )
        return True
    if content and any(one.get("content") == content for one in history):
        _log.warning(
            "these interactions are those of an earlier update, and are applied again; where each "
            "update has a name, by batch=, it is applied once"
        )
    return False


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


class Growing(ClosedForm):
    """A model with a quadratic objective that can be updated with new rows and interactions."""

    @in_turn
    def partial_fit(
        self,
        new: Any = None,
        *,
        user_items: Matrix | None = None,
        alternations: int = 3,
        decay: float = 1.0,
        batch: str | None = None,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Update the model with new interactions, including new users and items.

        The update solves rows with new interactions from all their interactions, old and new: first
        the users, then ``alternations`` times the items and the users.

        - Rows with less than 15% new interactions take part in only one alternation.
        - Rows with more take part in every alternation. So do users of whose items at least 30%
          changed that much; they would otherwise hold these items in place.
        - All other rows keep their factors. A fit would move them slightly, and more after many
          updates, so fit again from time to time.

        The history gets a record with the seconds and the number of ``rows`` solved.

        Seen items stay seen: where values cancel or decay to 0, the model has no interaction any
        more, but lists still leave the item out.

        The old interactions are the ones that the model has for its filters; there is no second
        copy. A saved model has them without values, so objectives that use values need
        ``user_items`` after a load.

        Parameters
        ----------
        new : Interactions, scipy or CuPy sparse matrix (users x items), or DataFrame
            Matched by id; unknown ids are new users and items. A matrix has no ids, so it fits only
            models whose ids are row numbers. If the model has a cell already, the values are added.
            None if new rows come only from feature tables.
        user_items : Interactions or scipy sparse, optional
            All interactions of the model, without the new ones; by default, the model's own. A
            sparse matrix has the rows and columns of the model.
        alternations : int, default 3
            At least 0; 0 solves users only. New users of new items need several, because each side
            learns from the other (``bench/stream.py``).
        decay : float, default 1.0
            In (0, 1]. Multiplies the values of all old interactions before the new ones are added;
            only for objectives that use values. Below 1, every row changes: rows without new
            interactions are solved in one alternation, so an update takes about twice as long.
        batch : str or None, default None
            Name of ``new``, such as ``"2026-11-25"``. A batch is applied only once: if the model
            has one of this name, it does not change, and a line is logged. The history, which is
            saved with the model, has the last 1,000 updates since the fit. Without a name,
            interactions of an earlier update are applied again, with a warning.
        user_features, item_features : DataFrame, path, sparse matrix or 2-D array, optional
            Features with the columns of the fit, only if the fit had features, and as a table if
            the fit had a table. A matrix has a row for each id of ``new``, in the same order. Rows
            of a table are matched by id:

            - an id that neither ``new`` nor the model has becomes a new row;
            - a known id whose features changed is solved again;
            - an id that the table does not have keeps its features.

            Rows without interactions get factors from their features alone. Without this argument,
            the features of new rows are 0.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            The model is unchanged if

            - it lacks its interactions or their values, and ``user_items`` is None;
            - the objective cannot use a value;
            - ids are whole numbers in only one of the model and ``new``;
            - an argument is out of range.
        """
        check_count("alternations", alternations, 0)
        check_batch(batch)
        check_above_zero(decay=decay)
        if decay > 1:
            raise ValueError(f"decay must be at most 1, got {decay}")
        began, held = perf_counter(), self._now()
        store = held.store.on_host()
        objective = self._objective_of(store)
        if decay < 1 and not objective.uses_values:
            raise ValueError(
                f"decay needs an objective that uses values, such as WRMF; "
                f"{type(objective).__name__} reads only which cells are observed"
            )
        told = FeaturesOfUpdate.of(user_features, item_features, store)
        given = _new_of(new, store)
        content = content_of(given)
        if was_applied(store.history, batch, content):
            return self
        data = with_labels(given, *told.new_labels())
        refuse_dislikes(objective, data.user_items.data, "new")
        told.read(data)
        self._tell_set_since(store.fitter)
        old = self._old(user_items, store)
        _tell_unread(objective, given.user_items.data, given, old.data)
        tell_below("new", given, store.threshold, _LEARNED)
        delta = Delta.of(store, old, data, float(decay))
        check_solvable(store, new_items=len(delta.item_ids) > store.n_items)
        half_steps = HalfSteps(
            objective,
            delta.counts,
            choose(self.backend),
            SolveOptions("cholesky", n_threads=self.n_threads),
            featured(store),
        )
        users = with_rows(store.user_factors, len(delta.user_ids), self.n_threads)
        items = with_rows(store.item_factors, len(delta.item_ids), self.n_threads)
        biases = self._grown_biases(store, delta)
        extras = dict(store.extras)
        changed = {}
        for side, factors, ids, counts in (
            ("user", users, delta.user_ids, half_steps.counts.users),
            ("item", items, delta.item_ids, half_steps.counts.items),
        ):
            extras, others = told.written(extras, side, ids)
            changed[side] = others[counts[others] > 0]
            new_rows = np.arange(getattr(store, f"n_{side}s"), len(ids))
            factors[new_rows] = 0
            if side in featured(store):
                by_features = np.concatenate([new_rows, others[counts[others] == 0]])
                factors[by_features] = extras[names_of(side)[1]][by_features]
        touched = delta.touched(
            extras, store.dtype, changed, following=alternations > 0, decayed=decay < 1
        )
        solved = alternate(
            half_steps, *touched, WorkingTables(users, items, **biases), int(alternations)
        )
        record = {
            "epoch": len(store.history) + 1,
            "seconds": perf_counter() - began,
            "objective": None,
            "rows": solved,
        }
        grown_store = replace(
            store,
            user_factors=users,
            item_factors=items,
            user_ids=delta.user_ids,
            item_ids=delta.item_ids,
            counts=half_steps.counts,
            extras=extras,
            history=updated(store.history, record, batch, content),
            **biases,
        )
        self._hold(grown_store, delta.seen)
        return self

    @in_turn
    def partial_fit_users(self, userids: Raw, user_items: Matrix, *, by_row: bool = False) -> Self:
        """Solve users from their interactions and store the result; unknown users are added.

        Item factors do not change. A row must contain all of a user's interactions, not only the
        new ones. With ``by_row=True``, new users must continue the numbering.

        Parameters
        ----------
        userids, user_items, by_row
            As in :meth:`recalculate_user`; no id twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            As in :meth:`recalculate_user`; or ids repeat, are whole numbers in only one of the
            model and the call, or leave a gap in the row numbers. The model is unchanged.
        """
        users, items = sides(self.store, by_row=by_row)
        return self._partial_fit(users, items, userids, user_items, self._folding.users_and_biases)

    @in_turn
    def partial_fit_items(self, itemids: Raw, item_users: Matrix, *, by_row: bool = False) -> Self:
        """Solve items from their interactions and store them; see :meth:`partial_fit_users`."""
        users, items = sides(self.store, by_row=by_row)
        return self._partial_fit(items, users, itemids, item_users, self._folding.items_and_biases)

    def _grown_biases(self, store: FactorStore, delta: Delta) -> dict[str, Any]:
        """Copies of both sides' biases by their names, 0 for new rows; none if the fit had none."""
        if not had_biases(store) or store.user_biases is None or store.item_biases is None:
            return {}
        return {
            "user_biases": with_rows(store.user_biases, len(delta.user_ids), 1),
            "item_biases": with_rows(store.item_biases, len(delta.item_ids), 1),
        }

    def _old(self, user_items: Matrix | None, store: FactorStore) -> sp.csr_array:
        """All interactions of the model, as given or as it has them."""
        if user_items is None:
            return self._values_of(self.seen, store).checked
        tell_below("user_items", sparse_to_host(user_items), store.threshold, _LEARNED)
        users, items = sides(store)
        given = given_rows(user_items, users.ids.labels, users, items, "user_items")
        old = self._clean(given, "user_items", store)
        if (only := _only_seen(user_items, users.ids.labels, users, items)) is not None:
            old = cells.with_zeros(old, only)
        return old if self.seen is None else cells.with_zeros(old, self.seen.only)

    def _partial_fit(
        self,
        side: Side,
        other: Side,
        raw: Raw,
        matrix: Matrix,
        solve: Callable[[CSR, Factors | None], Solved],
    ) -> Self:
        raw = given_ids(raw, f"{side.name}ids")
        seen = None if self.seen is None else self.seen.checked
        ids, rows = grown(side, raw)
        check_solvable(self.store, new_items=side.name == "item" and len(ids) > len(side.ids))
        argument = f"{side.name}_{other.name}s"
        given = self._clean(given_rows(matrix, raw, side, other, argument), argument, self.store)
        _tell_unread(self._objective_of(self.store), given.data, matrix)
        told = matrix if isinstance(matrix, Interactions) else given
        tell_below(argument, told, self.store.threshold, _LEARNED)
        only = _only_seen(matrix, raw, side, other)
        solved = solve(
            CSR.from_scipy(given, self.store.dtype), feature_means(self.store, side, raw)
        )
        self._hold(*refit(self.store, seen, side.name, ids, rows, (given, only), *solved))
        return self


_LEARNED = "are learned from like the others"
_NOTHING = sp.csr_array((0, 0), dtype=np.float32)


def _tell_unread(
    objective: QuadraticObjective,
    new: NDArray[np.floating],
    given: Matrix,
    old: NDArray[np.floating] | None = None,
) -> None:
    """Tell of values, which are of interactions or a matrix, and of what the model had."""
    if not objective.uses_values:
        tell_unread_values(type(objective).__name__, new, source_of(given), old)


def _new_of(new: Any, store: FactorStore) -> Interactions:
    """New interactions, matched by id; raise if they are a matrix and the model's ids numbers."""
    here = sparse_to_host(_NOTHING if new is None else new)
    data = Interactions.of(here)
    for side in ("user", "item"):
        known: Ids = getattr(store, f"{side}_ids")
        if new is not None and sp.issparse(here) and known.table is not None and known.are_numbers:
            raise ValueError(
                f"new is a matrix, whose rows have no ids, and the model's {side} ids are like "
                f"{known.labels.item(0)!r}: pass Interactions.from_sparse(new, user_ids=..., "
                "item_ids=...)"
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
