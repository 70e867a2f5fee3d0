"""Folders of models that commands read and write, and files they write: checked first of all."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

from mfrank.data import holds_interactions
from mfrank.errors import InputValueError
from mfrank.files import (
    MANIFEST,
    check_replaceable,
    generation_of,
    locked,
    metadata_of,
    path_of,
    refuse_other,
)
from mfrank.models import load
from mfrank.retrieval import Recommender
from mfrank.store import FORMAT


def read_model(folder: str) -> Recommender:
    """Load a saved model as the class that saved it; ``model@1`` is the version before ``model``.

    Raises
    ------
    ValueError
        The folder has no model, or a damaged one; or the version was not kept.
    """
    name, version = model_version(folder)
    check_holds_model(name)
    return load(name, version=version)


def model_version(folder: str) -> tuple[str, int]:
    """The folder and the number of a version, as in ``model@1``; 0 is the current one."""
    found = re.fullmatch(r"(.+)@(\d{1,9})", folder)
    if found is None or path_of(folder).exists():
        return folder, 0
    return found[1], int(found[2])


def add_keep_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--keep``."""
    parser.add_argument(
        "--keep",
        type=int,
        default=1,
        metavar="INT",
        help="number of versions that stay in the folder of the model, with the new one; "
        "model@1 is the one before, for --model of commands that read it and for mfrank rollback "
        "(default: 1)",
    )


@contextmanager
def model_to_change(folder: str, output: str) -> Iterator[tuple[Recommender, Destination]]:
    """Load a saved model, by :func:`read_model`, to change it and save it to ``output``.

    If ``output`` is its own folder, other saves wait until the block ends, so that none is lost.
    """
    check_holds_model(folder)
    destination = Destination.of(output)
    if os.path.realpath(folder) != os.path.realpath(output):
        yield load(folder), destination
        return
    with locked(path_of(folder)):
        yield load(folder), Destination.of(output)


def check_holds_model(folder: str) -> None:
    """Raise ValueError if the folder has no model; the message names the command that makes one."""
    path = path_of(folder)
    if (path / MANIFEST).exists():
        if holds_interactions(path):
            raise InputValueError(
                f"{folder} holds interactions and no model",
                f"make one with mfrank fit {folder} --model FOLDER",
                place=folder,
            )
        return
    if not path.exists():
        raise InputValueError(
            f"there is no model {folder}",
            f"make it with mfrank fit FILE --model {folder}",
            place=folder,
        )
    refuse_other(path, FORMAT)
    what = f"has no {MANIFEST}" if path.is_dir() else "is a file, and models are folders"
    raise InputValueError(
        f"{folder} is not a saved model: it {what}",
        "pass a folder made by mfrank fit FILE --model FOLDER",
        place=folder,
    )


def check_takes_model(folder: str) -> None:
    """Raise ValueError, before a fit, if a model cannot be saved to this folder."""
    path = path_of(folder)
    metadata_of(path, FORMAT)
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        why = "is not writable" if there.is_dir() else "is a file"
        raise InputValueError(
            f"cannot save to {folder}: {there} {why}", "pass another folder", place=folder
        )


class Destination(NamedTuple):
    """The folder of a model that is still to be made, and the generation that it had before."""

    folder: str
    before: str | None

    @classmethod
    def of(cls, folder: str) -> Self:
        """Note what is there; raises as :func:`check_takes_model`."""
        check_takes_model(folder)
        return cls(folder, _generation(path_of(folder)))

    def save(self, model: Recommender, keep: int) -> None:
        """Save the model, beside earlier versions.

        A model that another command has saved meanwhile is kept, which is told.
        """
        path = path_of(self.folder)
        path.mkdir(parents=True, exist_ok=True)
        with locked(path):
            is_replaced = _generation(path) not in (None, self.before)
            if is_replaced:
                keep = max(keep, 2)
                print(
                    f"mfrank: {self.folder}: another command has saved a model there since this "
                    "one began: it is kept as the version before, and mfrank rollback --model "
                    f"{shlex.quote(self.folder)} brings it back",
                    file=sys.stderr,
                )
            model.save(self.folder, keep=keep, overwrite=is_replaced)


def _generation(folder: Path) -> str | None:
    with suppress(OSError, ValueError):
        return generation_of(folder, FORMAT)
    return None


def check_writable(*files: str | None) -> None:
    """Raise ValueError, before any work, if one of the files cannot be written."""
    for file in filter(None, files):
        folder = path_of(file).absolute().parent
        if path_of(file).is_dir():
            raise InputValueError(f"cannot write {file}: it is a folder", "pass a file", place=file)
        check_replaceable(path_of(file))
        if not folder.is_dir():
            raise InputValueError(
                f"cannot write {file}: there is no folder {folder}", "make it first", place=file
            )
        if not os.access(folder, os.W_OK):
            raise InputValueError(
                f"cannot write {file}: {folder} is not writable", "pass another folder", place=file
            )
