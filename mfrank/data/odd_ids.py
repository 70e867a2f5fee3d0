r"""Ids of data that probably mean something else: empty ones are refused, others are told.

The rules are the same for arrays, matrices, tables and files of every kind:

- An id that is missing (None, NaN, NA), empty or of blanks alone is an error, with the number of
  rows. A missing value that is spelled out (NULL, nan, ``\N``) may be somebody's id, so it stays.
- Blanks are part of an id, except those after a separator in a text file, and lines end only at
  line feeds and carriage returns.
- Nothing is made equal: ids that differ in blanks, in the form of Unicode, in ``.0`` or in their
  type are different users.

What stays and may be read in another way than its owner means is a warning, in one line.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Hashable
from decimal import Decimal
from typing import Any
from unicodedata import is_normalized, normalize
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import shown
from mfrank.arrays.counted import counted
from mfrank.data.ids import Ids

__all__ = ["check_ids", "tell_converted", "tell_empty_rows"]

_SPELLED_MISSING = (
    *("null", "(null)", "none", "nil", "nan", "nat", "na", "n/a", "#n/a", "<na>", "undefined"),
    r"\n",
)
_AT_AN_END = re.compile(r"\s\n|\n\s")
_UNSEEN = ("\ufeff", "\u200b", "\0")  # what editors do not show, and str.strip() leaves
_SHOWN = 3
_AT_ONCE = 100_000

_LARGE, _USED = 1_000_000, 0.1
"""Rows of a matrix from which on it is told that less than this share of them has entries."""

_log = logging.getLogger("mfrank")

RowsOf = Callable[[int], int]
"""The number of rows of the data with the id of a row of the table."""


def check_ids(side: str, ids: Ids, rows_of: RowsOf) -> None:
    """Refuse or tell what is odd about the ids of data.

    Parameters
    ----------
    side : {"user", "item"}
    ids : Ids
        Those that the data brought, each once.
    rows_of : function
        How many rows of the data have an id, by its place in ``ids``; only asked about odd ones.

    Raises
    ------
    ValueError
        An id is empty, or all blanks.
    """
    if ids.are_numbers:
        _tell_codes(side, ids, rows_of)
        return
    labels = ids.labels.tolist()
    texts = [label for label in labels if type(label) is str]
    parts = (texts[begin : begin + _AT_ONCE] for begin in range(0, len(texts), _AT_ONCE))
    if any(map(_may_be_odd, parts)):
        _check_texts(side, texts, lambda label: rows_of(labels.index(label)))
    if len(texts) < len(labels):
        _tell_types(side, labels)


def _check_texts(side: str, texts: list[str], rows_of: Callable[[str], int]) -> None:
    """Refuse or tell what is odd about ids that are text."""
    bare = {label: _bare(label) for label in texts}

    def rows_with(label: str) -> str:
        return f"{label!r} in {counted(rows_of(label), 'row')}"

    empty = [label for label in texts if not bare[label]]
    if empty:
        raise ValueError(
            f"{side} ids must not be empty, got {rows_with(empty[0])}: drop these rows, or give "
            "them an id"
        )
    missing = [label for label in texts if bare[label].casefold() in _SPELLED_MISSING]
    if missing:
        _log.warning(
            "%s ids may stand for missing ones: %s; they are kept as ids like any others, so drop "
            "these rows if they are none",
            *(side, " and ".join(map(rows_with, missing[:_SHOWN]))),
        )
    blank = [label for label in texts if bare[label] != label]
    if blank:
        _log.warning(
            "blanks at the ends of %s, like %r, are part of these ids: strip them if they are not "
            "meant",
            *(counted(len(blank), f"{side} id"), blank[0]),
        )
    _tell_twins(side, texts, bare)


def _tell_twins(side: str, texts: list[str], bare: dict[str, str]) -> None:
    """Warn of texts that are one id in the usual form; ``bare`` has them without blanks."""
    first = dict[str, str]()
    for label in texts:
        plain = _plain(bare[label])
        if plain == label:
            continue
        twin = plain if plain in bare else first.setdefault(plain, label)
        if twin != label:
            _log.warning(
                "%s ids like %s and %s differ only in %s, and are different %ss; write them in the "
                "same way if they are not",
                *(side, ascii(twin), ascii(label), _difference(twin, label), side),
            )
            return


def tell_converted(side: str, raw: Any) -> None:
    """Say of ids as they are given that they become text, or numbers."""
    try:
        first: Any = next(iter(raw), None) if len(raw) else None
    except TypeError:  # an iterator, which is read once
        return
    if hasattr(first, "as_py"):
        first = first.as_py()
    if isinstance(first, bytes):
        _log.info("%s ids are bytes, which are read as text in UTF-8", side)
    elif isinstance(first, UUID):
        _log.info("%s ids are UUIDs, which become text like %r", side, str(first))
    elif isinstance(first, Decimal):
        _log.info("%s ids are decimals, which become whole numbers", side)


def tell_empty_rows(side: str, n_rows: int, rows: NDArray[np.integer]) -> None:
    """Warn if hardly any rows of a large matrix are among ``rows``, those of its entries."""
    if n_rows < _LARGE or len(rows) > 2 * n_rows:  # else hardly ever, and not worth the time
        return
    used = np.zeros(n_rows, dtype=bool)
    used[rows] = True
    number = int(np.count_nonzero(used))
    if number < _USED * n_rows:
        _log.warning(
            "%s of %s have interactions, and all take memory and time; if row numbers are raw ids, "
            "pass these to Interactions.from_arrays without a shape, which numbers them",
            *(f"{number:,}", counted(n_rows, side)),
        )


def _tell_codes(side: str, ids: Ids, rows_of: RowsOf) -> None:
    """Warn of -1 before 0..n-1, as ``cat.codes`` and ``factorize`` of pandas write what is missing.

    Any other negative number is an id like all.
    """
    numbers = ids.labels
    if ids.table is None or len(ids) < 2 or numbers.min() != -1 or numbers.max() != len(ids) - 2:
        return
    number = counted(rows_of(int(np.argmin(numbers))), "row")
    _log.warning(
        "the %s -1, in %s, may be nobody: the others are 0 to %d, as in codes of pandas, where -1 "
        "is a missing %s; drop these rows if it is",
        *(side, number, len(ids) - 2, side),
    )


def _difference(one: str, other: str) -> str:
    if _bare(one) != one or _bare(other) != other:
        return "blanks"
    return "the form of Unicode (NFC)" if not other.isascii() else "'.0'"


def _tell_types(side: str, labels: list[Hashable]) -> None:
    """Warn of ids that are not all text: of those that cannot be saved, or of 1 and "1"."""
    other = next((label for label in labels if not isinstance(label, int | str)), None)
    if other is not None:
        _log.warning(
            "%s ids like %s are neither numbers nor text: a model of them cannot be saved; make "
            "them text, or numbers",
            *(side, shown(other)),
        )
        return
    known = {*labels}
    numbers = [label for label in labels if isinstance(label, int)]
    twin = next((number for number in numbers if str(number) in known), None)
    text = next((label for label in labels if isinstance(label, str)), "")
    number, text = (numbers[0], text) if twin is None else (twin, str(twin))
    _log.warning(
        "%s ids are partly whole numbers, like %d, and partly text, like %r; 1 and '1' would be "
        "different %ss: convert all to text if they are not",
        *(side, number, text, side),
    )


def _may_be_odd(texts: list[str]) -> bool:
    """Whether one of them may be odd: they are looked at as one text, because most never are."""
    joined = "\n" + "\n".join(texts) + "\n"
    has_blanks = len("".join(joined.split())) + len(texts) + 1 < len(joined)
    if (has_blanks or "\n\n" in joined) and _AT_AN_END.search(joined):  # or an empty one
        return True
    if any(mark in joined for mark in (*_UNSEEN, ".0\n")):
        return True
    lower = joined.lower()
    missing = any(f"\n{word}\n" in lower for word in _SPELLED_MISSING)
    return missing or not (joined.isascii() or is_normalized("NFC", joined))


def _bare(label: str) -> str:
    """Without blanks of any kind, and what is not seen, at both ends."""
    return label.strip().strip("".join(_UNSEEN)).strip()


def _plain(bare: str) -> str:
    """The usual way to write an id."""
    plain = bare.removesuffix(".0")
    return plain if plain.isascii() or is_normalized("NFC", plain) else normalize("NFC", plain)
