r"""Ids that probably mean something else: empty ids are errors, others cause warnings.

The rules are the same for arrays, matrices, tables and files of every kind:

- A missing id (None, NaN, NA), an empty id or an id of blanks is an error, with the number of rows.
  A spelled-out missing value (NULL, nan, ``\N``) may be a real id, so it stays.
- Blanks are part of an id, except those after a separator in a text file, and lines end only at
  line feeds and carriage returns.
- Lists are not ids: Python lists are errors, and text that looks like lists of ids is a warning.
- Ids are not normalized: ids that differ in blanks, Unicode form, ``.0``, type, case or spelling of
  a number are different. If all are like ``123.0``, that is a warning.

Each ambiguity that stays is a warning of one line. Columns that look like something else as a whole
are in :mod:`mfrank.data.odd_columns`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, cast
from unicodedata import is_normalized, normalize
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted, distinct, shown
from mfrank.data import odd_columns
from mfrank.data.ids import Ids
from mfrank.data.notes import log as _log
from mfrank.data.odd_columns import FEW, LOOKED_AT, SHOWN, Count, RowsOf, in_rows
from mfrank.errors import InputValueError

SPELLED_MISSING = frozenset(
    (
        *("null", "(null)", "[null]", "<null>", "none", "nil", "nan", "nat", "na", "n/a", "<na>"),
        *("undefined", "(not set)", r"\n", "-", "?"),
        *("#n/a", "#ref!", "#value!", "#name?", "#null!", "#num!", "#div/0!"),  # of spreadsheets
        *("#error!", "#spill!", "#calc!", "#field!", "loading..."),
    )
)
"""How tables of text write a missing value, without capitals."""
_LONGEST_MISSING = max(map(len, SPELLED_MISSING))
_NIL = "00000000-0000-0000-0000-000000000000"
"""The UUID of nobody, which tables write where an id is missing."""
_ODD_BLANKS = re.compile(r"[^\S \n]")
_UNSEEN = "\0\xad\u200b\u200e\u200f\u2060\ufeff" + "".join(map(chr, range(0x202A, 0x202F)))
"""What editors do not show, and ``str.strip()`` leaves; joiners make one sign of several."""
_NO_UNSEEN = str.maketrans("", "", _UNSEEN)
_NUMBER = re.compile(r"\+?0*(\d+?)(?:\.0+)?", re.ASCII)
_NUMBERS = re.compile(r"\n((?:\+|0)\d+(?:\.0+)?|\d+\.0+)(?=\n)", re.ASCII)
"""Whole numbers that are written otherwise than as such, like 007, each on a line."""
_FLOAT = re.compile(r"\d+\.0+", re.ASCII)
_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_OF_MONTH = re.compile(rf"\n([0-9]{{1,2}}-{_MONTHS}|{_MONTHS}-[0-9]{{2}})(?=\n)")
"""What spreadsheets make of codes such as 3-1 and MAR1."""
_POWER = re.compile(r"\n(\d(?:\.\d+)?[eE]\+\d+)(?=\n)", re.ASCII)
_DRAWN = re.compile(
    r"\n(?=[-#=:+|.(\u2026\u2500-\u257f])"
    r"(?:[-#=:+|.\u2500-\u257f]{2,}|\u2026|\([0-9]+(?: (?:row|record)s?[^)\n]*\))?)(?=\n)"
)
"""What is around the rows of a printed table: lines, dots where rows are left out, a count; and
what it has where a column is too narrow."""
_COMMENTS = ("#", "//", "--", "%")
_GARBLED = re.compile("[\xc2-\xf4][\x80-\xbf\u0152-\u2122]|\ufffd")
_AT_ONCE = 20_000
"""Ids that are looked at as one: their text stays in the processor's cache."""
_CASES = re.compile(r"[a-z][0-9]*[A-Z]")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")

_LARGE, _USED = 1_000_000, 0.1
"""Rows of a matrix from which on it is told that less than this share of them has entries."""


