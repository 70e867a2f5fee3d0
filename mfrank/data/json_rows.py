"""JSON as rows: an object for each interaction, one a line or all in one array.

Keys are columns. Ids that are numbers stay numbers, and strings stay text: ``"7"`` is not 7. Old
data sets of Amazon and Steam have dicts of Python on their lines, which are read as literals.
"""

from __future__ import annotations

import ast
import itertools
import json
import logging
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import shown
from mfrank.data.columns import (
    ROLES,
    WHERE,
    assign,
    guess,
    has_marks_of_rows,
    in_column,
    looks_like_a_mark,
    marks_among,
    tell_columns,
)
from mfrank.data.fields import Fields, IdsAs
from mfrank.data.labels import objects
from mfrank.data.records import Blocks, Rows, Start, TextFormat, TypedIds
from mfrank.data.table_parts import NoRowsError
from mfrank.data.text_files import LONGEST_LINE, Text
from mfrank.data.text_rows import Tell
from mfrank.data.times import hold_dates
from mfrank.errors import InputValueError

_BEGINS = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[{\]])")
_LITERAL = re.compile(r"\s*\{\s*u?'")
_GAP = re.compile(r"[ \t\r\n]*")
_SHOWN = 6  # keys that are named
_INVALID = (ValueError, SyntaxError, RecursionError, MemoryError, TypeError)
_TYPES = {str, int, float, bool}

Parse = Callable[[str], Any]
Objects = tuple[list[Any], list[int]]
"""Objects, and the lines on which they begin."""


def json_format(start: Start) -> TextFormat | None:
    """The format of JSON, if the text begins as it does."""
    begin = "\n".join(start.lines[:2]) if start.n_above else start.head
    literal = _LITERAL.match(begin)
    if not (literal or _BEGINS.match(begin)):
        return None
    parse: Parse = _literal if literal else _unique_keys
    found = list(itertools.takewhile(_is_object, (_tried(parse, line) for line in start.lines)))
    is_stream = not (found or literal)
    if is_stream and start.dialect.columns is not None:  # a field may begin as JSON does
        return None
    start.refuse("JSON", "sep", "quote", "header", "columns", "lines")
    if is_stream:
        found = [
            each
            for each in next(_streamed(["\n".join(start.lines) if start.n_above else start.head]))[
                0
            ]
            if _is_object(each)
        ]
    known = list(dict.fromkeys(key for each in found for key in each))
    if not known:
        raise InputValueError(
            "no object of JSON with keys is found there", "write one object a line"
        ).within("line 1")
    roles = assign(start.part.names(known, start.chosen), start.chosen)

    def has_dates(name: Hashable) -> bool:
        if name not in known:
            return start.part.key_has_dates(name)
        return hold_dates(one.get(name) for one in found)

    def marks_rows(name: str) -> bool:  # keys of objects are told with the rows
        return name not in known and start.part.key_marks_rows(name)

    every = start.part.all_names(known)
    tell_columns(every, roles, start.chosen, start.tell, marks_rows, has_dates)
    keyed = start.part.keyed(known, roles)
    keys = {role: key for role, key in roles.items() if role not in keyed}
    if literal:
        start.tell(logging.INFO, "lines are dicts of Python, read slowly: JSON would be faster")
    wanted = [role for role in ROLES if role not in roles and start.chosen.get(role) is None]

    def rows(text: Text, tell: Tell) -> Iterator[Rows]:
        columns = _Columns(keys, start.ids)
        fresh, marks, is_empty = dict[Any, int](), set[str](), True
        below = start.rows_below(text)
        if not is_stream:
            parts = _lines(below, parse, keys.values())
        elif below is text:
            parts = _streamed(text.pieces())
        else:
            parts = _streamed(block.decode() for block in below.blocks())
        for each, lines in parts:
            if each:
                is_empty = False
                yield columns.rows(each, lines)
            keys_there = set[Any]().union(*each)
            for key in sorted({*marks_among([*keys_there], roles)} - marks):
                if has_marks_of_rows(objects(one.get(key) for one in each)):
                    tell(logging.WARNING, looks_like_a_mark(key))
                    marks.add(key)
            if not keys_there.issubset({*known, *fresh}):
                for one, line in zip(each, lines, strict=True):
                    fresh |= {key: line for key in one if key not in known and key not in fresh}
        if is_empty:
            raise NoRowsError("the file has no objects")
        _tell_fresh(fresh, wanted, tell)

    return TextFormat(keys, rows, keyed)


