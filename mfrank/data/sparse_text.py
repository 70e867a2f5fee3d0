"""Sparse matrices as rows: MatrixMarket, and numbers by features as LibFM and LIBSVM have them.

In LibFM, a line is an interaction: its value, a feature of 1 for the user and one for the item.
In LIBSVM, it is a row: a label, and the items with their values. Which it is shows in the first
lines, and is told.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.data.fields import Fields
from mfrank.data.item_lists import are_numbered_on, tell_alone
from mfrank.data.layouts import Layout
from mfrank.data.records import Blocks, Rows, Start, TextFormat, Tokens, TypedIds, tell_unused
from mfrank.data.table_parts import NoRowsError
from mfrank.data.text_blocks import rows_of
from mfrank.data.text_files import Text
from mfrank.data.text_rows import Tell
from mfrank.errors import InputValueError

# MatrixMarket.

_BANNER = re.compile(r"%%MatrixMarket\s+matrix\s+(\w+)\s+(\w+)\s+(\S+)\s*", re.IGNORECASE)
_MMREAD = "pass `Interactions.from_sparse` what `scipy.io.mmread` reads"


def matrix_format(start: Start) -> TextFormat | None:
    """The format of MatrixMarket: rows are users, columns items, both from 0 as in scipy."""
    if start.dialect.columns is not None or not start.head.startswith("%%MatrixMarket"):
        return None
    what = "a matrix of MatrixMarket"
    start.refuse(what, "sep", "quote", "header", "lines")
    layout, field, symmetry = "", "", ""
    if banner := _BANNER.fullmatch(start.lines[0]):
        layout, field, symmetry = banner[0].lower().split()[2:]
    if (
        layout != "coordinate"
        or field not in ("real", "integer", "pattern", "double")
        or symmetry not in ("general", "symmetric")
    ):
        raise InputValueError(
            f"{start.lines[0]!r} is no sparse matrix of real numbers, with or without symmetry:",
            _MMREAD,
        ).within("line 1")
    every = start.head.splitlines()
    at = next((n for n, one in enumerate(every) if one.strip() and not one.startswith("%")), None)
    size = re.fullmatch(r"\s*(\d+)\s+(\d+)\s+(\d+)\s*", "" if at is None else every[at])
    if size is None or at is None:
        raise InputValueError("the line of its size is missing", "copy the file again").within(
            f"line {1 + (at or 0)}"
        )
    n_users, n_items, n_entries = map(int, size.groups())
    names = {"user": 1, "item": 2, "value": 3}
    if field == "pattern":
        del names["value"]
    roles = start.roles(what, names)
    places = {role: place for place, role in enumerate(names) if role in roles}
    table = Layout(" ", None, len(names), (), False, at + 2, places, False)
    if symmetry == "symmetric":
        start.tell(logging.WARNING, "the matrix is symmetric: each entry is there in both orders")
    size_ = _Size(n_users, n_items, n_entries, symmetry == "symmetric")
    return TextFormat(roles, lambda text, tell: _entries(text, table, size_, tell))


class _Size(NamedTuple):
    n_users: int
    n_items: int
    n_entries: int
    is_symmetric: bool


def _entries(text: Text, table: Layout, size: _Size, tell: Tell) -> Iterator[Rows]:
    """Yield the entries as those of a table, numbered from 0; check that all are there."""
    n_read = 0
    present = {"user": np.zeros(size.n_users, bool), "item": np.zeros(size.n_items, bool)}
    for rows in rows_of(_Blanks(text), table, tell) if size.n_entries else ():
        n_read += len(rows.lines)
        columns: dict[str, Fields | TypedIds] = dict(rows.columns)
        for role, found in present.items():
            fields = rows.columns[role]
            assert isinstance(fields, Fields)
            numbers = _in_range(fields, role, len(found), rows.lines)
            found[numbers] = True
            columns[role] = TypedIds(numbers)
        rows = Rows(columns, rows.lines)
        yield _in_both_orders(rows) if size.is_symmetric else rows
    if n_read != size.n_entries:
        raise InputValueError(
            f"{counted(n_read, 'entry')}, and the line of its size says {size.n_entries:,}",
            "copy the file again",
        )
    if not n_read:
        raise NoRowsError("the matrix has no entries")
    if size.is_symmetric:
        present = dict.fromkeys(present, present["user"] | present["item"])
    for role, found in present.items():
        tell_unused(role, found, tell)


def _in_range(fields: Fields, role: str, n: int, lines: NDArray[np.int64]) -> NDArray[np.int64]:
    numbers = _numbers(fields)
    wrong = np.flatnonzero((numbers < 1) | (numbers > n))
    if len(wrong):
        raise InputValueError(
            f"the {role} {fields.text(wrong[0])!r} is not in 1..{n}", "copy the file again"
        ).within(f"line {lines[wrong[0]]}")
    return numbers - 1


def _in_both_orders(rows: Rows) -> Rows:
    """The entries of a symmetric matrix, and those on the other side of its diagonal."""
    users, items = (rows.columns[role] for role in ("user", "item"))
    assert isinstance(users, TypedIds)
    assert isinstance(items, TypedIds)
    others = np.flatnonzero(users.labels != items.labels)
    order = np.concatenate([np.arange(len(rows.lines)), others])
    columns = {role: each[order] for role, each in rows.columns.items()}
    for role, other in (("user", items), ("item", users)):
        own = columns[role]
        assert isinstance(own, TypedIds)
        columns[role] = TypedIds(
            np.concatenate([own.labels[: len(rows.lines)], other.labels[others]])
        )
    return Rows(columns, rows.lines[order])


class _Blanks:
    """The blocks of a text with blanks in the place of tabs."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def blocks(self) -> Iterator[bytes]:
        for block in self._text.blocks():
            yield block.replace(b"\t", b" ")


