"""Layout of delimited text: rows with line numbers, the header, and the roles of columns."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from mfrank.arrays import check_choice, counted, shown
from mfrank.data.columns import (
    MARK,
    NOT_READ,
    ROLES,
    BadRow,
    Chosen,
    assign,
    guess,
    has_marks,
    ignored_roles,
    marks_among,
    tell_columns,
)
from mfrank.data.fields import NUMBER, Fields
from mfrank.data.known_layouts import KnownLayout, known_layout
from mfrank.data.table_parts import NoRowsError, TablePart
from mfrank.data.text_bytes import check_encoding
from mfrank.data.text_heads import Head
from mfrank.data.text_rows import AS_USUAL, DOUBLE_COLON, Quotes, Tell, check_quote, rows
from mfrank.data.time_units import unit_of
from mfrank.data.times import hold_dates, is_date
from mfrank.errors import InputTypeError, InputValueError

Lines = Literal["rows", "lists", "baskets", "libfm", "libsvm"]
"""What a line is: one interaction, a user and their items, items alone, or numbers by features."""

IF_LISTS = (
    "if each line is a user and their items, `lines='lists'`; if it is items alone, "
    "`lines='baskets'`"
)
NEXT_USERS = "`lines='baskets'` takes it as items alone, and `lines='rows'` as one interaction"

_AS_COLUMNS = "name the columns in order with `columns=`, such as user, item, value, -"

_FOREIGN: Mapping[str, tuple[str, str]] = {
    r"\(.*\)\s*$|\[.*\]\s*$": (
        "tuples or lists of Python",
        "remove their brackets, such as by sed 's/^[[(]//; s/[])]$//' FILE > new.txt",
    ),
    r"[A-Za-z]\w*\([^()]+,[^()]*\)\s*$": (
        "rows as Spark prints them",
        "write them as a table, such as by rdd.toDF().write.csv(FOLDER, header=True)",
    ),
}
"""First lines of files that are no tables -> what they are, and the remedy."""

_MARKS = ("\t", ",", ";", "|", DOUBLE_COLON)


@dataclass(frozen=True)
class Dialect:
    """The format of a text file, as far as the caller knows it.

    Attributes
    ----------
    sep : str or None, default None
        Separator of fields: one character, or ``::``. None detects it.
    quote : "auto", None or str, default "auto"
        Quote character; see :class:`mfrank.data.text_rows.Quotes`.
    header : bool or None, default None
        Whether the first row names the columns. None detects it.
    columns : sequence of str or None, default None
        Names of all columns in order, instead of a header's; ``-`` ignores a column.
    encoding : str or None, default None
        None recognizes UTF-16 and UTF-32, and takes all else as UTF-8.
    comment : str or None, default None
        What lines begin with that are skipped anywhere. None skips comments above all rows.
    lines : "rows", "lists", "baskets", "libfm", "libsvm" or None, default None
        What a line is, where the first lines do not show it.
    """

    sep: str | None = None
    quote: str | None = AS_USUAL
    header: bool | None = None
    columns: Sequence[str] | None = None
    encoding: str | None = None
    comment: str | None = None
    lines: Lines | None = None

    def check(self) -> None:
        """Raise ValueError or TypeError for invalid fields."""
        sep, columns = self.sep, self.columns
        if self.lines is not None:
            check_choice("lines", self.lines, get_args(Lines))
        one = isinstance(sep, str) and len(sep) == 1 and sep not in '"\r\n\0'
        if not (sep is None or one or sep == DOUBLE_COLON):
            raise InputValueError(
                f"`sep` must be one character, such as ';' or '\\t', or '::', got {shown(sep)}"
            )
        check_quote(self.quote, sep)
        check_encoding(self.encoding)
        comment = self.comment
        if not (comment is None or (isinstance(comment, str) and comment.strip() == comment != "")):
            raise InputValueError(
                f"`comment` must be what comments begin with, such as '#', got {shown(comment)}"
            )
        if not (self.header is None or isinstance(self.header, bool)):
            raise InputTypeError(f"`header` must be True, False or None, got {shown(self.header)}")
        if columns is None:
            return
        if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
            raise InputTypeError(
                "`columns` must be a list of names such as ['user', 'item', '-'], got "
                f"{shown(columns)}"
            )
        named = [name for name in columns if name != NOT_READ]
        if len(set(named)) < len(named):
            raise InputValueError(f"`columns` must differ in name, got {list(columns)}")


@dataclass(frozen=True)
class Layout:
    """How to read a file.

    Attributes
    ----------
    separator : str
    quote : "auto", None or str
    width : int
        Number of fields in a row.
    names : sequence of str
        Names of the columns; empty if they have none.
    has_header : bool
        Whether the first row is a header.
    first_line : int
        The line after the header, from 1.
    n_above : int
        Lines above the header and the rows, such as comments.
    comment : str or None
        What comments among the rows begin with.
    known : KnownLayout or None
    tabs_are_blanks : bool
        Whether fields are separated by both.
    fields : mapping of role -> field
        Fields are counted from 0.
    is_guess : bool
        Whether roles come only from the order of the columns.
    keyed : mapping of role -> key
        Roles whose column is a key of the file's folders.
    """

    separator: str
    quote: str | None
    width: int
    names: Sequence[str]
    has_header: bool
    first_line: int
    fields: Mapping[str, int]
    is_guess: bool
    n_above: int = 0
    comment: str | None = None
    keyed: Mapping[str, str] = field(default_factory=dict)
    known: KnownLayout | None = None
    tabs_are_blanks: bool = False

    def repeats_header(self, row: Sequence[str]) -> bool:
        """Whether a row repeats the header, possibly after a byte order mark."""
        if not self.has_header or self.names[-1] not in row[len(self.names) - 1]:  # almost never
            return False
        found = [field.strip().lstrip("\ufeff") for field in row[: len(self.names)]]
        return found == list(self.names)

    def column(self, role: str) -> str | int:
        """Name of the role's column, or its number from 1 if it has none."""
        field = self.fields[role]
        return self.names[field] if self.names else field + 1