def _tell_fresh(fresh: Mapping[Any, int], wanted: Iterable[str], tell: Tell) -> None:
    """Tell of keys that the first rows do not have, as a warning if a role was not found."""
    if not fresh:
        return
    named = ", ".join(f"{key!r} (line {line})" for key, line in [*fresh.items()][:_SHOWN])
    more = f" and {len(fresh) - _SHOWN} more" * (len(fresh) > _SHOWN)
    missed = [(role, key) for role in wanted for key in guess([*fresh], role)[:1]]
    remedy = "".join(f"; `{role}={key!r}` reads it if all rows have it" for role, key in missed)
    level = logging.WARNING if missed else logging.INFO
    tell(level, f"keys that only later rows have are ignored: {named}{more}{remedy}")


# From text to objects.


class _Twice:
    """In the place of the values of a key that is there twice."""


def _unique(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        found |= {key: _Twice() for key in found if keys.count(key) > 1}
    return found


def _unique_keys(line: str) -> Any:
    return json.loads(line, object_pairs_hook=_unique)


def _literal(line: str) -> Any:
    """A dict of Python; nothing is run."""
    body = ast.parse(line.strip(), mode="eval").body
    if not isinstance(body, ast.Dict):
        return ast.literal_eval(body)
    each = zip(body.keys, body.values, strict=True)
    return _unique([(ast.literal_eval(key), ast.literal_eval(value)) for key, value in each])  # type: ignore[arg-type]


def _tried(parse: Parse, line: str) -> Any:
    try:
        return parse(line)
    except _INVALID:
        return None


def _is_object(each: Any) -> bool:
    return isinstance(each, dict)


def _lines(text: Blocks, parse: Parse, keys: Iterable[Hashable]) -> Iterator[Objects]:
    """Yield the objects of each block of lines."""
    marks, before = [json.dumps(key, ensure_ascii=False).encode() for key in keys], 1
    for block in text.blocks():
        each = block.splitlines()
        numbers = [number for number, line in enumerate(each, before) if line.strip()]
        texts = [each[number - before].strip() for number in numbers]
        before += len(each)
        found = None if parse is _literal else _at_once(texts)
        if found is None or any(block.count(mark) != len(texts) for mark in marks):
            found = []
            for line, number in zip(texts, numbers, strict=True):
                try:
                    found.append(parse(line.decode()))
                except _INVALID as error:
                    raise _damaged(error, number) from None
        yield found, numbers


def _at_once(lines: list[bytes]) -> list[Any] | None:
    """The objects of lines, parsed as one array; None if a line is no whole object."""
    if not all(line[:1] == b"{" and line[-1:] == b"}" for line in lines):
        return None
    try:
        found: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
    except _INVALID:
        return None
    return found if len(found) == len(lines) else None


def _damaged(error: Exception, line: int) -> InputValueError:
    what = getattr(error, "msg", "") or str(error)
    problem = f"no object of JSON: {what}"
    return InputValueError(problem, "write one object a line; is the file cut off?").within(
        f"line {line}"
    )


def _streamed(pieces: Iterable[str]) -> Iterator[Objects]:
    """Yield the objects of an array, or of one after the other, that are whole with each piece."""
    decode = json.JSONDecoder(object_pairs_hook=_unique).raw_decode
    rest, at, line, expected, is_array = "", 0, 1, "[", False
    for piece in itertools.chain(pieces, [None]):
        rest, at = rest[at:] + (piece or ""), 0
        found, numbers, error = list[Any](), list[int](), None
        while error is None:
            begin = _GAP.match(rest, at).end()  # type: ignore[union-attr]
            line, at = line + rest.count("\n", at, begin), begin
            if at == len(rest):
                break
            mark = rest[at]
            if (expected == "[" and mark == "[") or (expected == "," and mark == ","):
                is_array, expected, at = True, "{]" if mark == "[" else "{", at + 1
            elif mark == "]" and expected in ("{]", ","):
                expected, at = "", at + 1
            elif expected in (",", ""):
                error = _damaged(ValueError(f"{mark!r} follows an object"), line)
            else:
                try:
                    one, end = decode(rest, at)
                except _INVALID as caught:
                    if piece is None or len(rest) - at > LONGEST_LINE:
                        error = _damaged(caught, line)
                    break
                found.append(one)
                numbers.append(line)
                line, at = line + rest.count("\n", at, end), end
                expected = "," if is_array else "{"
        yield found, numbers
        if piece is None and error is None and is_array and expected:
            error = _damaged(ValueError("the array does not end"), line)
        if error is not None:
            raise error


# From objects to columns.


@dataclass
class _Columns:
    """Makes columns of objects; types of ids are those of the first row.

    Attributes
    ----------
    keys : mapping of role -> key
    ids : {"auto", "text"}
    are_text : dict of role -> bool
        Whether ids are text, as far as objects were read.
    """

    keys: Mapping[str, Hashable]
    ids: IdsAs
    are_text: dict[str, bool] = field(default_factory=dict)

    def rows(self, found: list[Any], lines: list[int]) -> Rows:
        """The rows of objects; raises ValueError for the first key that is wrong."""
        if not all(map(_is_object, found)):
            at = next(at for at, each in enumerate(found) if not _is_object(each))
            problem = f"expected an object, got {shown(found[at])}"
            raise InputValueError(problem).within(f"line {lines[at]}")
        columns = dict[str, Fields | TypedIds]()
        for role, key in self.keys.items():
            each = [one.get(key) for one in found]
            chooses = role.startswith(WHERE)
            if chooses:  # a row without a value is not chosen
                each = ["" if value is None else value for value in each]
            kinds = {*map(type, each)}
            is_empty = str in kinds and "" in each and not chooses
            if not kinds <= _TYPES or is_empty or not _is_unicode(each, kinds):
                raise self._wrong(role, found, lines)
            if role in ("user", "item"):
                columns[role] = TypedIds(self._labels(role, each, kinds, lines))
            else:
                columns[role] = Fields.of(map(str, each))
        return Rows(columns, np.array(lines, np.int64))

    def _labels(
        self, role: str, each: list[Any], kinds: set[type], lines: list[int]
    ) -> NDArray[Any]:
        if self.ids == "text" and bool not in kinds:
            return objects(map(str, each))
        is_text = self.are_text.setdefault(role, isinstance(each[0], str))
        if kinds == {str if is_text else int}:
            try:
                return objects(each) if is_text else np.array(each, np.int64)
            except OverflowError:
                pass
        labels = [each_ if is_text else _whole(each_) for each_ in each]
        for label, one, line in zip(labels, each, lines, strict=True):
            if label is None or isinstance(one, str) != is_text:
                other = "text, as in the rows before," if is_text else "whole number of 64 bits"
                told = in_column(f"the {role} {shown(one)} is no {other}", role, self.keys[role])
                remedy = "`ids='text'` reads all as text"
                raise InputValueError(str(told.args[0]), remedy).within(f"line {line}")
        return np.array(labels, np.int64)

    def _wrong(self, role: str, found: list[Any], lines: list[int]) -> InputValueError:
        """The error of the first object whose value under a key cannot be used."""
        key = self.keys[role]
        for one, line in zip(found, lines, strict=True):
            value, remedy = one.get(key), ""
            if value is None or value == "":
                state = "null" if key in one else "missing"
                what = f"the {role} is {state if value is None else 'empty'}"
            elif isinstance(value, _Twice):
                what, remedy = f"the {role} is there twice", "keep one of both"
            elif isinstance(value, str) and not _is_unicode([value], {str}):
                what = f"the {role} is no text of Unicode"
            elif type(value) not in _TYPES:
                kind = "an object" if isinstance(value, dict) else "a list"
                what = f"the {role} is {kind}"
                remedy = f"write a row for each of its parts, or name another key with `{role}=`"
            else:
                continue
            told = in_column(what, role, key)
            return (InputValueError(str(told.args[0]), remedy) if remedy else told).within(
                f"line {line}"
            )
        raise AssertionError(role)


def _is_unicode(each: list[Any], kinds: set[type]) -> bool:
    """Whether texts have no halves of characters, which JSON can escape."""
    if str not in kinds:
        return True
    try:
        "".join(one for one in each if isinstance(one, str)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole(number: Any) -> int | None:
    """An id that is a number, as an integer of 64 bits; None if it is none."""
    whole = isinstance(number, int) or (isinstance(number, float) and number.is_integer())
    if isinstance(number, bool) or not whole or not -(2**63) <= number < 2**63:
        return None
    return int(number)
