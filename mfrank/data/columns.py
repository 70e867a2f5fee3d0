"""Roles of columns: user, item, value, timestamp."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

from mfrank.arrays.checks import shown

__all__ = [
    "ROLES",
    "BadRow",
    "Chosen",
    "assign",
    "guess",
    "ignored_roles",
    "in_column",
]

ROLES = ("user", "item", "value", "timestamp")
"""The roles of columns, in their order in a file without a header."""

Chosen = Mapping[str, Hashable | Literal[False] | None]
"""Role -> name of its column, None to recognize it by name, or False to ignore it."""

_NAMES: Mapping[str, str] = {
    "user": "user uid visitor customer client member account person reader viewer listener",
    "item": "item iid product sku asin movie film show video track song artist album book isbn "
    "article news document doc page content game business venue poi recipe",
    "value": "rating value count plays playcount weight score strength confidence quantity "
    "clicks views listens purchases preference stars",
    "timestamp": "timestamp time date datetime ts unixtime unixtimestamp unixreviewtime createdat",
}

_REMEDIES: Mapping[str, str] = {
    "user": "give it an id, or drop the row",
    "item": "give it an id, or drop the row",
    "value": "write a number, name a column of times with timestamp=, or ignore the column with "
    "value=False",
    "timestamp": "write dates as 2024-12-31, or ignore the column with timestamp=False",
}


class BadRow(ValueError):
    """An invalid value in one row; ``row`` counts from 0."""

    def __init__(self, what: str, row: int) -> None:
        super().__init__(f"{what} in row {row}")
        self.what, self.row = what, row


def in_column(what: str, role: str, column: Hashable) -> str:
    """The text of an error, with the name of the column and the remedy for its role."""
    return f"{what} in column {column!r}; {_REMEDIES[role]}"


def guess(columns: Sequence[Hashable], role: str) -> list[Hashable]:
    """Columns whose names fit ``role``.

    Case, punctuation and a final "id" do not matter: ``userId``, ``USER_ID`` and ``user`` are the
    same. If no other column is a timestamp, the timestamp of something is one: ``click_timestamp``.
    """
    names = set(_NAMES[role].split())
    named = [column for column in columns if not names.isdisjoint(_spellings(column))]
    if role != "timestamp" or named:
        return named
    # A header whose separator has not been found yet is no name.
    single = [column for column in columns if re.fullmatch(r"[\w.-]+", str(column))]
    return [c for c in single if any(name.endswith("timestamp") for name in _spellings(c))]


def assign(columns: Sequence[Hashable], chosen: Chosen) -> dict[str, Hashable]:
    """Role -> column: the chosen columns, and for other roles columns recognized by name.

    Parameters
    ----------
    columns : sequence
        Names of all columns.
    chosen : mapping of role -> column, None or False
        For None the column is recognized by :func:`guess`. Values and timestamps are ignored if
        False.

    Raises
    ------
    ValueError
        If a chosen column is missing, repeated or chosen for two roles, no column is recognized as
        the user or the item, these are ignored, or several columns are recognized for one role.
    """
    ignored = ignored_roles(chosen)
    taken = [
        column for role, column in chosen.items() if column is not None and role not in ignored
    ]
    for column in taken:
        if columns.count(column) != 1 or taken.count(column) != 1:
            raise ValueError(
                f"column {shown(column)} must exist once, and have one role; {_listing(columns)}"
            )
    free = [column for column in columns if column not in taken]
    roles: dict[str, Hashable] = {}
    for role in ROLES:
        if role in ignored:
            continue
        column = chosen.get(role)
        candidates = [column] if column is not None else guess(free, role)
        if len(candidates) > 1:
            found = ", ".join(map(repr, candidates))
            none = "" if role in ("user", "item") else f", or none with {role}=False"
            raise ValueError(
                f"several columns may be the {role}: {found}; name one with {role}={none}"
            )
        if not candidates and role in ("user", "item"):
            raise ValueError(
                f"no column looks like the {role}: name it with {role}=; {_listing(columns)}"
            )
        if candidates:
            roles[role] = candidates[0]
    return roles


def ignored_roles(chosen: Chosen) -> set[str]:
    """The roles that are False; the user and the item cannot be."""
    ignored = {role for role, column in chosen.items() if column is False}
    for role in ("user", "item"):
        if role in ignored:
            raise ValueError(f"{role}=False: every interaction needs a user and an item")
    return ignored


def _spellings(column: Hashable) -> set[str]:
    if not isinstance(column, str):
        return set()
    name = "".join(letter for letter in column.casefold() if letter.isalnum())
    return {name, name.removesuffix("id")}


def _listing(columns: Sequence[Hashable]) -> str:
    return "columns: " + ", ".join(map(repr, columns))