def layout_of(
    text: Iterable[str],
    dialect: Dialect,
    usual: str | None,
    chosen: Chosen,
    tell: Tell,
    part: TablePart | None = None,
) -> Layout:
    """Detect the layout of a file from its first two rows, and log the roles of its columns.

    Parameters
    ----------
    text : iterable of lines
    dialect : Dialect
    usual : str or None
        The usual separator in files of this suffix, or None.
    chosen : mapping of role -> column, None or False
        Name of the column, or its number from 1.
    tell : callable
    part : TablePart, optional
        The file as a part of a table, whose first file also tells separator and header.
    """
    part, lines = part or TablePart(), iter(text)
    head = Head.of(lines, dialect.comment)
    if head.tabs_are_blanks:
        lines = (line.replace("\t", " ") for line in lines)
        head = head._replace(start=[line.replace("\t", " ") for line in head.start])
    first = next(filter(str.strip, (*head.above, *head.start)), "")
    _refuse_foreign(first, dialect)
    head.refuse_rulers()
    start = head.start or list(head.above)
    separator = dialect.sep or head.separator or part.table.separator
    known = known_layout(start, chosen, separator) if dialect.columns is None else None
    quote = dialect.quote
    if known is not None and known.fields:
        separator = known.separator
        quote = None if separator == "\t" and quote == AS_USUAL else quote
    separator = separator or _separator_of(start, usual, quote)

    def divided(line: str) -> list[str]:
        return next(iter(_split([line], separator, quote)), [])

    n_above, above = head.settled(divided, chosen, dialect.header, dialect.comment, tell)
    start = [*head.above[n_above:], *head.start]
    n_read, found, first_line = n_above, list[list[str]](), n_above + 1

    def counted_lines() -> Iterator[str]:
        nonlocal n_read
        for n_read, line in enumerate(itertools.chain(start, lines), n_above + 1):  # noqa: B007
            yield line

    for _, row in rows(counted_lines(), separator, Quotes(separator, quote)):
        found.append([field.strip() for field in row])
        if len(found) == 2:
            break
        first_line = n_read + 1
    if above:
        found, first_line = [list(above), *found][:2], n_above + 1
    if not found:
        raise NoRowsError("the file is empty")
    own = {role: column for role, column in chosen.items() if column not in part.keys}
    names: Sequence[str] = ()
    if known is not None and known.fields and not dialect.header:
        has_header, names = False, known.names
    elif above:
        has_header = True
    elif dialect.columns is None and not dialect.header and part.table.has_none_of(found[0]):
        has_header, names = _looks_headed(found), part.table.names
    else:
        has_header = _has_header(found, dialect, own)
    names = found[0] if has_header else names
    known = known if bool(names) and (has_header or (known and known.fields)) else None
    if dialect.columns is not None:
        names = dialect.columns
        if len(names) != len(found[0]):
            raise InputValueError(
                f"`columns=` names {counted(len(names), 'column')}, and the first row has "
                f"{counted(len(found[0]), 'field')} separated by {separator!r}",
                "write - for each that is ignored",
            )
    width = len(found[0])
    is_named = bool(names) or _are_named(own)
    labels: list[Hashable] = [*names] if names else [*range(1, width + 1)]
    if is_named:
        first_rows = found[1:] if has_header else found
        roles = _named(labels, bool(names), part, chosen, dialect, tell, first_rows, known)
    else:
        roles = _in_order(found, separator, part, dialect, chosen, tell)
    if not part.table.separator:
        part.table.names = [*names] if dialect.columns is None else ()
        part.table.separator = separator
    keyed = part.keyed(labels, roles)
    fields = {role: labels.index(name) for role, name in roles.items() if role not in keyed}
    if names and is_named:  # last, as they may be empty
        marks = enumerate(marks_among(labels, roles))
        fields |= {f"{MARK} {number}": labels.index(name) for number, name in marks}
    is_guess = not is_named and dialect.header is None
    first_line = first_line if has_header else n_above + 1
    how = separator, quote, width, names, has_header, first_line
    mixed = head.tabs_are_blanks
    return Layout(*how, fields, is_guess, n_above, dialect.comment, keyed, known, mixed)


