"""Impressions as rows: the behaviors of MIND, with the news that were clicked and shown."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import datetime

import numpy as np

from mfrank.data.fields import Fields
from mfrank.data.records import Format, Rows, Start
from mfrank.data.table_parts import NoRowsError
from mfrank.data.text_files import Text
from mfrank.data.text_rows import Tell
from mfrank.errors import InputValueError

_TIME = re.compile(r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d\d:\d\d [AP]M")
_KINDS = {"1": "clicked", "0": "shown"}
_SEEN = re.compile(r"(\S+)-([01])")
_COLUMNS = {"user": 2, "item": 5, "timestamp": 3, "event": 5}


def mind_format(start: Start) -> Format | None:
    """The format of behaviors: impression, user, time, history, and the news of the impression."""
    first = start.lines[0].split("\t") if start.lines else []
    if start.is_described or len(first) != 5 or not _TIME.fullmatch(first[2]):
        return None
    what = "impressions of MIND"
    start.refuse(what, "lines")
    roles = start.roles(what, _COLUMNS)
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
                yield _rows(found, roles)
        if is_empty:
            raise NoRowsError("the file has no clicks")

    return Format(roles, rows)


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


def _rows(found: list[tuple[str, str, str, str, int]], roles: object) -> Rows:
    users, items, times, kinds, lines = zip(*found, strict=True)
    columns = {"user": users, "item": items, "timestamp": times, "event": kinds}
    wanted = {role: Fields.of(each) for role, each in columns.items() if role in roles}  # type: ignore[operator]
    return Rows(wanted, np.array(lines, np.int64))
