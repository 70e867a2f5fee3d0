"""Checks and numbering of the input of :class:`mfrank.Interactions`; columns of values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    check_choice,
    check_same_rows,
    counted,
    refuse_labels,
    shown,
    sparse_to_host,
    to_host,
)
from mfrank.data import cells
from mfrank.data.cells import Cells, Duplicates
from mfrank.data.columns import BadRow
from mfrank.data.ids import Ids, UnknownIdError
from mfrank.data.labels import RawIds
from mfrank.data.odd_ids import check_ids, tell_converted, tell_empty_rows
from mfrank.data.time_units import TimestampUnit, check_unit, look_like_times, tell_of_odd_times
from mfrank.data.times import epoch_seconds

# Conversion of a column of values to numbers, and what they probably mean otherwise.


_BELOW, _ABOVE = (-1, -9, -99, -999, -9999), (99, 999, 9999)
"""Values that stand for a missing one in other people's tables."""
_FIRST = 1000
_MANY = 20
"""The inverse of the share of whole numbers that are too many among rounded ones."""
_FAR = 9
"""A code above is at least so many times as large as all other values."""

_log = logging.getLogger("mfrank")


def as_numbers(values: ArrayLike) -> NDArray[Any]:
    """Convert values to float32 or float64; values with one of these dtypes are unchanged.

    Raises
    ------
    BadRow
        If a value is not a number, such as a date.
    TypeError
        If values are complex.
    ValueError
        If values are not one-dimensional.
    """
    numbers = np.asarray(values)
    if numbers.ndim != 1:
        raise ValueError(f"values must be in one dimension, got shape {numbers.shape}")
    if numbers.dtype.kind == "c":
        raise TypeError("values must be real numbers, got complex ones")
    if numbers.dtype.kind in "mM":
        raise BadRow("values must be numbers, got times, which are passed as timestamps,", 0)
    if numbers.dtype in (np.float32, np.float64):
        return numbers
    try:
        return numbers.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        for row, value in enumerate(numbers.tolist()):
            if not _is_number(value):
                raise BadRow(f"values must be numbers, got {shown(value)}", row) from error
        raise ValueError(f"values must be numbers: {error}") from error


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


@dataclass
class Extent:
    """Range of values, from which times and codes of missing values are recognized.

    Attributes
    ----------
    lowest, highest : float
        Range of all values; lowest > highest if there are none.
    codes : dict of str to int
        Counts of values such as -1 and 99 that were the lowest or highest of their portion.
    least, most : float
        Range of the other values.
    wholes, thousandths, ends : int
        Counts of whole values below 1,000; of other values >= 1 with three decimals; and of the
        latter that do not end in 0.
    others : int
        1 if there is any other value, which stops the counting.
    example : float
        The first value with three decimals.
    """

    lowest: float = np.inf
    highest: float = -np.inf
    codes: dict[str, int] = field(default_factory=dict)
    least: float = np.inf
    most: float = -np.inf
    wholes: int = 0
    thousandths: int = 0
    ends: int = 0
    others: int = 0
    example: float = 0.0

    @classmethod
    def of(cls, values: NDArray[Any]) -> Self:
        """That of a column."""
        made = cls()
        made.add(values)
        return made

    def add(self, values: NDArray[Any]) -> None:
        """Add a column, or a portion of one."""
        if not len(values):
            return
        self._count_thousands(values)
        low, high = float(values.min()), float(values.max())
        self.lowest, self.highest = min(self.lowest, low), max(self.highest, high)
        codes = {code for code, of in ((low, _BELOW), (high, _ABOVE)) if code in of}
        if codes:
            for code in codes:
                key = f"{code:.0f}"
                self.codes[key] = self.codes.get(key, 0) + int(np.count_nonzero(values == code))
            others = values[~np.isin(values, list(codes))]
            if not len(others):
                return
            low, high = float(others.min()), float(others.max())
        self.least, self.most = min(self.least, low), max(self.most, high)

    def tell(self) -> None:
        """Warn about values that look like times, or like codes of missing values."""
        if look_like_times(self.lowest, self.highest):
            _log.warning(
                "values from %.0f to %.0f look like times, and are taken as ratings or counts; "
                "name their column with timestamp=, or ignore it with value=False",
                *(self.lowest, self.highest),
            )
        if self.has_thousands:
            _log.warning(
                "values are whole numbers below 1,000, or have three decimals like %g: if the "
                "point is one between thousands, read them with thousands='.' of pandas.read_csv",
                self.example,
            )
        for code, number in self.missing().items():
            _log.warning(
                "the value %s, in %s, may stand for a missing one, because the others go from %g "
                "to %g; it is taken as it is, so drop these rows if it does",
                *(code, counted(number, "row"), self.least, self.most),
            )

    def _count_thousands(self, values: NDArray[Any]) -> None:
        for part in (values[:_FIRST], values[_FIRST:]):  # nearly always settled by the first
            if self.others or not len(part):
                return
            sizes = np.abs(part.astype(np.float64))
            is_whole = sizes == np.floor(sizes)
            fine = sizes[~is_whole] * 1000
            near, rounding = np.rint(fine), 1e-3 if part.dtype.itemsize > 4 else 0.07
            is_near = (np.abs(fine - near) < rounding) & (fine >= 1000)
            self.others = int(sizes.max() >= 1000 or not is_near.all())
            self.wholes += int(np.count_nonzero(is_whole))
            self.thousandths += len(fine)
            self.ends += int(np.count_nonzero(near % 10))
            if len(fine) and not self.example:
                self.example = float(near[np.argmax(near % 10 > 0)] / 1000)

    @property
    def may_have_thousands(self) -> bool:
        """Whether all values could be from a file that writes 1234 as 1.234."""
        return not self.others and 0 < self.thousandths <= 2 * self.ends

    @property
    def has_thousands(self) -> bool:
        """Whether there are also whole numbers, and more than rounding to three decimals leaves."""
        total = self.wholes + self.thousandths
        return self.may_have_thousands and self.wholes * _MANY >= total

    def missing(self) -> dict[str, int]:
        """Values that may be codes of missing values, with counts."""
        return {code: n for code, n in self.codes.items() if self._is_code(float(code), n)}

    def to_dict(self) -> Mapping[str, Any]:
        """As JSON types, without infinite numbers."""
        facts = vars(self).items()
        return {name: own for name, own in facts if isinstance(own, dict) or np.isfinite(own)}

    def _is_code(self, code: float, number: int) -> bool:
        if self.least > self.most:  # there are no others
            return False
        if code < 0:
            alone = self.least >= 0 and self.most > 1
            return alone and (code == -1 or (number > 1 and self.most <= -code))
        return number > 1 and _FAR * max(self.most, -self.least) <= code


