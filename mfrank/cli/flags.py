"""Command-line flags: from option dataclasses, and common to several commands.

An unused flag is absent from the parsed arguments, so the dataclass's default applies.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import logging
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mfrank.als import QuadraticObjective
from mfrank.arrays import counted
from mfrank.cli.typed_ids import as_ids
from mfrank.data import Ids, place_of_ids, text_rows
from mfrank.errors import InputValueError
from mfrank.models import objective_classes
from mfrank.steering import Steering

# Reads parameters from numpy-style docstrings, so that help texts are written only once.


_UNDERLINE = re.compile(r"-{3,}")
_ROLE = re.compile(r":\w+:`~?([^`]*)`")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One entry of a "Parameters" section.

    Attributes
    ----------
    kind : str
        The text after the colon, as in ``{"auto", "cg"}, default "auto"``.
    text : str
        The description as plain text on one line.
    """

    kind: str
    text: str


def parameters(documented: Any) -> dict[str, Parameter]:
    """Documented parameters of a function or a class, by name.

    A class inherits the documentation of its bases, unless its own is more than a reference ("As in
    ...").
    """
    merged: dict[str, Parameter] = {}
    for owner in (
        reversed(inspect.getmro(documented)) if inspect.isclass(documented) else [documented]
    ):
        for name, parameter in _entries(owner.__doc__ or ""):
            if name not in merged or not parameter.text.startswith("As in"):
                merged[name] = parameter
    return merged


def summary(documented: Any) -> str:
    """The first line of a docstring as plain text."""
    return _plain((documented.__doc__ or "").partition("\n")[0])


def _entries(docstring: str) -> Iterator[tuple[str, Parameter]]:
    lines = _section(inspect.cleandoc(docstring).splitlines(), "Parameters")
    heads = [number for number, line in enumerate(lines) if line and not line.startswith(" ")]
    for begin, end in itertools.pairwise([*heads, len(lines)]):
        names, _, kind = lines[begin].partition(" : ")
        text = _plain(" ".join(line.strip() for line in lines[begin + 1 : end] if line))
        for name in names.split(","):
            yield name.strip(), Parameter(kind, text)


def _section(lines: list[str], title: str) -> list[str]:
    """Lines of the section with this title, up to the next title."""
    titles = [n for n, line in enumerate(lines[1:]) if _UNDERLINE.fullmatch(line)]
    for begin, end in itertools.pairwise([*titles, len(lines)]):
        if lines[begin] == title:
            return lines[begin + 2 : end]
    return []


def _plain(text: str) -> str:
    return _ROLE.sub(r"\1", text).replace("`", "")


# Parses ``NAME:option=value,option=value`` into one of a family of option dataclasses.


def option_fields(options: type[Any]) -> list[Field[Any]]:
    """Fields of a dataclass that have a default."""
    return [field for field in fields(options) if field.init and field.default is not MISSING]


def summaries(family: Mapping[str, type[Any]]) -> str:
    """One line per member of the family: its name and the first line of its docstring."""
    width = max(map(len, family))
    return "\n".join(f"{name:<{width}}  {summary(options)}" for name, options in family.items())


def spec_reader(family: Mapping[str, type[Any]], noun: str) -> Callable[[str], Any]:
    """Return a parser of specs; ``family`` has the classes by lower-case name.

    The parser raises ``argparse.ArgumentTypeError`` if the name is unknown, or if the class
    rejects an option.
    """

    def read(text: str) -> Any:
        name, _, rest = text.partition(":")
        if name.lower() not in family:
            raise argparse.ArgumentTypeError(
                f"unknown {noun} {name!r}; choose from {', '.join(family)}"
            )
        options = family[name.lower()]
        values = dict(_option(name, options, part) for part in filter(None, rest.split(",")))
        try:
            return options(**values)
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(f"{text}: {error}") from error

    return read


def _option(name: str, options: type[Any], part: str) -> tuple[str, Any]:
    option, _, value = part.partition("=")
    if option not in (known := [field.name for field in option_fields(options)]):
        raise argparse.ArgumentTypeError(
            f"{name} has no option {option!r}; it has {', '.join(known) or 'none'}"
        )
    try:
        return option, _read(value, get_type_hints(options)[option])
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{name}:{part}: {error}") from error


def _read(value: str, hint: Any) -> Any:
    if hint is bool:
        if value.lower() not in ("true", "false"):
            raise ValueError(f"must be true or false, got {value!r}")
        return value.lower() == "true"
    return reader_of(hint)(value)


