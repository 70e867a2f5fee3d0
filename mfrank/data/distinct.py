"""Columns of text as numbers of their distinct fields: a string is made once, not for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import ext as _ext
from mfrank.data.fields import Fields, as_text
from mfrank.data.labels import looked_up, objects, present

_is_native: bool = _ext is not None
_FIRST = 7 << 9
"""Distinct fields, and eight bytes for each, for which there is room at first."""
_AT_ONCE = 1 << 22
"""Rows."""


class Distinct:
    """Distinct fields of text, numbered in the order in which they come first."""

    def __init__(self) -> None:
        self._texts = list[str]()
        self._places = dict[str, int]()
        self._n, self._in_python = 0, not _is_native
        if not self._in_python:
            self._slots, self._bounds = np.zeros(3, np.uint64), np.array([8])
            self._bytes = np.empty(0, np.uint8)

    def __len__(self) -> int:
        return self._n

    def add(self, fields: Fields) -> Coded:
        """Number the fields of some rows."""
        n_rows = len(fields.begins)
        codes = np.empty(n_rows, np.int32)
        if self._in_python:
            places = self._places
            codes[:] = [places.setdefault(text, len(places)) for text in fields.texts()]
            self._n = len(places)
            return Coded(self, codes)
        done = 0
        while done < n_rows:
            rest = slice(done, None)
            more, self._n = _ext.number_fields(
                fields.raw, fields.begins[rest], fields.ends[rest], table=self._table, n=self._n,
                out=codes[rest],
            )  # fmt: skip
            done += more
            if done < n_rows:
                self._grow(int(fields.ends[done] - fields.begins[done]))
        return Coded(self, codes)

    @property
    def _table(self) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint8]]:
        return self._slots, self._bounds, self._bytes

    def _grow(self, size: int) -> None:
        """Make room for a field of this size, and as many as there are."""
        n = self._n
        if (used := int(self._bounds[n])) + size > len(self._bytes):
            room = max(2 * used, 8 * _FIRST, used + size)
            self._bytes = np.append(self._bytes[:used], np.empty(room - used, np.uint8))
        if n == len(self._bounds) - 1:
            room = max(2 * n, _FIRST)
            self._bounds = np.append(self._bounds, np.empty(room - n, np.int64))
            self._slots = np.zeros(3 * (room * 8 // 7), np.uint64)  # some are always free
            _ext.fill_slots(self._table, n)

    def texts(self) -> list[str]:
        """The distinct fields by their numbers. Do not write to it."""
        if self._in_python:
            self._texts += list(self._places)[len(self._texts) :]
        elif (known := len(self._texts)) < self._n:
            bounds = self._bounds[known : self._n + 1]
            content = self._bytes[bounds[0] : bounds[-1]].tobytes()
            bounds = (bounds - bounds[0]).tolist()
            text = content.decode()
            if len(text) == len(content):  # cutting text is faster than bytes
                self._texts += map(text.__getitem__, map(slice, bounds, bounds[1:]))
            else:
                parts = map(content.__getitem__, map(slice, bounds, bounds[1:]))
                self._texts += map(bytes.decode, parts)
        return self._texts


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of text, which numpy takes for an array of strings.

    Attributes
    ----------
    distinct : Distinct
        It may have texts that no row of the column has.
    codes : int32, shape (n_rows,)
        The number of the text of each row.
    """

    distinct: Distinct
    codes: NDArray[np.int32]

    dtype = np.dtype(object)

    @property
    def shape(self) -> tuple[int]:
        """That of the codes."""
        return (len(self.codes),)

    @property
    def ndim(self) -> int:
        """A column has one dimension."""
        return 1

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        texts = self.distinct.texts()
        return (texts[code] for code in self.codes)

    def tolist(self) -> list[str]:
        """The text of each row."""
        return list(map(self.distinct.texts().__getitem__, self.codes.tolist()))

    def __getitem__(self, rows: NDArray[Any] | slice) -> Coded:
        return Coded(self.distinct, self.codes[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a column of codes becomes an array of strings only as a copy")
        return objects(self.distinct.texts())[self.codes]

    def mapped(self, of_texts: NDArray[Any]) -> NDArray[Any]:
        """For each row, what ``of_texts`` has for its text."""
        if of_texts.dtype == np.int32:
            return looked_up(self.codes, 0, of_texts)
        found = np.empty(len(self.codes), of_texts.dtype)
        for begin in range(0, len(self.codes), _AT_ONCE):  # numpy makes int64 of the codes
            part = slice(begin, begin + _AT_ONCE)
            found[part] = of_texts[self.codes[part]]
        return found

    def present(self) -> tuple[list[str], NDArray[np.int64]]:
        """The texts of rows, and their numbers in ascending order."""
        numbers = np.flatnonzero(present(self.codes, 0, len(self.distinct)))
        texts = self.distinct.texts()
        return [texts[number] for number in numbers.tolist()], numbers

    def among(self, distinct: Distinct) -> Coded:
        """The same column with numbers of other distinct texts, to which its own are added."""
        if distinct is self.distinct:
            return self
        texts, numbers = self.present()
        codes = np.empty(len(self.distinct), np.int32)
        codes[numbers] = distinct.add(Fields.of(texts)).codes
        return Coded(distinct, self.mapped(codes))


def joined_parts(parts: Sequence[NDArray[Any] | Coded]) -> NDArray[Any] | Coded:
    """The ids of parts of a column, all text if some are."""
    coded = [part for part in parts if isinstance(part, Coded)]
    if not coded:
        arrays = [np.asarray(part) for part in parts]
        kinds = {part.dtype for part in arrays}
        return np.concatenate(arrays if len(kinds) == 1 else [as_text(part) for part in arrays])
    distinct, codes = coded[0].distinct, list[NDArray[np.int32]]()
    for part in parts:
        if not isinstance(part, Coded):
            labels, places = np.unique(part, return_inverse=True)
            part = Distinct().add(Fields.of(map(str, labels.tolist())))[places]
        codes.append(part.among(distinct).codes)
    return Coded(distinct, np.concatenate(codes))
