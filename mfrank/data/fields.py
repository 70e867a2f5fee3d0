"""Fields of text, and what they are by the role of their column: ids, values, timestamps.

A text file does not say whether an id is a number or text, so a column of ids is read as integers
only if this loses nothing: every field is spelled as Python prints an int64. A single field that is
not (``007``, ``+7``, ``-0``, ``1.0``, ``1e5``, ``1_000``, too many digits) makes the whole column
text, as written.

Fields of usual spellings are read all at once, from the bytes: eight digits are one number of 64
bits, whose halves are added up three times. Others are read one by one, as Python does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import ext as _ext
from mfrank.data.columns import BadRow
from mfrank.data.labels import objects

if TYPE_CHECKING:
    from mfrank.data.ids import Ids

_is_native: bool = _ext is not None

IdsAs = Literal["auto", "text"]
"""Type of columns of ids: int64 if every field is spelled as one, or always text."""

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")
_TRUTHS = {"true": 1.0, "false": 0.0}  # as pandas writes and reads a column of booleans

AHEAD = 24
"""Bytes before the first field: digits are read eight at a time, from the last to the first."""
_MOST_DIGITS = 19
_ZEROS = np.uint64(0x3030303030303030)
_SIXES, _HIGH = np.uint64(0x0606060606060606), np.uint64(0xF0F0F0F0F0F0F0F0)
_HALVES = (
    (np.uint64(10), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10_000), np.uint64(32), np.uint64(0x00000000FFFFFFFF)),
)
_EXACT = 2**53
_ZONES = frozenset[bool](), frozenset({False}), frozenset({True}), frozenset({False, True})
_POWERS = 10.0 ** np.arange(_MOST_DIGITS + 1)
_FEED, _PLUS, _MINUS, _POINT, _ZERO = (np.uint8(ord(character)) for character in "\n+-.0")
_SWAPPED = bytes.maketrans(b".,", b",.")
_DECIMAL = re.compile(r"[+-]?[0-9]+[.][0-9]+")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The fields of a column, as places in the bytes of a text.

    Attributes
    ----------
    raw : bytes
        UTF-8, with ``AHEAD`` bytes before the first field, and one after each.
    begins, ends : int64, shape (n_rows,)
    """

    raw: bytes
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Fields with these texts."""
        each = [text.encode() for text in texts]
        sizes = np.array([len(one) for one in each], np.int64)
        ends = AHEAD + np.cumsum(sizes + 1) - 1
        return cls(b"\0".join([b"\0" * (AHEAD - 1), *each, b""]), ends - sizes, ends)

    @classmethod
    def joined(cls, parts: Sequence[Fields]) -> Fields:
        """The fields of several parts, in their order."""
        shifts = np.cumsum([0, *(len(part.raw) for part in parts)])
        begins, ends = (
            np.concatenate([getattr(p, name) + s for p, s in zip(parts, shifts, strict=False)])
            for name in ("begins", "ends")
        )
        return cls(b"".join(part.raw for part in parts), begins, ends)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Fields:
        begins, ends = map(np.ascontiguousarray, (self.begins[rows], self.ends[rows]))
        return Fields(self.raw, begins, ends)

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The bytes, as an array."""
        return np.frombuffer(self.raw, np.uint8)

    def texts(self) -> list[str]:
        """Each field as text."""
        sizes = self.ends - self.begins + 1
        ends = np.cumsum(sizes)
        places = np.arange(sizes.sum())
        codes = self.codes[places + np.repeat(self.begins - (ends - sizes), sizes)]
        codes[ends - 1] = _FEED  # the byte after each
        texts: list[str] = codes.tobytes().decode().split("\n")[:-1]
        if len(texts) == len(sizes):
            return texts
        return [self.text(row) for row in range(len(sizes))]  # with line breaks in some

    def text(self, row: int) -> str:
        """One field as text."""
        return self.raw[self.begins[row] : self.ends[row]].decode()

    def less_point_zero(self) -> Fields:
        """The fields without ``.0`` at their ends, which pandas writes where some are missing."""
        codes, ends = self.codes, self.ends
        has = (ends - self.begins > 2) & (codes[ends - 1] == _ZERO) & (codes[ends - 2] == _POINT)
        return Fields(self.raw, self.begins, ends - 2 * has)

    # What they are.

    def ids(self, ids: IdsAs = "auto") -> NDArray[Any]:
        """Int64 or, if a field is not spelled as one or by wish, text."""
        numbers = self.whole_numbers() if ids == "auto" else None
        return objects(self.texts()) if numbers is None else numbers

    def whole_numbers(self) -> NDArray[np.int64] | None:
        """The fields as int64, or None if one is not spelled as Python prints an int64."""
        if _is_native:
            found = np.empty(len(self.begins), np.int64)
            return found if _ext.whole_numbers(*self._places, found) else None
        codes = self.codes
        first = codes[self.begins]
        minus = first == _MINUS
        begins = self.begins + minus
        first = np.where(minus, codes[begins], first) if minus.any() else first
        sizes = self.ends - begins
        if (sizes < 1).any() or (sizes > _MOST_DIGITS).any():
            return None
        if ((first - _ZERO > 9) | ((first == _ZERO) & ((sizes > 1) | minus))).any():
            return None  # most text shows here
        numbers, valid = _digits(self.raw, begins, self.ends)
        if not valid.all() or (numbers > np.uint64(2**63 - 1) + minus).any():
            return None
        signed = numbers.view(np.int64)  # 2^63 is already what it becomes
        return np.where(minus, -signed, signed) if minus.any() else signed

    def values(self, commas: DecimalCommas | None = None) -> NDArray[np.float64]:
        """The fields as finite numbers, also with a decimal comma; raises BadRow otherwise."""
        numbers, valid = self._decimals()
        rest, raw = np.flatnonzero(~valid), self.raw
        if commas is not None:
            commas.has_points = commas.has_points or self._have_points()
            if len(rest) and b"," in raw:
                rest = commas.read(self, numbers, rest)
        places = zip(self.begins[rest].tolist(), self.ends[rest].tolist(), strict=True)
        numbers[rest] = [_number(raw[begin:end]) for begin, end in places]
        finite = np.isfinite(numbers)
        if not finite.all():
            row = int(np.argmin(finite))
            raise self._not_finite(row)
        return numbers

    def _have_points(self) -> bool:
        if b"." not in self.raw:
            return False
        codes, most = self.codes, int((self.ends - self.begins).max(initial=0))
        places = (self.begins + at for at in range(most))
        return any(((codes.take(p, mode="clip") == _POINT) & (p < self.ends)).any() for p in places)

    def _not_finite(self, row: int) -> BadRow:
        return BadRow(f"`values` must be finite numbers, got {self.text(row)!r}", row)

    def decimals(self) -> NDArray[np.float64] | None:
        """The fields as numbers, or None if one is not digits and perhaps a sign and a point."""
        numbers, valid = self._decimals()
        return numbers if valid.all() else None

    def seconds(self) -> tuple[NDArray[np.int64], frozenset[bool]] | None:
        """The fields as dates of the usual forms, in seconds since 1970; None if one is another.

        Also whether those with a time of day name their time zone.
        """
        if not _is_native:
            return None
        found = np.empty(len(self.begins), np.int64)
        clocks = _ext.dates(*self._places, found)
        return None if clocks < 0 else (found, _ZONES[clocks])

    @property
    def _places(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
        return self.raw, self.begins, self.ends

    def _decimals(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Numbers of digits with a sign and a point, and which fields are that.

        The digits, if fewer than 2^53, and the power of ten are exact, so their quotient is the
        nearest number, as Python reads it. The extension has the nearest of all.
        """
        if _is_native:
            read, valid = np.empty(len(self.begins)), np.empty(len(self.begins), bool)
            _ext.decimals(*self._places, read, valid)
            return read, valid
        codes, ends = self.codes, self.ends
        first = codes[self.begins]
        minus = first == _MINUS
        begins = self.begins + (minus | (first == _PLUS))
        stops = ends.copy()  # of the digits before the point
        sizes = ends - begins
        for at in range(min(int(sizes.max(initial=0)), _MOST_DIGITS + 1)):
            here = begins + at
            found = np.flatnonzero((codes.take(here, mode="clip") == _POINT) & (here < stops))
            stops[found] = here[found]
        has_point = stops < ends
        numbers, valid = _digits(self.raw, begins, stops)
        sizes -= has_point
        valid &= (sizes > 0) & (sizes <= _MOST_DIGITS)
        places = np.zeros(len(ends), np.int64)
        broken = np.flatnonzero(has_point & valid)
        if len(broken):
            places[broken] = ends[broken] - stops[broken] - 1
            parts, are_digits = _digits(self.raw, stops[broken] + 1, ends[broken])
            numbers[broken] = numbers[broken] * _WHOLE_POWERS[places[broken]] + parts
            valid[broken] &= are_digits
        valid &= numbers <= np.uint64(_EXACT)
        found = numbers.astype(np.float64) / _POWERS[places]
        return np.where(minus, -found, found), valid


@dataclass
class DecimalCommas:
    """Values of a file with a decimal comma, which are read if nothing else can be meant.

    Attributes
    ----------
    has_points : bool
        Whether values have points, too.
    are_sure : bool
        Whether one has another number of digits after the comma than thousands have.
    first : BadRow or None
        The error of the first value with a comma, since the last call of ``read``.
    """

    has_points: bool = False
    are_sure: bool = False
    first: BadRow | None = None

    def read(
        self, fields: Fields, numbers: NDArray[np.float64], rest: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Write those of the rest that have a comma to the numbers, and return the others."""
        swapped = Fields(fields.raw.translate(_SWAPPED), fields.begins[rest], fields.ends[rest])
        found, valid = swapped._decimals()
        for row in np.flatnonzero(~valid).tolist():
            if _DECIMAL.fullmatch(swapped.text(row)):  # with many digits
                found[row], valid[row] = float(swapped.text(row)), True
        with_comma = rest[valid].tolist()
        numbers[with_comma] = found[valid]
        if with_comma:
            self.first = fields._not_finite(with_comma[0])
            self.are_sure = self.are_sure or not all(
                _THOUSANDS.fullmatch(fields.text(row)) for row in with_comma
            )
        return rest[~valid]


_WHOLE_POWERS = np.array([10**n for n in range(_MOST_DIGITS + 1)], np.uint64)


def _digits(
    raw: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Numbers of up to 19 digits, 0 of none, and whether there are only digits."""
    words = np.ndarray((len(raw) - 7,), "<u8", buffer=raw, strides=(1,))
    sizes = ends - begins
    total = np.zeros(len(ends), np.uint64)
    valid = np.ones(len(ends), dtype=bool)
    for done in range(0, min(int(sizes.max(initial=0)), _MOST_DIGITS), 8):
        left = np.clip(sizes - done, 0, 8)
        digits = words[ends - (done + 8)] ^ _ZEROS
        foreign = ((8 - left) * 8).astype(np.uint64)  # bits of what is before the field
        digits = digits >> foreign << foreign
        valid &= ((digits | (digits + _SIXES)) & _HIGH) == 0
        for base, bits, mask in _HALVES:
            digits = (digits * base + (digits >> bits)) & mask
        total += digits * np.uint64(10**done)
    return total, valid


def as_text(labels: NDArray[Any]) -> NDArray[Any]:
    """Ids as text: integers as digits, other ids unchanged."""
    return objects(map(str, labels.tolist())) if labels.dtype == np.int64 else labels


def spelled_like(labels: NDArray[Any], ids: Ids | None) -> NDArray[Any]:
    """Convert ids from a text file to the type of the known ``ids``, integers or text."""
    if ids is None or (ids.are_numbers and labels.dtype == np.int64):
        return labels
    if ids.are_numbers:
        read = [whole_number(label) if isinstance(label, str) else label for label in labels]
        whole = all(isinstance(label, int) for label in read)
        return np.array(read, dtype=np.int64) if whole else objects(read)
    if ids.are_text:
        return as_text(labels)
    # Ids of both kinds: of 1 and "1", the one that is known.
    given = labels.tolist()
    others = [whole_number(label) if isinstance(label, str) else str(label) for label in given]
    swap = (ids.rows(given, missing=-1) < 0) & (ids.rows(others, missing=-1) >= 0)
    return objects(b if use else a for a, b, use in zip(given, others, swap, strict=True))


def whole_number(field: str) -> int | str:
    """One field as an int if it is spelled as Python prints an int64, else unchanged."""
    if _CANONICAL.fullmatch(field) and -(2**63) <= (number := int(field)) < 2**63:
        return number
    return field


def _number(field: bytes) -> float:
    """The field as a number, NaN if it is not one."""
    try:
        return float(field)
    except ValueError:
        return _odd_number(field.decode())


def _odd_number(field: str) -> float:
    try:
        return float(field)  # digits of other scripts
    except ValueError:
        return _TRUTHS.get(field.lower(), math.nan)