def reader_of(hint: Any) -> Callable[[str], Any]:
    """Parser of values with this hint: int, float or str, the first in the union, or none."""
    members = get_args(hint) or (hint,)
    kind = next((kind for kind in (int, float) if kind in members), str)
    if kind is str or NoneType not in members:
        return kind

    def number_or_none(text: str) -> Any:
        return None if text.lower() == "none" else kind(text)

    number_or_none.__name__ = f"{kind.__name__}|none"  # argparse shows it
    return number_or_none


def add_needs_flag(parser: argparse._ActionsContainer, of: str = "") -> None:
    """Add ``--needs`` of a search."""
    parser.add_argument(
        "--needs",
        type=_needs_of,
        default="everything",
        metavar="NAMES",
        help=f"{of}what the model must be able to do after the fit: update, explain, new-users, "
        "with commas; nothing searches all models, too (default: everything)",
    )


def _needs_of(text: str) -> str | tuple[str, ...]:
    if text in ("everything", "nothing"):
        return text if text == "everything" else ()
    return tuple(name.strip().replace("-", " ") for name in text.split(","))


OBJECTIVES: dict[str, type[QuadraticObjective]] = {
    name.lower(): kind for name, kind in objective_classes().items()
}
"""Objectives by their command-line names."""

_Options = type[Any]


def add_flags(
    parser: argparse._ActionsContainer, options: _Options, *, leave_out: Collection[str] = ()
) -> None:
    """Add a flag for each field of a dataclass: ``n_threads`` becomes ``--n-threads``."""
    documented = parameters(options)
    for field in option_fields(options):
        if field.name not in leave_out:
            parameter = documented[field.name]
            text = f"{parameter.text.rstrip('.')} (default: {field.default})"
            _add_flag(parser, options, field, parameter, text)


def add_objective_flags(parser: argparse.ArgumentParser, default: QuadraticObjective) -> None:
    """Add ``--objective``, and one flag for each option name of any objective."""
    group = parser.add_argument_group("objective", summaries(OBJECTIVES))
    group.add_argument(
        "--objective",
        type=objective,
        default=default,
        metavar="NAME",
        help=f"one of these (default: {type(default).__name__.lower()})",
    )
    owners: dict[str, list[_Options]] = defaultdict(list)
    for options in OBJECTIVES.values():
        for field in option_fields(options):
            owners[field.name].append(options)
    for name, classes in owners.items():
        field = next(field for field in option_fields(classes[0]) if field.name == name)
        parameter = parameters(classes[0])[name]
        _add_flag(group, classes[0], field, parameter, _merged_text(name, classes))


def given(args: argparse.Namespace, options: _Options) -> dict[str, Any]:
    """Values of the dataclass's fields whose flags were used, by name."""
    names = {field.name for field in option_fields(options)}
    return {name: value for name, value in vars(args).items() if name in names}


def objective_of(args: argparse.Namespace) -> QuadraticObjective:
    """Build the chosen objective with the options on the command line.

    Raises
    ------
    ValueError
        The objective does not have one of the options.
    """
    chosen: Any = args.objective
    known = {field.name for field in option_fields(type(chosen))}
    options = {field.name for other in OBJECTIVES.values() for field in option_fields(other)}
    for name in sorted((options - known) & set(vars(args))):
        raise InputValueError(
            f"`{name}` is not an option of {type(chosen).__name__.lower()}, which has "
            + ", ".join(sorted(map(_flag, known)))
        )
    built: QuadraticObjective = replace(chosen, **given(args, type(chosen)))
    return built


objective = spec_reader(OBJECTIVES, "objective")
"""Parser of ``NAME`` or ``NAME:option=value,option=value``, as in ``wrmf:alpha=40``."""


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _add_flag(
    parser: argparse._ActionsContainer,
    options: _Options,
    field: Field[Any],
    parameter: Parameter,
    text: str,
) -> None:
    hint = get_type_hints(options)[field.name]
    kwargs: dict[str, Any]
    if hint in (bool, bool | None):
        kwargs = {"action": argparse.BooleanOptionalAction}
    elif choices := _choices(hint, parameter.kind):
        kwargs = {"choices": choices}
    else:
        reader = reader_of(hint)
        kwargs = {"type": reader, "metavar": reader.__name__.upper()}
    parser.add_argument(
        _flag(field.name),
        default=argparse.SUPPRESS,
        help=_with_flags(text, options).replace("%", "%%"),
        **kwargs,
    )


