"""The table of items of a service: which items a request may get, and what is told of them.

The columns ``hidden``, ``available_from`` and ``available_until`` decide which items are listed at
all. Conditions of a request (:mod:`mfrank.serving.conditions`) choose among these.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted, shown
from mfrank.data import Ids, spelled_like
from mfrank.errors import InputValueError
from mfrank.retrieval import KnownRows, is_nested
from mfrank.serving.conditions import Condition, ItemColumn, refuse_contrary
from mfrank.serving.item_source import (
    FROM,
    HIDDEN,
    UNTIL,
    ItemSource,
    ItemTable,
    decides_in_vain,
)

_REMEMBERED_BYTES = 1 << 26
"""Of filters that are kept ready, and thrown away with the table."""
_MOST_REMEMBERED = 1024

_log = logging.getLogger("mfrank.serving")

Where = tuple[str, ...]


class _Passing(NamedTuple):
    """The items that pass: their rows, and whether each item does."""

    rows: KnownRows
    held: NDArray[np.bool_]


class ItemsOfModel:
    """The columns of the table in the order of a model's items.

    Parameters
    ----------
    item_ids : Ids
        Of the model.
    labels : shape (rows,)
        Ids of the table's rows.
    columns : mapping of str to ItemColumn
        Of the table.

    Attributes
    ----------
    columns : dict of str to ItemColumn
    without_row : int
        Items of the model that the table does not have; no condition holds for them.
    unused : int
        Rows of the table of items that the model does not have.
    """

    def __init__(
        self, item_ids: Ids, labels: NDArray[Any], columns: Mapping[str, ItemColumn]
    ) -> None:
        self.item_ids = item_ids
        found = item_ids.rows(spelled_like(labels, item_ids), missing=-1)
        rows = np.full(len(item_ids), -1, dtype=np.int64)
        rows[found[found >= 0]] = np.flatnonzero(found >= 0)
        self.columns = {name: column.aligned(rows) for name, column in columns.items()}
        self.without_row, self.unused = int((rows < 0).sum()), int((found < 0).sum())
        self._always = np.ones(len(rows), dtype=bool)
        if HIDDEN in self.columns:
            self._always &= ~self.columns[HIDDEN].passing("=", ["true"])
        self._starts, self._ends = _ends_of(self.columns, len(rows))
        turns = np.concatenate([self._starts, self._ends + 1])
        self._turns = np.unique(turns[np.abs(turns) < _NEVER])
        size = max(8, min(_MOST_REMEMBERED, _REMEMBERED_BYTES // (6 * len(rows) + 1)))
        self._remembered = lru_cache(size)(self._passing)

    def _passing(self, where: Where, turn: int) -> _Passing | None:
        """The items that are listed after this many turns; None if all are."""
        now = int(self._turns[turn - 1]) if turn else -_NEVER
        held = self._always & (self._starts <= now) & (now <= self._ends)
        conditions = [Condition.of(text, self.columns) for text in where]
        each = [self.columns[condition.column].passing(*condition[1:]) for condition in conditions]
        refuse_contrary(conditions, self.columns, each)
        held = np.logical_and.reduce([held, *each])
        if held.all():
            return None
        rows = np.flatnonzero(held).astype(np.int32)
        rows.flags.writeable = False  # what a backend makes of them is kept with them
        return _Passing(KnownRows(rows), held)

    def passing(self, where: Where, now: float | None = None) -> _Passing | None:
        """The items that hold all conditions and may be listed now; None if all items do.

        Raises
        ------
        ValueError
            A condition cannot be read, or the table has no such column.
        """
        moment = time.time() if now is None else now
        turn = int(np.searchsorted(self._turns, int(moment), "right"))
        return self._remembered(where, turn)

    def only(self, where: Where, items: Any) -> Any:
        """``items``, as of ``recommend``, less those that do not pass; None for all items."""
        passing = self.passing(where)
        if passing is None or items is None:
            return items if passing is None else passing.rows
        if is_nested(items):
            return [self._kept(each, passing) for each in items]
        return self._kept(items, passing)

    def _kept(self, labels: Sequence[Any], passing: _Passing) -> list[Any]:
        """Ids that pass, and unknown ones, of which the model says what becomes of them."""
        rows = self.item_ids.rows(labels, missing=-1).tolist()
        held = passing.held
        return [each for each, row in zip(labels, rows, strict=True) if row < 0 or held[row]]

    def check_fields(self, names: Sequence[str]) -> None:
        """Raise ValueError for the name of a column that the table does not have."""
        for name in names:
            if name not in self.columns:
                known = ", ".join(map(repr, self.columns))
                raise InputValueError(f"`fields`: no column {shown(name)}; there are {known}")

    def told(self, names: Sequence[str], places: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Places of a list with the values of some columns, null where one is missing."""
        rows = self.item_ids.rows([place["id"] for place in places], missing=-1).tolist()
        return [
            {**place, "fields": {name: self.columns[name].given[row] for name in names}}
            for place, row in zip(places, rows, strict=True)
        ]

    def categories(self, name: str) -> dict[Any, Any]:
        """The values of a column by item id, for caps on them."""
        self.check_fields([name])
        column = self.columns[name]
        there = np.flatnonzero(column.present)
        return dict(zip(self.item_ids.labels[there].tolist(), column.given[there], strict=True))

    def ids_where(self, text: str) -> list[Any]:
        """The ids of the items that hold a condition."""
        condition = Condition.of(text, self.columns)
        held = self.columns[condition.column].passing(*condition[1:])
        labels: list[Any] = self.item_ids.labels[held].tolist()
        return labels


