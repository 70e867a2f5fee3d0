"""Conversion between raw ids (the caller's names of users and items) and row numbers."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import MadeOfFields, check_choice, distinct, lazy, refuse_labels, shown
from mfrank.data.distinct import Coded
from mfrank.data.labels import RawIds, canonical, number, objects
from mfrank.errors import InputTypeError, InputValueError, unreadable

# Ids that a model or a data set does not have: the error, and the option to skip them.


OnUnknown: TypeAlias = Literal["error", "skip"]
"""What a call does with unknown ids: raise :class:`UnknownIdError`, or go on without them."""
_ON_UNKNOWN = get_args(OnUnknown)
_LOOKED_AT = 10_000


def check_on_unknown(on_unknown: object) -> None:
    """Raise ValueError unless this is one of :data:`OnUnknown`."""
    check_choice("on_unknown", on_unknown, _ON_UNKNOWN)


class UnknownIdError(InputValueError):
    """Users or items are unknown; a service can answer it with "not found".

    Attributes
    ----------
    ids : tuple
        The unknown ids in input order, each once.

    Examples
    --------
    >>> import mfrank
    >>> model = mfrank.ALS(factors=2).fit(mfrank.synthetic(20, 10, 60, random_state=0))
    >>> try:
    ...     model.recommend(77)
    ... except mfrank.UnknownIdError as error:
    ...     print(error.ids)
    (77,)
    """

    def __init__(self, problem: str, ids: Iterable[Hashable], remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.ids = tuple(dict.fromkeys(ids))


_SHOWN = 5  # ids named in an error
_MARKS = " \t\xa0,;|[](){}'\""
_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class Ids(MadeOfFields):
    """The ids of n rows; immutable. Create with :meth:`numbered`, :meth:`of`, :meth:`factorize`.

    :mod:`mfrank.data.labels` defines which ids are valid, and which spellings are the same id. The
    rule is the same for all ids, even if they happen to be the integers 0..n-1.

    Attributes
    ----------
    size : int
        Number of rows.
    table : int64 or object, shape (size,), or None
        The id of each row; None if the row numbers are the ids. Do not write to it.
    """

    size: int
    table: NDArray[Any] | None

    @classmethod
    def numbered(cls, n: int) -> Ids:
        """Use the row numbers 0..n-1 as ids; nothing is stored."""
        if n < 0:
            raise InputValueError(f"`n` must not be negative, got {n}")
        return cls(int(n), None)

    @classmethod
    def of(cls, labels: RawIds) -> Ids:
        """Build from ids in row order.

        Raises
        ------
        ValueError
            If an id occurs twice or is missing, a number does not fit int64, or ``labels`` is a
            pandas Series whose index does not count rows from 0.
        TypeError
            If ``labels`` is a single id, booleans, or contains unhashable objects.
        """
        refuse_labels("labels", labels, "bring it into the order of the rows with sort_index()")
        table = canonical(labels)
        different = distinct(table) if table.dtype == np.int64 else set(table)
        if len(different) < len(table):
            first, second = _first_duplicate(table)
            raise InputValueError(
                f"ids must be unique, got {shown(table[first])} in rows {first} and {second}",
                "`Ids.factorize` numbers ids that repeat",
            )
        return cls._trusted(table.copy())

    @classmethod
    def factorize(cls, raw: RawIds) -> tuple[Ids, NDArray[np.int64]]:
        """Number the distinct ids; return ``ids, rows`` such that ``ids.raw(rows)`` equals ``raw``.

        Integers and strings are numbered in sorted order, so shuffled data give the same model;
        other hashables are numbered in order of first appearance. Raises the errors of :meth:`of`,
        but ids may repeat.
        """
        ids, rows = factorized(raw)
        return ids, rows.astype(np.int64, copy=False)

    @classmethod
    def _trusted(cls, table: NDArray[Any]) -> Ids:
        """Build from a canonical table without duplicates."""
        n = len(table)
        if table.dtype == np.int64 and np.array_equal(table, np.arange(n)):
            return cls(n, None)
        return cls(n, table)

    def __len__(self) -> int:
        return self.size

    def __contains__(self, label: object) -> bool:
        try:
            return bool(self.rows([label], missing=-1)[0] >= 0)
        except (TypeError, ValueError):  # not a valid id
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
    def summary(self) -> str:
        """The number of ids and the first ones, such as ``"943, like 'a', 'b', 'c'"``."""
        return f"{self.size:,}, like {self._examples}" if self.size else "0"

    @property
    def labels(self) -> NDArray[Any]:
        """The id of each row, int64 or object, shape (size,). Do not write to it."""
        return np.arange(self.size) if self.table is None else self.table

    @property
    def are_numbers(self) -> bool:
        """Whether all ids are integers."""
        return self.table is None or self.table.dtype == np.int64

    @lazy
    def are_text(self) -> bool:
        """Whether all ids are strings."""
        return not self.are_numbers and all(isinstance(label, str) for label in self.labels)

    @property
    def unsavable_row(self) -> int | None:
        """The first row whose id cannot be saved, because it is neither an integer nor a string."""
        if self.are_numbers:
            return None
        return next((at for at, x in enumerate(self.labels) if type(x) not in (str, int)), None)

    def rows(self, raw: RawIds, *, missing: int | None = None) -> NDArray[np.int64]:
        """Row numbers of raw ids, int64, shape (n,).

        Parameters
        ----------
        raw : array-like of ids, shape (n,)
        missing : int, optional
            Row number for unknown ids; by default they are an error.

        Raises
        ------
        UnknownIdError
            If an id is unknown and there is no ``missing``.
        """
        if isinstance(raw, Coded):
            texts, numbers = raw.present()
            row_of = np.empty(len(raw.distinct), np.int64)
            row_of[numbers] = self.rows(objects(texts), missing=missing)
            return raw.mapped(row_of)
        if type(raw) is list and len(raw) == 1 and (row := self._row(raw[0])) >= 0:
            return np.array([row])
        labels = canonical(raw)
        rows = self._find(labels)
        absent = rows < 0
        if not absent.any():
            return rows
        if missing is None:
            raise self._unknown(labels[absent])
        rows[absent] = missing
        return rows

    def raw(self, rows: ArrayLike) -> NDArray[Any]:
        """Raw ids of row numbers, in the shape of ``rows``.

        Row -1 is padding (fewer recommendations than requested). The dtype does not depend on
        whether there is padding: integer ids are int64, with -1 for padding; other ids, and integer
        ids that include -1, are objects, with None for padding.

        Raises
        ------
        IndexError
            If a row number is below -1 or beyond the last row.
        TypeError
            If ``rows`` are not integers.
        """
        numbers = np.asarray(rows)
        if numbers.size == 0:
            numbers = numbers.astype(np.int64)
        if numbers.dtype.kind not in "iu":
            raise InputTypeError(f"`rows` must be whole numbers, got dtype {numbers.dtype}")
        if numbers.size and not (numbers.min() >= -1 and numbers.max() < self.size):
            raise IndexError(f"rows must lie in -1..{self.size - 1} (-1 is padding)")
        return self.listed(numbers)

    def listed(self, numbers: NDArray[np.integer]) -> NDArray[Any]:
        """Like :meth:`raw`, for row numbers that were made here: they are not checked."""
        if self.table is None:
            return numbers.astype(np.int64)
        if self._minus_one_is_padding:
            return np.where(numbers < 0, -1, self.table.take(numbers, mode="clip"))
        labels = np.full(numbers.shape, None, dtype=object)
        there = numbers >= 0
        labels[there] = self.table[numbers[there]]
        return labels

    def take(self, rows: NDArray[Any]) -> Ids:
        """Ids of the given rows, which must be distinct, in their order."""
        return Ids._trusted(self.labels[rows])

    def overlap(self, others: Ids) -> float:
        """The share of other ids that are among these; of many, some are looked up."""
        some = others.labels[:: 1 + len(others) // _LOOKED_AT]
        return float((self.rows(some, missing=-1) >= 0).mean()) if len(some) else 1.0

    def followed_by(self, new: NDArray[Any]) -> Ids:
        """These ids, then new ones, which must be canonical, distinct, new and of the same dtype.

        Lookup tables are reused, so adding a few ids is cheaper than building all.
        """
        grown, before = Ids._trusted(np.concatenate([self.labels, new])), self.__dict__
        if grown.table is None:
            return grown
        if self.table is not None and "_sorted" in before:
            ascending, order = self._sorted
            by_label = np.argsort(new)
            places = np.searchsorted(ascending, new[by_label])
            grown.__dict__["_sorted"] = (
                np.insert(ascending, places, new[by_label]),
                np.insert(order, places, by_label + self.size),
            )
        elif "_row_of" in before:
            rows = zip(new.tolist(), range(self.size, grown.size), strict=True)
            grown.__dict__["_row_of"] = self._row_of | dict(rows)
        return grown

    def check_column(self, name: str) -> None:
        """Raise ValueError unless the ids fit a typed column: all integers, or all UTF-8."""
        arrays = self.to_arrays()
        if "whole" in arrays:
            raise InputValueError(
                f"`{name}` are partly whole numbers and partly text, and a column has one kind:",
                "convert all to text",
            )
        if "utf8" in arrays:
            try:
                arrays["utf8"].tobytes().decode()
            except UnicodeDecodeError as error:
                raise InputValueError(f"`{name}` cannot be written as UTF-8: {error}") from None

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Convert to arrays that can be saved without pickling.

        Returns
        -------
        dict
            For integers, ``labels``, int64 of shape (size,). For strings, ``utf8``, their
            concatenated bytes as uint8, and ``offsets``, int64 of shape (size + 1,). In a mixture,
            integers are written by their digits and marked in ``whole``, bool of shape (size,).

        Raises
        ------
        ValueError
            If an id is neither an integer nor a string.
        """
        labels = self.labels
        if labels.dtype == np.int64:
            return {"labels": labels}
        if (row := self.unsavable_row) is not None:
            raise InputValueError(
                f"only whole numbers or strings can be saved as ids, got {labels[row]!r} in row "
                f"{row}",
                "use str or int ids",
            )
        encoded = [str(label).encode("utf-8", "surrogatepass") for label in labels]
        offsets = np.zeros(self.size + 1, dtype=np.int64)
        np.cumsum([len(part) for part in encoded], out=offsets[1:])
        text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        arrays: dict[str, NDArray[Any]] = {"utf8": text, "offsets": offsets}
        whole = np.fromiter((type(label) is int for label in labels), bool, self.size)
        return arrays | {"whole": whole} if whole.any() else arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Ids:
        """Build from the arrays of :meth:`to_arrays`, checked like any other labels."""
        if "labels" in arrays:
            return cls.of(arrays["labels"])
        content, offsets = arrays["utf8"].tobytes(), arrays["offsets"].tolist()
        if offsets[0] != 0 or offsets[-1] != len(content) or offsets != sorted(offsets):
            raise unreadable("the file of ids", "is damaged", "its offsets do not fit its bytes")
        parts = (content[start:stop] for start, stop in itertools.pairwise(offsets))
        labels = objects(part.decode("utf-8", "surrogatepass") for part in parts)
        for row in np.flatnonzero(arrays.get("whole", ())).tolist():
            labels[row] = int(labels[row])
        return cls.of(labels)

    def divided(self, text: str) -> list[str]:
        """The parts of a text between blanks, commas, quotes and brackets, if no id has these."""
        if not any(mark in text for mark in _MARKS):
            return [text]
        for mark in self._free_marks:
            text = text.replace(mark, "\n")
        return [part for part in text.split("\n") if part]

    @lazy
    def _free_marks(self) -> str:
        if self.are_numbers:
            return _MARKS
        portions = range(0, self.size, _AT_ONCE)
        texts = ["".join(map(str, self.labels[begin : begin + _AT_ONCE])) for begin in portions]
        return "".join(mark for mark in _MARKS if not any(mark in text for text in texts))

    @lazy
    def begin_at_0(self) -> bool:
        """Whether all ids are integers from 0 on, one of them 0, as the numbers of rows are."""
        return self.are_numbers and len(self) > 0 and int(self.labels.min()) == 0

    @lazy
    def _minus_one_is_padding(self) -> bool:
        """Whether -1 can mark padding: all ids are integers, none of them -1."""
        return self.are_numbers and not (self.labels == -1).any()

    @lazy
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Integer ids in ascending order, and their rows."""
        order = np.argsort(self.labels)
        return self.labels[order], order

    @lazy
    def _row_of(self) -> dict[Hashable, int]:
        return {label: row for row, label in enumerate(self.labels)}

    def _row(self, label: Any) -> int:
        """Row of an id that is a plain int or str, without arrays of one; -1 if it is not found."""
        kind = type(label)
        if kind is str and not self.are_numbers:
            return self._row_of.get(label, -1)
        if kind is int and self.table is not None and self.are_numbers:
            ascending, order = self._sorted
            place = int(ascending.searchsorted(label))
            return int(order[place]) if place < self.size and ascending[place] == label else -1
        return -1

    def _find(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Rows of canonical ids, -1 for unknown ones."""
        numeric = labels.dtype == np.int64
        if not numeric and self.are_numbers:  # no table of objects for what is not there
            whole = np.fromiter((type(label) is int for label in labels), bool, len(labels))
            rows = np.full(len(labels), -1)
            rows[whole] = self._find(labels[whole].astype(np.int64))
            return rows
        if numeric and self.table is None:
            return np.where((labels >= 0) & (labels < self.size), labels, -1)
        if numeric and self.labels.dtype == np.int64:
            ascending, order = self._sorted
            place = np.minimum(np.searchsorted(ascending, labels), self.size - 1)
            return np.where(ascending[place] == labels, order[place], -1)
        queries = labels.tolist() if numeric else labels
        found = map(self._row_of.get, queries, itertools.repeat(-1))
        return np.fromiter(found, dtype=np.int64, count=len(labels))

    def _unknown(self, labels: NDArray[Any]) -> UnknownIdError:
        unique = list(dict.fromkeys(labels.tolist()))
        shown = ", ".join(repr(label) for label in unique[:_SHOWN])
        more = f" and {len(unique) - _SHOWN} more" if len(unique) > _SHOWN else ""
        known = self._examples or "none"
        return UnknownIdError(
            f"unknown ids: {shown}{more}; the {self.size:,} known ids are like {known}", unique
        )

    @property
    def _examples(self) -> str:
        return ", ".join(repr(label) for label in self.labels[:3].tolist())


