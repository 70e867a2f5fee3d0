"""Raw ids (what users call their users and items) and row numbers, each way."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.data.labels import RawIds, canonical, number, objects
from mfrank.distinct import distinct
from mfrank.lazy import lazy
from mfrank.pickles import MadeOfFields

__all__ = ["Ids", "RawIds"]

_SHOWN = 5  # ids named in an error


@dataclass(frozen=True, eq=False, repr=False)
class Ids(MadeOfFields):
    """The ids of n rows; immutable. Made by :meth:`numbered`, :meth:`of` or :meth:`factorize`.

    What can be an id is said in :mod:`mfrank.data.labels`.

    Attributes
    ----------
    size : int
        Number of rows.
    table : int64 or object, shape (size,), or None
        The id of each row; None when the row numbers themselves are the ids. Not to be written.
    """

    size: int
    table: NDArray[Any] | None

    @classmethod
    def numbered(cls, n: int) -> Ids:
        """Make the row numbers 0..n-1 themselves the ids; nothing is stored."""
        if n < 0:
            raise ValueError(f"n must not be negative, got {n}")
        return cls(int(n), None)

    @classmethod
    def of(cls, labels: RawIds) -> Ids:
        """Ids in row order.

        Raises
        ------
        ValueError
            If an id occurs twice or is missing, or a number does not fit int64.
        TypeError
            If ``labels`` is a single id, booleans, or holds what cannot be hashed.
        """
        table = canonical(labels)
        different = distinct(table) if table.dtype == np.int64 else set(table)
        if len(different) < len(table):
            first, second = _first_duplicate(table)
            raise ValueError(
                f"ids must be unique, got {table[first]!r} in rows {first} and {second}; "
                "Ids.factorize numbers ids that repeat"
            )
        return cls._trusted(table.copy())

    @classmethod
    def factorize(cls, raw: RawIds) -> tuple[Ids, NDArray[np.int64]]:
        """Number the distinct ids: ``ids, rows`` with ``ids.raw(rows)`` equal to ``raw``.

        Numbers and strings are numbered in sorted order, whatever the order of ``raw``, so that
        shuffled data give the same model; other hashables in order of first appearance.
        Raises as :meth:`of`, but ids may repeat.
        """
        labels = canonical(raw)
        if labels.dtype == np.int64:
            distinct, rows = number(labels)
            return cls._trusted(distinct), rows
        seen = list(dict.fromkeys(labels))
        if all(isinstance(label, str) for label in seen):
            seen.sort()
        ids = cls._trusted(objects(seen))
        return ids, ids._find(labels)

    @classmethod
    def _trusted(cls, table: NDArray[Any]) -> Ids:
        """Ids of a canonical table without duplicates."""
        n = len(table)
        if table.dtype == np.int64 and np.array_equal(table, np.arange(n)):
            return cls(n, None)
        return cls(n, table)

    def __len__(self) -> int:
        return self.size

    def __contains__(self, label: object) -> bool:
        try:
            return bool(self.rows([label], missing=-1)[0] >= 0)
        except (TypeError, ValueError):  # no id at all
            return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        if self.table is None or other.table is None:
            return self.size == other.size and self.table is other.table
        return np.array_equal(self.table, other.table)

    def __repr__(self) -> str:
        if self.table is None:
            return f"Ids.numbered({self.size})"
        shown = ", ".join(repr(label) for label in self.table[:_SHOWN].tolist())
        return f"Ids.of([{shown}{', ...' if self.size > _SHOWN else ''}], {self.size} rows)"

    @property
    def labels(self) -> NDArray[Any]:
        """The id of each row, int64 or object, shape (size,). Not to be written."""
        return np.arange(self.size) if self.table is None else self.table

    def rows(self, raw: RawIds, *, missing: int | None = None) -> NDArray[np.int64]:
        """Row numbers of raw ids, int64, one for each.

        Parameters
        ----------
        raw : array-like of ids, shape (n,)
        missing : int, optional
            Stands for ids that have no row; by default they are an error.

        Raises
        ------
        ValueError
            If ids have no row and ``missing`` is not given.
        """
        labels = canonical(raw)
        rows = self._find(labels)
        absent = rows < 0
        if not absent.any():
            return rows
        if missing is None:
            raise ValueError(self._unknown(labels[absent]))
        rows[absent] = missing
        return rows

    def raw(self, rows: ArrayLike) -> NDArray[Any]:
        """Raw ids of row numbers, in the shape of ``rows``.

        Row -1 is padding (fewer recommendations than asked for). Ids that are whole numbers come
        in an int64 array, padding as -1; other ids, and whole numbers among which -1 is an id, in
        an object array, padding as None. So the dtype is that of the ids, padding or not.

        Raises
        ------
        IndexError
            If a row number is below -1 or beyond the last row.
        """
        numbers = np.asarray(rows)
        if numbers.size == 0:
            numbers = numbers.astype(np.int64)
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"rows must be whole numbers, got dtype {numbers.dtype}")
        if numbers.size and not (numbers.min() >= -1 and numbers.max() < self.size):
            raise IndexError(f"rows must lie in -1..{self.size - 1} (-1 is padding)")
        if self.table is None:
            return numbers.astype(np.int64)
        if self._minus_one_is_padding:
            return np.where(numbers < 0, -1, self.table.take(numbers, mode="clip"))
        labels = np.full(numbers.shape, None, dtype=object)
        there = numbers >= 0
        labels[there] = self.table[numbers[there]]
        return labels

    def take(self, rows: NDArray[Any]) -> Ids:
        """Ids of the given, distinct, rows in their order: rows are renumbered, ids stay."""
        return Ids._trusted(self.labels[rows])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that hold these ids, for a file that pickles nothing.

        Returns
        -------
        dict
            ``labels``, int64 of shape (size,); or, for strings, ``utf8``, their bytes one after
            the other as uint8, and ``offsets``, int64 of shape (size + 1,).

        Raises
        ------
        ValueError
            If an id is neither a whole number nor a string.
        """
        labels = self.labels
        if labels.dtype == np.int64:
            return {"labels": labels}
        for row, label in enumerate(labels):
            if not isinstance(label, str):
                raise ValueError(
                    f"only whole numbers or strings can be saved as ids, got {label!r} in row "
                    f"{row}; use str or int ids"
                )
        encoded = [label.encode("utf-8", "surrogatepass") for label in labels]
        offsets = np.zeros(self.size + 1, dtype=np.int64)
        np.cumsum([len(part) for part in encoded], out=offsets[1:])
        return {"utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8), "offsets": offsets}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Ids:
        """Ids from what :meth:`to_arrays` returned; checked like any other labels."""
        if "labels" in arrays:
            return cls.of(arrays["labels"])
        content, offsets = arrays["utf8"].tobytes(), arrays["offsets"].tolist()
        if offsets[0] != 0 or offsets[-1] != len(content) or offsets != sorted(offsets):
            raise ValueError("offsets of stored ids do not fit their bytes: the file is damaged")
        parts = (content[start:stop] for start, stop in itertools.pairwise(offsets))
        return cls.of(objects(part.decode("utf-8", "surrogatepass") for part in parts))

    @lazy
    def _minus_one_is_padding(self) -> bool:
        """Whether -1 can stand for no id: all ids are numbers, none of them this."""
        return self.labels.dtype == np.int64 and not (self.labels == -1).any()

    @lazy
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Integer ids in ascending order, and their rows."""
        order = np.argsort(self.labels)
        return self.labels[order], order

    @lazy
    def _row_of(self) -> dict[Hashable, int]:
        return {label: row for row, label in enumerate(self.labels)}

    def _find(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Rows of canonical ids, -1 for those that have none."""
        numeric = labels.dtype == np.int64
        if numeric and self.table is None:
            return np.where((labels >= 0) & (labels < self.size), labels, -1)
        if numeric and self.labels.dtype == np.int64:
            ascending, order = self._sorted
            place = np.minimum(np.searchsorted(ascending, labels), self.size - 1)
            return np.where(ascending[place] == labels, order[place], -1)
        queries = labels.tolist() if numeric else labels
        found = map(self._row_of.get, queries, itertools.repeat(-1))
        return np.fromiter(found, dtype=np.int64, count=len(labels))

    def _unknown(self, labels: NDArray[Any]) -> str:
        distinct = list(dict.fromkeys(labels.tolist()))
        shown = ", ".join(repr(label) for label in distinct[:_SHOWN])
        more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
        known = ", ".join(repr(label) for label in self.labels[:3].tolist())
        return f"unknown ids: {shown}{more}; the {self.size} known ids are like {known or 'none'}"


def _first_duplicate(table: NDArray[Any]) -> tuple[int, int]:
    """The two rows of the first label that repeats; one does."""
    labels, first = table.tolist(), dict[Hashable, int]()
    second = next(row for row, label in enumerate(labels) if first.setdefault(label, row) != row)
    return first[labels[second]], second
