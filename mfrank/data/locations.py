"""The files of a table, by what a caller gives: a file, a folder, a pattern of names, or a list."""

from __future__ import annotations

import filecmp
import glob
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any, cast

from mfrank.arrays import shown
from mfrank.data.frames import is_frame
from mfrank.data.notes import log as _log
from mfrank.data.remote import file_of, is_url, local_path, remote_files, without_password
from mfrank.data.sql import is_database
from mfrank.data.tables import kind_at, kind_of
from mfrank.data.text_bytes import PACKERS, ZIP
from mfrank.data.text_files import is_stream, local_file, refuse_elsewhere
from mfrank.errors import InputTypeError, InputValueError, Notice
from mfrank.files import MANIFEST, path_of, path_of_open

Given = str | os.PathLike[str]
Location = Given | Iterable[Given]
"""A file, a folder of files, a pattern such as ``plays-*.csv``, or a list of these."""

_LAKES = {
    "_delta_log": "Delta Lake",
    ".hoodie": "Hudi",
    "metadata/version-hint.text": "Iceberg",
}
"""What is in a folder whose files have rows that were removed from the table -> what wrote it."""
_TRAIN = {"train", "training"}
_HELD_OUT = {"test", "testing", "valid", "validation", "val", "dev", "eval", "holdout"}
"""Words in the names of the parts of a split."""
_WORD = re.compile("[a-z]+")
_COPY = re.compile(
    r"(?P<first>.+?)(?:(?: - |[ _-])copy(?: [0-9]+)?)?(?: ?\([0-9]+\))?", re.IGNORECASE
)
"""A name that file managers and browsers give to a copy, or any other."""
_SHOWN = 3
_LEAST, _FEW_LINES = 4096, 2
"""Bytes of a binary file, and lines of text, from which on a file surely has rows."""
_DIGITS = re.compile("([0-9]+)")


def files_at(given: Location, argument: str) -> list[Path]:
    """The files of a table in reading order, which is that of their names, part-9 before part-10.

    In a folder, and among what matches a pattern, files and folders whose names begin with ``_`` or
    ``.`` are skipped, as Spark does.

    Raises
    ------
    ValueError
        There are none, or a folder has files that are no tables, or of several kinds.
    FileNotFoundError
        One is missing, or none matches.
    TypeError
        It is something else; the message names the argument.
    """
    refuse_open(given, argument)
    each = [given] if isinstance(given, str | os.PathLike) else list(_listed(given, argument))
    if not each:
        raise InputValueError(f"`{argument}` must have at least one file")
    for one in each:
        if isinstance(one, str) and "\n" in one and not path_of(one).exists():
            raise InputValueError(
                f"`{argument}` must be paths of files, got text of several lines, which begins "
                f"with {shown(one[:30])}:",
                "write it to a file",
            )
    listed = [file for one in each for file in _files_of(one)]
    found = {*listed}
    if len(found) < len(listed):
        twice = next(file for file, number in Counter(listed).items() if number > 1)
        _log.info("%s is given more than once, and read once", twice)
    for file in found if len(found) > 1 else ():
        if is_stream(file):
            raise InputValueError(f"{file} can be read only once, and by itself:", "save it")
    files = sorted(found, key=_in_order)
    _tell_same(files)
    return files


def _in_order(file: os.PathLike[str]) -> list[tuple[list[str | int], str]]:
    """Numbers in names as numbers: part-9 is before part-10, wherever it was written first."""
    parts = [(_DIGITS.split(part), part) for part in Path(file).parts]
    return [([int(t) if n % 2 else t for n, t in enumerate(texts)], part) for texts, part in parts]


