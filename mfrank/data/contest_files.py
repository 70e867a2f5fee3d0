"""Files of two contests as rows: the ratings of the Netflix Prize, and the impressions of MIND.

Ratings are in blocks: a movie and a colon, then a user, a rating and a date on each line. A line of
impressions has a user, a time, and the news that were clicked and shown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Hashable, Iterator, Mapping
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from mfrank.data.fields import Fields
from mfrank.data.layouts import Layout
from mfrank.data.records import Blocks, Rows, Start, TextFormat
from mfrank.data.table_parts import NoRowsError
from mfrank.data.text_blocks import rows_of
from mfrank.data.text_files import Text
from mfrank.data.text_rows import Tell
from mfrank.data.times import is_date
from mfrank.errors import InputValueError

_MOVIE = re.compile(rb"[ \t]*(\d+):[ \t]*\r?\n?")
_COLUMNS_OF_RATINGS = {"user": 1, "item": "of blocks", "value": 2, "timestamp": 3}
_PLACES = {"user": 0, "value": 1, "timestamp": 2}


def netflix_format(start: Start) -> TextFormat | None:
    """The format of the Netflix Prize, if the first line is a movie."""
    lines = start.lines
    if start.dialect.columns is not None or not lines or not _MOVIE.fullmatch(lines[0].encode()):
        return None
    if any(":" in line[:-1] for line in lines) and all(":" in line for line in lines):
        return None  # lists of users, of whom the first has no items
    first = next((line for line in start.lines if not line.endswith(":")), "").split(",")
    if len(first) == 1 or is_date(first[1].strip()):
        raise InputValueError(
            "blocks of users without ratings, as in the qualifying and probe sets of Netflix:",
            "read the training set",
        ).within("line 1")
    what = "blocks of ratings"
    start.refuse(what, "sep", "quote", "header", "lines")
    roles = start.roles(
        what, {r: c for r, c in _COLUMNS_OF_RATINGS.items() if _PLACES.get(r, 0) < len(first)}
    )
    places = {role: place for role, place in _PLACES.items() if role in roles}
    layout = Layout(",", None, len(first), (), False, 1, places, False)
    return TextFormat(
        roles, lambda text, tell: _ratings(start.rows_below(text), layout, roles, tell)
    )


def _ratings(
    text: Blocks, layout: Layout, roles: Mapping[str, Hashable], tell: Tell
) -> Iterator[Rows]:
    """Yield the rows of ratings as those of a table, in which lines of movies are blank."""
    ratings = _Ratings(text)
    for rows in rows_of(ratings, layout, tell):
        columns = {**rows.columns, "item": ratings.movies(rows.lines)}
        yield Rows({role: columns[role] for role in roles}, rows.lines)


class _Ratings:
    """The blocks of a text with blanks in the place of movies, and the movies of the last block."""

    def __init__(self, text: Blocks) -> None:
        self._text, self._line = text, 1
        self._names, self._lines = [""], [0]

    def blocks(self) -> Iterator[bytes]:
        for block in self._text.blocks():
            del self._names[:-1], self._lines[:-1]
            parts, at, colon = list[bytes](), 0, block.find(b":")
            while colon >= 0:
                begin = block.rfind(b"\n", 0, colon) + 1
                end = 1 + (len(block) - 1 if (end := block.find(b"\n", colon)) < 0 else end)
                if found := _MOVIE.fullmatch(block, begin, end):
                    self._line += block.count(b"\n", at, begin)
                    self._names.append(found[1].decode())
                    self._lines.append(self._line)
                    parts += block[at:begin], b" " * (end - begin - 1), block[end - 1 : end]
                    self._line, at = self._line + 1, end
                colon = block.find(b":", end)
            self._line += block.count(b"\n", at)
            yield b"".join(parts) + block[at:] if parts else block

    def movies(self, lines: NDArray[np.int64]) -> Fields:
        """The movies of some lines of the last block."""
        return Fields.of(self._names)[np.searchsorted(self._lines, lines, side="right") - 1]


_TIME = re.compile(r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d\d:\d\d [AP]M")
_KINDS = {"1": "clicked", "0": "shown"}
_SEEN = re.compile(r"(\S+)-([01])")
_COLUMNS_OF_NEWS = {"user": 2, "item": 5, "timestamp": 3, "event": 5}


def mind_format(start: Start) -> TextFormat | None:
    """The format of behaviors: impression, user, time, history, and the news of the impression."""
    first = start.lines[0].split("\t") if start.lines else []
    if start.is_described or len(first) != 5 or not _TIME.fullmatch(first[2]):
        return None
    what = "impressions of MIND"
    start.refuse(what, "lines")
    roles = start.roles(what, _COLUMNS_OF_NEWS)
    counted = (
        "as `weights=` says"
        if start.has_events
        else (
            "and only clicks are read: `weights={'clicked': 1, 'shown': 0.1}` reads the others, too"
        )
    )
    start.tell(
        logging.INFO if start.has_events else logging.WARNING,
        f"impressions of MIND: news are 'clicked' or 'shown', {counted}; histories, which have no "
        "times and are repeated with each impression, are ignored",
    )
    kinds = None if start.has_events else "1"

    def rows(text: Text, tell: Tell) -> Iterator[Rows]:
        line, is_empty = 1, True
        for block in start.rows_below(text).blocks():
            each = block.decode().split("\n") if b"\r" not in block else block.decode().splitlines()
            found = [
                row
                for number, one in enumerate(each, line)
                if one.strip()
                for row in _shown(one, number, kinds)
            ]
            line += block.count(b"\n")
            if found:
                is_empty = False
                yield _news(found, roles)
        if is_empty:
            raise NoRowsError("the file has no clicks")

    return TextFormat(roles, rows)


def _shown(text: str, line: int, kind: str | None) -> list[tuple[str, str, str, str, int]]:
    """User, item, time and kind of the news of an impression; all of them, or of one kind."""
    fields = text.split("\t")
    if len(fields) != 5:
        raise InputValueError(
            f"{len(fields)} fields, and an impression of MIND has 5",
            "copy or download the file again",
        ).within(f"line {line}")
    user, when, shown = fields[1].strip(), fields[2].strip(), fields[4].split()
    seen = [_SEEN.fullmatch(one) for one in shown]
    if not all(seen):
        at = next(one for one, found in zip(shown, seen, strict=True) if not found)
        raise InputValueError(
            f"{at!r} does not say whether it was clicked, as in the test set of MIND",
            "read the behaviors of its training or validation set",
        ).within(f"line {line}")
    try:
        time = datetime.strptime(when, "%m/%d/%Y %I:%M:%S %p").isoformat()
    except ValueError:
        raise InputValueError(f"the time is no time of MIND, got {when!r}").within(
            f"line {line}"
        ) from None
    if not user:
        raise InputValueError("the user is missing", "give it an id, or drop the row").within(
            f"line {line}"
        )
    pairs = (found.groups() for found in seen if found)
    return [(user, item, time, _KINDS[own], line) for item, own in pairs if kind in (None, own)]


def _news(found: list[tuple[str, str, str, str, int]], roles: object) -> Rows:
    users, items, times, kinds, lines = zip(*found, strict=True)
    columns = {"user": users, "item": items, "timestamp": times, "event": kinds}
    wanted = {role: Fields.of(each) for role, each in columns.items() if role in roles}  # type: ignore[operator]
    return Rows(wanted, np.array(lines, np.int64))
