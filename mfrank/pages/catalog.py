"""Names and fields of items from a file, and the search for users and items."""

from __future__ import annotations

import logging
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.data import Ids, is_unnamed, known_kind, objects, place_of_ids, spelled_like, text_rows
from mfrank.errors import InputValueError
from mfrank.files import path_of

# Columns of the file of items that sort items into few kinds, such as genres or decades.


MANY = "|"
"""Separates the values of a field that has several, such as genres."""
_MOST_VALUES = 100
_LEAST_ITEMS = 2
"""A column whose values have fewer items on average names items instead of sorting them."""


@dataclass(frozen=True, slots=True, eq=False)
class SortingColumn:
    """A column that sorts items into kinds.

    Attributes
    ----------
    name : str
    labels : mapping of item id to tuple of str
        The values of each item that has any.
    sizes : mapping of str to int
        The number of items with each value, in the order of the values' names.
    """

    name: str
    labels: Mapping[Any, tuple[str, ...]]
    sizes: Mapping[str, int]

    def items(self, value: str) -> list[Any]:
        """Items with a value."""
        return [item for item, values in self.labels.items() if value in values]

    def covered(self, items: Iterable[Any]) -> int:
        """Number of values that some of these items have."""
        return len(set(chain.from_iterable(self.labels.get(item, ()) for item in items)))


def columns_of(
    names: Sequence[str], items: Sequence[Any], rows: Sequence[Sequence[str]]
) -> dict[str, SortingColumn]:
    """The columns that sort items into kinds, by name; the fewest values first.

    Parameters
    ----------
    names : sequence of str
        Of the candidate columns.
    items : sequence of id
        One for each row.
    rows : sequence of sequences of str, shape (len(items), len(names))
    """
    sorting = []
    for at, name in enumerate(names):
        labels = {item: _values(row[at]) for item, row in zip(items, rows, strict=True)}
        labels = {item: values for item, values in labels.items() if values}
        sizes = Counter(chain.from_iterable(labels.values()))
        if name and 1 < len(sizes) <= _MOST_VALUES and sizes.total() >= _LEAST_ITEMS * len(sizes):
            sorting.append(SortingColumn(name, labels, dict(sorted(sizes.items()))))
    return {column.name: column for column in sorted(sorting, key=lambda each: len(each.sizes))}


def _values(field: str) -> tuple[str, ...]:
    """The distinct values of a field."""
    parts = (part.strip() for part in field.split(MANY))
    return tuple(dict.fromkeys(filter(None, parts)))


# The catalog, from a file of items.

_log = logging.getLogger("mfrank")

_NAMES = ("title", "name", "label")
_MOST_KINDS = 40
"""A field with more different values does not sort items into kinds."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An item: its name, further fields as text, and its kind, such as its first genre."""

    name: str
    facts: str = ""
    kind: str = ""