def tell_last(files: Sequence[Any], given: Any) -> None:
    """Say which file has the last word on a pair, where times do not tell."""
    read = [str(file) for file in files]
    listed = [str(path_of(one)) for one in given] if isinstance(given, list | tuple) else read
    is_other = listed != read and sorted(listed) == sorted(read)
    _log.log(
        logging.WARNING if is_other else logging.INFO,
        Notice(
            "without timestamps, `duplicates='last'` takes what is read last, and files are read "
            f"in the order of their names: {files[-1]} is the last one"
        ),
    )


def refuse_open(given: Any, argument: str) -> None:
    """Raise TypeError for an open file, or text in memory, in place of a path."""
    if not hasattr(given, "readline"):  # pandas' readers of chunks have read()
        return
    if given in (sys.stdin, getattr(sys.stdin, "buffer", None)):
        remedy = "pass '-' for standard input"
    elif name := path_of_open(given):
        remedy = f"pass its path, {name!r}"
    else:
        remedy = (
            "write it to a file, or pass `Interactions.from_frame` what `pandas.read_csv` reads "
            "from it"
        )
    raise InputTypeError(
        f"`{argument}` must be a path, got an open file ({type(given).__name__}):", remedy
    )


def _listed(given: Any, argument: str) -> Iterator[Given]:
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable) or is_frame(given):
        raise InputTypeError(
            f"`{argument}` must be a file or a list of files, got {type(given).__name__}",
            "a table in memory is read by `Interactions.from_frame`" * is_frame(given),
        )
    for one in given:
        refuse_open(one, argument)
        if not isinstance(one, str | os.PathLike):
            kind = type(one).__name__
            raise InputTypeError(f"`{argument}` must be paths of files, got one of type {kind}")
        yield one


def _files_of(given: Given) -> list[Path]:
    if isinstance(given, str) and is_url(given) and not path_of(given).exists():
        if (local := local_path(given)) is None:
            return _elsewhere(given)
        given = local
    path = path_of(given)
    if path.is_dir():
        return _all_tables(list(_in_folder(path)), path)
    if is_stream(given):
        return [path]
    if path.exists() or not glob.has_magic(str(path)):
        refuse_elsewhere(given)
        kind_at(path)
        return [local_file(given)]
    matching = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
    n_given = next(n for n, part in enumerate(path.parts) if glob.has_magic(part))
    visible = [each for each in matching if all(map(_is_visible, each.parts[n_given:]))]
    folders = [file for each in visible if each.is_dir() for file in _in_folder(each)]
    found = {*(each for each in visible if not each.is_dir()), *folders}
    if not found:
        raise FileNotFoundError(f"there is no file {path}: nothing matches the pattern")
    return _all_tables(sorted(found), path)


def _elsewhere(url: str) -> list[Path]:
    shown = without_password(url)
    if is_database(url):
        raise InputValueError(f"{shown} is a database:", "read it by `Interactions.from_sql`")
    found, are_many = remote_files(url)
    if not found:
        raise FileNotFoundError(f"there are no files at {shown}")
    files = [file_of(each) for each in found]
    if are_many:
        return _all_tables(files, shown)
    files[0].stat()  # raises if there is none
    kind_at(files[0])
    return files