# LibFM and LIBSVM.

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# No other marks: 0,0,1/2/2024 8:26 ends like a feature, and is a row of a table.
_LABEL = rf"{_NUMBER}(?:,\d+)*|[^\s,;|:]+"
_LINE = re.compile(rf"({_LABEL})((?: +\d+:{_NUMBER})*)\s*(?:#.*)?")
_ONE_HOT = re.compile(rf"{_NUMBER}((?: +\d+:1(?:\.0*)?)+)\s*(?:#.*)?")
_QUERY = re.compile(rf"{_NUMBER}\s+qid:\S")
_VALUE = re.compile(r":\S+")
_COMMENT = re.compile(rb"#[^\n]*")
_LIBSVM = "`lines='libsvm'` takes lines as users, and features as items"
_LIBFM = "`lines='libfm'` takes each line as one interaction of two features"


def feature_format(start: Start) -> TextFormat | None:
    """The format of numbers by features: an interaction a line, or a user, or a list of a user."""
    wanted = start.dialect.lines
    lines = [line for line in start.lines if not line.startswith("#")]
    if wanted is not None:  # else ids such as 12:5 in a second column are none
        lines = [line.replace("\t", " ") for line in lines]
    if not lines or (wanted is None and start.is_described):
        return None
    if _QUERY.match(lines[0]):
        raise InputValueError(
            "documents of queries, with their relevance, and no interactions:",
            "`mfrank.Judged.from_svmlight` reads them",
        ).within("line 1")
    has_features = any((match := _LINE.fullmatch(line)) and match[2] for line in lines)
    if not has_features or not _LINE.fullmatch(lines[0]):
        if wanted in ("libfm", "libsvm"):
            raise InputValueError(
                f"`lines={wanted!r}`: the first line is {lines[0][:60]!r}, without features such "
                "as 7:1",
                "leave it out",
            )
        return None
    reading = wanted or _reading(start, lines)
    if reading == "baskets":
        raise InputValueError("`lines='baskets'`: items have values, as 7:1", "`lines='lists'`")
    roles = start.roles("text of features", {"user": "user", "item": "item", "value": "value"})
    return TextFormat(
        roles,
        lambda text, tell: _of_features(start.rows_below(text), tell, reading, roles),
        counts_users=reading == "libsvm",
    )


