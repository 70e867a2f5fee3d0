"""The flags that say how interactions are read, and what they say, as arguments of readers."""

from __future__ import annotations

import argparse
import re
from typing import Any, get_args

from mfrank.data import AS_USUAL, ROLES, Dialect, Duplicates, IdsAs, Lines, TimestampUnit

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


def add_target_flag(parser: argparse.ArgumentParser, text: str) -> None:
    """Add ``--target``, for :func:`read_events`."""
    parser.add_argument("--target", metavar="KIND", help=text)


def target_of(args: argparse.Namespace) -> str | None:
    """The kind of event to rank, if the command has one."""
    target: str | None = getattr(args, "target", None)
    return target


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


def check_table_flags(args: argparse.Namespace, flag: str, path: str | None) -> None:
    """Raise ValueError if flags for reading a file are used, but not the flag of the file."""
    if path is None and (used := used_flags(args)):
        raise ValueError(f"{used[0]} is about the file of {flag}, which is missing")


def used_flags(args: argparse.Namespace, *, at_least: bool = True) -> list[str]:
    """The flags for reading interactions that are in use."""
    parser = argparse.ArgumentParser(add_help=False)
    add_table_flags(parser, at_least=at_least)
    flags = parser._actions
    return [each.option_strings[0] for each in flags if getattr(args, each.dest) != each.default]


def columns_of(args: argparse.Namespace) -> dict[str, Any]:
    """Chosen and ignored columns, as arguments of ``Interactions.from_file``."""
    for role in ROLES:
        if getattr(args, f"no_{role}", False) and getattr(args, role) is not None:
            raise ValueError(f"--{role} has no effect with --no-{role}: leave one of them out")
    return {
        role: False if getattr(args, f"no_{role}", False) else getattr(args, role) for role in ROLES
    }


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