def _in_folder(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of the folders in it, except hidden ones."""
    if (folder / MANIFEST).is_file():
        raise InputValueError(
            f"{folder} was saved by mfrank:", "read it with `Interactions.open`", place=folder
        )
    for name, what in _LAKES.items():
        if (folder / name).exists():
            raise InputValueError(
                f"{folder} is a table of {what}, whose files also have rows that were removed:",
                "write its rows to Parquet by Spark or DuckDB, and pass that",
                place=folder,
            )
    for path in sorted(each for each in folder.iterdir() if _is_visible(each.name)):
        if not path.is_dir():
            yield path
        elif path.is_symlink():
            raise InputValueError(f"{path} is a link to a folder:", "pass the folder", place=path)
        else:
            yield from _in_folder(path)


def _is_visible(name: str) -> bool:
    return not name.startswith(("_", "."))


def _all_tables(files: list[Path], place: Path | str) -> list[Path]:
    """The files, if all are tables of one kind."""
    kinds, others = Counter[str](), list[str]()
    for file in files:
        try:
            kinds[kind_of(file)] += 1
        except InputValueError:
            others.append(file.name)
    if others:
        more = f" and {len(others) - _SHOWN:,} more" * (len(others) > _SHOWN)
        raise InputValueError(
            f"{place} has files that are no tables: {', '.join(others[:_SHOWN])}{more}",
            "pass a pattern of the files of the table, such as `FOLDER/part-*.csv`; "
            "`mfrank.movielens` reads MovieLens as distributed",
            place=place,
        )
    if not files:
        raise InputValueError(
            f"{place} has no files",
            "pass a folder of files; `mfrank.movielens` reads MovieLens as distributed",
            place=place,
        )
    stems = Counter(_stem(file) for file in files)
    twice = next((file for file in files if stems[_stem(file)] > 1), None)
    if len(kinds) > 1 or twice is not None:
        which = f"{_stem(twice)}.* twice" if twice else " and ".join(sorted(kinds))
        raise InputValueError(
            f"{place} has {which}: is it the same table in two formats?",
            "pass a pattern of the files of one, such as `FOLDER/*.csv`",
            place=place,
        )
    _tell_parts(files, place)
    return files


def _tell_parts(files: Sequence[Path], place: Path | str) -> None:
    """Warn of files that are rather not one table: parts of a split, and copies."""
    parts = [PurePath(str(file)).parts for file in files]  # also of files elsewhere
    n_alike = sum(1 for _ in takewhile(lambda at: len({*at}) == 1, zip(*parts, strict=False)))
    own = ["/".join(each[n_alike:]) for each in parts]
    train, held_out = (
        next((name for name in own if words.intersection(_WORD.findall(name.lower()))), "")
        for words in (_TRAIN, _HELD_OUT)
    )
    if train and held_out and train != held_out:
        _log.warning(
            "%s has the parts of a split, such as %s and %s, which are read as one table: pass the "
            "part that you mean",
            *(place, train, held_out),
        )
    stems = {_stem(file): file.name for file in files}
    for stem, name in stems.items():
        first = cast(re.Match[str], _COPY.fullmatch(stem.name))["first"]
        if first != stem.name and stem.with_name(first) in stems:
            _log.warning(
                "%s has %s beside %s, both of which are read: remove the former if it is a copy",
                *(place, name, stems[stem.with_name(first)]),
            )
            return


def _tell_same(files: Sequence[Path]) -> None:
    """Warn of two files with the same rows, as where one day was exported twice."""
    if len(files) < 2:
        return
    # Those elsewhere, and members of archives, are not read for this.
    here = [file for file in files if isinstance(file, Path) and file.is_file()]
    sizes = {file: file.stat().st_size for file in here}
    of_size, of_begin = Counter(sizes.values()), dict[tuple[int, bytes], Path]()
    for file, size in sizes.items():
        if of_size[size] == 1:
            continue
        with file.open("rb") as opened:
            begin = opened.read(_LEAST)
        other = of_begin.setdefault((size, begin), file)
        if other is not file and _has_rows(begin) and filecmp.cmp(other, file, shallow=False):
            _log.warning(
                "%s has the same bytes as %s, and both are read, so that their rows count twice: "
                "leave one out",
                *(file, other),
            )
            return


def _has_rows(begin: bytes) -> bool:
    """Whether a file surely has more than a header, which many parts without rows share."""
    return len(begin) == _LEAST or (b"\0" not in begin and begin.count(b"\n") > _FEW_LINES)


def _stem(file: Path) -> Path:
    """The path without what its name says of the format."""
    packed = file.suffix.lower() in (*PACKERS, ZIP)
    name = file.name.removesuffix(file.suffix) if packed else file.name
    return file.with_name(
        name[: -len(kind)] if name.lower().endswith(kind := kind_of(file)) else name
    )