_NEVER = 2**62


def _ends_of(
    columns: Mapping[str, ItemColumn], n_items: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last second in which each item may be listed."""
    starts, ends = np.full(n_items, -_NEVER), np.full(n_items, _NEVER)
    if FROM in columns:
        there = columns[FROM].present
        starts[there] = columns[FROM].first[there]
    if UNTIL in columns:
        there = columns[UNTIL].present
        ends[there] = columns[UNTIL].last[there]
    return starts, ends


class Catalogue:
    """The table of items of a service, in the order of a model's items.

    Parameters
    ----------
    source : ItemSource
    item_ids : Ids
        Of the model that answers first.

    Attributes
    ----------
    source : ItemSource
    """

    def __init__(self, source: ItemSource, item_ids: Ids) -> None:
        self.source = source
        first = source.newer(-1, item_ids)
        assert first is not None
        self._table: ItemTable = first
        self._of_models: tuple[ItemsOfModel, ...] = ()
        self.meet(item_ids)
        self._tell()

    def of(self, item_ids: Ids) -> ItemsOfModel:
        """The table in the order of a model's items."""
        for each in self._of_models:
            if each.item_ids is item_ids:
                return each
        return self.meet(item_ids)

    def meet(self, item_ids: Ids) -> ItemsOfModel:
        """Put the table in the order of a model that answers soon, beside the one before it."""
        made = self._in_order(self._table, item_ids)
        self._of_models = (made, *self._of_models[:1])
        return made

    def refresh(self, item_ids: Ids, *, forced: bool = False) -> None:
        """Take up a table that has changed, or read it again if ``forced``."""
        newer = self.source.newer(self._table.number, item_ids, forced=forced)
        if newer is not None:
            made = self._in_order(newer, item_ids)  # before a request could wait for it
            self._table, self._of_models = newer, (made,)
            self._tell()

    @staticmethod
    def _in_order(table: ItemTable, item_ids: Ids) -> ItemsOfModel:
        return ItemsOfModel(item_ids, table.labels, table.columns)

    def about(self, item_ids: Ids) -> dict[str, Any]:
        """What /health says of it."""
        here = self.of(item_ids)
        passing = here.passing(())
        return {
            "rows": len(self._table.labels),
            "columns": {name: column.kind for name, column in here.columns.items()},
            "items_without_row": here.without_row,
            "rows_without_item": here.unused,
            "listed": len(item_ids) if passing is None else len(passing.rows),
            "loaded": self.source.since,
            "reloads": self.source.loads,
            "failed_reloads": self.source.failures,
            "reload_error": self.source.error,
        }

    def _tell(self) -> None:
        """Say what was read, and which items have no row."""
        here = self._of_models[0]
        kinds = ", ".join(f"{name} ({column.kind})" for name, column in here.columns.items())
        _log.info("items: %s, with %s", counted(len(self._table.labels), "row"), kinds)
        passing, n_items = here.passing(()), len(here.item_ids)
        if passing is not None:
            n_listed = len(passing.rows)
            _log.log(
                logging.INFO if n_listed or not n_items else logging.WARNING,
                "items: %s of %s of the model may be listed now, by hidden, available_from and "
                "available_until",
                *(f"{n_listed:,}" if n_listed else "none", counted(n_items, "item")),
            )
        if names := [name for name, column in here.columns.items() if decides_in_vain(column)]:
            _log.info(
                "items: of the columns only hidden, available_from and available_until decide "
                "what is listed; by %s, requests choose with where=",
                ", ".join(map(repr, names)),
            )
        if here.without_row:
            _log.warning(
                "items: %s of the model %s no row: no condition holds for them",
                counted(here.without_row, "item"),
                "has" if here.without_row == 1 else "have",
            )
        if here.unused:
            _log.warning(
                "items: %s of items that the model does not have", counted(here.unused, "row")
            )
