"""Flags by which commands steer lists."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from mfrank.arrays.counted import counted
from mfrank.cli.inputs import as_ids
from mfrank.data.feature_tables import place_of_ids
from mfrank.data.ids import Ids
from mfrank.data.table_files import text_rows
from mfrank.steering.steering import Steering

__all__ = ["add_steering_flags", "steering_of"]


_log = logging.getLogger("mfrank")


def add_steering_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the levers of :class:`mfrank.Steering`."""
    group = parser.add_argument_group("steering lists")
    group.add_argument(
        "--boost",
        action="append",
        default=[],
        metavar="ID=NUMBER",
        help="add so many standard deviations of the user's scores to the score of an item; may "
        "be repeated",
    )
    group.add_argument(
        "--popularity-penalty",
        type=float,
        default=0.0,
        metavar="NUMBER",
        help="take so many deviations from items that are popular by one (default: 0)",
    )
    group.add_argument(
        "--categories",
        metavar="FILE",
        help="CSV with a header: item ids, and in the last column their categories, joined by |",
    )
    group.add_argument(
        "--at-most", type=int, metavar="INT", help="items of each category in a list"
    )
    for flag, what in (
        ("diversity", "how much items that are alike are kept apart"),
        ("calibration", "how much the shares of categories are to be those of what the user has"),
    ):
        group.add_argument(
            f"--{flag}",
            type=float,
            default=0.0,
            metavar="SHARE",
            help=f"{what}, from 0 to 1 (default: 0)",
        )


def steering_of(args: argparse.Namespace, items: Ids) -> Steering | None:
    """What the flags ask for, of a model with these items; None if nothing.

    Raises
    ------
    FileNotFoundError, ValueError
        A flag has a wrong value, or the file of categories cannot be read.
    """
    steer = Steering(
        boosts=_boosts(args.boost, items),
        popularity_penalty=args.popularity_penalty,
        categories=None if args.categories is None else _categories(args.categories, items),
        at_most=args.at_most,
        diversity=args.diversity,
        calibration=args.calibration,
    )
    return None if steer == Steering() else steer


def _boosts(texts: list[str], items: Ids) -> dict[Any, float]:
    pairs = [text.rpartition("=") for text in texts]
    try:
        numbers = [float(number) for _, _, number in pairs]
    except ValueError:
        numbers = []
    if len(numbers) < len(texts) or not all(item for item, _, _ in pairs):
        raise ValueError(f"--boost takes ID=NUMBER, such as tea=0.5; got {' '.join(texts)}")
    return dict(zip(as_ids([item for item, _, _ in pairs], items).tolist(), numbers, strict=True))


def _categories(path: str, items: Ids) -> dict[Any, list[str]]:
    header, *rows = [row for _, row in text_rows(path, ",")] or [[""]]
    if any(len(row) < 2 or len(row) != len(header) for row in rows):
        raise ValueError(
            f"{path} must have a header and at least two columns in each row: item ids, and "
            "categories"
        )
    place = place_of_ids(header)
    last = -2 if place == len(header) - 1 else -1  # the column of categories
    ids = as_ids([header[place], *(row[place] for row in rows)], items)
    known = items.rows(ids, missing=-1) >= 0
    if known[0]:
        raise ValueError(
            f"{path} has the item {header[place]!r} in its first line, which must name the columns"
        )
    if rows and not known.any():
        raise ValueError(
            f"{path} has none of the items: its ids are like {rows[0][place]!r}, theirs like "
            f"{items.labels[0]!r}"
        )
    n_without = len(items) - len({*ids[known].tolist()})
    _log.log(
        logging.WARNING if 2 * n_without > len(items) else logging.INFO,
        "%s: categories are those of the column %r, in which %s of %s have none",
        *(path, header[last], f"{n_without:,}", counted(len(items), "item")),
    )
    labels: dict[Any, list[str]] = {}
    for item, row in zip(ids[1:].tolist(), rows, strict=True):
        parts = (label.strip() for label in row[last].split("|"))
        labels.setdefault(item, []).extend(label for label in parts if label)
    return labels
