"""Ids in arguments, and their rows: the user side and the item side of a store."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, MappingView, Sequence
from typing import Any, NamedTuple, TypeAlias, cast
from unicodedata import normalize

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    as_array,
    beside,
    check_flags,
    is_on_gpu,
    on_host,
    shown,
    take,
    tell_idle,
    to_host,
)
from mfrank.backends import Factors
from mfrank.data import (
    Ids,
    OnUnknown,
    UnknownIdError,
    canonical,
    column_of_ids,
    tell_unread,
    whole_number,
)
from mfrank.errors import InputTypeError, InputValueError, within
from mfrank.store import FactorStore

Rows: TypeAlias = NDArray[np.int64]

Raw: TypeAlias = Hashable | ArrayLike
"""One id, or several (a list, an array, a range, a Series)."""

_SINGLE = (str, bytes, int, np.generic)
_MARK_TEXTS = {"0", "1", "true", "false", "0.0", "1.0"}
_LOOKED_AT = 1000  # of the unknown ids of a call
_BY_ITSELF = "give each id by itself"
_AROUND = " \t\r\n\"'[](){}"
_MARK = re.compile(r" *[,;|] *")
_WHOLE = re.compile(r"\+?0*([0-9]{1,18})(?:\.0+)?", re.ASCII)
_COLLECTIONS = (list, tuple, set, frozenset, Mapping, MappingView, Iterator)


def is_single(raw: Raw) -> bool:
    """Whether ``raw`` is one id, not an array of ids."""
    if isinstance(raw, _SINGLE):  # a union would be made anew at each call
        return True
    if isinstance(raw, _COLLECTIONS):
        return False
    try:
        return np.ndim(raw) == 0  # type: ignore[arg-type]
    except ValueError:  # lists of several lengths, refused by name where they are read
        return False


def tell_idle_rows(rows: object, name: str, flag: str, recalculates: object) -> None:
    """Warn of rows that nothing solves; implicit takes them, too, and reads none."""
    if rows is not None and not recalculates:
        tell_idle(
            f"`{name}` has no effect without `{flag}=True`:", f"pass `{flag}=True`, or leave it out"
        )


def given_ids(raw: Raw, argument: str, *, ordered: bool = True) -> Raw:
    """The ids of an argument in a reusable form.

    Arrays of any library become numpy or CuPy arrays; so does the column of users of a DataFrame or
    an Arrow table (of items, for an argument of items); iterators and dict views become lists; a
    0-d array becomes its element, on the host. Without ``ordered``, a set becomes a list.

    Raises
    ------
    TypeError
        The argument is a mapping, a sparse matrix or, with ``ordered``, a set.
    """
    if isinstance(raw, (str, int, list)):
        return raw
    if isinstance(raw, np.integer) and raw.dtype.kind in "iu":  # no span of time
        return int(raw)  # as loops over arrays give them; without arrays of one
    if isinstance(raw, set | frozenset):
        if ordered:
            raise InputTypeError(
                f"`{argument}` must be in an order, because answers are, got a "
                f"{type(raw).__name__}",
                "pass a list, such as list(ids)",
            )
        return list(raw)
    if isinstance(raw, Mapping) or sp.issparse(raw):
        raise InputTypeError(
            f"`{argument}` must be an id or a list of ids, got a {type(raw).__name__}",
            "of a mapping, list(ids) are its keys",
        )
    if isinstance(raw, Iterator | MappingView):
        return list(cast(Iterable[Any], raw))
    raw = column_of_ids(raw, "item" if "item" in argument else "user", argument)
    taken: Any = take(raw, argument)
    if not is_single(taken):
        return cast(Raw, taken)
    single = to_host(taken, argument)
    return cast(Raw, single.item() if isinstance(single, np.ndarray) else single)


def liked_ids(raw: Raw, values: Any, *, reads_order: bool) -> Raw:
    """The ids of the items of somebody new; warns of columns of a table that are not read."""
    tell_unread(raw, "itemids", has_values=values is not None, reads_order=reads_order)
    return given_ids(raw, "itemids", ordered=values is not None or reads_order)


def given_id(raw: Raw, argument: str) -> Raw:
    """A single id; raise TypeError if it is anything else."""
    single = raw if isinstance(raw, set | frozenset) else given_ids(raw, argument)
    if not is_single(single):
        raise InputTypeError(f"`{argument}` must be one id, got {shown(raw)}")
    return single


def refuse_marks(given: Any, ids: Ids, argument: str) -> None:
    """Raise ValueError for a mark for each of all ids in place of those that are meant.

    Marks are 0 or 1, True or False, also as text. Without order, ids need not be repeated, so that
    nobody writes these two so often.
    """
    n = len(ids)
    if n < 2 or is_single(given) or isinstance(given, range) or len(given) != n:
        return
    marks = as_array(given, argument)
    if marks.ndim != 1 or not _are_marks(marks):
        return
    first, *others = marks.tolist()
    may_be_ids = n == 2 and marks.dtype.kind != "b" and first != others[0]
    if may_be_ids and (ids.rows(canonical(given), missing=-1) >= 0).all():
        return
    raise InputValueError(
        f"`{argument}` has {n:,} marks, such as {shown(first)}, as many as there are ids:",
        "pass the ids that are marked, such as ids[marks == 1]",
    )


def _are_marks(each: NDArray[Any]) -> bool:
    if each.dtype.kind in "biuf":
        return bool(((each == 0) | (each == 1)).all())
    if each.dtype.kind not in "OUT":
        return False
    return {str(one).casefold() for one in {*each.tolist()}} <= _MARK_TEXTS


def check_rows(values: ArrayLike, n_rows: int, name: str) -> Rows:
    """Row numbers as a 1-D int64 numpy array.

    Raises
    ------
    TypeError
        The values are not integers, or are a boolean mask.
    ValueError
        The values are not one-dimensional.
    UnknownIdError
        A value is outside ``0 <= row < n_rows``.
    """
    return on_host(check_rows_there(values, n_rows, name))


def check_rows_there(
    values: ArrayLike, n_rows: int, name: str, *, missing: int | None = None
) -> Rows:
    """Like :func:`check_rows`, but row numbers on a GPU stay there.

    ``missing`` replaces row numbers outside the range, which are otherwise an error.
    """
    rows = as_array(values, name)
    if rows.ndim != 1:
        raise InputValueError(
            f"`{name}` must be one-dimensional, got an array of shape {rows.shape}"
        )
    if rows.size == 0:
        return beside(np.empty(0, dtype=np.int64), rows)
    if rows.dtype.kind not in "iu":
        remedy = "; use np.flatnonzero(mask)" if rows.dtype.kind == "b" else ""
        raise InputTypeError(
            f"`{name}` must be integer row numbers, got dtype {rows.dtype}{remedy}"
        )
    wrong = (rows < 0) | (rows >= n_rows)
    if missing is not None:
        return np.where(wrong, np.int64(missing), rows.astype(np.int64))
    if wrong.any():
        unknown = on_host(rows[wrong]).tolist()
        raise UnknownIdError(f"`{name}` must lie in 0..{n_rows - 1}, got {unknown[0]}", unknown)
    checked: Rows = rows.astype(np.int64)
    return checked


class Otherwise(NamedTuple):
    """An unknown id in which there is a known one, and what to do about it."""

    given: Hashable
    known: Hashable
    remedy: str

    @classmethod
    def among(cls, unknown: Sequence[Hashable], ids: Ids) -> Otherwise | None:
        """The first of the unknown ids that is known once it is written in another way.

        That is as a number or as text, without zeros before it or ``.0``, without blanks, quotes or
        brackets around it, in another form of Unicode, or as one of a list of ids in one text.
        """
        tried = [
            (given, other, len(parts) > 1)
            for given in unknown[:_LOOKED_AT]
            for parts in [ids.divided(given) if isinstance(given, str) else [str(given)]]
            for part in parts
            for other in _spellings(part, ids)
        ]
        rows = ids.rows([other for _, other, _ in tried], missing=-1)
        for place in np.flatnonzero(rows >= 0)[:1].tolist():
            given, known, is_list = tried[place]
            remedy = "write ids as the model has them"
            if is_list:
                remedy = _BY_ITSELF
            elif str(given) == str(known):
                remedy = "convert the ids: numbers and text are never the same id"
            return cls(given, known, remedy)
        for given in unknown[:_LOOKED_AT]:  # also if there are ids with commas
            parts = _MARK.split(given) if isinstance(given, str) else []
            if len(parts) > 1 and (ids.rows(parts, missing=-1) >= 0).all():
                return cls(given, parts[0], _BY_ITSELF)
        return None


def _spellings(text: str, ids: Ids) -> dict[Hashable, None]:
    """How an id may be written that the model has, in the order in which they are tried."""
    texts = dict.fromkeys([text, text.strip(_AROUND)])  # also if there are ids with these within
    if not text.isascii():
        texts |= dict.fromkeys(normalize(form, text) for form in ("NFC", "NFD", "NFKC"))
    found = dict[Hashable, None]()
    for each in texts:
        found |= {each: None, whole_number(each): None}
        if ids.are_numbers and (whole := _WHOLE.fullmatch(each)):
            found[int(whole[1])] = None
    return found


class Side(NamedTuple):
    """One side of a store.

    Attributes
    ----------
    name : {"user", "item"}
    store : FactorStore
        Makes and caches what is asked of a side: its factors may be read for the first time.
    ids : Ids
    by_row : bool
        Whether the caller uses row numbers even if the ids have labels.
    """

    name: str
    store: FactorStore
    ids: Ids
    by_row: bool

    @property
    def factors(self) -> Factors:
        """The factors, shape (n, K)."""
        return self.store.item_factors if self.name == "item" else self.store.user_factors

    @property
    def biases(self) -> NDArray[Any] | None:
        """The biases, shape (n,), or None."""
        return self.store.item_biases if self.name == "item" else self.store.user_biases

    @property
    def directions(self) -> Factors:
        """The factors normalized to length 1, shape (n, K)."""
        return self.store.item_directions if self.name == "item" else self.store.user_directions

    @property
    def unmet(self) -> NDArray[np.bool_] | None:
        """The cold rows, bool (n,), or None if there are none."""
        return self.store.unmet_items if self.name == "item" else self.store.unmet_users

    @property
    def lone(self) -> NDArray[np.bool_] | None:
        """The rows without neighbors, in the same form."""
        return self.store.lone_items if self.name == "item" else self.store.lone_users

    def rows(self, raw: Raw, argument: str, *, missing: int | None = None) -> Rows:
        """Row numbers of one or many ids, 1-D int64; ``missing`` is the row of unknown ids.

        Without ``missing``, an unknown id raises UnknownIdError.
        """
        return on_host(self.rows_there(raw, argument, missing=missing))

    def rows_there(self, raw: Raw, argument: str, *, missing: int | None = None) -> Rows:
        """Like :meth:`rows`, but row numbers on a GPU stay there."""
        if type(raw) is int and self.speaks_rows and 0 <= raw < self.ids.size:
            return np.array([raw])  # before the checks of arrays, which take longer than some lists
        many: Any = [raw] if is_single(raw) else raw
        if self.reads_rows(many):
            return check_rows_there(many, len(self.ids), argument, missing=missing)
        return self.find(many, argument, missing=missing)

    def reads_rows(self, many: Any) -> bool:
        """Whether these are row numbers to read in place, since a copy to the host is slow."""
        if self.by_row:
            return True
        return self.ids.table is None and is_on_gpu(many) and many.dtype.kind in "iu"

    def find(self, many: Any, argument: str, *, missing: int | None = None) -> Rows:
        """Row numbers of ids, even if ``by_row``; ``missing`` is the row of unknown ids.

        Without ``missing``, an unknown id raises UnknownIdError.
        """
        try:
            return self.ids.rows(many, missing=missing)
        except UnknownIdError as error:
            otherwise = Otherwise.among(error.ids, self.ids)
            remedy = "" if otherwise is None else otherwise.remedy
            told = UnknownIdError(str(error), error.ids, remedy)
            raise told.within(f"`{argument}`") from None
        except (TypeError, ValueError) as error:
            raise within(f"`{argument}`", error) from None

    def answer(self, rows: NDArray[np.int32]) -> NDArray[Any]:
        """The caller's ids of row numbers; labels are on the host."""
        return rows if self.speaks_rows else self.ids.listed(on_host(rows))

    def rows_asked(self, raw: Raw, argument: str, on_unknown: OnUnknown) -> Rows:
        """Like :meth:`rows_there`; with "skip", the row of unknown ids is -1.

        Raises
        ------
        UnknownIdError
            An id is unknown, without "skip". Or it is known once it is written in another way, such
            as 7 for "7", or is a list of ids: to skip it would drop what is meant.
        """
        if on_unknown == "error":
            return self.rows_there(raw, argument)
        rows = self.rows_there(raw, argument, missing=-1)
        many: Any = [raw] if is_single(raw) else raw
        if self.reads_rows(many) or not (rows < 0).any():
            return rows
        unknown = canonical(many)[on_host(rows) < 0].tolist()
        if (found := Otherwise.among(unknown, self.ids)) is not None:
            raise UnknownIdError(
                f"`{argument}` has {found.given!r}, and the model knows {found.known!r}",
                [found.given],
                found.remedy,
            )
        if len(unknown) == len(rows) and self._are_of_other_side(unknown):
            other = "an item" if self.name == "user" else "a user"
            raise UnknownIdError(
                f"`{argument}` has {unknown[0]!r}, which the model knows as {other}",
                unknown,
                f"pass ids of {self.name}s",
            )
        return rows

    def _are_of_other_side(self, unknown: list[Hashable]) -> bool:
        """Whether all are known on the other side, whose ids are text and on neither both."""
        other = self.store.user_ids if self.name == "item" else self.store.item_ids
        if other.are_numbers or self.ids.are_numbers:  # numbers may be both by chance
            return False
        return bool((other.rows(unknown, missing=-1) >= 0).all()) and not other.overlap(self.ids)

    def rows_of_known(self, raw: Raw, argument: str, on_unknown: OnUnknown) -> Rows:
        """Like :meth:`rows_asked`; with "skip", unknown ids are left out. Their order is no matter.

        Raises
        ------
        ValueError
            They are a 0 or 1 for each id of this side.
        """
        refuse_marks(raw, self.ids, argument)
        rows = self.rows_asked(raw, argument, on_unknown)
        return rows if on_unknown == "error" else rows[rows >= 0]

    @property
    def speaks_rows(self) -> bool:
        """Whether the caller's ids are row numbers."""
        return self.by_row or self.ids.table is None


def sides(store: FactorStore, *, by_row: bool = False) -> tuple[Side, Side]:
    """User side and item side of a store; raise TypeError if ``by_row`` is no flag."""
    check_flags(by_row=by_row)
    return (
        Side("user", store, store.user_ids, by_row),
        Side("item", store, store.item_ids, by_row),
    )
