"""Lists as rows: each line has a user and their items, or is a basket of items alone.

``0 12 5 9`` may be either. It is taken as a list only if users are numbered on, from line to line,
or marked by a colon; otherwise the caller says it with ``lines=``.
"""

from __future__ import annotations

import io
import itertools
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from mfrank.arrays import counted
from mfrank.data.columns import guess
from mfrank.data.fields import Fields
from mfrank.data.layouts import NEXT_USERS
from mfrank.data.records import Blocks, Rows, Start, TextFormat, Tokens, TypedIds
from mfrank.data.table_parts import NoRowsError
from mfrank.data.text_files import Text
from mfrank.data.text_rows import Quotes, Tell, rows
from mfrank.errors import InputValueError

_SEQUENCE = re.compile(r"[^\t]+:token\t[^\t]+:token_seq")  # a header of RecBole
_COLON = re.compile(r"[^\s:,;|]+:(?:[ \t][^,;|]*)?")
_WHOLE = re.compile(r"[0-9]{1,18}")
_MARKS = "\t;|,"
_INNER = re.compile(r"[\s,;|\[\](){}'\"]+")
_AT_ONCE = 1 << 13
_USERS, _BASKETS = {"user": "user", "item": "item"}, {"user": "basket", "item": "item"}


def list_format(start: Start) -> TextFormat | None:
    """The format of lists of items, if the caller says so or users show it."""
    wanted, of_baskets = start.dialect.lines, start.dialect.lines == "baskets"
    has_colons = len(start.lines) > 0 and all(map(_COLON.fullmatch, start.lines))
    if wanted is None:
        if start.is_described or not (
            (has_colons and any(not line.endswith(":") for line in start.lines))
            or are_numbered_on([line.split() for line in start.lines])
            or _SEQUENCE.fullmatch(start.lines[0] if start.lines else "")
        ):
            return None
        if has_colons:
            _refuse_records(start.lines)
        level = logging.INFO if has_colons else logging.WARNING
        start.tell(level, f"each line is taken as a user and their items; {NEXT_USERS}")
    elif wanted not in ("lists", "baskets"):
        return None
    roles = start.roles("a list of items", _BASKETS if of_baskets else _USERS)
    if of_baskets:
        start.tell(logging.INFO, "users are the baskets, by their numbers from 0")
    separator = _separator_of(start)
    if separator is None:
        has_colons &= not of_baskets
        return TextFormat(
            roles,
            lambda text, tell: _of_words(start.rows_below(text), tell, of_baskets, has_colons),
            counts_users=of_baskets,
        )
    return TextFormat(roles, _divided(start, separator, of_baskets), counts_users=of_baskets)


def _refuse_records(lines: Sequence[str]) -> None:
    """Raise ValueError if words before colons are rather names of fields, which come again."""
    names = Counter(line.partition(":")[0] for line in lines)
    again = sum(number > 1 for number in names.values())
    if len(names) < 2 or 2 * again < len(names) or any(map(_WHOLE.fullmatch, names)):
        return
    raise InputValueError(
        f"lines like {lines[0][:60]!r} have the names of fields before colons, again and again:",
        "write a table with a row for each record, or pass `lines='lists'` if each line is a user "
        "and their items",
    ).within("line 1")


def are_numbered_on(lines: list[list[str]]) -> bool:
    """Whether lines of different lengths begin with the numbers of users in their order.

    Few numbers are left out, as those of users without items; a table that is cut off is none.
    """
    widths = [len(line) for line in lines]
    if len({*widths}) < (1 if max(widths, default=0) > 4 else 2) or len(lines) < 2:
        return False
    if len({*widths[:-1]}) == 1 and widths[-1] < widths[0] <= 4:
        return False
    if not all(_WHOLE.fullmatch(word) for line in lines for word in (line[0], *line[1:3])):
        return False
    firsts = [int(line[0]) for line in lines]
    rises = all(a < b for a, b in itertools.pairwise(firsts))
    return rises and firsts[-1] - firsts[0] < 2 * (len(firsts) - 1)