def _reading(start: Start, lines: list[str]) -> str:
    """What a line is, by the first lines, which is told."""
    hot = [_ONE_HOT.fullmatch(line) for line in lines]
    features = [[int(one.split(":")[0]) for one in match[1].split()] for match in hot if match]
    n_hot = {len(one) for one in features}
    if len(features) == len(hot) and len(n_hot) == 1 and 1 not in n_hot:
        columns = list(zip(*features, strict=True))
        if all(max(a) < min(b) for a, b in itertools.pairwise(columns)):
            if len(columns) > 2:
                raise InputValueError(
                    f"each line has {len(columns)} features of 1 in ranges of their own, as LibFM "
                    "has users, items and more",
                    f"keep the first two of a line; or {_LIBSVM}",
                ).within("line 1")
            start.tell(
                logging.WARNING,
                "lines are taken as those of LibFM: a value, the feature of the user and that of "
                f"the item; {_LIBSVM}",
            )
            return "libfm"
    words = [_VALUE.sub("", line.split("#")[0]).split() for line in lines]
    if len(words) > 2 and are_numbered_on(words):
        start.tell(
            logging.WARNING,
            "each line is taken as a user, and their items with values; `lines='libsvm'` takes the "
            "first number as a label",
        )
        return "lists"
    start.tell(
        logging.WARNING,
        "lines are taken as those of LIBSVM: each is a user, numbered from 0, and features are "
        f"items; labels are ignored; {_LIBFM}, and `lines='lists'` the first number as the user",
    )
    return "libsvm"


def _of_features(
    text: Blocks, tell: Tell, reading: str, roles: Mapping[str, object]
) -> Iterator[Rows]:
    """Yield the rows of lines of features, each with what is before its first feature."""
    line, n_before, n_alone, ranges = 1, 0, 0, _Ranges()
    for block in text.blocks():
        words = Tokens.of(_COMMENT.sub(b"", block) if b"#" in block else block, b":")
        firsts, lines = words.firsts, line + words.lines
        line += words.n_lines
        if not len(lines):
            continue
        own, begins = np.cumsum(firsts) - 1, np.flatnonzero(firsts)
        place = np.arange(len(own)) - begins[own]
        _check_pairs(words, place, lines)
        features, values = (
            words.fields[place % 2 == 1],
            words.fields[(place > 0) & (place % 2 == 0)],
        )
        first, of_feature = words.fields[begins], own[place % 2 == 1]
        columns: dict[str, Fields | TypedIds]
        if reading == "libfm":
            ranges.check(
                features, values, np.bincount(of_feature, minlength=len(begins)), lines[begins]
            )
            columns = {"user": features[::2], "item": features[1::2], "value": first}
            lines = lines[begins]
        else:
            users = TypedIds(n_before + of_feature) if reading == "libsvm" else first[of_feature]
            columns = {"user": users, "item": features, "value": values}
            n_alone += len(begins) - len(np.unique(of_feature))
            lines = lines[place % 2 == 1]
        n_before += len(begins)
        if len(lines):
            yield Rows({role: columns[role] for role in roles}, lines)
    tell_alone(n_before, n_alone, tell)


def _check_pairs(words: Tokens, place: NDArray[np.int64], lines: NDArray[np.int64]) -> None:
    """Raise ValueError for a line that is not a word and pairs of a number and a value."""
    fields = words.fields
    colon = fields.codes[fields.ends] == ord(":")
    wrong = colon != (place % 2 == 1)
    wrong[:-1] |= colon[:-1] & (fields.begins[1:] != fields.ends[:-1] + 1)
    if wrong.any():
        raise InputValueError(
            "no line of features such as 5 12:1 9005:1", "is the file cut off?"
        ).within(f"line {lines[np.argmax(wrong)]}")


class _Ranges:
    """The ranges of features of users and of items in lines of LibFM, as far as they were read."""

    def __init__(self) -> None:
        self._last_user, self._first_item = -1, 2**63 - 1

    def check(
        self, features: Fields, values: Fields, counts: NDArray[np.int64], lines: NDArray[np.int64]
    ) -> None:
        """Raise ValueError for a line that has not two features of 1, one in each range."""
        wrong = counts != 2
        if not wrong.any():
            users, items = _numbers(features[::2]), _numbers(features[1::2])
            last = np.maximum.accumulate(np.maximum(users, self._last_user))
            first = np.minimum.accumulate(np.minimum(items, self._first_item))
            wrong = (values.values().reshape(-1, 2) != 1).any(axis=1) | (last >= first)
            self._last_user, self._first_item = int(last[-1]), int(first[-1])
        if wrong.any():
            raise InputValueError(
                "it has not two features of 1, of a user and behind these of an item, as the lines "
                "before have",
                _LIBSVM,
            ).within(f"line {lines[np.argmax(wrong)]}")


def _numbers(fields: Fields) -> NDArray[np.int64]:
    """Whole numbers; what is spelled otherwise is 0."""
    numbers = fields.whole_numbers()
    if numbers is None:
        texts = fields.texts()
        numbers = np.array(
            [int(text) if re.fullmatch("[0-9]{1,18}", text) else 0 for text in texts]
        )
    return numbers
