"""Output of commands: lists, tables, JSON, and the progress of a fit."""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.cli.model_folders import Destination, check_writable
from mfrank.data import Interactions, check_table_file, write_table
from mfrank.files import path_of, replacing
from mfrank.models import FactorModel, SupervisedPageRank
from mfrank.retrieval import Answer, Fallback, NotFittedError, Recommender, Table, list_table
from mfrank.serving.answers import dump
from mfrank.store import seconds_of

# The flag ``--json`` of commands that print results, and what it writes.


_STDOUT = "-"


def add_json_flag(parser: argparse._ActionsContainer, what: str, text: str = "the text") -> None:
    """Add ``--json`` for a result; ``text`` is what is printed otherwise."""
    parser.add_argument(
        "--json",
        metavar="FILE",
        help=f"write {what} as JSON to this file; - writes it to stdout, in place of {text}",
    )


def check_json(path: str | None) -> None:
    """Raise ValueError, before any work, if the file cannot be written."""
    if path != _STDOUT:
        check_writable(path)


def tell(text: object, content: Any, path: str | None) -> None:
    """Print a result as text and write it as JSON; only as JSON if that goes to stdout."""
    if path != _STDOUT:
        print(text)
    if path is not None:
        write_json(content, path)


def tell_unknown(number: int) -> None:
    """Say, if so, that test interactions are left out."""
    if number:
        left_out = counted(number, "test interaction")
        print(f"mfrank: {left_out} left out: users or items unknown", file=sys.stderr)


def write_json(content: Any, path: str) -> None:
    """Write a result to a file, atomically, or to stdout; numbers that are not finite are null."""
    written = json.dumps(json.loads(dump(content)), indent=2)
    if path == _STDOUT:
        print(written)
        return
    with replacing(path_of(path)) as draft:
        draft.write_text(written + "\n", encoding="utf-8")


def listing(model: Recommender, users: NDArray[Any], n: int = 10, **options: Any) -> Table:
    """Columns user, rank (from 1), item and score of the users' best ``n`` items.

    ``options`` are passed to :meth:`mfrank.Recommender.recommend`. Shorter lists have fewer rows.
    """
    items, scores = model.recommend(users, N=n, **options)
    return list_table(("user", users), ("item", items), scores)


def add_list_flags(parser: argparse.ArgumentParser, of_each: str) -> None:
    """Add the flags for the length of lists and the files they are written to."""
    parser.add_argument("--n", type=int, default=10, metavar="INT", help=f"{of_each} (default: 10)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--output",
        metavar="FILE",
        help=".csv, .tsv or .txt (also with .gz, .bz2, .xz), or .parquet (default: CSV on stdout)",
    )
    add_json_flag(where, "the result", "the CSV")


def add_fallback_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag for users without usable data."""
    parser.add_argument(
        "--fallback",
        choices=get_args(Fallback),
        default="none",
        help="lists of users without usable data, and the unfilled end of lists: none is empty, "
        "popularity is the items with the most users (default: none)",
    )


def check_output(args: argparse.Namespace) -> None:
    """Raise, before any work, if the lists cannot be written to this file."""
    check_json(args.json)
    if args.output is not None:
        check_table_file(args.output)
        check_writable(args.output)


def write_lists(
    asked: tuple[str, NDArray[Any]], listed: str, answer: Answer, args: argparse.Namespace
) -> None:
    """Write the list of each id: columns asked, rank (from 1), listed and score.

    As JSON it is ``[{asked: id, "items": [{"id": ..., "score": ...}, ...]}, ...]``.
    """
    name, ids = asked
    if args.json is None:
        write(list_table(asked, (listed, answer.ids), answer.scores), args.output)
        return
    lists = zip(ids.tolist(), answer.to_dicts(), strict=True)
    write_json([{name: one, "items": items} for one, items in lists], args.json)


def write(table: Table, output: str | None) -> None:
    """Write the table to a file in the format of its suffix, or as CSV to stdout."""
    if output is None:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(table)
        lines.writerows(zip(*table.values(), strict=True))
        return
    write_table(output, table)
    rows = counted(len(next(iter(table.values()))), "row")
    print(f"{rows} written to {output}", file=sys.stderr)


# What is printed while a fit runs: that it began, and its epochs.


def somebody_watches() -> bool:
    """Whether progress is worth showing: stderr is a terminal."""
    return sys.stderr.isatty()


def announce(fitted: object, data: Interactions) -> None:
    """On a terminal, print that the fit began: its first epoch may take long."""
    if somebody_watches():
        print(f"mfrank: fitting {fitted} to {data}", file=sys.stderr)


def print_objective(epoch: int, seconds: float, objective: float | None) -> None:
    """Print the objective after an epoch (a callback of ``fit``, which counts epochs from 0)."""
    print(f"epoch {epoch + 1:,}: objective {objective:.8g}, {seconds:.2f} s", flush=True)


# Saves the model of a fit from the command line, and reports on the fit.


def told(model: FactorModel, fitted: object, data: Interactions, folder: str) -> str:
    """Report on a fit: what was fitted, its duration, its last objective if known, its folder."""
    history = model.store.history
    objective = history[-1].get("objective")
    last = "" if objective is None else f", last objective {objective:.8g}"
    return (
        f"fitted {fitted} to {data}\n"
        f"{counted(len(history), 'epoch')} in {seconds_of(history):.2f} s{last}; saved to {folder}"
    )


@contextmanager
def saved_when_fitted(
    model: FactorModel | SupervisedPageRank,
    destination: Destination,
    left_out: Interactions | None,
    keep: int = 1,
) -> Iterator[None]:
    """Save a model after its fit, with what its lists leave out, beside kept earlier versions.

    If the fit ends by Ctrl-C, or by a full disk at its checkpoint, its last epoch is saved.
    """

    def save() -> None:
        if left_out is not None:
            model.leave_out(left_out)
        destination.save(model, keep)

    try:
        yield
    except (KeyboardInterrupt, OSError):
        _save_what_there_is(model, destination.folder, save)
        raise
    save()


def _save_what_there_is(
    model: FactorModel | SupervisedPageRank, folder: str, save: Callable[[], None]
) -> None:
    """Save the last complete epoch of a fit that was interrupted."""
    try:
        epochs = len(model.store.history)
    except NotFittedError:
        print("mfrank: no epoch was complete, nothing was saved", file=sys.stderr)
        return
    save()
    if isinstance(model, FactorModel):
        done = f"{epochs:,} of {counted(model.iterations, 'epoch')}"
    else:
        done = counted(epochs, "step")
    print(f"mfrank: saved the model after {done} to {folder}", file=sys.stderr)


# How the user called this program, for command lines that are printed to be pasted.


def command_line(*words: object) -> str:
    """A command of this program as the user can paste it into the same shell.

    ``mfrank`` if it is on the path; otherwise the path of this call, such as ``.venv/bin/mfrank``,
    or ``python -m mfrank``.
    """
    return shlex.join([*_program(), *map(str, words)])


def _program() -> list[str]:
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return [_shortest(Path(sys.executable)), "-m", "mfrank"]
    return [_shortest(called)] if called.name.startswith("mfrank") else ["mfrank"]


def _shortest(program: Path) -> str:
    found = shutil.which(program.name)
    is_found = found is not None and Path(found).absolute() == program.absolute()
    return program.name if is_found else str(program)