def check_ids(side: str, ids: Ids, rows_of: RowsOf) -> None:
    """Refuse or warn about odd ids of data.

    Parameters
    ----------
    side : {"user", "item"}
    ids : Ids
        Distinct ids of the data.
    rows_of : function
        Number of rows with an id, by its position in ``ids``; called only for odd ids.

    Raises
    ------
    ValueError
        An id is empty, or all blanks.
    """
    if ids.are_numbers:
        odd_columns.tell_codes(side, ids, rows_of)
        if ids.table is not None:
            odd_columns.tell_rounded(side, ids.labels)
            odd_columns.tell_wrapped(side, ids.labels)
        return
    labels = ids.labels.tolist()
    odd_columns.tell_lists(side, labels)

    def count(label: str) -> int:
        return rows_of(labels.index(label))

    looks = [
        _Look.at(labels[begin : begin + _AT_ONCE]) for begin in range(0, len(labels), _AT_ONCE)
    ]
    is_all_text = all(look.is_all_text for look in looks)
    texts = labels if is_all_text else [label for label in labels if type(label) is str]
    has_cases = any(look.has_capitals for look in looks)
    has_cases = has_cases and any(label.upper() != label for label in texts)
    codes = _lengths_of_codes(texts) if has_cases else set[int]()
    longest = max(codes, default=0)
    bare = {label: _bare(label) for look in looks for label in look.odd}
    if bare:
        _check_texts(side, bare, len(texts), codes, count)
    usual = {label: _plain(own) for label, own in bare.items()}
    if any(look.has_numbers for look in looks) and not _are_padded(texts):
        usual |= {label: _whole(label) for label in _numbers(texts)}
        _tell_floats(side, texts)
    if shortened := next((look.shortened for look in looks if look.shortened), ""):
        _log.warning(
            "%s ids like %s are numbers as spreadsheets and numpy shorten them, which may make one "
            "of several: write them in full from their source",
            *(side, in_rows(shortened, count)),
        )
    if of_month := next((look.of_month for look in looks if look.of_month), ""):
        _log.warning(
            "%s ids like %s look like dates that a spreadsheet made of codes: write these as text "
            "from their source",
            *(side, in_rows(of_month, count)),
        )
    _tell_twins(side, usual, texts, longest)
    if has_cases:
        _tell_cases(side, texts, longest)
    if not is_all_text:
        odd_columns.tell_types(side, labels)
    else:
        odd_columns.tell_other_columns(side, texts, count)


def _check_texts(
    side: str,
    bare: dict[str, str],
    n_texts: int,
    codes: set[int],
    count: Count,
) -> None:
    """Refuse or tell what is odd about ids that are text.

    ``bare`` has at least those that are odd, of so many texts, and each of them without blanks.
    """
    empty = [label for label in bare if not bare[label]]
    if empty:
        raise InputValueError(
            f"{side} ids must not be empty, got {in_rows(empty[0], count)}:",
            "drop these rows, or give them an id",
        )
    missing = [
        each
        for each in bare
        if bare[each] == _NIL or (_is_missing(bare[each]) and len(each) not in codes)
    ]
    if missing:
        _log.warning(
            "%s ids may stand for missing ones: %s; they are kept as ids like any others, so drop "
            "these rows if they are none",
            *(side, " and ".join(in_rows(label, count) for label in missing[:SHOWN])),
        )
    blank = [label for label in bare if bare[label] != label]
    if blank:
        _log.warning(
            "blanks at the ends of %s, like %r, are part of these ids: strip them if they are not "
            "meant",
            *(counted(len(blank), f"{side} id"), blank[0]),
        )
    comments = [label for label in bare if label.partition(" ")[0] in _COMMENTS]
    if side == "item" and any(count(label) > 1 for label in comments[:SHOWN]):
        comments = []  # rather titles, such as "# 1 Record"
    if 0 < FEW * len(comments) <= n_texts or len(comments) == 1 < n_texts:
        _log.warning(
            "%s ids like %s look like comments, and are read as rows: remove these lines",
            *(side, in_rows(comments[0], count)),
        )
    drawn = [label for label in bare if _DRAWN.match(f"\n{bare[label]}\n")]
    if drawn and (side == "user" or any(count(label) == 1 for label in drawn[:SHOWN])):
        _log.warning(
            "%s ids like %s look like lines or a count of rows that a printed table has, and are "
            "read as rows: remove these if they are none",
            *(side, in_rows(drawn[0], count)),
        )
    _tell_garbled(side, bare)