def _refuse_foreign(first: str, dialect: Dialect) -> None:
    """Raise ValueError if the first line shows that the file is no table."""
    for start, (what, remedy) in _FOREIGN.items() if dialect.columns is None else ():
        if re.match(start, first):
            raise InputValueError(f"{first.strip()[:60]!r} begins {what}:", remedy).within("line 1")


def _named(
    names: list[Hashable],
    are_names: bool,
    part: TablePart,
    chosen: Chosen,
    dialect: Dialect,
    tell: Tell,
    first_rows: Sequence[Sequence[str]],
    known: KnownLayout | None = None,
) -> dict[str, Hashable]:
    """Role -> label of columns that have names, or are chosen by their numbers."""
    labels, asked = part.names(names, chosen), chosen
    if known is not None:
        chosen = known.chosen(chosen)
        note = f": {known.note}" * bool(known.note)
        tell(logging.INFO, f"recognized as {known.name}{note}")
    by_name = {
        role: column if column in part.keys else _label(role, column, names, are_names)
        for role, column in chosen.items()
    }
    try:
        roles = assign(labels, by_name)
    except InputValueError as error:
        if dialect.header is None and dialect.columns is None and not _are_named(chosen):
            problem, remedy = error.args
            unnamed = "or, if the first row is no header, `header=False`"
            remedies = f"{remedy}; {unnamed}" if remedy else unnamed
            raise InputValueError(problem, remedies) from None
        raise
    by_wish = {r: column if asked[r] is not None else None for r, column in by_name.items()}
    if known is not None and "value" in known.roles and "event" not in known.roles:
        by_wish["value"] = roles.get("value")

    def has_dates(name: Hashable) -> bool:
        if name not in names:
            return part.key_has_dates(name)
        at = names.index(name)
        return hold_dates(row[at] for row in first_rows if at < len(row))

    def marks_rows(name: str) -> bool:  # of columns, rows_of tells it later
        return name not in names and part.key_marks_rows(name)

    tell_columns(part.all_names(names), roles, by_wish, tell, marks_rows, has_dates)
    return roles


