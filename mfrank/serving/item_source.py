"""Where the table of items of a service comes from, and when it is read anew.

All models of a service share what was read.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from mfrank.arrays import shown
from mfrank.data import (
    FeatureTable,
    Ids,
    TableQuery,
    files_at,
    is_database,
    is_url,
    objects,
    spelled_like,
    tell_odd_texts,
    without_password,
)
from mfrank.errors import InputTypeError, InputValueError
from mfrank.files import path_of
from mfrank.serving.conditions import ItemColumn, Kind, kind_of, looks_dated

HIDDEN, FROM, UNTIL = "hidden", "available_from", "available_until"
_ROLES: Mapping[str, Kind] = {HIDDEN: "truth", FROM: "date", UNTIL: "date"}
_BETWEEN = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_ENDS = {"available", "valid", "until", "expires", "expiry", "expiration", "discontinued", "end"}
_STATES = {"hidden", "visible", "available", "unavailable", "stock", "sold", "active", "inactive"}
_STATES |= {"deleted", "removed", "discontinued", "published", "archived", "disabled", "enabled"}
"""Words of names of columns that say which items may be listed."""
_PAUSE = 60.0
"""Seconds after which a table that is not a file of this machine is looked at again."""

_log = logging.getLogger("mfrank.serving")


class ItemTable(NamedTuple):
    """What was read: ids of the rows, columns, and the number of tables until this one."""

    labels: NDArray[Any]
    columns: Mapping[str, ItemColumn]
    number: int


class ItemSource:
    """A table of items.

    Parameters
    ----------
    items : path, URL, DataFrame or callable
        As in :func:`mfrank.serving.app`.
    query : str, optional
        What to read, if it is the URL of a database.

    Attributes
    ----------
    is_watched : bool
        Whether the table may change: it is no DataFrame.
    since : float
        Unix time at which the current table was read.
    loads, failures : int
        Numbers of newer tables that were read, and of failures.
    error : str or None
        Reason of the last failure; None if the last table was read.
    """

    def __init__(self, items: Any, query: str | None = None) -> None:
        self._given = _given(items, query)
        is_path = isinstance(self._given, str | os.PathLike)
        self.is_watched = is_path or callable(self._given) or isinstance(self._given, TableQuery)
        self._is_here = is_path and (not is_url(self._given) or path_of(self._given).exists())
        self._reading = threading.Lock()  # let go by the thread that reads
        self._table: ItemTable | None = None
        self._version: object = None
        self._is_wanted, self._again = False, 0.0  # whether to read it, changed or not; and when
        self.since, self.loads, self.failures = 0.0, -1, 0
        self.error: str | None = None

    def newer(self, than: int, item_ids: Ids, *, forced: bool = False) -> ItemTable | None:
        """The current table if its number is above ``than``, read anew if it has changed.

        If it cannot be read, the table before it stays. What is not a file of this machine may take
        long to answer: a thread reads it meanwhile, and a later call returns it. If ``forced``, it
        is read anew, changed or not. Its ids get the types of ``item_ids``, those of a model.

        Raises
        ------
        ValueError, TypeError, OSError, ModuleNotFoundError
            The first table cannot be read.
        """
        self._is_wanted |= forced and self.is_watched
        if self._table is None or (self.is_watched and self._is_here):
            with self._reading:
                self._refresh(item_ids)
        elif self._is_wanted or (self.is_watched and time.monotonic() >= self._again):
            self._read_beside(item_ids)
        assert self._table is not None
        return self._table if self._table.number > than else None

    def _read_beside(self, item_ids: Ids) -> None:
        """Begin to read the table anew in a thread, unless one does."""

        def read() -> None:
            try:
                self._refresh(item_ids)
            finally:
                self._reading.release()

        if self._reading.acquire(blocking=False):
            try:
                threading.Thread(target=read, name="mfrank-items", daemon=True).start()
            except RuntimeError:  # no more threads can be started: this one does the work
                read()

    def _refresh(self, item_ids: Ids) -> None:
        is_wanted, self._is_wanted = self._is_wanted, False
        try:
            version = self._look()
            if self._table is not None and version == self._version and not is_wanted:
                return
            self._version = version
            labels, columns = _read(self._called(), item_ids)
        except Exception as error:
            if self._table is None:
                raise
            told = f"{type(error).__name__}: {error}"
            if told != self.error:
                _log.warning("the items that were read before still count: %s", told)
            self.error, self.failures = told, self.failures + 1
            if not self._is_here:  # a connection may be lost, though nothing has changed
                self._version = None
            return
        finally:
            self._again = time.monotonic() + _PAUSE
        self._table = ItemTable(labels, columns, self.loads + 1)
        self.since, self.error, self.loads = time.time(), None, self.loads + 1

    def _look(self) -> object:
        """What changes with the table; always another where nothing tells whether it has."""
        if not isinstance(self._given, str | os.PathLike):
            return object()
        if self._is_here:
            try:
                found = path_of(self._given).stat()
            except OSError:
                return None
            return found.st_ino, found.st_mtime_ns, found.st_size
        file, *_ = files_at(self._given, "items")
        told = file.stat()
        return (told.st_size, told.st_mtime_ns) if told.st_mtime_ns else object()

    def _called(self) -> Any:
        return self._given() if callable(self._given) else self._given


def _given(items: Any, query: str | None) -> Any:
    is_of_database = isinstance(items, str) and is_database(items)
    if query is not None and not is_of_database:
        raise InputValueError(
            f"`items_query` is for the URL of a database, and `items` is {_told(items)}:",
            "omit it, or pass a URL such as postgresql+psycopg://user@host/shop",
        )
    if is_of_database:
        if query is None:
            raise InputValueError(
                f"`items` is a database, {without_password(items)}:",
                "pass `items_query`, a SELECT or the name of a table",
            )
        if not isinstance(query, str):
            raise InputTypeError(f"`items_query` must be a text, got {shown(query)}")
        return TableQuery(items, query)
    return items


def _told(items: Any) -> str:
    return without_password(items) if isinstance(items, str) else f"a {type(items).__name__}"


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
        role = "_".join(_words_of(str(given)))
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


def decides_in_vain(column: ItemColumn) -> bool:
    """Whether a column looks as if it decided what is listed, and is none that does."""
    words = {*_words_of(column.name)}
    if column.kind == "date":
        return column.name not in _ROLES and not words.isdisjoint(_ENDS)
    values = {str(each) for each in column.given[column.present]}
    are_flags = column.kind == "truth" or values <= {"0", "1"}
    return column.name not in _ROLES and are_flags and not words.isdisjoint(_STATES)


def _words_of(name: str) -> list[str]:
    return [word.lower() for word in _BETWEEN.split(name) if word]


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