def _is_missing(bare: str) -> bool:
    return len(bare) <= _LONGEST_MISSING and bare.casefold() in SPELLED_MISSING


def _tell_garbled(side: str, texts: Iterable[str]) -> None:
    """Warn of letters that were lost or changed where the text was read in another encoding."""
    for label in texts:
        if label.isascii() or not _GARBLED.search(label):
            continue
        meant = _in_utf8(label)
        if "\ufffd" in f"{label}{meant}":
            _log.warning(
                "%s ids like %s have lost letters (U+FFFD): read their source in its own encoding",
                *(side, shown(label)),
            )
            return
        if meant is not None:
            _log.warning(
                "%s ids like %s look like UTF-8 that was read as Latin-1 (%s): read their source "
                "as UTF-8",
                *(side, shown(label), shown(meant)),
            )
            return


def _in_utf8(label: str) -> str | None:
    """The text whose bytes in UTF-8 were read as Latin-1 or Windows-1252; None if there is none."""
    for encoding in ("cp1252", "latin-1"):
        with suppress(UnicodeError):
            return label.encode(encoding).decode()
    return None


def _tell_twins(side: str, usual: dict[str, str], texts: list[str], longest: int) -> None:
    """Warn of texts that are one id in the usual form, and longer than the longest code.

    ``usual`` has the form of those that have another one.
    """
    odd = {each: form for each, form in usual.items() if form != each and len(each) > longest}
    forms = set(odd.values())
    if len(forms) == len(odd) and forms.isdisjoint(texts):
        return
    known, first = set(texts), dict[str, str]()
    for label, form in odd.items():
        twin = form if form in known else first.setdefault(form, label)
        if twin != label and label in known:  # not a line within one
            _tell_twin(side, twin, label, _difference(twin, label))
            return


def _numbers(texts: list[str]) -> Iterator[str]:
    """The whole numbers that are written otherwise than as such."""
    for begin in range(0, len(texts), _AT_ONCE):
        yield from _NUMBERS.findall(_lines(texts[begin : begin + _AT_ONCE]))


def _tell_floats(side: str, texts: list[str]) -> None:
    """Warn of whole numbers that became floats before they became text."""
    if all(map(_FLOAT.fullmatch, texts)):
        _log.warning(
            "%s ids are text like %r, which asking for %s does not find: if they are whole "
            "numbers, write them without '.0', which tables add where one was missing",
            *(side, texts[0], _whole(texts[0])),
        )


def _are_padded(texts: list[str]) -> bool:
    """Whether texts are digits alone, of one length: no two of them are one number."""
    return len({*map(len, texts)}) == 1 and all(map(str.isdigit, texts))


def _whole(number: str) -> str:
    """The usual way to write a whole number such as +7, 007 or 7.0."""
    return number.partition(".")[0].lstrip("+0") or "0"


def _tell_cases(side: str, texts: list[str], longest: int) -> None:
    """Warn of texts that are one id but for capital letters, and longer than the longest code."""
    if longest:
        texts = [label for label in texts if len(label) > longest]
    hashes = np.fromiter(map(hash, map(str.lower, texts)), np.int64, len(texts))
    if len(distinct(hashes)) == len(texts):  # nearly always, and in little memory
        return
    first = dict[str, str]()
    for label in texts:
        if (twin := first.setdefault(label.lower(), label)) != label:
            _tell_twin(side, twin, label, "capital letters")
            return


