"""The table of items of a service: which items a request may get, and what is told of them.

The columns ``hidden``, ``available_from`` and ``available_until`` decide which items are listed at
all. Conditions of a request (:mod:`mfrank.serving.conditions`) choose among these.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted, shown
from mfrank.data import FeatureTable, Ids, objects, spelled_like, tell_odd_texts
from mfrank.errors import InputValueError
from mfrank.files import path_of
from mfrank.retrieval import KnownRows, is_nested
from mfrank.serving.conditions import Condition, ItemColumn, Kind, kind_of, looks_dated

HIDDEN, FROM, UNTIL = "hidden", "available_from", "available_until"
_ROLES: Mapping[str, Kind] = {HIDDEN: "truth", FROM: "date", UNTIL: "date"}

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
        for text in where:
            condition = Condition.of(text, self.columns)
            held = held & self.columns[condition.column].passing(*condition[1:])
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
    """The table of items of a service, read anew when its file changes.

    Parameters
    ----------
    items : path or DataFrame
        As in :func:`mfrank.serving.app`.
    item_ids : Ids
        Of the model that answers first.

    Attributes
    ----------
    path : Path or None
    n_rows : int
    since : float
        Unix time at which the current table was read.
    loads, failures : int
        Numbers of newer tables that were read, and of failures.
    error : str or None
        Reason of the last failure; None if the last table was read.
    """

    def __init__(self, items: Any, item_ids: Ids) -> None:
        self.path = path_of(items) if isinstance(items, str | os.PathLike) else None
        self._given = items
        self._version = self._look()
        self._labels, self._columns = _read(items, item_ids)
        self._of_models: tuple[ItemsOfModel, ...] = ()
        self.since, self.loads, self.failures = time.time(), 0, 0
        self.error: str | None = None
        self.meet(item_ids)
        self._tell()

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return len(self._labels)

    def of(self, item_ids: Ids) -> ItemsOfModel:
        """The table in the order of a model's items."""
        for each in self._of_models:
            if each.item_ids is item_ids:
                return each
        return self.meet(item_ids)

    def meet(self, item_ids: Ids) -> ItemsOfModel:
        """Put the table in the order of a model that answers soon, beside the one before it."""
        made = ItemsOfModel(item_ids, self._labels, self._columns)
        self._of_models = (made, *self._of_models[:1])
        return made

    def refresh(self, item_ids: Ids, *, forced: bool = False) -> None:
        """Read the file again if it has changed, or ``forced``; if it cannot, the table stays."""
        version = self._look()
        if self.path is None or not (forced or version != self._version):
            return
        self._version = version
        try:
            labels, columns = _read(self._given, item_ids)
        except Exception as error:
            self.failures += 1
            self.error = f"{type(error).__name__}: {error}"
            _log.warning("the items that were read before still count: %s", self.error)
            return
        made = ItemsOfModel(item_ids, labels, columns)  # before a request could wait for it
        self._labels, self._columns, self._of_models = labels, columns, (made,)
        self.since, self.loads, self.error = time.time(), self.loads + 1, None
        self._tell()

    def about(self, item_ids: Ids) -> dict[str, Any]:
        """What /health says of it."""
        here = self.of(item_ids)
        passing = here.passing(())
        return {
            "rows": self.n_rows,
            "columns": {name: column.kind for name, column in here.columns.items()},
            "items_without_row": here.without_row,
            "rows_without_item": here.unused,
            "listed": len(item_ids) if passing is None else len(passing.rows),
            "loaded": self.since,
            "reloads": self.loads,
            "failed_reloads": self.failures,
            "reload_error": self.error,
        }

    def _tell(self) -> None:
        """Say what was read, and which items have no row."""
        here = self._of_models[0]
        kinds = ", ".join(f"{name} ({column.kind})" for name, column in here.columns.items())
        _log.info("items: %s, with %s", counted(self.n_rows, "row"), kinds)
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

    def _look(self) -> tuple[int, int, int] | None:
        """What changes with the file."""
        if self.path is None:
            return None
        try:
            found = Path(self.path).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _read(items: Any, item_ids: Ids) -> tuple[NDArray[Any], dict[str, ItemColumn]]:
    """The ids and the columns of a table.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        It cannot be read, or a column that decides what is listed has something else.
    """
    table = FeatureTable.of("items", items, item_ids)
    columns: dict[str, ItemColumn] = {}
    for given, values in table.columns.items():
        role = "_".join(str(given).lower().split())
        name = role if role in _ROLES else str(given).strip()
        if name == HIDDEN:
            values = objects(_truth(each) for each in values.tolist())
        column = ItemColumn.of(name, values, table.texts.get(given))
        if name in columns:
            raise InputValueError(f"`items` has two columns {name!r}", "rename one")
        if name in _ROLES and column.present.any() and column.kind != _ROLES[name]:
            what = "true or false" if name == HIDDEN else "dates"
            there = column.given[column.present].tolist()
            odd = (each for each in there if kind_of(name, [each]) != _ROLES[name])
            raise InputValueError(
                f"`items`: column {name!r} decides what is listed and must have {what}, got "
                f"{shown(next(odd, there[0]))}",
                "write it so, leave it empty where it is not known, or rename the column",
            )
        if column.kind in ("text", "list"):
            _tell_odd(column, [each for each in values.tolist() if isinstance(each, str) and each])
        columns[name] = column
    found = item_ids.rows(spelled_like(table.labels, item_ids), missing=-1)
    if len(item_ids) and len(found) and (found < 0).all():
        raise InputValueError(
            f"`items` has a row for no item of the model: its ids are like "
            f"{shown(table.labels[0])}, the model's like {shown(item_ids.labels[0])}"
        )
    return table.labels, columns


def _tell_odd(column: ItemColumn, texts: Sequence[str]) -> None:
    """Warn of texts that are probably something else, which conditions would not find."""
    where = f"items: column {column.name!r}"
    tell_odd_texts(where, texts, are_lists=column.kind == "list")
    distinct = list(dict.fromkeys(texts))
    others = [text for text in distinct if not looks_dated(text)]
    if others and 2 * len(others) <= len(distinct):
        _log.warning(
            "%s is not read as dates, but as texts, because of texts like %s: leave these empty",
            *(where, shown(others[0])),
        )


def _truth(value: Any) -> Any:
    """True and false of tables that write 1 and 0."""
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else value