IdsLike = Ids | RawIds
"""An :class:`Ids`, or raw ids in row order."""


class Parts(NamedTuple):
    """The parts of interactions."""

    cells: Cells
    user_ids: Ids
    item_ids: Ids


def from_arrays(
    users: RawIds,
    items: RawIds,
    values: ArrayLike | None,
    timestamps: ArrayLike | None,
    *,
    unit: TimestampUnit | None,
    shape: tuple[int, int] | None,
    duplicates: Duplicates,
    user_ids: IdsLike | None,
    item_ids: IdsLike | None,
) -> Parts:
    """Build the parts of interactions from one array per column."""
    check_duplicates(duplicates)
    check_unit(unit)
    check_same_rows(users=users, items=items, values=values, timestamps=timestamps)
    users, items = to_host(users, "users"), to_host(items, "items")
    values, timestamps = to_host(values, "values"), to_host(timestamps, "timestamps")
    _refuse_unequal(users, items=items, values=values, timestamps=timestamps)
    if shape is None:
        known_users, user_rows = _look_up("users", users, user_ids)
        known_items, item_rows = _look_up("items", items, item_ids)
        shape = len(known_users), len(known_items)
    else:
        cells.check_room(shape)
        known_users = _of_rows("user", user_ids, shape[0])
        known_items = _of_rows("item", item_ids, shape[1])
        user_rows = _row_numbers("users", users, shape[0])
        item_rows = _row_numbers("items", items, shape[1])
        tell_empty_rows("user", shape[0], user_rows)
        tell_empty_rows("item", shape[1], item_rows)
    cells.check_shape(shape)
    for side, raw, given, ids, rows in (
        ("user", users, user_ids, known_users, user_rows),
        ("item", items, item_ids, known_items, item_rows),
    ):
        _check(side, raw if given is None else given, ids, partial(_count, rows))
    numbers = np.ones(len(user_rows), np.float32) if values is None else as_numbers(values)
    times = None if timestamps is None else epoch_seconds(timestamps, unit)
    _refuse_unequal(user_rows, items=item_rows, values=numbers, timestamps=times)
    _refuse_infinite(numbers, user_rows, item_rows, known_users, known_items)
    if values is not None:
        Extent.of(numbers).tell()
    if times is not None:
        tell_of_odd_times(times)
    found = cells.from_triples(
        user_rows, item_rows, numbers, times, shape=shape, duplicates=duplicates
    )
    if values is not None and found.values_from == "given" and (found.rows.data == 1).all():
        found = found._replace(values_from="ones")
    return finite(found, known_users, known_items)