def _lengths_of_codes(texts: list[str]) -> set[int]:
    """Usual lengths of ids if these are codes such as aXb9, in which capital letters count."""
    some = texts[:: -(-len(texts) // LOOKED_AT)]
    n_scrambled = sum(map(_is_scrambled, some))
    if n_scrambled < FEW or FEW * n_scrambled < len(some):
        return set()
    return {length for length, n in Counter(map(len, some)).items() if 100 * n > len(some)}


def _is_scrambled(label: str) -> bool:
    """Whether capital letters are within words of hardly two letters, as in base64 or base62."""
    if not _CASES.search(label):
        return False
    words = _WORDS.findall(label)
    return sum(map(len, words)) < 2.5 * len(words)


def _tell_twin(side: str, one: str, other: str, difference: str) -> None:
    _log.warning(
        "%s ids like %s and %s differ only in %s, and are different %ss; write them in the same "
        "way if they are not",
        *(side, ascii(one), ascii(other), difference, side),
    )


def tell_converted(side: str, raw: Any) -> None:
    """Log that ids become text, or numbers."""
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
    """Warn if only a small share of the rows of a large matrix has entries (``rows``)."""
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


def _difference(one: str, other: str) -> str:
    pair = one, other
    if any(_bare(label) != label for label in pair) or _same(pair, lambda x: " ".join(x.split())):
        return "blanks"
    if _same(pair, lambda label: label.translate(_NO_UNSEEN)):
        return "characters that are not shown"
    for form in ("NFC", "NFKC"):
        if _same(pair, partial(normalize, form)):
            return f"the form of Unicode ({form})"
    if _same(pair, lambda label: label.removesuffix(".0")):
        return "'.0'"
    return "how a number is written"


def _same(pair: tuple[str, str], form: Callable[[str], str]) -> bool:
    return form(pair[0]) == form(pair[1])


class _Look(NamedTuple):
    """What may be odd of some ids, which are looked at as one text, because most never are.

    Attributes
    ----------
    is_all_text : bool
    odd : list of str
        The texts, if any of them may be odd; else none.
    has_numbers : bool
        Whether whole numbers are written otherwise than as such, like 007.
    has_capitals : bool
    shortened : str
        The first one like 1.2E+12; "" if there is none.
    of_month : str
        The first one like 1-Mar or Mar-01; "" if there is none.
    """

    is_all_text: bool
    odd: list[str]
    has_numbers: bool
    has_capitals: bool
    shortened: str
    of_month: str

    @classmethod
    def at(cls, labels: list[Hashable]) -> _Look:
        is_all_text = {*map(type, labels)} <= {str}
        texts = cast(list[str], labels)
        if not is_all_text:
            texts = [label for label in labels if type(label) is str]
        joined = _lines(texts)
        lower = joined.lower()
        odd = texts if _is_odd(joined) or _has_missing(texts, lower) else []
        has_numbers, has_capitals = _NUMBERS.search(joined) is not None, lower != joined
        power = _POWER.search(joined) if "e+" in lower else None
        month = _OF_MONTH.search(joined) if has_capitals and "-" in joined else None
        firsts = (found[1] if found else "" for found in (power, month))
        return cls(is_all_text, odd, has_numbers, has_capitals, *firsts)


def _lines(texts: list[str]) -> str:
    return "\n" + "\n".join(texts) + "\n"


def _has_missing(texts: list[str], lower: str) -> bool:
    if f"\n{_NIL}\n" in lower:
        return True
    if min(map(len, texts), default=0) > _LONGEST_MISSING:
        return False
    return any(f"\n{word}\n" in lower for word in SPELLED_MISSING)


def _is_odd(joined: str) -> bool:
    if any(mark in joined for mark in ("\n\n", "\0", "  ", " \n", "\n ")):
        return True
    if any(mark in joined for mark in "\t\r\v\f\x1c\x1d\x1e\x1f"):
        return True
    if any(f"\n{mark} " in joined for mark in _COMMENTS) or _DRAWN.search(joined):
        return True
    if joined.isascii():
        return False
    if _ODD_BLANKS.search(joined) or _GARBLED.search(joined) or not is_normalized("NFKC", joined):
        return True
    return any(mark in joined for mark in _UNSEEN)


def _bare(label: str) -> str:
    """Without blanks of any kind, and what is not seen, at both ends."""
    bare = label.strip()
    return bare if bare.isascii() and "\0" not in bare else bare.strip(_UNSEEN).strip()


def _plain(bare: str) -> str:
    """The usual way to write an id."""
    if number := _NUMBER.fullmatch(bare):
        return number[1]
    if bare.isascii() and "\0" not in bare and "  " not in bare:
        return bare
    usual = " ".join(normalize("NFKC", bare.translate(_NO_UNSEEN)).split())
    return number[1] if (number := _NUMBER.fullmatch(usual)) else usual
