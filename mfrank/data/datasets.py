"""Readers of public data sets in their distributed formats; nothing is downloaded."""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.array_files import stored_arrays
from mfrank.data.columns import tell_columns
from mfrank.data.interactions import Interactions
from mfrank.data.notes import log as _log
from mfrank.data.splits import Split
from mfrank.data.text_files import errors_of
from mfrank.errors import InputValueError, Notice, unreadable
from mfrank.files import path_of


@dataclass(frozen=True, slots=True)
class _Layout:
    """Format of a line of user, item, rating, timestamp in some releases of MovieLens."""

    releases: str
    file: str
    delimiter: str
    columns: tuple[int, int, int, int] = (0, 1, 2, 3)
    header: str = ""


_LAYOUTS = (
    _Layout("100K", "u.data", "\t"),
    # numpy splits at one character, so "1::2::5::0" has empty fields between single colons.
    _Layout("1M, 10M", "ratings.dat", ":", columns=(0, 2, 4, 6)),
    _Layout("20M, 25M, 32M", "ratings.csv", ",", header="userId,movieId,rating,timestamp"),
)
_WHERE = (
    "MovieLens is at grouplens.org/datasets/movielens; pass its zip file, its folder, or one of "
    + ", ".join(f"{layout.file} ({layout.releases})" for layout in _LAYOUTS)
)
_RATING = np.dtype(
    [("user", np.int32), ("item", np.int32), ("rating", np.float32), ("timestamp", np.int64)]
)
_ROLES = {"user": "user", "item": "item", "value": "rating", "timestamp": "timestamp"}
_PARTS = (0, 1, 2)  # codes of train, valid and test in a split array


def movielens(path: str | Path, *, min_rating: float | None = None) -> Interactions:
    """Read a MovieLens release: 100K, 1M, 10M, 20M, 25M or 32M, recognized by its files.

    Parameters
    ----------
    path : str or Path
        The zip file as distributed, the folder it unpacks to (or its parent), or the file of
        ratings: ``u.data``, ``ratings.dat`` or ``ratings.csv``.
    min_rating : float or None, default None
        Only ratings >= ``min_rating``, and users and items with such ratings, stay; lower ratings
        are only seen, as in :meth:`mfrank.Interactions.at_least`. A common protocol for implicit
        feedback uses 4. None keeps all ratings.

    Returns
    -------
    Interactions
        Values are the ratings, 0.5 to 5; timestamps are seconds since 1970 (UTC); ids are the
        release's own integers.

    Raises
    ------
    FileNotFoundError
        If there is no such path, or no file of ratings in it.
    ValueError
        If the file of ratings does not have the layout of its release, no rating reaches
        ``min_rating``, or the path has several releases.
    """
    with _ratings_file(path_of(path)) as (layout, lines):
        ratings = _read(layout, lines, path)
    if not (ratings["rating"] >= (-np.inf if min_rating is None else min_rating)).any():
        raise InputValueError(
            f"{path} has no ratings" + f" >= {min_rating}" * (min_rating is not None),
            "lower `min_rating`" if min_rating is not None else "",
            place=path,
        )
    user, item, rating, timestamp = (ratings[name] for name in _RATING.names or ())
    data = Interactions.from_arrays(user, item, rating, timestamp, timestamp_unit="s")
    return data if min_rating is None else data.at_least(min_rating).k_core(1)


def from_npz(path: str | Path) -> Interactions:
    """Read the arrays ``user``, ``item`` and, if present, ``rating`` and ``timestamp``.

    Parameters
    ----------
    path : str or Path
        The ``.npz`` file, or a folder with an ``interactions.npz``. ``user`` and ``item`` are row
        numbers from 0.

    Returns
    -------
    Interactions
        Values are the ratings, or 1; values of the same user and item are summed.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If an array is missing or negative, has another length than ``user``, or needs pickle; or
        the ids are no whole numbers.
    """
    columns = _columns(path)
    roles = {role: name for role, name in _ROLES.items() if name in columns}
    names = [name for name in columns if not name.startswith("split")]  # as `published_split` reads
    tell_columns(names, roles, {}, _tell)
    return _interactions(columns, slice(None))


def _tell(level: int, line: str) -> None:
    remedy = "; `Interactions.from_file` takes such arguments, and this file" * ("=" in line)
    _log.log(level, Notice(f"{line}{remedy}"))


