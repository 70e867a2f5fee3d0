"""Ids that are typed in a command line, or stand in a file of ids."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.cli.remedies import message_of
from mfrank.data import Ids, UnknownIdError, lines_of, objects, spelled_like
from mfrank.errors import InputValueError
from mfrank.retrieval import Otherwise

_HEADER = {
    side: re.compile(rf'"?({side}[_ ]?(id)?s?|ids?)"?', re.IGNORECASE) for side in ("user", "item")
}


def ids_in(path: str, flag: str = "--users") -> list[str]:
    """Ids of the text file of a flag, one per line; empty lines and a header are skipped.

    As in all data, blanks are part of an id; only line feeds and carriage returns end a line. A
    header, such as ``user_id``, and a file without ids are told on stderr.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is not text.
    """
    try:
        lines = list(lines_of(path))
    except FileNotFoundError:
        remedy = f"; for the user {path}, pass --user {path}" if flag == "--users" else ""
        raise FileNotFoundError(
            f"{flag} takes a text file of ids, one per line, and there is no file {path}{remedy}"
        ) from None
    except ValueError as error:
        remedy = f"{flag} takes a text file with one id per line"
        raise InputValueError(message_of(error), remedy, place=path) from None
    ids = [id_ for line in lines if (id_ := line.rstrip("\r\n"))]
    if len(ids) > 1 and _HEADER["item" if "item" in flag else "user"].fullmatch(ids[0]):
        print(f"mfrank: {path}: the first line, {ids[0]}, is taken as a header", file=sys.stderr)
        del ids[0]
    if not ids:
        print(f"mfrank: {path} has no ids", file=sys.stderr)
    return ids


def as_ids(texts: Sequence[str], known: Ids) -> NDArray[Any]:
    """Typed ids, as integers if the known ids are integers."""
    return spelled_like(objects(texts), known)


def ids_of(texts: Sequence[str], known: Ids, noun: str, *, skip_unknown: bool) -> NDArray[Any]:
    """Known ids among ids that were typed or read from a file.

    With ``skip_unknown``, unknown ids are left out and their number is printed on stderr.

    Raises
    ------
    ValueError
        An id is unknown, without ``skip_unknown``, or is known once it is written otherwise.
    """
    ids = as_ids(texts, known)
    if not skip_unknown:
        try:
            known.rows(ids)
        except UnknownIdError as error:
            remedy = "leave them out with --skip-unknown"
            raise UnknownIdError(f"{noun}: {error}", error.ids, remedy) from None
        return ids
    kept = known.rows(ids, missing=-1) >= 0
    if not kept.all():
        if (found := Otherwise.among(ids[~kept].tolist(), known)) is not None:
            raise UnknownIdError(
                f"{noun}: the model has no {found.given!r}, and it knows {found.known!r}",
                [found.given],
                found.remedy,
            )
        left_out = counted(int((~kept).sum()), f"unknown {noun}")
        print(f"mfrank: {left_out} left out", file=sys.stderr)
    return ids[kept]
