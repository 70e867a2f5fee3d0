"""Which format a text has, by its first lines; what is none of the others is a table."""

from __future__ import annotations

from collections.abc import Callable

from mfrank.data.columns import Chosen
from mfrank.data.fields import IdsAs
from mfrank.data.json_rows import json_format
from mfrank.data.layouts import Dialect, layout_of
from mfrank.data.records import Format, Start
from mfrank.data.table_parts import TablePart
from mfrank.data.text_blocks import table_of
from mfrank.data.text_files import Text
from mfrank.data.text_rows import Tell

Opened = Callable[[], Text]
"""Opens the text anew: it is read more than once."""

_RECORDS: tuple[Callable[[Start], Format | None], ...] = (json_format,)


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
    found = next(filter(None, (recognize(start) for recognize in _RECORDS)), None)
    if found is None:
        with opened() as text:
            found = table_of(layout_of(text, dialect, usual, chosen, tell, part))
    part.table.check(part.file, {**found.columns, **found.keyed})
    return found