def _label(role: str, column: Hashable, labels: Sequence[Hashable], have_names: bool) -> Hashable:
    """The label of a chosen column, which may be given by its number from 1."""
    if column is None or isinstance(column, bool):
        return column
    if isinstance(column, str) and not have_names:
        if not column.isdecimal():
            raise InputValueError(
                f"`{role}={column!r}` names a column, and without a header columns have none:",
                "give its number from 1, or name all with `columns=`",
            )
        column = int(column)
    if isinstance(column, int):
        if not 1 <= column <= len(labels):
            raise InputValueError(
                f"`{role}={column}`: there are {counted(len(labels), 'column')}, numbered from 1"
            )
        return labels[column - 1]
    marked = [label for label in labels if str(label).lstrip("#% ") == column]  # as in a comment
    return marked[0] if marked and column not in labels else column


def _in_order(
    found: Sequence[Sequence[str]],
    separator: str,
    part: TablePart,
    dialect: Dialect,
    chosen: Chosen,
    tell: Tell,
) -> dict[str, Hashable]:
    """Role -> number of columns without names: user, item, value, timestamp; or key."""
    width = len(found[0])
    keys = part.names((), chosen)
    wanted = {role: [chosen[role]] if chosen[role] else guess(keys, role) for role in chosen}
    keyed = {role: columns[0] for role, columns in wanted.items() if columns and columns[0] in keys}
    in_order = [role for role in ROLES if role not in keyed]
    least = len({"user", "item"}.difference(keyed))
    if not least <= width <= len(in_order):
        unequal = f"; {IF_LISTS}" if len({len(row) for row in found}) > 1 and width > 1 else ""
        raise InputValueError(
            f"no header, and {counted(width, 'column')} separated by {separator!r}, whose roles "
            "are unknown",
            f"{_AS_COLUMNS}; or name the separator with `sep=`, or add a header{unequal}",
        )
    ignored, roles = ignored_roles(chosen), in_order[:width]
    fields = {role: field for field, role in enumerate(roles) if role not in ignored}
    doubt = _of_another_order(found, fields)
    level = logging.WARNING if doubt else logging.INFO
    if dialect.header is None and not any(map(NUMBER.fullmatch, found[0])):
        level = logging.WARNING
        doubt = f"; the first row is {list(found[0])}: if it is a header, pass `header=True`"
    elif dialect.header is None and found[0] == [*map(str, range(width))]:
        level = logging.WARNING
        doubt = f"; the first row is {list(found[0])}: if these are names, pass `header=True`"
    taken = ", ".join(roles) + "".join(f", {role} of {key}=" for role, key in keyed.items())
    tell(level, f"no header found; columns taken as {taken} (`columns=` names others){doubt}")
    return {**{role: field + 1 for role, field in fields.items()}, **keyed}


def _of_another_order(found: Sequence[Sequence[str]], fields: Mapping[str, int]) -> str:
    """What may be wrong with roles that are given by order, by the first rows; "" if nothing is.

    Raises
    ------
    ValueError
        A field cannot be what its role says.
    """
    doubt = ""
    columns = {role: [row[at] for row in found if at < len(row)] for role, at in fields.items()}
    times = {role: all(map(_is_moment, column)) for role, column in columns.items()}
    for role, column in columns.items():
        if role == "value":
            odd = not any(_is_value(field) or has_marks(field) for field in column)
        elif role == "timestamp":
            odd = not any(any(map(str.isdigit, field)) for field in column)  # a date, in its way
        else:
            odd = any(map(is_date, column)) or any(map(_is_broken, column))
            if times[role] and not times.get("timestamp") and not doubt:
                doubt = f"; the {role} {column[0]} looks like a time: {_AS_COLUMNS}"
        if odd and all(column):
            raise InputValueError(
                f"no header, and column {fields[role] + 1} would be the {role}, which "
                f"{column[0]!r} does not look like",
                f"{_AS_COLUMNS}; if the first row has names, `header=True`",
            )
    return doubt