def factorized(raw: RawIds) -> tuple[Ids, NDArray[np.integer]]:
    """The result of :meth:`Ids.factorize`, with rows of any type of integers."""
    if isinstance(raw, Coded):
        texts, numbers = raw.present()
        order = sorted(range(len(texts)), key=texts.__getitem__)
        row_of = np.empty(len(raw.distinct), np.int32)
        row_of[numbers[order]] = np.arange(len(order), dtype=np.int32)
        return Ids._trusted(objects(map(texts.__getitem__, order))), raw.mapped(row_of)
    labels = canonical(raw)
    if labels.dtype == np.int64:
        unique, rows = number(labels)
        return Ids._trusted(unique), rows
    seen = list(dict.fromkeys(labels))
    if {*map(type, seen)} == {str}:
        seen.sort()
    ids = Ids._trusted(objects(seen))
    return ids, ids._find(labels)


def _first_duplicate(table: NDArray[Any]) -> tuple[int, int]:
    """The first two rows of a label that repeats; there must be one."""
    labels, first = table.tolist(), dict[Hashable, int]()
    second = next(row for row, label in enumerate(labels) if first.setdefault(label, row) != row)
    return first[labels[second]], second


# Ids from the arrays of a file, checked.


_TEXT = {"utf8": "uint8", "offsets": "int64"}
_DTYPES = ({"labels": "int64"}, _TEXT, _TEXT | {"whole": "bool"})


def stored_ids(arrays: Mapping[str, NDArray[Any]], rows: int) -> Ids:
    """Ids from the arrays of a file (:meth:`Ids.to_arrays`); without arrays, the row numbers.

    Raises
    ------
    ValueError
        The arrays are invalid, or do not have one id per row.
    """
    if not arrays:
        return Ids.numbered(rows)
    found = {name: array.dtype.name * (array.ndim == 1) for name, array in arrays.items()}
    if found not in _DTYPES:
        raise InputValueError(
            f"ids cannot be stored as {', '.join(sorted(arrays))} with these dtypes"
        )
    if "offsets" in arrays and len(arrays["offsets"]) != rows + 1:
        raise InputValueError(f"there are {len(arrays['offsets']) - 1} ids stored for {rows} rows")
    if "whole" in arrays and len(arrays["whole"]) != rows:
        raise InputValueError(f"`whole` must have {rows} marks, got {len(arrays['whole'])}")
    return Ids.from_arrays(arrays)
