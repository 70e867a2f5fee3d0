"""Encode typed columns of a table as numbers, in the same way for all later rows.

============================================= ======================================================
column                                        features
============================================= ======================================================
numbers                                       one: (x - mean) / standard deviation
texts, categories, truth values               one for each value that two rows or more have: 0 or 1
lists, and texts of which one has a ``|``      the same, and a row may have several values
any of these with missing values              one more: 1 where the value is missing, the others 0
============================================= ======================================================

A value of a single row is not a feature, because it says nothing about other rows. Columns of
titles or descriptions therefore do no harm.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import counted, shown
from mfrank.data.fields import NUMBER
from mfrank.data.odd_columns import FEW, LOOKED_AT
from mfrank.data.odd_ids import SPELLED_MISSING
from mfrank.data.values import Extent
from mfrank.errors import InputTypeError, InputValueError, Notice, unreadable
from mfrank.files import check_keys, dump_json, parse_json

Kind = Literal["number", "value", "values"]
_FEWEST = 2  # rows that must have a value
_BETWEEN = "|"
_CODES = {
    *("id", "ids", "code", "codes", "zip", "zipcode", "postcode", "postal", "category", "genre"),
    *("user", "item", "seller", "vendor", "author", "artist", "director", "publisher", "parent"),
    *("brand", "type", "class", "cluster", "department", "occupation", "region", "country", "sex"),
}
"""Words of names of columns whose numbers are hardly amounts."""
_MARKS, _RARER_MARKS = "|,;", ("/", "#", "~", "::", "\t", "\n", "\u3001", "\uff0c", "\uff1b")
"""What is between the values of a list in one text."""
_RECUR = 0.8
"""Share of the parts of lists that are in other lists, too, from which on these are lists."""
_DIGIT = re.compile("[0-9]")
_IN_BRACKETS = re.compile(r"[\[({].*[\])}]", re.DOTALL)

_log = logging.getLogger("mfrank")


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """The encoding of a column.

    Attributes
    ----------
    name : str
    kind : {"number", "value", "values"}
        A number, one of several values, or any number of values.
    missing : bool
        Whether there is a feature that is 1 where the value is missing.
    center, scale : float
        Mean and scale of numbers.
    values : tuple of str
        The values that have a feature.
    """

    name: str
    kind: Kind
    missing: bool
    center: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Number of features."""
        return self.missing + (1 if self.kind == "number" else len(self.values))