def _is_value(field: str) -> bool:
    try:
        Fields.of([field]).values()
    except BadRow:
        return False
    return True


def _is_broken(field: str) -> bool:
    """Whether it is a number with a fraction, which is no id."""
    return _is_number(field) and not float(field).is_integer()


def _is_moment(field: str) -> bool:
    return _is_number(field) and unit_of(float(field)) == "s"


def _is_number(field: str) -> bool:
    return NUMBER.fullmatch(field) is not None


def _separator_of(start: Sequence[str], usual: str | None, quote: str | None) -> str:
    """The mark that splits the first two lines into equally many fields, and into most.

    Marks that split off a column name that is known go first, above all the usual one.
    """
    marks = [usual, *_MARKS] if usual else [*_MARKS, " "]
    best, most = None, (False, 1)
    for mark in marks:
        fields = _split(start, mark, quote)
        known = any(guess(row, role) for row in fields[:1] for role in ROLES)
        known = known and (mark != " " or best is None)  # a title has words such as Film
        if known and mark == usual:
            return mark
        widths = {len(row) for row in fields}
        if len(widths) == 1 and (known, widths.pop()) > most:
            best, most = mark, (known, len(fields[0]))
    if best == ",":  # 1;2;1,234,567 has as many commas as semicolons
        best = next((mark for mark in _MARKS if _leaves_numbers(start, mark, quote)), best)
    if best is None and quote is not None:
        return _separator_of(start, usual, None)
    return best or usual or next((mark for mark in marks if mark in "".join(start)), " ")


def _leaves_numbers(start: Sequence[str], mark: str, quote: str | None) -> bool:
    """Whether a mark splits lines alike, and all commas are within numbers after both ids."""
    fields = _split(start, mark, quote)
    widths = {len(row) for row in fields}
    if mark == "," or len(widths) != 1 or widths.pop() < 3:
        return False
    numbers = (field for row in fields for field in row if "," in field)
    return all(map(has_marks, numbers)) and not any("," in "".join(row[:2]) for row in fields)


def _split(start: Sequence[str], mark: str, quote: str | None) -> list[list[str]]:
    """The rows, less empty fields at their ends; none if a quote is closed in a later line."""
    try:
        found = [row for _, row in rows(start, mark, Quotes(mark, quote))]
    except ValueError:
        return []
    for row in found:
        while row and not row[-1]:
            row.pop()
    return found


def _has_header(found: Sequence[Sequence[str]], dialect: Dialect, chosen: Chosen) -> bool:
    """Whether the first row is a header."""
    if dialect.header is not None:
        return dialect.header
    first = ", ".join(map(repr, found[0][:6]))
    known = any(guess(found[0], role) for role in ROLES)
    is_number = [[bool(NUMBER.fullmatch(field)) for field in row] for row in found]
    of_words = not any(is_number[0]) and any(itertools.chain(*is_number[1:]))
    if dialect.columns is not None:
        if known or of_words:
            raise InputValueError(
                f"the first row looks like a header: {first}",
                "pass `header=True` if it is one, or `header=False` if it is data",
            )
        return False
    for role, column in chosen.items():
        if isinstance(column, str) and column.isdecimal():
            raise InputValueError(
                f"`{role}={column!r}` may be the name of a column or its number:",
                "pass `header=True` if the first row has the names, or `header=False` if it is "
                "data",
            )
    if any(isinstance(column, str) for column in chosen.values()):
        return True
    if known and any(is_number[0]) and len(found[0]) <= len(ROLES):
        raise InputValueError(
            f"the first row may be a header or data: {first}",
            "pass `header=True` or `header=False`",
        )
    return known or of_words


def _looks_headed(found: Sequence[Sequence[str]]) -> bool:
    """Whether the first row looks like names, of which none is known."""
    numbers = [any(map(NUMBER.fullmatch, row)) for row in found]
    return not numbers[0] and (any(numbers[1:]) or any(guess(found[0], role) for role in ROLES))


def _are_named(chosen: Chosen) -> bool:
    return any(column is not None and column is not False for column in chosen.values())