def _of_words(text: Blocks, tell: Tell, of_baskets: bool, has_colons: bool) -> Iterator[Rows]:
    """Yield the rows of lists that blanks or tabs divide."""
    line, n_lists, n_alone = 1, 0, 0
    for block in text.blocks():
        words = Tokens.of(block)
        fields, firsts = words.fields, words.firsts
        own = np.cumsum(firsts) - 1
        if has_colons:
            last = fields.ends[firsts] - 1
            if (wrong := np.flatnonzero(fields.codes[last] != ord(":"))).size:
                at = line + words.lines[firsts][wrong[0]]
                raise InputValueError(
                    "no colon after the user, as in the lines before", "write one"
                ).within(f"line {at}")
            fields = Fields(fields.raw, fields.begins, fields.ends - firsts)
        if of_baskets:
            users: Fields | TypedIds = TypedIds(own + n_lists)
            is_item = np.ones(len(own), dtype=bool)
        else:
            users, is_item = fields[np.flatnonzero(firsts)[own]], ~firsts
            n_alone += int((np.bincount(own) == 1).sum()) if len(own) else 0
        n_lists += int(firsts.sum())
        if is_item.any():
            columns = {"user": users[is_item], "item": fields[is_item]}
            yield Rows(columns, line + words.lines[is_item])
        line += words.n_lines
    tell_alone(n_lists, n_alone, tell)


def tell_alone(n_lists: int, n_alone: int, tell: Tell) -> None:
    """Tell how many lists have no items; raise ValueError if none has."""
    if n_alone == n_lists:
        raise NoRowsError("the file has no items")
    if n_alone:
        tell(logging.WARNING, f"{counted(n_alone, 'user')} without items are left out")


# Lists that other marks divide.


def _separator_of(start: Start) -> str | None:
    """The mark after users and between items; None if it is blanks."""
    if (sep := start.dialect.sep) is not None:
        return sep
    header = start.lines[0] if start.lines else ""
    for mark in f"{_MARKS} ":
        if guess(header.split(mark), "user"):
            return mark
    joined = "".join(start.lines)
    if not (start.dialect.header or any(mark in joined for mark in ",;|[")):
        return None
    once = (mark for mark in _MARKS if all(line.count(mark) == 1 for line in start.lines))
    return next(once, None) or max(_MARKS, key=joined.count)


def _divided(
    start: Start, separator: str, of_baskets: bool
) -> Callable[[Text, Tell], Iterator[Rows]]:
    """What yields the rows of lists that a mark divides; one list may be one field."""
    quote, header = start.dialect.quote, start.dialect.header

    def each(text: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
        found = rows(text, separator, Quotes(separator, quote))
        for number, (line, fields) in enumerate(found):
            is_header = bool(guess(fields, "user") or guess(fields, "item"))
            if number or not (is_header if header is None else header):
                yield line, [stripped for field in fields if (stripped := field.strip())]

    is_inner = not of_baskets and all(len(fields) <= 2 for _, fields in each(start.lines))

    def divided(text: Text, tell: Tell) -> Iterator[Rows]:
        n_lists = n_alone = 0
        waiting = list[tuple[str, str, int]]()
        for line, fields in each(_lines(start.rows_below(text))):
            if not fields:
                continue
            if is_inner and len(fields) > 2:
                raise InputValueError(
                    f"{len(fields)} fields, and in the lines before a user and a list",
                    "name the separator with `sep=`",
                ).within(f"line {line}")
            items = fields if of_baskets else fields[1:]
            if is_inner:
                items = [item for item in _INNER.split("".join(items)) if item]
            user = str(n_lists) if of_baskets else fields[0]
            waiting += [(user, item, line) for item in items]
            n_lists, n_alone = n_lists + 1, n_alone + (not items)
            if len(waiting) >= _AT_ONCE:
                yield _rows(waiting)
                waiting = []
        if waiting:
            yield _rows(waiting)
        tell_alone(n_lists, n_alone, tell)

    return divided


def _lines(text: Blocks) -> Iterator[str]:
    for block in text.blocks():
        yield from io.StringIO(block.decode(), newline="")


def _rows(found: list[tuple[str, str, int]]) -> Rows:
    users, items, lines = zip(*found, strict=True)
    return Rows({"user": Fields.of(users), "item": Fields.of(items)}, np.array(lines, np.int64))