def published_split(path: str | Path, *, column: str = "split") -> Split:
    """Read a published split, stored as the part of each row: 0 train, 1 valid, 2 test.

    Parameters
    ----------
    path : str or Path
        As in :func:`from_npz`. All parts have the shape that all rows together need.
    column : str, default "split"
        Name of the array of parts.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        As in :func:`from_npz`, or the column contains other codes.
    """
    columns = _columns(path, column)
    if column not in columns:
        known = [name for name in columns if name.startswith("split")]
        raise InputValueError(
            f"{path} has no array {column!r}", f"its splits are {known}", place=path
        )
    codes = columns[column]
    if not np.isin(codes, _PARTS).all():
        raise InputValueError(
            f"{column} must hold 0 (train), 1 (valid), 2 (test); got {np.unique(codes).tolist()}",
            place=f"{path}, {column}",
        )
    train, valid, test = (_interactions(columns, codes == part) for part in _PARTS)
    return Split(train, valid, test)


@contextmanager
def _ratings_file(path: Path) -> Iterator[tuple[_Layout, io.TextIOBase]]:
    """Layout and lines of the file of ratings: ``path`` itself, or in this folder or zip file."""
    if path.suffix == ".zip" and path.is_file() and not zipfile.is_zipfile(path):
        raise InputValueError(
            "no zip file, or a damaged one", f"download it again. {_WHERE}"
        ).within(path)
    if zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                layout, name = _find(archive.namelist(), path)
                with archive.open(name) as member, io.TextIOWrapper(member, "ascii") as lines:
                    yield layout, lines
        except (EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise InputValueError(f"a damaged zip file: {error}", "download it again").within(
                path
            ) from error
        return
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}. {_WHERE}")
    candidates = [path] if path.is_file() else [*path.glob("*"), *path.glob("*/*")]
    layout, name = _find([candidate.as_posix() for candidate in candidates], path)
    with open(name, encoding="ascii") as lines:
        yield layout, lines


def _find(names: list[str], path: Path) -> tuple[_Layout, str]:
    layouts = {layout.file: layout for layout in _LAYOUTS}
    found = [name for name in names if PurePosixPath(name).name in layouts]
    if not found:
        raise FileNotFoundError(f"no file of MovieLens ratings in {path}. {_WHERE}")
    if len(found) > 1:
        raise InputValueError(
            f"{path} holds {', '.join(sorted(found))}:", "pass one of them", place=path
        )
    return layouts[PurePosixPath(found[0]).name], found[0]


def _read(layout: _Layout, lines: io.TextIOBase, path: str | Path) -> NDArray[Any]:
    try:
        if layout.header and lines.readline().strip() != layout.header:
            raise InputValueError(f"its first line is not {layout.header}")
        with warnings.catch_warnings():  # about an empty file; the caller raises
            warnings.filterwarnings("ignore", "loadtxt: input contained no data")
            return np.loadtxt(
                lines, _RATING, delimiter=layout.delimiter, usecols=layout.columns, ndmin=1
            )
    except ValueError as error:
        raise unreadable(
            layout.file,
            f"is not in the format of MovieLens {layout.releases}",
            error,
            "download it again",
        ).within(path) from error


def _columns(path: str | Path, *others: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file; those of interactions, and ``others``, have one value for each row."""
    file = path_of(path)
    if file.is_dir():
        file /= "interactions.npz"
    with errors_of(file), stored_arrays(file) as stored:
        columns = {name: stored[name] for name in stored.files}
    for name in ("user", "item"):
        if name not in columns:
            raise InputValueError(
                f"{file} has no array {name!r}, only {', '.join(columns)}", place=file
            )
    users, shape = columns["user"], (columns["user"].size,)
    for name in ("user", "item", "rating", "timestamp", *others):
        if name in columns and columns[name].shape != shape:
            raise InputValueError(
                f"each array must have one value for each of the {users.size} rows, and {name!r} "
                f"has shape {columns[name].shape}",
                place=name,
            ).within(file)
    for name in ("user", "item"):
        if users.size and columns[name].dtype.kind not in "iu":
            raise InputValueError(
                f"{name!r} must hold row numbers from 0, got dtype {columns[name].dtype}",
                "pass other ids to `Interactions.from_arrays`",
                place=name,
            ).within(file)
    return columns


def _interactions(
    columns: dict[str, NDArray[Any]], rows: slice | NDArray[np.bool_]
) -> Interactions:
    """Interactions of the chosen rows, with the shape of all rows."""
    users, items = columns["user"], columns["item"]
    values, timestamps = (
        columns[name][rows] if name in columns else None for name in ("rating", "timestamp")
    )
    return Interactions.from_arrays(
        users[rows],
        items[rows],
        values,
        timestamps,
        shape=(int(users.max(initial=-1)) + 1, int(items.max(initial=-1)) + 1),
    )