@dataclass(frozen=True, slots=True)
class FeatureColumns:
    """All columns of a table."""

    columns: tuple[FeatureColumn, ...]

    @classmethod
    def of(cls, argument: str, table: Mapping[Hashable, NDArray[Any]]) -> Self:
        """Fit the encoding to the columns of a table; ``argument`` names it in errors.

        Raises
        ------
        TypeError, ValueError
            A column has values other than numbers, texts, truth values or lists of texts, or has an
            infinite number; or there are no columns.
        """
        if not table:
            raise InputValueError(f"`{argument}` has no columns but the ids", "leave it out")
        columns = tuple(_learned(argument, str(name), table[name]) for name in table)
        _log.info(Notice(f"`{argument}`: {', '.join(map(_told, columns))}"))
        for column, given in zip(columns, table.values(), strict=True):
            _tell_odd(argument, column, given)
        return cls(columns)

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(column.width for column in self.columns)

    def features(
        self, argument: str, table: Mapping[Hashable, NDArray[Any]], *, of_fit: bool
    ) -> sp.csr_array:
        """The features of a table's rows, float64, shape (rows, width).

        Columns unknown to the fit are ignored. Values without a feature are ignored, too, with a
        warning unless the rows are ``of_fit``.

        Raises
        ------
        TypeError, ValueError
            A column is missing or has another type than in the fit.
        """
        by_name = {str(name): values for name, values in table.items()}
        parts = []
        for column in self.columns:
            if column.name not in by_name:
                raise InputValueError(
                    f"`{argument}` has no column {column.name!r}, which the fit had",
                    "add it, empty where nothing is known",
                )
            parts.append(_features(argument, column, by_name[column.name], of_fit))
        return sp.csr_array(sp.hstack(parts, format="csr"), dtype=np.float64)

    def to_array(self) -> NDArray[np.uint8]:
        """As bytes of JSON, for a store's extras."""
        return np.frombuffer(dump_json({"columns": [*map(asdict, self.columns)]}).encode(), "u1")

    @classmethod
    def from_array(cls, array: NDArray[Any]) -> Self:
        """Read the result of :meth:`to_array`; raise ValueError for any other array."""
        where = "the feature columns saved with the model"
        if array.dtype != np.uint8 or array.ndim != 1:
            raise unreadable(where, "are damaged")
        saved = parse_json(array.tobytes(), where)
        try:
            check_keys(where, saved, {"columns"})
            columns = tuple(
                FeatureColumn(**{**each, "values": tuple(each["values"])})
                for each in saved["columns"]
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise unreadable(where, "are damaged", error) from None
        for column in columns:
            sound = (
                isinstance(column.name, str)
                and column.kind in get_args(Kind)
                and isinstance(column.missing, bool)
                and isinstance(column.center, float)
                and isinstance(column.scale, float)
                and column.scale > 0
                and all(isinstance(value, str) for value in column.values)
            )
            if not sound:
                raise unreadable(where, "are damaged", f"column {column.name!r}")
        return cls(columns)


def _learned(argument: str, name: str, given: NDArray[Any]) -> FeatureColumn:
    present, kind = _present(given), _kind(argument, name, given)
    missing = not present.all()
    if kind == "number":
        numbers = _numbers(argument, name, given)[present]
        with np.errstate(over="ignore", invalid="ignore"):
            scale = float(numbers.std()) if len(numbers) else 0.0
            center = float(numbers.mean()) if len(numbers) else 0.0
        if not np.isfinite([scale, center]).all():
            raise InputValueError(
                f"`{argument}`: column {name!r} has numbers too large to standardize"
            )
        return FeatureColumn(name, kind, missing, center, scale or 1.0)
    rows = Counter(value for values in _listed(kind, given, present) for value in set(values))
    known = sorted(value for value, count in rows.items() if count >= _FEWEST)
    return FeatureColumn(name, kind, missing, values=tuple(known))


def _told(column: FeatureColumn) -> str:
    """How a column is read, in a few words."""
    if column.kind == "number":
        return f"{column.name} (a number)"
    n = len(column.values)
    return f"{column.name} ({counted(n, 'value') if n else 'no feature: all values differ'})"


def _tell_odd(argument: str, column: FeatureColumn, given: NDArray[Any]) -> None:
    """Warn of a column that probably means something else."""
    where, values = f"`{argument}`: column {column.name!r}", given[_present(given)].tolist()
    if column.kind == "number":
        numbers = _numbers(argument, column.name, given)[_present(given)]
        for code, number in Extent.of(numbers).missing().items():
            _log.warning(
                "%s has %s in %s, which may stand for a missing number: leave these empty",
                *(where, code, counted(number, "row")),
            )
        is_code = bool(_CODES & {*re.findall("[a-z]+", column.name.lower())})
        if is_code and len(numbers) and (numbers % 1 == 0).all():
            _log.warning(
                "%s is read as a number, such as a price; if its numbers are only names, write "
                "them as text, such as c%.0f",
                *(where, *numbers[:1]),
            )
        return
    texts = [value for value in values if isinstance(value, str)]
    tell_odd_texts(where, texts, are_lists=column.kind == "values")


def tell_odd_texts(where: str, given: Iterable[str], *, are_lists: bool) -> None:
    """Warn of texts that are probably numbers or lists, or one value in two spellings.

    ``where`` is the argument and the column, in words.
    """
    texts = list(dict.fromkeys(given))
    wrong = [text for text in texts if not NUMBER.fullmatch(text.strip())]
    few = FEW * len(wrong) <= len(texts) and not any(map(_DIGIT.search, wrong))
    if wrong and (few or all(map(_may_be_number, texts))) and len(texts) > 1:
        _log.warning(
            "%s is not read as numbers, but as one value for each text, because of texts like %s: "
            "write numbers as 3.5, and leave missing ones empty",
            *(where, shown(wrong[0])),
        )
    elif texts and all(_IN_BRACKETS.fullmatch(text.strip()) for text in texts):
        _log.warning(
            "%s has lists that are written as text, like %s, each of which is one value: join "
            "their parts by | instead",
            *(where, shown(texts[0])),
        )
    elif not are_lists and (listed := text_of_list(texts)):
        _log.warning(
            "%s has texts like %s, each of which is one value: join their parts by | if they are "
            "lists",
            *(where, shown(listed)),
        )
    if not are_lists:
        tell_twins(where, texts)


def tell_twins(where: str, texts: Iterable[str]) -> None:
    """Warn of one value in two spellings; ``where`` is as in :func:`tell_odd_texts`."""
    twins: dict[str, str] = {}
    for text in texts:
        if (twin := twins.setdefault(text.strip().casefold(), text)) != text:
            _log.warning(
                "%s has values like %r and %r, which differ in blanks or capital letters and are "
                "two; write them in the same way if they are one",
                *(where, twin, text),
            )
            return


def text_of_list(texts: Iterable[str]) -> str | None:
    """A text that seems to be a list of values of the column; None if none does.

    In lists nearly all parts recur, in names such as "Paris, France" at most those of one place.
    Dates, paths and addresses have slashes, too, and digits or nothing between two of them.
    """
    distinct = list(dict.fromkeys(texts))
    if distinct and all(_IN_BRACKETS.fullmatch(text.strip()) for text in distinct):
        return distinct[0]
    some = distinct[:: -(-len(distinct) // LOOKED_AT) or 1]
    for mark in (*_MARKS, *_RARER_MARKS):
        parted = [[part.strip() for part in text.split(mark)] for text in some]
        number = Counter(part for parts in parted for part in set(parts))
        several = [parts for parts in parted if len(parts) > 1]
        if mark in _RARER_MARKS and any(
            not part or _DIGIT.search(part) for parts in several for part in parts
        ):
            continue
        recurring = sum(number[part] > 1 for parts in several for part in parts)
        if several and recurring >= _RECUR * sum(map(len, several)):
            return next(text for text in some if mark in text)
    return None


def _may_be_number(text: str) -> bool:
    """Whether a text is a number, or what people write for one, or for none."""
    bare = text.strip().casefold()
    if bare in SPELLED_MISSING:
        return True
    return NUMBER.fullmatch(re.sub(r"[\s%$\u20ac\xa3\xa5,']", "", bare)) is not None and not (
        bare.startswith("0") and bare[1:2].isdigit()
    )


def _features(
    argument: str, column: FeatureColumn, given: NDArray[Any], of_fit: bool
) -> sp.csr_array:
    """The features of one column, shape (rows, column.width)."""
    present, n_rows = _present(given), len(given)
    kind = _kind(argument, column.name, given)
    if (kind == "number") != (column.kind == "number") and present.any():
        what = "numbers" if column.kind == "number" else "texts"
        raise InputTypeError(
            f"`{argument}`: column {column.name!r} must hold {what}, as in the fit"
        )
    parts = []
    if column.kind == "number":
        numbers = np.zeros(n_rows)
        if present.any():
            told = _numbers(argument, column.name, given)[present]
            numbers[present] = (told - column.center) / column.scale
        parts.append(sp.csr_array(numbers[:, None]))
    else:
        lists = _listed(column.kind, given, present)
        if not of_fit:
            _warn_of_unknown(argument, column, lists)
        parts.append(_indicators(column, lists))
    if column.missing:
        parts.append(sp.csr_array(~present[:, None], dtype=np.float64))
    return sp.csr_array(sp.hstack(parts, format="csr"))


def _indicators(column: FeatureColumn, lists: Sequence[Sequence[str]]) -> sp.csr_array:
    place = {value: number for number, value in enumerate(column.values)}
    rows, columns = list[int](), list[int]()
    for row, values in enumerate(lists):
        known = {place[value] for value in values if value in place}
        rows += [row] * len(known)
        columns += sorted(known)
    shape = len(lists), len(column.values)
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape)


def _warn_of_unknown(argument: str, column: FeatureColumn, lists: Sequence[Sequence[str]]) -> None:
    known = set(column.values)
    unknown = list({value: None for values in lists for value in values if value not in known})
    if unknown and known:  # a column without values, such as of titles, is ignored as it was
        examples = ", ".join(map(shown, unknown[:3]))
        text = Notice(
            f"`{argument}`: column {column.name!r} has {counted(len(unknown), 'value')} that fewer "
            f"than two rows of the fit had, ignored here: {examples}"
        )
        warnings.warn(text, UserWarning, stacklevel=2)


def _present(given: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value is not missing: None, NaN, NA, NaT, or an empty text."""
    if given.dtype.kind == "f":
        missing: NDArray[np.bool_] = np.isnan(given)
        return ~missing
    if given.dtype.kind == "U":
        return np.array(given != "", dtype=bool)
    if given.dtype.kind != "O":
        return np.ones(len(given), bool)
    return np.array([not is_missing(value) for value in given], dtype=bool)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NA, NaT or an empty text."""
    if value is None or (isinstance(value, str) and not value):
        return True
    if isinstance(value, str) or hasattr(value, "__len__"):
        return False
    return bool(type(value).__name__ in ("NAType", "NaTType") or value != value)


def _kind(argument: str, name: str, given: NDArray[Any]) -> Kind:
    """What a column holds."""
    if given.dtype.kind in "iuf":
        return "number"
    some = [value for value in given.tolist() if not is_missing(value)]
    if all(isinstance(value, bool | np.bool_) for value in some):
        return "value"  # also where there are none
    if all(isinstance(value, int | float | np.number) for value in some):
        return "number"
    if all(isinstance(value, str) for value in some):
        return "values" if any(_BETWEEN in value for value in some) else "value"
    if all(_is_list(value) for value in some):
        return "values"
    odd = next(value for value in some if not isinstance(value, str))
    raise InputTypeError(
        f"`{argument}`: column {name!r} must hold numbers, texts, truth values or lists of texts, "
        f"got {shown(odd)} among {len(some):,} values",
        "convert it, or leave the column out",
    )


def _is_list(value: Any) -> bool:
    return (
        not isinstance(value, str | bytes | Mapping)
        and isinstance(value, Iterable)
        and all(isinstance(each, str | int | np.integer) for each in value)
    )


def _numbers(argument: str, name: str, given: NDArray[Any]) -> NDArray[np.float64]:
    """The numbers of a column, NaN where they are missing."""
    numbers = np.full(len(given), np.nan)
    present = _present(given)
    numbers[present] = given[present].astype(np.float64)
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise InputValueError(
            f"`{argument}`: column {name!r} has an infinite number in row {row}", "leave it empty"
        )
    return numbers


def _listed(kind: Kind, given: NDArray[Any], present: NDArray[np.bool_]) -> list[Sequence[str]]:
    """The values of each row, as texts; of a missing one, none."""
    lists = list[Sequence[str]]()
    for value, there in zip(given, present, strict=True):
        if not there:
            lists.append(())
        elif kind == "value":
            lists.append((str(value),))
        elif isinstance(value, str):
            lists.append([part.strip() for part in value.split(_BETWEEN) if part.strip()])
        else:
            lists.append([str(part) for part in value])
    return lists