def _choices(hint: Any, kind: str) -> list[str]:
    """Values of a Literal, or those listed in the docstring as ``{"a", "b"}``."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    listed = re.match(r"\{(.*?)\}", kind)
    return re.findall(r'"([^"]*)"', listed[1]) if listed else []


def _merged_text(name: str, classes: list[_Options]) -> str:
    """Help of an option that several objectives have, with each distinct text once."""
    meanings: dict[tuple[str, Any], list[str]] = defaultdict(list)
    for options in classes:
        default = next(field.default for field in option_fields(options) if field.name == name)
        text = parameters(options)[name].text.rstrip(".")
        meanings[text, default].append(options.__name__.lower())
    return "; ".join(
        f"{', '.join(names)}: {text} (default: {default})"
        for (text, default), names in meanings.items()
    )


def _with_flags(text: str, options: _Options) -> str:
    """The text, with options whose names are not English words written as flags."""
    names = {field.name for field in option_fields(options) if "_" in field.name}
    return re.sub(r"\w+", lambda word: _flag(word[0]) if word[0] in names else word[0], text)


# Flags that several commands have.


def add_threads_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--n-threads``."""
    parser.add_argument(
        "--n-threads", type=int, default=0, metavar="INT", help="0 uses every core (default: 0)"
    )


def add_address_flags(parser: argparse.ArgumentParser, port: int) -> None:
    """Add ``--port``, with its default, ``--host`` and ``--allow-host``."""
    parser.add_argument("--port", type=int, default=port, metavar="INT", help=f"(default: {port})")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen; 0.0.0.0 is every address of this computer (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--allow-host",
        dest="allow_hosts",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name to answer for, such as api.example.com or *.example.com, e.g. behind a "
        "proxy; may be repeated (default: any; with a local --host, only names of this computer)",
    )


# The flag --cluster: where the tasks of a command run.


def add_cluster_flag(parser: argparse._ActionsContainer, what: str, result: str) -> None:
    """Add the flag; its help says ``what`` runs on the cluster, and the ``result``."""
    parser.add_argument(
        "--cluster",
        type=_cluster,
        metavar="N|ADDRESS|ray",
        help=f"{what} in N worker processes, on the Dask cluster with this scheduler ADDRESS, or "
        f"on the ray cluster of this machine; {result}",
    )


def _cluster(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


# Flags by which commands steer lists.


_log = logging.getLogger("mfrank")


def add_steering_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the levers of :class:`mfrank.Steering`."""
    group = parser.add_argument_group("steering lists")
    group.add_argument(
        "--boost",
        action="append",
        default=[],
        metavar="ID=NUMBER",
        help="add NUMBER standard deviations of the user's scores to the score of item ID; may be "
        "repeated",
    )
    group.add_argument(
        "--popularity-penalty",
        type=float,
        default=0.0,
        metavar="NUMBER",
        help="subtract NUMBER standard deviations of the user's scores per standard deviation of "
        "popularity (default: 0)",
    )
    group.add_argument(
        "--categories",
        metavar="FILE",
        help="CSV with a header: item ids, and in the last column their categories, joined by |",
    )
    group.add_argument(
        "--at-most", type=int, metavar="INT", help="maximum items of each category in a list"
    )
    for flag, what in (
        ("diversity", "weight of dissimilar items in a list"),
        ("calibration", "weight of the user's own shares of categories"),
    ):
        group.add_argument(
            f"--{flag}",
            type=float,
            default=0.0,
            metavar="SHARE",
            help=f"{what}, from 0 to 1 (default: 0)",
        )


def steering_of(args: argparse.Namespace, items: Ids) -> Steering | None:
    """The Steering of the flags, for a model with these items; None without flags.

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
        raise InputValueError(f"`boost` takes ID=NUMBER, such as tea=0.5; got {' '.join(texts)}")
    return dict(zip(as_ids([item for item, _, _ in pairs], items).tolist(), numbers, strict=True))


def _categories(path: str, items: Ids) -> dict[Any, list[str]]:
    header, *rows = [row for _, row in text_rows(path, ",")] or [[]]
    if not rows or any(len(row) < 2 or len(row) != len(header) for row in rows):
        raise InputValueError(
            f"{path} must have a header, and rows of at least two columns: item ids, and "
            "categories",
            place=path,
        )
    place = place_of_ids(header)
    last = -2 if place == len(header) - 1 else -1  # the column of categories
    ids = as_ids([header[place], *(row[place] for row in rows)], items)
    known = items.rows(ids, missing=-1) >= 0
    if known[0]:
        raise InputValueError(
            f"{path} has the item {header[place]!r} in its first line, which must name the columns",
            place=f"{path}, line 1",
        )
    if not known.any():
        raise InputValueError(
            f"{path} has none of the items: its ids are like {rows[0][place]!r}, theirs like "
            f"{items.labels[0]!r}",
            place=path,
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


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(text: str) -> float:
    """A time such as 1d, in seconds."""
    try:
        seconds = float(text[:-1]) * _SECONDS[text[-1:]]
    except (KeyError, ValueError):
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"expected a time such as 1d, 12h, 30m or 90s, got {text}")
    return seconds
