"""Columns of ids that are rather something else: lists, dates, quoted or printed text, codes.

What is odd about single ids is in :mod:`mfrank.data.odd_ids`. Each column is looked at as a whole,
by a part of its distinct ids where that is enough.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted, shown
from mfrank.data.columns import header_names
from mfrank.data.ids import Ids
from mfrank.data.notes import log as _log
from mfrank.data.times import is_date
from mfrank.data.values import NAN_AS_WHOLE
from mfrank.errors import Notice

LOOKED_AT = 10_000
"""Ids of a column that are looked at for lists and codes, at equal distances."""
FEW = 10
"""The inverse of the share of ids that are few beside the others."""
SHOWN = 3
"""Ids in a warning."""
_GLANCED_AT = 100
_DIGIT = re.compile("[0-9]")
_MOST = 0.8
_QUOTES = ('""', "''", "``", "\u201c\u201d", "\u201e\u201c", "\u2018\u2019", "\xab\xbb")
_IN_BRACKETS = re.compile(r"[\[({].*[\])}]", re.DOTALL)
_PRINTED: Mapping[str, re.Pattern[str]] = {
    "bytes": re.compile(r"b(['\"]).*\1"),
    "objects without text of their own": re.compile(r"<.* at 0x[0-9a-fA-F]+>"),
    "objects": re.compile(
        r"(?P<kind>[A-Za-z_][\w.]*)\(.*['\"=].*\)"
        r"|(?:(?:np|numpy)\.\w+|u?int(?:8|16|32|64)|float(?:16|32|64)|Number(?:Int|Long))\([^()]+\)"
        r"|datetime\.\w+\(.*\)"
    ),
    "lists, tuples or dicts": re.compile(r"\[[^\[\],]*\]|\([^(),]*,\)|\{.*[:'\"].*\}"),
}
"""What ids are that Python or a database printed -> how these begin and end."""
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:([,.'\u2019 \xa0\u202f])[0-9]{3}(?:\1[0-9]{3})*)?")
_CODE = re.compile(r"(?=.*[0-9])[\w.-]+")
_SEPARATORS = (" ", ",", "|", ";")
_CODES_RECUR, _WORDS_RECUR = 0.25, 0.8
"""Shares of the parts of ids that are in other ids, too, from which on these are lists. Words recur
in names and titles, which have a part of their own."""
_NEARLY_ALL = 0.95
_OTHER_LENGTH = 0.1
"""Share of the ids with another number of parts than most: keys of several parts have as many."""


def tell_header(users: Ids, items: Ids, items_of: Callable[[int], NDArray[Any]]) -> None:
    """Warn of a user and an item of one row that are names of columns: a header among the rows.

    ``items_of`` has the item rows of a user's row.
    """
    found = _named(users, "user")
    listed = _named(items, "item") if found else set[int]()
    for user in found if listed else ():
        if both := listed.intersection(items_of(user).tolist()):
            _log.warning(
                "the user %r has the item %r, which look like the names of columns: remove the "
                "header from the rows, or read the file with its header",
                *(users.labels[user], items.labels[min(both)]),
            )
            return


def _named(ids: Ids, side: str) -> set[int]:
    """The rows of ids that are called as columns are, where ids are texts in sorted order."""
    if ids.are_numbers:
        return set()
    labels, found = ids.labels, set[int]()
    for name in header_names(side):
        try:
            row = bisect_left(labels, name)
        except TypeError:  # not all are texts
            return set()
        if row < len(labels) and labels[row] == name:
            found.add(row)
    return found


_KEPT = 15
"""Digits that a spreadsheet keeps of a number."""
_TENS = 10 ** np.arange(19)
_LONG = 10**_KEPT
_SURE = 6.0
"""Digits that are 0 of all rounded numbers together, from which on this is no chance."""


_MANY, _ENDS = 20, 32
"""Ids that a warning needs, and the inverse of the share of 8 or 16 bits that is near an end."""
_TYPE_NAME = re.compile(
    r"<?(?:u?int(?:eger)?(?:8|16|32|64)?|u?(?:big|small|tiny)int|u?long|float(?:8|16|32|64)?"
    r"|double|dbl|number|numeric|decimal|real|str(?:ing)?|chr|object|n?(?:var)?char|character"
    r"|text|token|category|factor|fct|uuid|utf8)>?(?:\([0-9, ]+\))?",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\([^()]{1,12}\)|\[[^\[\]]{1,12}\]|<[^<>]{1,12}>")


RowsOf = Callable[[int], int]
"""The number of rows of the data with the id of a row of the table."""
Count = Callable[[str], int]
"""The number of rows of the data with an id."""


def tell_lists(side: str, labels: Sequence[Hashable]) -> None:
    """Warn of ids most of which look like lists of several, such as ``"N1 N2 N3"``."""
    looked_at = labels[:: -(-len(labels) // LOOKED_AT)]
    if any(_are_lists(parts, words) for parts, words in _parted(looked_at)):
        example = next(each for each in looked_at if not (isinstance(each, str) and each.isalnum()))
        _log.warning(
            "%s ids like %s look like lists of several ids, and each list is taken as one %s; "
            "write one row for each of them, such as by str.split and explode of pandas",
            *(side, shown(example), side),
        )


def _parted(labels: Sequence[Hashable]) -> Iterator[tuple[list[list[str]], bool]]:
    """The parts of all labels in every way, and whether they may be words, if most have several."""
    whole = [[str(part) for part in each] for each in labels if isinstance(each, tuple | frozenset)]
    texts = [label.strip() for label in labels if isinstance(label, str)]
    if 2 * len(whole) > len(labels):
        yield whole, True
    if 2 * sum(_IN_BRACKETS.fullmatch(text) is not None for text in texts) > len(labels):
        yield [re.findall(r"[^\s,'\"]+", text[1:-1]) for text in texts], True
    for mark in _SEPARATORS:
        if 2 * sum(mark in text for text in texts) > len(labels):
            yield [list(filter(None, map(str.strip, t.split(mark)))) for t in texts], mark != " "


def _are_lists(each: list[list[str]], may_be_words: bool) -> bool:
    """Whether parts of ids, which are codes or, if they may be, words, are lists of ids."""
    several = [parts for parts in each if len(parts) > 1]
    if 2 * len(several) <= len(each):
        return False
    n_parts = sum(map(len, several))
    codes = sum(_CODE.fullmatch(part) is not None for parts in several for part in parts)
    if not (are_codes := codes > _NEARLY_ALL * n_parts) and not may_be_words:
        return False
    ids_with = Counter(part for parts in each for part in set(parts))
    recurring = sum(ids_with[part] > 1 for parts in several for part in parts)
    if recurring < (_CODES_RECUR if are_codes else _WORDS_RECUR) * n_parts:
        return False
    lengths = Counter(map(len, each))
    others = len(each) - max(lengths.values())
    return others > _OTHER_LENGTH * len(each) or _are_in_any_place(several)


def _are_in_any_place(several: list[list[str]]) -> bool:
    """Whether most parts that recur do so at other places of the lists, which are long."""
    places: dict[str, set[int]] = {}
    ids_with = Counter(part for parts in several for part in set(parts))
    for parts in several:
        for place, part in enumerate(parts):
            places.setdefault(part, set()).add(place)
    moved = [len(places[part]) > 1 for part, number in ids_with.items() if number > 1]
    return min(map(len, several)) > 2 and 2 * sum(moved) > len(moved)


def tell_other_columns(side: str, texts: list[str], count: Count) -> None:
    """Warn of ids that are all, or nearly all, what ids of text hardly are."""
    some = texts[:: max(1, len(texts) // _GLANCED_AT)]
    quotes = next((pair for pair in _QUOTES if all(_is_within(label, *pair) for label in some)), "")
    if quotes and some:
        _log.warning(
            Notice(
                f"{side} ids like {shown(some[0])} are in quotes, which are part of them; remove "
                "these if they are not meant, or name the quote of a text file with `quote=`"
            )
        )
    elif printed := _as_printed(some):
        what, example = printed
        _log.warning(
            "%s ids like %s are %s as they are printed: take what is in them, before they become "
            "text",
            *(side, shown(example), what),
        )
    elif some and all(map(is_date, some)):
        _log.warning("%s ids like %s are dates: is this another column?", side, shown(some[0]))
    elif some and all(map(_THOUSANDS.fullmatch, some)):
        marked = [label for label in some if not label.isdecimal() and label[-3:] != "000"]
        if marked:
            _log.warning(
                "%s ids like %s look like numbers with marks between thousands, and are text: "
                "write them without these marks",
                *(side, shown(marked[0])),
            )
    if 2 * sum(map(str.isdecimal, some)) > len(some):
        _tell_others(side, texts, count)


def _as_printed(some: Sequence[str]) -> tuple[str, str] | None:
    """What most of these ids are, if it was printed, and the first one; None if they are not."""
    for what, pattern in _PRINTED.items():
        found = [match for label in some if (match := pattern.fullmatch(label))]
        kinds = {match.groupdict().get("kind") for match in found}
        if 2 * len(found) > len(some) and len(kinds) == 1:
            return what, found[0][0]
    return None


def _tell_others(side: str, texts: list[str], count: Count) -> None:
    """Warn of a few texts that make all whole numbers text, unless these are codes, like an ISBN.

    Codes have one length, and some of them letters beside digits: 080442957X.
    """
    others = [label for label in texts if not label.isdecimal()]
    if not others:
        return
    ((width, number),) = Counter(map(len, texts)).most_common(1)
    if number > _MOST * len(texts):
        others = [each for each in others if len(each) != width or not _DIGIT.search(each)]
    n = len(others)
    if n and (FEW * n <= len(texts) or (n == 1 and len(texts) > SHOWN)):
        _log.warning(
            "%s ids are whole numbers but for %s, which %s all of them text: drop or mend these "
            "rows if they are no %ss",
            side,
            f"{', '.join(in_rows(each, count) for each in others[:SHOWN])}{', ...' * (n > SHOWN)}",
            "makes" if n == 1 else "make",
            side,
        )


def _is_within(label: str, opens: str, closes: str) -> bool:
    label = label.removeprefix("=")  # as Excel keeps the zeros of ="007"
    return len(label) > 1 and label.startswith(opens) and label.endswith(closes)


def tell_types(side: str, labels: list[Hashable]) -> None:
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


def tell_codes(side: str, ids: Ids, rows_of: RowsOf) -> None:
    """Warn of numbers that conversions write for a missing id.

    They are -1 before 0..n-1, as by ``cat.codes`` and ``factorize`` of pandas, and the least number
    of 32 or 64 bits, which NaN becomes as a whole number. Any other number is an id like all.
    """
    numbers = ids.labels
    for least in NAN_AS_WHOLE if ids.table is not None else ():
        if (place := np.flatnonzero(numbers == least)).size:
            _log.warning(
                "the %s %d, in %s, is what NaN becomes as a whole number: drop these rows if it "
                "stands for a missing %s",
                *(side, least, counted(rows_of(int(place[0])), "row"), side),
            )
    if ids.table is None or len(ids) < 2 or numbers.min() != -1 or numbers.max() != len(ids) - 2:
        return
    number = counted(rows_of(int(np.argmin(numbers))), "row")
    _log.warning(
        "the %s -1, in %s, may be nobody: the others are 0 to %d, as in codes of pandas, where -1 "
        "is a missing %s; drop these rows if it is",
        *(side, number, len(ids) - 2, side),
    )


def tell_rounded(side: str, numbers: NDArray[np.int64]) -> None:
    """Warn of long numbers all of which a spreadsheet or a float has rounded.

    Numbers that are all multiples of more than that, such as times with zeros below, are not.
    """
    if not len(numbers) or numbers.max() < _LONG:
        return
    large = numbers[numbers >= _LONG]
    large = large[:: -(-len(large) // LOOKED_AT)]
    digits = np.searchsorted(_TENS, large, side="right")
    for base, steps in (
        (10, _TENS[digits - _KEPT]),
        (2, np.spacing(large.astype(np.float64)).astype(np.int64)),
    ):
        own, steps = large[steps > 1], steps[steps > 1]
        chance = np.log10(steps.astype(np.float64)).sum()
        if chance < _SURE or (own % steps).any():
            continue
        if 4 * np.count_nonzero(own // steps % base) > len(own):
            _log.warning(
                "%s ids like %d look rounded, as spreadsheets and floats do to long numbers, which "
                "may make one of several: read them from their source as whole numbers or text",
                *(side, own[0]),
            )
            return


def tell_wrapped(side: str, numbers: NDArray[np.int64]) -> None:
    """Warn of numbers that go from end to end of 8 or 16 bits, as larger ones do that wrapped."""
    if len(numbers) < _MANY:
        return
    low, high = int(numbers.min()), int(numbers.max())
    for half in (1 << 7, 1 << 15):
        room = half // _ENDS
        if -half <= low <= room - half and half - 1 - room <= high < half:
            _log.warning(
                "%s ids go from %d to %d, as integers of %d bits do: larger ones wrap around to "
                "such numbers, which may make one of several; keep them in wider integers from "
                "their source on",
                *(side, low, high, half.bit_length()),
            )


def tell_first_row(user: object, item: object) -> None:
    """Warn of a first row whose ids are types or units of columns."""
    row = [each.strip() for each in (user, item) if isinstance(each, str)]
    if len(row) < 2:
        return
    if all(map(_TYPE_NAME.fullmatch, row)):
        what = "types"
    elif all(map(_UNIT.fullmatch, row)):
        what = "units"
    else:
        return
    _log.warning(
        "the first row has the user %s and the item %s, which look like %s of columns: drop this "
        "row if it is none",
        *(shown(user), shown(item), what),
    )


def in_rows(label: str, count: Count) -> str:
    """An id and the number of rows that have it, as text."""
    return f"{shown(label)} in {counted(count(label), 'row')}"
