"""Interactions that commands read, and the flags that say how."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from dataclasses import asdict, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.data import (
    AS_USUAL,
    ROLES,
    Dialect,
    Duplicates,
    Events,
    Ids,
    IdsAs,
    Interactions,
    Lines,
    TimestampUnit,
    holds_interactions,
    is_database,
    is_stream,
    kinds_read,
    placed,
    spelled_like,
    without_password,
)
from mfrank.errors import InputValueError
from mfrank.files import (
    MANIFEST,
    path_of,
)
from mfrank.models import are_marks, n_below
from mfrank.retrieval import Recommender
from mfrank.serving import KIND, EventJournal

_DAY = 86_400


def add_table_flags(parser: argparse.ArgumentParser, *, at_least: bool = True) -> None:
    """Add the flags for reading a file of interactions."""
    group = parser.add_argument_group(
        "reading interactions",
        "One interaction per row; .csv, .tsv, .txt, .dat or .data (also packed: .gz, .bz2, .xz, "
        ".zst, .zip), or .parquet; - is text on standard input. A folder of mfrank ingest is read "
        "as it is. FILE may be a folder of parts, a pattern in quotes, such as 'plays-*.csv', a "
        "URL, such as s3://shop/plays, or a database (--query).",
    )
    group.add_argument(
        "--query",
        metavar="TEXT",
        help="read the rows of this SELECT, or of the table of this name: FILE is then the URL of "
        "a database for SQLAlchemy, such as sqlite:///shop.db",
    )
    for role in ROLES:
        group.add_argument(
            f"--{role}",
            metavar="COLUMN",
            help=f"name of the {role} column, or its number from 1 if there is no header (default: "
            "recognized by common names)",
        )
    for role in ("value", "timestamp"):
        group.add_argument(f"--no-{role}", action="store_true", help=f"ignore the {role} column")
    group.add_argument(
        "--event",
        metavar="COLUMN",
        help="name of the column with the kind of each event (default, with --weights: recognized "
        "by common names)",
    )
    group.add_argument(
        "--weights",
        type=kind_weights,
        metavar="KIND=NUMBER,...",
        help="what an event of each kind counts, such as view=1,cart=3,purchase=5, in place of a "
        "value; 0: only seen; none: left out",
    )
    group.add_argument(
        "--cap",
        type=float,
        metavar="FLOAT",
        help="with --weights: lower larger sums of the events of a user and an item to this",
    )
    group.add_argument(
        "--half-life",
        type=float,
        metavar="DAYS",
        help="with --weights: an event counts half as much with each so many days before the "
        "newest one; timestamps are seconds or dates",
    )
    group.add_argument(
        "--where",
        action="append",
        type=_equality,
        metavar="COLUMN=VALUE",
        help="read only the rows with this value, such as event=purchase; repeat it for another "
        "value of the column, or for a further condition (default: the rows of the model's fit, "
        "which is logged if it applies; else all)",
    )
    group.add_argument(
        "--timestamp-unit",
        choices=get_args(TimestampUnit),
        help="unit of numeric timestamps, which become seconds; s leaves them unchanged (default: "
        "recognized and logged)",
    )
    group.add_argument(
        "--sep",
        metavar="MARK",
        help="separator of fields: one character, or :: (default: detected)",
    )
    group.add_argument(
        "--quote",
        type=_quote,
        default=AS_USUAL,
        metavar="MARK",
        help="quote character of fields; none: quotes are ordinary text; auto: double quotes, but "
        "a stray quote that would swallow rows is an error (default: auto)",
    )
    group.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first row names the columns (default: detected)",
    )
    group.add_argument(
        "--columns",
        type=_names,
        metavar="NAMES",
        help="names of all columns in order, for a file without a header, such as "
        "item,user,value,timestamp,-; - ignores a column",
    )
    group.add_argument(
        "--encoding",
        metavar="NAME",
        help="encoding of text, such as cp1252 (default: UTF-8, or UTF-16 if its begin shows that)",
    )
    group.add_argument(
        "--comment",
        metavar="MARK",
        help="what lines begin with that are skipped everywhere, such as # (default: only comments "
        "above all rows are skipped)",
    )
    group.add_argument(
        "--lines",
        choices=get_args(Lines),
        help="what a line is: one interaction, a user and their items, items alone, a value and "
        "features of 1 (user and item), or a label and items with values (default: recognized)",
    )
    group.add_argument(
        "--ids",
        choices=get_args(IdsAs),
        default="auto",
        help="auto: a column of ids becomes integers if all are spelled as whole numbers, and "
        "stays text otherwise (007, 1.0); text: all ids stay text (default: auto)",
    )
    group.add_argument(
        "--duplicates",
        choices=get_args(Duplicates),
        default="sum",
        help="how to merge repeated pairs of user and item (default: sum)",
    )
    if at_least:
        group.add_argument(
            "--at-least",
            type=float,
            metavar="VALUE",
            help="learn only from values >= VALUE, such as ratings from 4 on; items below are "
            "seen, so not recommended (default: the threshold of the model's fit, which is logged "
            "if it applies; else none)",
        )
        group.add_argument(
            "--no-keep-seen",
            dest="keep_seen",
            action="store_false",
            help="items with values below --at-least, or 0, are not seen: they can be recommended",
        )


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
        if used := _used(args, at_least=False):
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
    if used := text.intersection(_used(args, at_least=False)):
        print(
            f"mfrank: rows of a database are read without {', '.join(sorted(used))}",
            file=sys.stderr,
        )


def _databases(args: argparse.Namespace) -> list[str]:
    return [each for each in vars(args).values() if isinstance(each, str) and is_database(each)]


def add_target_flag(parser: argparse.ArgumentParser, text: str) -> None:
    """Add ``--target``, for :func:`read_events`."""
    parser.add_argument("--target", metavar="KIND", help=text)


def target_of(args: argparse.Namespace) -> str | None:
    """The kind of event to rank, if the command has one."""
    target: str | None = getattr(args, "target", None)
    return target


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


def check_table_flags(args: argparse.Namespace, flag: str, path: str | None) -> None:
    """Raise ValueError if flags for reading a file are used, but not the flag of the file."""
    if path is None and (used := _used(args)):
        raise ValueError(f"{used[0]} is about the file of {flag}, which is missing")


def _used(args: argparse.Namespace, *, at_least: bool = True) -> list[str]:
    """The flags for reading interactions that are in use."""
    parser = argparse.ArgumentParser(add_help=False)
    add_table_flags(parser, at_least=at_least)
    flags = parser._actions
    return [each.option_strings[0] for each in flags if getattr(args, each.dest) != each.default]


def events_of(args: argparse.Namespace) -> dict[str, Any]:
    """Kinds of events, their weights and the rows to read, as arguments of a reader."""
    found = {"event": args.event, "weights": args.weights, "where": where_of(args)}
    half_life = None if args.half_life is None else args.half_life * _DAY
    return {**found, "cap": args.cap, "half_life": half_life}


def sums_of(args: argparse.Namespace) -> dict[str, float | None]:
    """What is done with sums of events, as arguments of ``Events.weighted``."""
    return {name: events_of(args)[name] for name in ("cap", "half_life")}


def refuse_sums(args: argparse.Namespace, why: str) -> None:
    """Raise ValueError if flags for sums of weighted events are used."""
    for flag, given in (("--cap", args.cap), ("--half-life", args.half_life)):
        if given is not None:
            raise ValueError(f"{flag}: {why}")


def columns_of(args: argparse.Namespace) -> dict[str, Any]:
    """Chosen and ignored columns, as arguments of ``Interactions.from_file``."""
    for role in ROLES:
        if getattr(args, f"no_{role}", False) and getattr(args, role) is not None:
            raise ValueError(f"--{role} has no effect with --no-{role}: leave one of them out")
    return {
        role: False if getattr(args, f"no_{role}", False) else getattr(args, role) for role in ROLES
    }


def where_of(args: argparse.Namespace) -> dict[str, list[str]] | None:
    """The values of columns that rows must have to be read; a number is that of a column."""
    found = dict[str, list[str]]()
    for column, value in args.where or ():
        found.setdefault(column, []).append(value)
    return found or None


def dialect_of(args: argparse.Namespace) -> Dialect:
    """The format of text, by the flags."""
    return Dialect(
        args.sep, args.quote, args.header, args.columns, args.encoding, args.comment, args.lines
    )


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
    if used := [flag for flag in _used(args) if flag not in meant]:
        raise ValueError(f"{used[0]} is about a file, and a journal has its own columns")
    name = str(journal.folder)
    kinds = journal.kinds(after, until)
    where = fitted.where if args.weights is None else {}
    if set(kinds) - {KIND} and args.weights is None and kinds_read(where) is None:
        print(
            f"mfrank: {name}: events of all kinds ({', '.join(kinds[:10])}) count by their values; "
            f"--weights {kinds[0]}=1,... says what each kind counts",
            file=sys.stderr,
        )
    how = {"weights": args.weights, "duplicates": args.duplicates}
    data = journal.interactions(after, until, where, **how)
    return _spelled_like(_cut(args, name, data, fitted.threshold), fitted)


def add_leave_out_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--leave-out`` and ``--leave-out-events``, for :func:`read_left_out`."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--leave-out",
        metavar="FILE",
        help="what lists leave out, such as purchases, in place of all that a user has",
    )
    group.add_argument(
        "--leave-out-events",
        type=_names,
        metavar="NAMES",
        help="with --weights: lists leave out only items with events of these kinds, such as "
        "purchase,returned",
    )


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


def _quote(text: str) -> str | None:
    return None if text == "none" else text


_KIND = re.compile(r"\s*(?P<kind>.+?)\s*=\s*(?P<weight>[^=,]*?)\s*(?:,(?=.)|$)")
"""A kind of event, which may have commas, and its weight."""


def kind_weights(text: str) -> dict[str, float | None]:
    """The weight of each kind of event; None for rows to leave out."""
    weights, found = dict[str, float | None](), [*_KIND.finditer(text)]
    try:
        for kind, number in (each.groups() for each in found):
            weights[kind] = None if number == "none" else float(number)
    except ValueError:
        found = []
    if "".join(each[0] for each in found) != text or len(weights) < max(len(found), 1):
        raise argparse.ArgumentTypeError(
            f"expected each kind of event once, as in view=1,purchase=5; got {text}"
        )
    return weights


def _equality(text: str) -> tuple[str, str]:
    column, given, value = text.partition("=")
    if not (column and given and value):
        raise argparse.ArgumentTypeError(f"expected COLUMN=VALUE, as in event=purchase; got {text}")
    if column[-1] in "<>!~" or value[0] == "=":
        raise argparse.ArgumentTypeError(
            f"expected COLUMN=VALUE and no other condition, got {text}: list the values that are "
            "wanted, or choose the rows in the table"
        )
    return column.strip(), value.strip()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _rows(theirs: Ids, ids: Ids) -> NDArray[np.int64]:
    return ids.rows(spelled_like(theirs.labels, ids), missing=-1)
