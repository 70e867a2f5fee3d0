"""Which format a text has, by its first lines; what is none of the others is a table."""

from __future__ import annotations

from collections.abc import Callable

from mfrank.data.columns import Chosen
from mfrank.data.fields import IdsAs
from mfrank.data.impressions import mind_format
from mfrank.data.item_lists import list_format
from mfrank.data.json_rows import json_format
from mfrank.data.known_layouts import known_layout
from mfrank.data.layouts import Dialect, layout_of
from mfrank.data.netflix import netflix_format
from mfrank.data.notes import is_noted, note
from mfrank.data.records import Format, Start
from mfrank.data.sparse_text import feature_format, matrix_format
from mfrank.data.table_parts import TablePart
from mfrank.data.text_blocks import table_of
from mfrank.data.text_files import Text
from mfrank.data.text_rows import Tell
from mfrank.errors import InputValueError

Opened = Callable[[], Text]
"""Opens the text anew: it is read more than once."""

_RECORDS: tuple[Callable[[Start], Format | None], ...] = (
    json_format,
    netflix_format,
    matrix_format,
    mind_format,
    feature_format,
    list_format,
)


def format_of(
    opened: Opened,
    dialect: Dialect,
    usual: str | None,
    chosen: Chosen,
    ids: IdsAs,
    tell: Tell,
    part: TablePart | None = None,
) -> Format:
    """Recognize the format of a text, and log what its columns are.

    Parameters
    ----------
    opened, dialect, chosen, ids, tell
        As :func:`mfrank.data.delimited.read` takes them.
    usual : str or None
        The usual separator in files of this suffix, or None.
    part : TablePart, optional
        The text as a part of a table, whose files must have the same columns.
    """
    part = part or TablePart()
    with opened() as text:
        start = Start(text.head(), dialect, chosen, ids, tell, part)
    recognized = (recognize(start) for recognize in _RECORDS if dialect.lines != "rows")
    found = next(filter(None, recognized), None)
    if found is None:
        known = known_layout(start.lines[:2], chosen) if dialect.columns is None else None
        with opened() as text:
            text.fallback = known.fallback if known is not None else None
            found = table_of(layout_of(text, dialect, usual, chosen, tell, part))
    if found.counts_users and part.table.first not in ("", part.file):
        raise InputValueError(
            f"users are the numbers of lines, and those of {part.table.first} are others:",
            "read the files one by one, or write the user on each line",
        )
    part.table.check(part.file, {**found.columns, **found.keyed})
    _note(found, dialect)
    return found


def _note(found: Format, dialect: Dialect) -> None:
    """Note what is read of a text, where nobody has said so."""
    if found.separator:
        note(f"fields are separated by {found.separator!r}")
    if dialect.encoding is not None:
        note(f"encoding {dialect.encoding}")
    if not is_noted("columns read: "):
        columns = {**found.columns, **found.keyed}
        note("columns read: " + ", ".join(f"{role} {name!r}" for role, name in columns.items()))
