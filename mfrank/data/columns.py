"""Roles of columns: which is the user, the item, the value and the timestamp."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal
from unicodedata import normalize

import numpy as np

from mfrank.arrays import shown
from mfrank.data.notes import note, note_event, note_ignored, note_where
from mfrank.errors import InputValueError

NOT_READ = "-"
"""Name that stands for a column to be ignored."""

ROLES = ("user", "item", "value", "timestamp")
"""The roles of columns, in their order in a file without a header."""

WHERE = "where"
"""The beginning of the roles of columns by which rows are chosen; any column may have them, too."""

MARK = f"{WHERE} mark"
"""The beginning of the roles of columns that may mark rows which are not meant."""

Chosen = Mapping[str, Hashable | Literal[False] | None]
"""Role -> name of its column, None to recognize it by name, or False to ignore it."""

_NAMES: Mapping[str, str] = {
    "user": "user uid visitor customer client member account person reader viewer listener "
    "fromnode",
    "item": "item iid product sku asin movie film show video track song artist album book isbn "
    "article news document doc page content game business venue poi recipe tonode",
    "value": "rating value count plays playcount weight score strength confidence quantity "
    "clicks views listens purchases preference stars",
    "timestamp": "timestamp time date datetime ts unixtime unixtimestamp unixreviewtime createdat",
    "event": "event eventtype eventname action actiontype behavior behaviour behaviortype type "
    "interaction interactiontype activity",
}

_RARER_NAMES: Mapping[str, str] = {
    "user": "reviewer username session",
    "item": "parentasin",
    "value": "overall starrating bookrating userrating reviewrating",
    "timestamp": "eventtime when",
}
"""Names that count if no column has one of the others."""

_TYPE = re.compile(r":(?:token|float)(?:_seq)?$")  # in the headers of RecBole
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MEANS = {"avg", "average", "mean"}  # of an item, not of an interaction
_LIKE: Mapping[str, str] = {
    "value": "rating ratings rate score scores star stars overall count counts playcount plays "
    "listens views clicks click clicked label target like liked feedback response bought purchased "
    "purchases quantity qty amount strength weight preference confidence duration spent dwell "
    "hours minutes seconds played ratio clk cnt freq frequency occurrences watched viewed "
    "listened progress completion percent percentage",
    "timestamp": "time times date dates datetime timestamp ts dt when at day created updated added "
    "epoch unixtime",
    "event": "event events action behavior behaviour interaction activity type kind",
}
"""What a column may hold -> words of names that look like it."""
_ABROAD: Mapping[str, str] = {
    "value": "bewertung wertung sterne anzahl menge häufigkeit dauer quantité durée "
    "puntuación calificación valoración cantidad nota quantidade avaliação voto valutazione "
    "quantità ocena оценка рейтинг количество 評価 評点 数量 回数 评分 評分 次数 평점 수량",
    "timestamp": "datum zeit zeitpunkt zeitstempel horodatage fecha дата время 日付 日時 日期 时间",
}
"""Whole names in other languages, as spreadsheets have them."""
_OF_ONE_SIDE = {"birth", "birthday", "birthdate", "dob", "born", "release", "released"}
_OF_ONE_SIDE |= {"releasedate", "publication", "published", "expiry", "expires", "expiration"}
_OF_ONE_SIDE |= {"signup", "registration", "registered"}
"""Words of names of dates that a user or an item has, not what a user did with an item."""
_COUNTED = {"0", "n", "nb", "len", "size", "sum", "total"}
"""Names that pandas, polars and R give to counts."""
_COUNTED |= {"f0_", "_c2", "_col2", "expr$2", "?column?", "(no column name)"}
"""Those of BigQuery, Hive, Athena, Calcite, PostgreSQL and SQL Server, where a query gives none."""
_OF_GROUPS = re.compile(r"(?:sum|total|count\w*|avg|mean|median|min|max)\s*\((.*)\)", re.IGNORECASE)
"""What databases call a function of the rows of a user and an item where a query names none."""
_SPLITS = {"split", "splits", "fold", "folds", "subset", "partition", "train", "test", "holdout"}
_UNCOUNTED = {"deleted", "removed", "void", "voided", "cancelled", "canceled", "returned"}
_UNCOUNTED |= {"refund", "refunds", "refunded", "bot", "spam", "fraud", "fraudulent"}
"""Words of names of columns whose rows, if they say so, are not meant."""
_NO = {"", "0", "0.0", "false", "no", "n", "f", "none", "null", "nan", "nat", "<na>", "\\n"}
"""Values of such columns of a row that is meant."""
_TESTERS = {"user", "users", "account", "accounts", "customer", "customers", "traffic"}
_LEAST_IS_BEST = {"rank", "ranking", "position", "place", "distance"}
"""Last words of names of columns in which less is more."""
_JOINED = re.compile(
    r"(?P<value>(?:play|watch|listen|view|read|dwell)time|(?<!dis)(?<!ac)count)$"
    r"|(?P<timestamp>timestamp|(?<!up)(?<!candi)date|(?<!run)(?<!life)time)$"
)
"""Ends of words that are written as one: ``playtime``, ``orderdate``, ``createtime``."""
_PARTS = {"day", "month", "year", "hour", "minute", "second", "week", "weekday", "dow"}
_SHOWN = 6  # ignored columns that are named

_MARKED = re.compile(
    r"[+-]?(?:[0-9]{1,3}(?P<mark>[.,'\u2019 \xa0\u202f])[0-9]{3}(?:(?P=mark)[0-9]{3})*"
    r"(?P<decimal>[.,][0-9]+)?|[0-9]+(?P<comma>,)[0-9]+)"
)

_REMEDIES: Mapping[str, str] = {
    "user": "give it an id, or drop the row",
    "item": "give it an id, or drop the row",
    "value": "write a number, name a column of times with `timestamp=`, or ignore the column "
    "with `value=False`",
    "timestamp": "write dates as 2024-12-31, or ignore the column with `timestamp=False`",
    "event": "give it a kind, or drop the row",
    WHERE: "write text or a number",
}


class BadRow(InputValueError):
    """An invalid value in one row; ``row`` counts from 0."""

    def __init__(self, what: str, row: int) -> None:
        super().__init__(f"{what} in row {row}", place=f"row {row}")
        self.what, self.row = what, row


def in_column(
    what: str, role: str, column: Hashable, field: object = "", place: str = ""
) -> InputValueError:
    """An error with the column and the remedy for its role, or for the field itself."""
    remedy = _without_marks(str(field)) or _REMEDIES[role.split()[0]]
    return InputValueError(f"{what} in column {column!r}", remedy, place=place)


def has_marks(field: str) -> bool:
    """Whether it is a number with marks between thousands or a decimal comma: 1.234,5 or 3,5."""
    return _MARKED.fullmatch(field.strip()) is not None


def _without_marks(field: str) -> str:
    """The remedy for a number with marks, by its marks; "" if it is none."""
    if not (found := _MARKED.fullmatch(field.strip())):
        return ""
    how = [f"thousands={found['mark']!r}"] if found["mark"] else []
    if "," in (found["decimal"] or found["comma"] or ""):
        how.append("decimal=','")
    either = " (or decimal=',')" if how == ["thousands=','"] and field.count(",") == 1 else ""
    return (
        "write numbers with a point before decimals and no mark between thousands; in Python, pass "
        "`Interactions.from_frame` what "
        f"`pandas.read_csv(FILE, sep=..., {', '.join(how)})`{either} reads"
    )


def guess(columns: Sequence[Hashable], role: str) -> list[Hashable]:
    """Columns whose names fit ``role``.

    Case, punctuation and a final "id" do not matter: ``userId``, ``USER_ID`` and ``user`` are the
    same. Names such as ``click_timestamp`` are timestamps if no other column is. Rarer names, such
    as ``overall``, come last.
    """
    named = _having(_NAMES[role], columns)
    if role == "timestamp" and not named:
        # A header whose separator has not been found yet is no name.
        single = [column for column in columns if re.fullmatch(r"[\w.-]+(?::\w+)?", str(column))]
        named = [c for c in single if any(name.endswith("timestamp") for name in _spellings(c))]
    return named or _having(_RARER_NAMES.get(role, ""), columns)


def header_names(side: str) -> Iterator[str]:
    """How tables write the names of their columns of users or items."""
    for name in _NAMES[side].split():
        for end in ("", "id", "_id", " id"):
            lower = f"{name}{end}"
            yield from (lower, lower.upper(), lower.capitalize(), lower.title())
        for first in (name, name.capitalize()):
            yield from (f"{first}Id", f"{first}ID", f"{first} ID", f"{first}_ID")


def id_columns(names: Sequence[Hashable], side: str) -> list[Hashable]:
    """The columns that look like the ids of the "user"s or "item"s, in a table of these.

    Where one is called so, such as ``item`` or ``item_id``, others that look like it do not count;
    ``id`` counts where there is no other.
    """
    found = guess(names, side)
    own = [name for name in found if str(name).lower().replace("_", "") in (side, f"{side}id")]
    return own or found or [name for name in names if str(name).strip().lower() == "id"]


def _having(names: str, columns: Sequence[Hashable]) -> list[Hashable]:
    wanted = set(names.split())
    return [column for column in columns if not wanted.isdisjoint(_spellings(column))]


def assign(columns: Sequence[Hashable], chosen: Chosen) -> dict[str, Hashable]:
    """Role -> column: the chosen columns; for other roles, columns recognized by name.

    Parameters
    ----------
    columns : sequence
        Names of all columns.
    chosen : mapping of role -> column, None or False
        None recognizes the column by :func:`guess`. False ignores a value or timestamp. With
        ``event``, the values are weights of events, and a column of values is read only if chosen.

    Raises
    ------
    ValueError
        If

        - a chosen column is missing, repeated, or chosen for two roles;
        - the user or the item is False, or no column is recognized for it;
        - several columns are recognized for one role.
    """
    ignored = ignored_roles(chosen)
    chooses = {role: column for role, column in chosen.items() if role.startswith(WHERE)}
    taken = [
        column
        for role, column in chosen.items()
        if column is not None and role not in ignored and role not in chooses
    ]
    for column in (*taken, *chooses.values()):
        if columns.count(column) != 1 or taken.count(column) > 1:
            raise InputValueError(
                f"column {shown(column)} must exist once, and have one role",
                _listing(columns),
                place=f"column {shown(column)}",
            )
    free = [column for column in columns if column not in taken]
    has_events = "event" in chosen
    if has_events and chosen.get("value") is None:  # the events have weights
        ignored.add("value")
    needed = {"user", "item", "event"}
    roles: dict[str, Hashable] = {}
    for role in (*ROLES, "event") if has_events else ROLES:
        if role in ignored:
            continue
        column = chosen.get(role)
        candidates = [column] if column is not None else guess(free, role)
        if len(candidates) > 1:
            found = ", ".join(map(repr, candidates))
            none = "" if role in needed else f", or none with `{role}=False`"
            raise InputValueError(
                f"several columns may be the {role}: {found}", f"name one with `{role}=`{none}"
            )
        if not candidates and role in needed:
            raise InputValueError(
                f"no column looks like the {role}:", f"name it with `{role}=`; {_listing(columns)}"
            )
        if candidates:
            roles[role] = candidates[0]
    return roles | chooses


def tell_columns(
    names: Sequence[Hashable],
    roles: Mapping[str, Hashable],
    chosen: Chosen,
    tell: Callable[[int, str], None],
    marks_rows: Callable[[str], bool] | None = None,
    has_dates: Callable[[Any], bool] = lambda name: False,
) -> None:
    """Log the role of each column and the ignored columns; warn if one of these may be needed.

    Nothing is logged if all columns are read and have the names of their roles.

    Parameters
    ----------
    names : sequence
        Names of all columns.
    roles : mapping of role -> column
        The columns to read.
    chosen : mapping of role -> column, None or False
        No warning is logged for the roles that are chosen or ignored.
    tell : callable
        Called with a level of :mod:`logging` and one line.
    marks_rows : callable, optional
        Whether a column, such as ``is_deleted``, marks a row; by default, it may.
    has_dates : callable, optional
        Whether the first values of a column are dates, whatever its name is.
    """
    taken = set(roles.values())
    of_rows = {name for role, name in roles.items() if role != "value"}
    for name in names:
        if name not in of_rows and name != NOT_READ and chooses_kinds(name):
            note_where(name, None)
    if "event" in roles:
        note_event(roles["event"])
    free = [name for name in names if name not in taken and name != NOT_READ]
    if "timestamp" in roles and chosen.get("timestamp") is None:
        note_ignored(free)
    said = ["columns read: " + ", ".join(f"{role} {name!r}" for role, name in roles.items())]
    if not free and all(role in _spellings(name) for role, name in roles.items()):
        note(said[0])
        return
    if "event" in roles:
        said[0] += ", whose weights " + ("multiply" if "value" in roles else "are") + " the values"
    elif "value" not in roles and chosen.get("value") is None:
        said[0] += ", and no values: each row counts 1"
    if free:
        more = f" and {len(free) - _SHOWN:,} more" * (len(free) > _SHOWN)
        said.append("ignored: " + ", ".join(map(repr, free[:_SHOWN])) + more)
    parts = [name for name in free if isinstance(name, str) and _words(name) & _PARTS]
    whole = [name for name in free if name not in parts] if _make_a_time(parts) else free
    doubts = [doubt for name in whole if (doubt := _doubt(name, roles, chosen, has_dates))]
    marks = (name for name in marks_among(names, roles) if marks_rows is None or marks_rows(name))
    doubts += map(looks_like_a_mark, marks)
    if _is_least_best(roles.get("value")):
        doubts.append(
            f"larger values count more: if the least of {roles['value']!r} is the best, turn it "
            "around, as by 1 / x"
        )
    if len(whole) < len(free) and "timestamp" not in roles and chosen.get("timestamp") is None:
        listed = ", ".join(map(repr, parts[:_SHOWN]))
        doubts.append(f"{listed} look like parts of a time: make one column of them to use it")
    tell(logging.WARNING if doubts else logging.INFO, "; ".join(said + doubts[:_SHOWN]))


def chooses_kinds(name: Hashable) -> bool:
    """Whether rows chosen by a column are of a kind, which later data should share.

    Later data are of other times, of other users and items, or of another part of a split.
    """
    if any(guess([name], role) for role in ("user", "item", "timestamp")):
        return False
    return not _words(str(name)) & {*_PARTS, *_SPLITS, *_LIKE["timestamp"].split()}


def has_kinds(name: Hashable) -> bool:
    """Whether a column has kinds of events, by its name."""
    return bool(guess([name], "event") or _words(str(name)) & {*_LIKE["event"].split()})


def marks_among(names: Sequence[Hashable], roles: Mapping[str, Hashable]) -> list[str]:
    """Columns without a role whose names are those of marks of rows that are not meant."""
    free = [name for name in names if isinstance(name, str) and name not in {*roles.values()}]
    return [name for name in free if _may_mark(_words(name))]


def _may_mark(words: set[str]) -> bool:
    is_mark = bool(words & _UNCOUNTED or ("test" in words and words & _TESTERS))
    return is_mark and not words & {"id", *_MEANS}


def looks_like_a_mark(name: str) -> str:
    """The warning of a column that marks rows."""
    return (
        f"{name!r} looks like a mark of rows that are not meant, and all are read: if so, drop "
        "these, or keep the others by `where`"
    )


def has_marks_of_rows(values: Any) -> bool:
    """Whether one of these values is a mark: anything but 0, false, no, and a missing one."""
    column = np.asarray(values)
    if column.dtype.kind in "biuf":
        return bool(((column != 0) & (column == column)).any())
    if column.dtype.kind in "mM":
        return not bool(np.isnat(column).all())
    return any(one.strip().casefold() not in _NO for one in set(map(str, column.tolist())))


def _is_least_best(name: Hashable) -> bool:
    """Whether less of a value is more, by the last word of its name; not that of a page rank."""
    words = [word.lower() for word in _WORD.findall(str(name))]
    return bool(words) and words[-1] in _LEAST_IS_BEST and "page" not in words


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(_TYPE.sub("", name))}


def _make_a_time(names: Sequence[str]) -> bool:
    """Whether together they have several parts of a time, such as a day and a month."""
    return len(set[str]().union(*map(_words, names)) & _PARTS) > 1


def _doubt(
    name: Hashable,
    roles: Mapping[str, Hashable],
    chosen: Chosen,
    has_dates: Callable[[Any], bool],
) -> str:
    """Why an ignored column may be meant, and how it is read; "" if it hardly is."""
    by_name = _doubt_of_name(name, roles, chosen)
    has_times = "timestamp" in roles or chosen.get("timestamp") is not None
    words = _words(name) if isinstance(name, str) else set[str]()
    is_other = _may_mark(words) or bool(words & _OF_ONE_SIDE)
    if by_name or has_times or is_other or not has_dates(name):
        return by_name
    return f"{name!r} has dates: `timestamp={name!r}` reads them"


def _doubt_of_name(name: Hashable, roles: Mapping[str, Hashable], chosen: Chosen) -> str:
    may_be_value = chosen.get("value") is None
    is_named = isinstance(roles.get("user"), str)  # unlike 0 beside 1 and 2
    if may_be_value and is_named and "value" not in roles and str(name).casefold() in _COUNTED:
        return f"{name!r} looks like a count: `value={name!r}` reads it"
    if not isinstance(name, str):
        return ""
    words = _words(name)
    if (of_group := _OF_GROUPS.fullmatch(name)) and is_named and may_be_value:
        is_time = bool(_words(of_group[1]) & {*_LIKE["timestamp"].split()})
        role, what = ("timestamp", "a time") if is_time else ("value", "a value")
        is_free = role not in roles and chosen.get(role) is None
        return f"{name!r} looks like {what}: `{role}={name!r}` reads it" if is_free else ""
    if words & {"id", *_MEANS} or _may_mark(words):
        return ""
    if words & _SPLITS:
        return (
            f"{name!r} looks like the parts of a split, all of which are read: keep one, as in "
            f"`where={{{name!r}: 'train'}}`"
        )
    joined = {match.lastgroup for word in words if (match := _JOINED.search(word))}
    joined |= {what for what, names in _ABROAD.items() if _bare(name) in map(_bare, names.split())}
    value, time, event = (words & {*_LIKE[what].split()} or joined & {what} for what in _LIKE)
    if value and may_be_value and not words & {"at", "date", "timestamp"}:
        instead = f" in place of {roles['value']!r}" if "value" in roles else ""
        return f"{name!r} looks like a value: `value={name!r}` reads it{instead}"
    is_of_both = not words & _OF_ONE_SIDE
    if time and is_of_both and "timestamp" not in roles and chosen.get("timestamp") is None:
        return f"{name!r} looks like a time: `timestamp={name!r}` reads it"
    if event and not time and may_be_value:
        return (
            f"{name!r} looks like kinds of events, which all count alike: keep the rows you mean, "
            f"as in `where={{{name!r}: 'purchase'}}`, say what each counts, as in "
            "`weights={'view': 1, 'purchase': 5}`, or name a column of weights with `value=`"
        )
    return ""


def ignored_roles(chosen: Chosen) -> set[str]:
    """The roles that are False; never the user or the item."""
    ignored = {role for role, column in chosen.items() if column is False}
    for role in ("user", "item"):
        if role in ignored:
            raise InputValueError(f"`{role}=False`: every interaction needs a user and an item")
    return ignored


def _bare(name: str) -> str:
    """Letters and digits alone, without accents and capitals."""
    return "".join(filter(str.isalnum, normalize("NFKD", name.casefold())))


def _spellings(column: Hashable) -> set[str]:
    if not isinstance(column, str):
        return set()
    name = "".join(letter for letter in _TYPE.sub("", column).casefold() if letter.isalnum())
    return {name, name.removesuffix("id")}


def _listing(columns: Sequence[Hashable]) -> str:
    return "columns: " + ", ".join(map(repr, columns))
