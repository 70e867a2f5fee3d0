"""Interactions that commands read, by their flags."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.cli.table_flags import (
    columns_of,
    dialect_of,
    events_of,
    target_of,
    used_flags,
    where_of,
)
from mfrank.data import (
    Events,
    Ids,
    Interactions,
    holds_interactions,
    is_database,
    is_stream,
    kinds_read,
    placed,
    spelled_like,
    without_password,
)
from mfrank.errors import InputValueError
from mfrank.files import MANIFEST, path_of
from mfrank.models import are_marks, n_below
from mfrank.retrieval import Recommender
from mfrank.serving import KIND, EventJournal


def read_table(
    args: argparse.Namespace, path: str, fitted: Recommender | Interactions | None = None
) -> Interactions:
    """Read the interactions of a file according to the flags.

    What is not said by flags is as in the data of a model's fit, which is printed on stderr:
    without ``--where``, other rows than those of the fit are not read; without ``--at-least``,
    values below the threshold of the fit are only seen.
    """
    data = _read(args, path)
    if fitted is None:
        return _cut(args, without_password(path), data, None)
    unread = {
        column: values
        for column, values in fitted.where.items()
        if values is not None and data.where.get(column, values) is None
    }
    can_be_read_again = not is_stream(path) and not (path_of(path) / MANIFEST).is_file()
    if unread and args.where is None and can_be_read_again:
        where = [(column, value) for column, values in unread.items() for value in values]
        flags = " ".join(f"--where {shlex.quote(f'{column}={value}')}" for column, value in where)
        print(
            f"mfrank: {without_password(path)}: only rows of {flags} are read, as of the fit; "
            "--where with other values reads others",
            file=sys.stderr,
        )
        data = _read(_changed(args, {"where": where}), path)
    return _cut(args, without_password(path), data, fitted.threshold)


def _read(args: argparse.Namespace, path: str) -> Interactions:
    if (path_of(path) / MANIFEST).is_file():
        if not holds_interactions(path_of(path)):
            raise InputValueError(
                f"{path} is a folder of no interactions", "pass one of mfrank ingest", place=path
            )
        data = Interactions.open(path)
        if used := used_flags(args, at_least=False):
            print(
                f"mfrank: {path}: a folder of mfrank ingest is read as it is, without "
                + ", ".join(used),
                file=sys.stderr,
            )
        return data
    if is_database(path) or (args.query is not None and not _databases(args)):
        return read_query(args, path)
    return Interactions.from_file(
        path,
        **columns_of(args),
        **events_of(args),
        timestamp_unit=args.timestamp_unit,
        **asdict(dialect_of(args)),
        ids=args.ids,
        duplicates=args.duplicates,
    )


def _cut(
    args: argparse.Namespace, name: str, data: Interactions, threshold: float | None
) -> Interactions:
    """Apply ``--at-least``, or the threshold of related data, to what was read."""
    if args.at_least is not None:
        return data.at_least(args.at_least, keep_seen=args.keep_seen)
    if are_marks(data, threshold):
        print(
            f"mfrank: {name}: values are all 1, and are taken as marks of what counts; if they are "
            f"ratings, --at-least {threshold:g} cuts them like those of the fit",
            file=sys.stderr,
        )
        return data.at_least(1, keep_seen=args.keep_seen)
    if threshold is not None and (below := n_below(data, threshold)):
        entries = counted(data.nnz, "interaction")
        print(
            f"mfrank: {name}: {below:,} of {entries} below {threshold:g}, the --at-least of the "
            "fit, are only seen; --at-least 0 takes them like the others",
            file=sys.stderr,
        )
        return data.at_least(threshold, keep_seen=args.keep_seen)
    if args.keep_seen:
        return data
    if threshold is None and data.seen_only is None:
        raise InputValueError("--no-keep-seen goes with `at_least`, or with values of 0")
    return replace(data, seen_only=None)


def read_query(args: argparse.Namespace, path: str, **how: Any) -> Interactions:
    """Read the rows of ``--query`` from a database."""
    _check_query(args, path)
    return Interactions.from_sql(
        args.query,
        path,
        **columns_of(args),
        **events_of(args),
        timestamp_unit=args.timestamp_unit,
        duplicates=args.duplicates,
        **how,
    )


def _check_query(args: argparse.Namespace, path: str) -> None:
    """Raise ValueError unless there is a query and a database; tell of flags for text."""
    if args.query is None:
        raise ValueError(f"--query is missing: the rows to read from {without_password(path)}")
    if not is_database(path):
        raise ValueError(
            "--query reads a database, and FILE must be its URL, such as sqlite:///shop.db"
        )
    if _databases(args).count(path) > 1:
        raise ValueError("--query would read the same rows twice: save one of both as a file")
    text = {"--sep", "--quote", "--header", "--columns", "--encoding", "--ids"}
    if used := text.intersection(used_flags(args, at_least=False)):
        print(
            f"mfrank: rows of a database are read without {', '.join(sorted(used))}",
            file=sys.stderr,
        )


def _databases(args: argparse.Namespace) -> list[str]:
    return [each for each in vars(args).values() if isinstance(each, str) and is_database(each)]


def read_events(args: argparse.Namespace, path: str) -> Events:
    """Read the events of a file, of all kinds, according to the flags."""
    if (path_of(path) / MANIFEST).is_file():
        raise InputValueError(
            f"{path} has no kinds of events any more", "pass the files that were read", place=path
        )
    if args.at_least is not None or args.duplicates != "sum":
        used = "--duplicates" if args.at_least is None else "--at-least"
        raise ValueError(f"{used} is for interactions, and --target makes them of events")
    how = {**columns_of(args), "event": args.event, "where": where_of(args)}
    how["timestamp_unit"] = args.timestamp_unit
    if is_database(path) or (args.query is not None and not _databases(args)):
        _check_query(args, path)
        return Events.from_sql(args.query, path, **how)
    return Events.from_file(path, **how, **asdict(dialect_of(args)), ids=args.ids)


def read_like(
    args: argparse.Namespace, path: str, fitted: Recommender | Interactions
) -> tuple[Interactions, int]:
    """Read interactions in the rows of a model or of its data, with the same threshold.

    Also return the number of interactions with unknown ids.

    Raises
    ------
    ValueError
        No interaction has both a known user and a known item.
    """
    user_ids, item_ids = fitted.user_ids, fitted.item_ids
    name = without_password(path)
    if target_of(args) is None:
        data = read_table(args, path, fitted)
    else:
        data = read_events(args, path)[target_of(args)]
    if not data.nnz:
        least = "" if data.threshold is None else f" of at least {data.threshold:g}"
        raise InputValueError(f"{name} has no interactions{least}", place=name)
    users, items = _rows(data.user_ids, user_ids), _rows(data.item_ids, item_ids)
    matched = placed(data, users, items, user_ids, item_ids)
    if not matched.nnz:
        raise InputValueError(
            f"{name} has no interaction whose user and item are both known; its user ids are like "
            f"{data.user_ids.labels[:3].tolist()}, the known ones like "
            f"{user_ids.labels[:3].tolist()}",
            place=name,
        )
    return matched, data.nnz - matched.nnz


def read_spelled_like(
    args: argparse.Namespace, path: str, fitted: Recommender | Interactions
) -> Interactions:
    """Read interactions as those of a model or of its data were; all ids get their types."""
    return _spelled_like(read_table(args, path, fitted), fitted)


def _spelled_like(data: Interactions, fitted: Recommender | Interactions) -> Interactions:
    theirs = data.user_ids.labels, data.item_ids.labels
    spelled = list(map(spelled_like, theirs, (fitted.user_ids, fitted.item_ids)))
    if all(map(np.array_equal, spelled, theirs)):
        return data
    (users, user_rows), (items, item_rows) = map(Ids.factorize, spelled)
    return placed(data, user_rows, item_rows, users, items)


def read_journal(
    args: argparse.Namespace, journal: EventJournal, after: int, until: int, fitted: Recommender
) -> Interactions:
    """Read the events of a journal between two numbers, as :func:`read_spelled_like` does a file.

    Raises
    ------
    ValueError
        A flag is about a file.
    """
    meant = {"--weights", "--at-least", "--duplicates", "--no-keep-seen"}
    if used := [flag for flag in used_flags(args) if flag not in meant]:
        raise ValueError(f"{used[0]} is about a file, and a journal has its own columns")
    name = str(journal.folder)
    kinds = journal.kinds(after, until)
    known: Any = (fitted.where, fitted.event_weights) if args.weights is None else ({}, {})
    if set(kinds) - {KIND} and args.weights is None and not known[1] and not kinds_read(known[0]):
        print(
            f"mfrank: {name}: events of all kinds ({', '.join(kinds[:10])}) count by their values; "
            f"--weights {kinds[0]}=1,... says what each kind counts",
            file=sys.stderr,
        )
    how = {"weights": args.weights, "duplicates": args.duplicates}
    data = journal.interactions(after, until, *known, **how)
    return _spelled_like(_cut(args, name, data, fitted.threshold), fitted)


def read_left_out(args: argparse.Namespace, data: Interactions) -> Interactions | None:
    """Read what the lists of a model of ``data`` leave out; None for all that its users have."""
    # Whatever the value: a threshold keeps what is below it as seen, which is left out as well.
    change: dict[str, Any] = {"at_least": 0.0, "keep_seen": True}
    if args.leave_out is not None:
        change |= dict.fromkeys(("event", "weights", "where", "cap", "half_life"))
        return _spelled_like(read_table(_changed(args, change), args.leave_out), data)
    if args.leave_out_events is None:
        return None
    weights, kinds = args.weights or {}, args.leave_out_events
    unknown = [kind for kind in kinds if kind not in weights]
    if unknown:
        raise ValueError(f"--leave-out-events: --weights has no kind of event {unknown[0]!r}")
    path = path_of(args.interactions)
    if is_stream(path) or (path / MANIFEST).is_file():
        why = "can be read only once" if is_stream(path) else "has no kinds of events any more"
        raise InputValueError(
            f"--leave-out-events: {path} {why}", "use --leave-out FILE", place=path
        )
    change |= {"weights": {kind: 1.0 if kind in kinds else None for kind in weights}}
    change |= dict.fromkeys(("cap", "half_life"))
    return read_table(_changed(args, change), args.interactions)


def _changed(args: argparse.Namespace, change: dict[str, Any]) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(args), **change})


def _rows(theirs: Ids, ids: Ids) -> NDArray[np.int64]:
    return ids.rows(spelled_like(theirs.labels, ids), missing=-1)
