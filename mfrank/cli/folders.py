"""Folders of models that commands read and write, and files they write: checked first of all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from mfrank.data.interaction_folder import holds_interactions
from mfrank.files.folder import metadata_of
from mfrank.files.locks import locked
from mfrank.files.manifest import MANIFEST
from mfrank.files.regular import check_replaceable, path_of
from mfrank.models.loading import load
from mfrank.retrieval.recommender import Recommender
from mfrank.store.factors import FORMAT

__all__ = [
    "check_holds_model",
    "check_takes_model",
    "check_writable",
    "model_to_change",
    "read_model",
]


def read_model(folder: str) -> Recommender:
    """Load a saved model as the class that saved it.

    Raises
    ------
    ValueError
        There is none in this folder, or it is damaged.
    """
    check_holds_model(folder)
    return load(folder)


@contextmanager
def model_to_change(folder: str, output: str) -> Iterator[Recommender]:
    """Load a saved model that is to be changed and saved to ``output``, with :func:`read_model`.

    If that is its own folder, other saves to it wait until the block is over, so that none is lost.
    """
    check_holds_model(folder)
    check_takes_model(output)
    if os.path.realpath(folder) != os.path.realpath(output):
        yield load(folder)
        return
    with locked(path_of(folder)):
        yield load(folder)


def check_holds_model(folder: str) -> None:
    """Raise ValueError, with the command that makes one, if no model was saved in this folder."""
    path = path_of(folder)
    if (path / MANIFEST).exists():
        if holds_interactions(path):
            raise ValueError(
                f"{folder} holds interactions and no model; make one with "
                f"mfrank fit {folder} --model FOLDER"
            )
        return
    if not path.exists():
        raise ValueError(
            f"there is no model {folder}; make it with mfrank fit FILE --model {folder}"
        )
    what = f"has no {MANIFEST}" if path.is_dir() else "is a file, and models are folders"
    raise ValueError(
        f"{folder} is not a saved model: it {what}; pass a folder made by "
        "mfrank fit FILE --model FOLDER"
    )


def check_takes_model(folder: str) -> None:
    """Raise ValueError if a model could not be saved to this folder: then no fit should begin."""
    path = path_of(folder)
    metadata_of(path, FORMAT)
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        why = "is not writable" if there.is_dir() else "is a file"
        raise ValueError(f"cannot save to {folder}: {there} {why}; pass another folder")


def check_writable(*files: str | None) -> None:
    """Raise ValueError if one of the files could not be written, before any work."""
    for file in filter(None, files):
        folder = path_of(file).absolute().parent
        if path_of(file).is_dir():
            raise ValueError(f"cannot write {file}: it is a folder; pass a file")
        check_replaceable(path_of(file))
        if not folder.is_dir():
            raise ValueError(f"cannot write {file}: there is no folder {folder}; make it first")
        if not os.access(folder, os.W_OK):
            raise ValueError(f"cannot write {file}: {folder} is not writable; pass another folder")