class SiteCatalog:
    """Items by id, with names and popularity, and users by id.

    Parameters
    ----------
    item_ids, user_ids : Ids
    popularity : shape (n_items,)
        Number of users of each item.
    path : path, optional
        The file of names, see :func:`mfrank.pages.app`.

    Attributes
    ----------
    columns : dict of str to SortingColumn
    choices : dict of str to (SortingColumn, value)
        Each value of each column, by the text in a URL that names both.
    """

    def __init__(
        self,
        item_ids: Ids,
        user_ids: Ids,
        popularity: NDArray[np.int64],
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        self.item_ids, self.user_ids, self.popularity = item_ids, user_ids, popularity
        self._entries: dict[Any, Entry] = {}
        self.columns: dict[str, SortingColumn] = {}
        if path is not None:
            self._entries, self.columns = _read(path_of(path), item_ids)
        self.choices = {
            f"{column.name}:{value}": (column, value)
            for column in self.columns.values()
            for value in column.sizes
        }
        self.labels: list[Any] = item_ids.labels.tolist()
        self._folded = [folded(self.entry(label).name) for label in self.labels]
        self._user_texts = [folded(str(user)) for user in user_ids.labels.tolist()]
        self.by_popularity = np.argsort(-popularity, kind="stable")

    def entry(self, item: Any) -> Entry:
        """An item's entry; without one, its id is the name."""
        return self._entries.get(item) or Entry(str(item))

    def most_popular(self, n: int) -> list[Any]:
        """Ids of the ``n`` most popular items."""
        return [self.labels[row] for row in self.by_popularity[:n].tolist()]

    def users_of(self, item: Any) -> int:
        """Number of users of an item; 0 if the first model does not know it."""
        row = int(self.item_ids.rows([item], missing=-1)[0])
        return int(self.popularity[row]) if row >= 0 else 0

    def items_like(self, text: str) -> list[Any]:
        """Ids of items whose name or id matches the text, by quality of match, then popularity."""
        sought = folded(text)
        matches = []
        for place, row in enumerate(self.by_popularity.tolist()):
            match = _match(sought, self._folded[row], str(self.labels[row]).casefold())
            if match is not None:
                matches.append((match, place, self.labels[row]))
        return [
            label for _, _, label in sorted(matches)
        ]  # places are distinct: ids are not compared

    def users_like(self, text: str) -> list[Any]:
        """Ids of users that begin with the text, shortest first."""
        sought = folded(text)
        rows = (row for row, user in enumerate(self._user_texts) if user.startswith(sought))
        ordered = sorted(rows, key=lambda row: len(self._user_texts[row]))
        return list(self.user_ids.labels[ordered].tolist())


def folded(text: str) -> str:
    """Text without case and accents, for searching."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(part for part in parts if not unicodedata.combining(part)).strip()


def _match(sought: str, name: str, label: str) -> int | None:
    if sought in (name, label):
        return 0
    place = name.find(sought)
    if place < 0:
        return None
    if place == 0:
        return 1
    return 2 if not name[place - 1].isalnum() else 3


def _read(path: Path, known: Ids) -> tuple[dict[Any, Entry], dict[str, SortingColumn]]:
    if (kind := known_kind(path)) not in (".csv", ".tsv"):
        raise InputValueError(f"`items` must be a .csv or .tsv file, got {path}")
    table = list(text_rows(path, "\t" if kind == ".tsv" else ","))
    if not table:
        raise InputValueError(f"{path} is empty: it has no header and no rows", place=path)
    (_, header), *lines = table
    lowered = [name.strip().casefold() for name in header]
    if len(header) < 2:
        raise InputValueError(
            f"{path} must have a column of ids and one of names, got {header}", place=path
        )
    id_column = place_of_ids(header)
    named = [at for at in range(len(header)) if at != id_column and not is_unnamed(header[at])]
    name_column = _column(lowered, _NAMES, named[0] if named else id_column)
    others = [at for at in named if at != name_column]
    rows = _complete_rows(path, lines, len(header))
    kinds = _kind_column(rows, others)
    ids = spelled_like(objects(row[id_column] for row in rows), known).tolist()
    if repeated := len(ids) - len(set(ids)):
        _log.warning(
            "%s: %s of items that have several; their last row counts",
            *(path, counted(repeated, "row")),
        )
    entries = {
        label: Entry(
            row[name_column].strip() or str(label),
            " · ".join(_facts(row, others, row[name_column])),
            "" if kinds is None else row[kinds].partition(MANY)[0],
        )
        for label, row in zip(ids, rows, strict=True)
    }
    if len(known) and not any(label in entries for label in known.labels.tolist()):
        raise InputValueError(
            f"{path} names no item of the model; its ids are like {ids[:3]}, the model's like "
            f"{known.labels[:3].tolist()}",
            place=path,
        )
    fields = [[row[at] for at in others] for row in rows]
    return entries, columns_of([header[at].strip() for at in others], ids, fields)


def _complete_rows(path: Path, lines: list[tuple[int, list[str]]], width: int) -> list[list[str]]:
    """The rows with a field for each column; warn of others."""
    others = [line for line, row in lines if len(row) != width]
    if others:
        _log.warning(
            "%s: %s not read, without a field for each of the %d columns; the first is in line %d",
            *(path, counted(len(others), "row"), width, others[0]),
        )
    return [row for _, row in lines if len(row) == width]


def _column(header: list[str], names: tuple[str, ...], default: int) -> int:
    return next((header.index(name) for name in names if name in header), default)


def _facts(row: list[str], columns: list[int], name: str) -> Iterator[str]:
    """Fields that the name does not contain; a title may contain the year, for example."""
    for column in columns:
        text = row[column].strip()
        if text and text not in name:
            yield text.replace(MANY, ", ")


def _kind_column(rows: list[list[str]], columns: list[int]) -> int | None:
    """The last column whose first values are few, such as genres."""
    for column in reversed(columns):
        values = {row[column].partition(MANY)[0] for row in rows}
        if 1 < len(values) <= _MOST_KINDS and not all(value.isdigit() for value in values):
            return column
    return None