def from_sparse(
    matrix: Any, *, duplicates: Duplicates, user_ids: IdsLike | None, item_ids: IdsLike | None
) -> Parts:
    """Build the parts of interactions from a scipy or CuPy sparse matrix."""
    check_duplicates(duplicates)
    matrix = sparse_to_host(matrix)
    if not sp.issparse(matrix):
        raise TypeError(f"expected a scipy sparse matrix, got {type(matrix).__name__}")
    found = cells.from_sparse(matrix, duplicates=duplicates)
    Extent.of(found.rows.data).tell()
    n_users, n_items = found.rows.shape
    known_users = _of_rows("user", user_ids, n_users)
    user_items = found.rows
    known_items = _of_rows("item", item_ids, n_items)
    indptr, columns = user_items.indptr, user_items.indices
    _check("user", user_ids, known_users, lambda row: int(indptr[row + 1] - indptr[row]))
    _check("item", item_ids, known_items, partial(_count, columns))
    if user_items.nnz <= 2 * n_users:  # beyond, rows of all entries would take too much memory
        tell_empty_rows("user", n_users, cells.entry_rows(user_items))
    tell_empty_rows("item", n_items, columns)
    return finite(found, known_users, known_items)


def known(name: str, ids: IdsLike | None) -> Ids | None:
    """Convert ids to :class:`Ids`; None stays None. Errors begin with ``name``."""
    if ids is None or isinstance(ids, Ids):
        return ids
    refuse_labels(name, ids, "bring it into the order of the rows with sort_index()")
    try:
        return Ids.of(ids)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


def check_duplicates(duplicates: str) -> None:
    """Raise ValueError unless this is a way to merge repeated cells."""
    check_choice("duplicates", duplicates, get_args(Duplicates))


def _of_rows(side: str, given: IdsLike | None, n: int) -> Ids:
    """The ids of n rows or columns; None becomes their numbers."""
    ids = known(f"{side}_ids", given)
    if ids is None:
        return Ids.numbered(n)
    if len(ids) != n:
        raise ValueError(f"{side}_ids must have an id for each of the {n} {side}s, got {len(ids)}")
    return ids


def _look_up(name: str, raw: RawIds, ids: IdsLike | None) -> tuple[Ids, NDArray[np.int64]]:
    own = known("user_ids" if name == "users" else "item_ids", ids)
    try:
        return Ids.factorize(raw) if own is None else (own, own.rows(raw))
    except UnknownIdError as error:
        raise error.given_as(name) from error
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


def _check(side: str, given: IdsLike | None, ids: Ids, rows_of: Callable[[int], int]) -> None:
    """Refuse or warn about odd ids, unless they were :class:`Ids` before."""
    if given is not None and not isinstance(given, Ids):
        tell_converted(side, given)
        check_ids(side, ids, rows_of)


def _count(rows: NDArray[np.integer], row: int) -> int:
    return int(np.count_nonzero(rows == row))


def _refuse_unequal(users: Any, **columns: Any) -> None:
    """Raise if a column has another shape than the users; one without a shape is not checked."""
    shape = _shape(users)
    for name, column in columns.items():
        if len(shape) == 1 and _shape(column) not in ((), shape):
            raise ValueError(f"{shape[0]} users, but {name} have shape {_shape(column)}")


def _shape(column: Any) -> tuple[int, ...]:
    if isinstance(column, list | tuple | range):
        return (len(column),)
    shape = getattr(column, "shape", ())
    return shape if isinstance(shape, tuple) else ()


def _row_numbers(name: str, raw: RawIds, n: int) -> NDArray[Any]:
    rows = np.asarray(raw)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise TypeError(
            f"with a shape, {name} must be row numbers in one dimension, got dtype {rows.dtype} "
            f"of shape {rows.shape}; leave shape out for raw ids"
        )
    outside = (rows < 0) | (rows >= n)
    if outside.any():
        position = int(np.argmax(outside))
        raise ValueError(f"{name} must lie in 0..{n - 1}, got {rows[position]} in row {position}")
    return rows.astype(np.int64, copy=False)


def finite(found: Cells, user_ids: Ids, item_ids: Ids) -> Parts:
    """Return the parts; raise if a value is NaN or infinite (also by merging, or in float32)."""
    user_items = found.rows
    if not np.isfinite(user_items.data).all():
        users = cells.entry_rows(user_items)
        _refuse_infinite(user_items.data, users, user_items.indices, user_ids, item_ids)
    return Parts(found, user_ids, item_ids)


def _refuse_infinite(
    values: NDArray[Any], users: NDArray[Any], items: NDArray[Any], user_ids: Ids, item_ids: Ids
) -> None:
    finite = np.isfinite(values)
    if finite.all():
        return
    entry = int(np.argmin(finite))
    user, item = user_ids.raw(users[[entry]]).tolist(), item_ids.raw(items[[entry]]).tolist()
    raise ValueError(
        f"values must be finite and fit float32, got {values[entry]} in entry {entry} "
        f"(user {user[0]!r}, item {item[0]!r}); drop or replace it"
    )
