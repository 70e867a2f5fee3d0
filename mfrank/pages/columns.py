"""Columns of the file of items that sort items into few kinds, such as genres or decades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

__all__ = ["MANY", "Column", "columns_of"]

MANY = "|"
"""Separates the values of a field that has several, such as genres."""
_MOST_VALUES = 100
_LEAST_ITEMS = 2
"""A column whose values have fewer items on the average names items rather than sorts them."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
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
) -> dict[str, Column]:
    """The columns that sort items into kinds, by name, those with the fewest values first.

    Parameters
    ----------
    names : sequence of str
        Of the columns that may.
    items : sequence of id
        One for each row.
    rows : sequence of sequences of str, shape (len(items), len(names))
    """
    found = []
    for at, name in enumerate(names):
        labels = {item: _values(row[at]) for item, row in zip(items, rows, strict=True)}
        labels = {item: values for item, values in labels.items() if values}
        sizes = Counter(chain.from_iterable(labels.values()))
        if name and 1 < len(sizes) <= _MOST_VALUES and sizes.total() >= _LEAST_ITEMS * len(sizes):
            found.append(Column(name, labels, dict(sorted(sizes.items()))))
    return {column.name: column for column in sorted(found, key=lambda each: len(each.sizes))}


def _values(field: str) -> tuple[str, ...]:
    """The distinct values of a field."""
    parts = (part.strip() for part in field.split(MANY))
    return tuple(dict.fromkeys(filter(None, parts)))
